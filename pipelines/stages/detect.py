"""Stage 4: score all windows, suppress overlaps, write result files."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from lapsvm.arrays import Float64
from lapsvm.detection import Detector, score_many
from lapsvm.detection.model_sources import DETECTION
from lapsvm.errors import ModelFileError
from lapsvm.features import Shard, ShardSet
from lapsvm.settings import DetectSettings

from ..results.detections import (
    detect_set,
    detection_stamp,
    is_up_to_date,
    publish_results,
    remove_temporary_files,
    stamp_with_results,
    write_temporary_results,
)
from ..results.detectors import load_detectors
from ..run.context import RunContext
from ..run.folder import STAMP, RunFolder, Timing, measured
from ..shards.finished import finished_shards


@dataclass(frozen=True)
class SetResults:
    """Result files of one set under temporary names, and the time they took."""

    files: dict[Path, Path]
    timing: Timing


def run(context: RunContext) -> None:
    """Write the result files of every set, and replace none before all sets are scored.

    The detection settings in the models are updated to those of the run (see `outdated_models`).
    """
    detectors = load_detectors(context, "detect")
    shards = {name: finished_shards(context, "detect", name) for name in context.data.records}
    outdated = outdated_models(context.run, context.data.classes, context.settings.detect)
    context.run.files.check(outdated)
    results: dict[str, SetResults] = {}
    try:
        for name, shard_set in shards.items():
            if context.redo or not is_up_to_date(context, name, shard_set):
                results[name] = _detect_set(context, name, shard_set, detectors)
        _finish(context, outdated, shards, results)
    finally:
        for result in results.values():
            remove_temporary_files(result.files)


def _finish(
    context: RunContext, outdated: Mapping[Path, Detector], shards: Mapping[str, ShardSet],
    results: Mapping[str, SetResults],
) -> None:  # fmt: skip
    """Put the models and result files in their places."""
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


def _detect_set(context: RunContext, set_name: str, shards: ShardSet, detectors: Sequence[Detector]) -> SetResults:
    def score(shard: Shard) -> Float64:
        return score_many(detectors, shard.features)

    with measured() as timing:
        found = detect_set(context, shards, context.data.classes, score, set_name)
        files = write_temporary_results(context.run, set_name, found)
    timing.counts |= {"pictures": shards.n_images, "windows": shards.n_windows}
    return SetResults(files, timing)


def _put_in_place(context: RunContext, set_name: str, shards: ShardSet, results: SetResults) -> None:
    """Give the result files of a set their names, and write their provenance."""
    publish_results(context.run, set_name, results.files)
    stamp = stamp_with_results(detection_stamp(context, shards), list(results.files.values()))
    context.run.write(context.run.detections(set_name) / STAMP, stamp)
    context.run.save_timing(f"detect {set_name}", results.timing, context.reporter.say)


def outdated_models(run: RunFolder, classes: tuple[str, ...], settings: DetectSettings) -> dict[Path, Detector]:
    """Return the run's models that record other detection settings than `settings`, with `settings` instead."""
    expected = asdict(settings)
    outdated = {}
    for path in [file_of(name) for file_of in (run.first_model, run.model) for name in classes]:
        detector = _load(path)
        if detector is not None and detector.provenance.get(DETECTION) != expected:
            outdated[path] = replace(detector, provenance={**detector.provenance, DETECTION: expected})
    return outdated


def _load(path: Path) -> Detector | None:
    """Return the detector in a file; None if the file is missing or damaged, because training replaces it."""
    try:
        return Detector.load(path) if path.is_file() else None
    except ModelFileError:
        return None
