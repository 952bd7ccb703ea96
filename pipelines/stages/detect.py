"""Stage 4: score all windows, suppress overlaps, write result files."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from lapsvm.arrays import Float64
from lapsvm.detection import Detector, score_many
from lapsvm.detection.scoring import DETECTION
from lapsvm.features import Shard, ShardSet
from lapsvm.settings import DetectSettings

from ..context import RunContext
from ..products.detections import (
    SetDetections,
    detect_set,
    detection_stamp,
    publish_results,
    remove_temporary_files,
    write_temporary_results,
)
from ..products.models import load_detectors, stored_detector
from ..products.shards import finished_shards
from ..run.folder import RunFolder, Timing, measured
from ..shards.windows import RunPictures


@dataclass(frozen=True)
class SetResults:
    """Result files of one set under temporary names, what they are made with, and the time they took."""

    files: dict[Path, Path]
    stamp: Mapping[str, Any]
    timing: Timing


def run(context: RunContext) -> None:
    """Write the result files of every set, and replace none before all sets are scored.

    The detection settings in the models are updated to those of the run (see `outdated_models`).
    """
    classes = context.data.classes
    detectors = load_detectors(context.stored, "detect")
    inputs = context.run, context.settings, context.data
    shards = {name: finished_shards(*inputs, "detect", name) for name in context.data.records}
    outdated = outdated_models(context.run, classes, context.settings.detect)
    context.run.files.check(outdated)
    results: dict[str, SetResults] = {}
    try:
        for name, shard_set in shards.items():
            stamp = detection_stamp(context.run, classes, shard_set, context.settings.detect)
            if context.redo or not SetDetections.of(context.run, classes, name, stamp).state().is_current:
                results[name] = _detect_set(context, name, shard_set, detectors, stamp)
        _finish(context, outdated, results)
    finally:
        for result in results.values():
            remove_temporary_files(result.files)


def _finish(context: RunContext, outdated: Mapping[Path, Detector], results: Mapping[str, SetResults]) -> None:
    """Put the models and result files in their places."""
    context.run.files.claim(outdated)
    for path, detector in outdated.items():
        detector.save(path)
    for name, result in results.items():
        publish_results(context.run, name, result.files, result.stamp)
    for name in context.data.records:
        if name in results or f"detect {name}" not in context.run.timings():
            timing = results[name].timing if name in results else Timing()
            context.run.save_timing(f"detect {name}", timing, context.reporter.say)
    if context.settings != context.run.settings():
        context.save_settings()


def _detect_set(
    context: RunContext, set_name: str, shards: ShardSet, detectors: Sequence[Detector], stamp: Mapping[str, Any]
) -> SetResults:
    def score(shard: Shard) -> Float64:
        return score_many(detectors, shard.features)

    with measured() as timing:
        settings, classes = context.settings.detect, {one.class_name: one.prior for one in detectors}
        records = {record.id: record for record in context.data.records[set_name]}
        pictures = RunPictures(records, shards.hashes)
        found = detect_set(shards, classes, score, settings, set_name, context.workspace, pictures)
        pictures.report("detect", context.reporter.say)
        files = write_temporary_results(context.run, set_name, found)
    timing.counts |= {"pictures": shards.n_images, "windows": shards.n_windows}
    return SetResults(files, stamp, timing)


def outdated_models(run: RunFolder, classes: tuple[str, ...], settings: DetectSettings) -> dict[Path, Detector]:
    """Return the run's models that record other detection settings than `settings`, with `settings` instead."""
    expected = asdict(settings)
    outdated = {}
    for path in [file_of(name) for file_of in (run.first_model, run.model) for name in classes]:
        detector = stored_detector(path)
        if detector is not None and detector.provenance.get(DETECTION) != expected:
            outdated[path] = replace(detector, provenance={**detector.provenance, DETECTION: expected})
    return outdated
