"""The threshold of an exported file, chosen on what the file itself says of good pictures, with its own windows."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from lapsvm.arrays import Float64, Index
from lapsvm.catalog import ImageRecord, pixel_hash
from lapsvm.detection.onnx_file import OnnxDetector, with_thresholds
from lapsvm.detection.onnx_file.deciding import DISTANCE, PROBABILITY
from lapsvm.errors import InputError, OptionError
from lapsvm.files import read_regular, write_atomically
from lapsvm.inspection.alarm_rate import AlarmRate
from lapsvm.inspection.promises import FILE, Promise
from lapsvm.inspection.threshold import choose_threshold, choose_two_thresholds

from ...cli.answer import Outcome
from ...context import RunContext
from ...products.models import load_detectors
from ...run.dataset import positive_pictures
from ...run.groups import picture_groups
from ..drawing.files import picture_files
from .onnx_detector import weights_digest


class Measured(NamedTuple):
    """What a file says of good pictures: probabilities and distances (n,), and the groups of the pictures."""

    probabilities: Float64
    distances: Float64
    groups: Index

    def alarms(self, probability: float, distance: float) -> AlarmRate:
        """Return how many of them alarm at thresholds."""
        return AlarmRate.among((self.probabilities >= probability) | (self.distances >= distance), self.groups)


def choose_of_file(context: RunContext, path: Path, folder: Path | None, promise: Promise) -> Outcome:
    """Choose the threshold of a file on good pictures that training did not see, and write it into the file.

    Parameters
    ----------
    context : RunContext
    path : Path
    folder : Path, optional
        Of good pictures; by default those of the test set.
    promise : Promise

    Raises
    ------
    OptionError
        If the file does not decide or is of other models, or good pictures are too few, not there, or of the training.
    """
    content = read_regular(path, "detector")
    file = OnnxDetector(content)
    digest = weights_digest([detector.whole for detector in load_detectors(context.stored, "threshold")])
    if not file.decides or file.metadata.get("weights_blake2b") != digest:
        raise OptionError(f"option --onnx must be a file of this run that decides, got {path}; export it again.")
    measured = _measured(file, context, _good_pictures(context, folder))
    before = float(file.metadata[PROBABILITY]), float(file.metadata.get(DISTANCE, "inf"))
    try:
        probability, distance = _chosen(measured, promise)
    except InputError as error:
        raise OptionError(f"option --onnx: {error}") from None
    described = _described(file, (probability, distance), promise, measured.groups)
    write_atomically(path, with_thresholds(content, probability, distance, described))
    rates = {"before": measured.alarms(*before), "now": measured.alarms(probability, distance)}
    for when, rate in rates.items():
        context.reporter.say(f"good pictures that alarm by {path} {when}: {rate}")
    least = f"{probability:.3g} of probability" + (f", {distance:.3g} of distance" if file.knows_good else "")
    context.reporter.say(f"stored in {path}: {least}. {described['promise']}")
    figures = {name: described[name] for name in (PROBABILITY, DISTANCE, "promise") if name in described}
    return Outcome({"detector": path}, {**figures, **{when: rate.as_json() for when, rate in rates.items()}})


def _described(file: OnnxDetector, chosen: tuple[float, float], promise: Promise, groups: Index) -> dict[str, str]:
    """Return the metadata of the file with its own threshold."""
    kept = {name: value for name, value in file.metadata.items() if name != "confidence"}
    described = {PROBABILITY: repr(chosen[0]), "max_false_alarms": repr(promise.share)}
    if file.knows_good:
        described[DISTANCE] = repr(chosen[1])
    if promise.confidence is not None:
        described["confidence"] = repr(promise.confidence)
    in_groups = len(np.unique(groups)) < len(groups)
    return {**kept, **described, "promise": promise.sentence(in_groups, FILE)}


def _good_pictures(context: RunContext, folder: Path | None) -> list[ImageRecord]:
    """Return the pictures of a folder, or the good ones of the test set."""
    if folder is not None:
        files = picture_files([folder], context.reporter.say)
        return [ImageRecord(file.place.with_suffix("").as_posix(), file.path, {}) for file in files]
    records = context.data.records.get(context.settings.data.test_set, ())
    shown = positive_pictures(records, context.data.classes)
    if good := [record for record in records if record.id not in shown]:
        return good
    raise OptionError("option --onnx needs good pictures that training did not see; name their folder by --good.")


def _measured(file: OnnxDetector, context: RunContext, records: Sequence[ImageRecord]) -> Measured:
    """Return the probabilities and distances of good pictures by a file; OptionError if training saw one."""
    shards = context.stored.shards_if_any(context.train_set)
    trained = frozenset(() if shards is None else shards.pixel_hashes)
    found, hashes = [], []
    with context.reporter.bar("ask the file", len(records), "pictures") as bar:
        for record in records:
            pixels = record.pixels()
            hashes.append(pixel_hash(pixels))
            if hashes[-1] in trained:
                raise OptionError(f"good pictures must be ones that training did not see, but it saw {record.path}.")
            found.append(file.measures(pixels))
            bar.step()
    groups = picture_groups(records, hashes, context.settings.data.group)
    probabilities, distances = np.array(found).T
    return Measured(probabilities, distances, groups)


def _chosen(measured: Measured, promise: Promise) -> tuple[float, float]:
    """Return the least probability and distance of an alarm, above the float32 that the file gives of a picture.

    Raises InputError if pictures, or groups of them, are too few.
    """
    probabilities, distances, groups = measured
    if not np.isfinite(distances).all():
        return _after(choose_threshold(probabilities, promise.share, groups, promise.confidence)), np.inf
    chosen = choose_two_thresholds(probabilities, distances, promise, groups)
    if chosen is None:
        raise InputError(promise.too_few_for_two(len(np.unique(groups))))
    return _after(chosen[0]), _after(chosen[1])


def _after(value: float) -> float:
    """Return the next float32, since the file compares what it has not yet rounded to one."""
    return float(np.nextafter(np.float32(value), np.float32(np.inf)))
