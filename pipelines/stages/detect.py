"""Stage 4: score all windows, suppress overlaps, write result files."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lapsvm.arrays import Float64
from lapsvm.detection import Detector
from lapsvm.features import Shard, ShardSet

from ..results.detection_record import outdated_models
from ..results.detections import (
    detect_runs,
    detection_stamp,
    is_up_to_date,
    publish_results,
    remove_temporary_files,
    stamp_with_results,
    write_temporary_results,
)
from ..results.detectors import shard_scorers
from ..run.context import RunContext
from ..run.folder import STAMP, Timing, measured
from ..shards.finished import finished_shards


@dataclass(frozen=True)
class SetResults:
    """Result files of one set under temporary names, and the time they took."""

    files: dict[Path, Path]
    timing: Timing


def run(context: RunContext) -> None:
    """Write the result files of every set, and replace none before all sets are scored.

    The detection settings in the models are updated to those of the run (see `detection_record`).
    """
    run_together([context])


def run_together(contexts: Sequence[RunContext]) -> None:
    """Do what `run` does for each of several runs on the same shards, which are read once.

    The time of each run is its share.
    """
    score, first = shard_scorers(contexts, "detect"), contexts[0]
    shards = {name: finished_shards(first, "detect", name) for name in first.data.records}
    outdated = [outdated_models(own.run, own.data.classes, own.settings.detect) for own in contexts]
    for context, models in zip(contexts, outdated, strict=True):
        context.run.files.check(models)
    results: dict[str, list[SetResults]] = {}
    try:
        for name, shard_set in shards.items():
            if not all(is_up_to_date(own, name, shard_set) and not own.redo for own in contexts):
                results[name] = _detect_set(contexts, name, shard_set, score)
        for number, (context, models) in enumerate(zip(contexts, outdated, strict=True)):
            _finish(context, models, shards, {name: found[number] for name, found in results.items()})
    finally:
        for found in results.values():
            for result in found:
                remove_temporary_files(result.files)


def _finish(
    context: RunContext, outdated: Mapping[Path, Detector], shards: Mapping[str, ShardSet],
    results: Mapping[str, SetResults],
) -> None:  # fmt: skip
    """Put the models and result files of one run in their places."""
    context.run.files.claim(outdated)
    for path, detector in outdated.items():
        detector.save(path)
    for name, result in results.items():
        _put_in_place(context, name, shards[name], result)
    for name in shards:
        if name not in results and f"detect {name}" not in context.run.timings():
            context.run.save_timing(f"detect {name}", Timing(), context.reporter.say)
    if context.settings != context.run.settings():
        context.save_settings()


def _detect_set(
    contexts: Sequence[RunContext], set_name: str, shards: ShardSet, score: Callable[[Shard], list[Float64]]
) -> list[SetResults]:
    with measured() as timing:
        found = detect_runs(contexts, shards, contexts[0].data.classes, score, set_name)
        counts = {"pictures": shards.n_images, "windows": shards.n_windows}
        files = [
            write_temporary_results(context.run, set_name, own) for context, own in zip(contexts, found, strict=True)
        ]
    share = timing.shared(len(contexts), counts)
    return [SetResults(own, share) for own in files]


def _put_in_place(context: RunContext, set_name: str, shards: ShardSet, results: SetResults) -> None:
    """Give the result files of a set their names, and write their provenance."""
    publish_results(context.run, set_name, results.files)
    stamp = stamp_with_results(detection_stamp(context, shards), list(results.files.values()))
    context.run.write(context.run.detections(set_name) / STAMP, stamp)
    context.run.save_timing(f"detect {set_name}", results.timing, context.reporter.say)
