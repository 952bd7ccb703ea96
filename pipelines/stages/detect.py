"""Stage 4: score all windows, suppress overlaps, write result files."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lapsvm.detection import Detector, score_many
from lapsvm.features import ShardSet, open_shards

from ..results.detection_record import outdated_models
from ..results.detections import (
    _stamp,
    _with_results,
    detect_shards,
    is_up_to_date,
    publish_results,
    remove_temporary_files,
    write_temporary_results,
)
from ..results.detectors import load_detectors
from ..run.context import RunContext
from ..run.folder import STAMP, Timing, measured


@dataclass(frozen=True)
class FoundSet:
    """What was found in one set: result files under temporary names, and how long it took."""

    files: dict[Path, Path]
    timing: Timing


def run(context: RunContext) -> None:
    """Write the result files of every set of the run; none is replaced before all sets are scored.

    The models' records of how they detect follow the settings (see `detection_record`).
    """
    detectors = load_detectors(context, "detect")
    shards = {name: open_shards(context.run.shards(name)) for name in context.data.records}
    outdated = outdated_models(context.run, context.data.classes, context.settings.detect)
    context.run.files.check(outdated)
    found: dict[str, FoundSet] = {}
    try:
        for name, own in shards.items():
            if context.redo or not is_up_to_date(context, name, own):
                found[name] = _detect_set(context, name, own, detectors)
        context.run.files.claim(outdated)
        for path, detector in outdated.items():
            detector.save(path)
        for name, one in found.items():
            _put_in_place(context, name, shards[name], one)
    finally:
        for one in found.values():
            remove_temporary_files(one.files)
    for name in shards:
        if name not in found and f"detect {name}" not in context.run.timings():
            context.run.save_timing(f"detect {name}", Timing(), context.reporter.say)
    if context.settings != context.run.settings():
        context.save_settings()


def _detect_set(context: RunContext, set_name: str, shards: ShardSet, detectors: Sequence[Detector]) -> FoundSet:
    """Write the results of all classes of a set under temporary names."""
    with measured() as timing:
        names = [detector.class_name for detector in detectors]
        found = detect_shards(context, shards, names, lambda shard: score_many(detectors, shard.features), set_name)
        timing.counts |= {"pictures": shards.n_images, "windows": shards.n_windows}
        return FoundSet(write_temporary_results(context.run, set_name, found), timing)


def _put_in_place(context: RunContext, set_name: str, shards: ShardSet, found: FoundSet) -> None:
    """Give the results of a set their names, and say what they were made from."""
    publish_results(context.run, set_name, found.files)
    stamp = _with_results(_stamp(context, shards), list(found.files.values()))
    context.run.write(context.run.detections(set_name) / STAMP, stamp)
    context.run.save_timing(f"detect {set_name}", found.timing, context.reporter.say)
