"""The detector of a run as one ONNX file, compared with the run before it appears."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b, sha256
from importlib.metadata import metadata
from pathlib import Path
from typing import Any

import numpy as np

from lapsvm.arrays import Float64
from lapsvm.boxes import iou
from lapsvm.catalog import ImageRecord
from lapsvm.detection import Predictor, score_many
from lapsvm.detection.onnx_file import FORMAT, FileContent, OnnxDetector, detector_file
from lapsvm.detection.onnx_file.content import network_passes
from lapsvm.detection.picture_scores import detect_windows
from lapsvm.detection.prepared import prepare_windows
from lapsvm.errors import DataError, OptionError, SettingsError
from lapsvm.evaluation import Detections, evaluate_voc
from lapsvm.evaluation.tables import mean
from lapsvm.features.extractors.efficientnet import KIND
from lapsvm.features.extractors.efficientnet.extractor import PACKAGE, network_file
from lapsvm.features.extractors.specs import parse_spec
from lapsvm.files import read_regular, write_atomically
from lapsvm.windows.proposals import picture_windows

from ..cli.parsing import check_in_folder
from ..results.known_boxes import AnnotatedBoxes, Truth, known_boxes
from ..run.context import RunContext
from .export import checked_set

COMPARED = 40  # pictures on which the file's own windows are measured
EQUAL = 20  # of these, pictures on which the scores of given windows must be equal
_TOLERANCE = 1e-4  # largest difference of two scores that are equal
_SAME_PLACE = 0.5  # IoU of two best boxes that agree
_MOST = 100  # boxes per class, unless the caller of the file says otherwise
_ANNOTATIONS_ONLY = ("threshold", "per_class", "labelled_only", "copy")

_Found = list[tuple[Float64, Float64]]
"""Boxes (m, 4) and scores (m,) of each class."""


def _check_options(options: Mapping[str, Any]) -> None:
    """Raise OptionError if an option means nothing here, or the file is there, in no folder, or no ``*.onnx``."""
    given = [f"--{name.replace('_', '-')}" for name in _ANNOTATIONS_ONLY if options[name] not in (None, False)]
    if given:
        raise OptionError(
            f"option {given[0]} chooses boxes of annotations; the format onnx writes the detector itself."
        )
    to: Path = options["to"]
    if to.suffix != ".onnx" or to.exists() or to.is_symlink():
        raise OptionError(f"option --to must be a new file *.onnx for the format onnx, got {to}.")
    check_in_folder("--to", to)


def export_detector(options: Mapping[str, Any]) -> None:
    """Write the detectors of a run, with their network, as one ONNX file.

    Parameters
    ----------
    options : mapping
        Of the verb ``export``. The file is compared on pictures of the set, by default the test set, or the training
        set of a run without one.

    Raises
    ------
    OptionError, SettingsError
        If the extractor cannot be part of a file, the classes have different thresholds of suppression, there is no
        such set, or an option means nothing here.
    DataError
        If the file's scores differ from the run's; then it is not written.
    MissingError, DependencyError, WriteError
        If the run has no models, a package is not installed, or the file cannot be written.
    """
    _check_options(options)
    out, to = options["out"], options["to"]
    context = RunContext.opened(out, "export", options["root"], quiet=options["quiet"])
    reporter, chosen_set = context.reporter, checked_set(context, options["set_name"])
    known = known_boxes(context, chosen_set)  # refused before the comparison, which takes a minute
    predictor = Predictor.open(out, device="cpu", max_detections=_MOST)
    network, name = _network(predictor, context.settings.features.extractors)
    content = detector_file(_content(predictor), network, name, _metadata(predictor, network, name))
    detector = OnnxDetector(content)
    pictures = _spread(context.data.records[chosen_set])
    compared: list[_Compared] = []
    with reporter.bar("compare", len(pictures), "pictures") as bar:
        for number, record in enumerate(pictures):
            compared.append(_compare_picture(predictor, detector, record, equal=number % (COMPARED // EQUAL) == 0))
            bar.step()
    for line in _summary(compared, [one.class_name for one in predictor.detectors], known):
        reporter.say(line)
    write_atomically(to, content)
    reporter.say(f"{to}: {len(content) / 1e6:.1f} MB, {len(predictor.detectors)} classes")


def _spread(records: Sequence[ImageRecord]) -> list[ImageRecord]:
    """Return some pictures of a set, evenly spread over it."""
    places = np.unique(np.linspace(0, len(records) - 1, min(COMPARED, len(records))).round().astype(int))
    return [records[place] for place in places]


def _network(predictor: Predictor, texts: Sequence[str]) -> tuple[bytes, str]:
    """Return the ONNX file of the run's network, and its name; SettingsError if the file has changed."""
    network_passes(predictor.extractor.describe(), predictor.detectors)  # refuses what is no network
    spec = parse_spec(texts[0])
    if spec.kind == KIND:
        return network_file(), KIND
    content = read_regular(spec.file or "", "network")
    first = predictor.extractor.describe()
    weights = first.get("weights") or first["parts"]["0"]["weights"]
    if blake2b(content, digest_size=16).hexdigest() != weights:
        raise SettingsError(f"network {spec.file} must be the one that the run was made with, but has another hash.")
    return content, Path(spec.file or "").name


def _content(predictor: Predictor) -> FileContent:
    """Return what the file computes."""
    detectors, detection = predictor.detectors, predictor.detection
    thresholds = sorted({own.nms_threshold for own in detection})
    if len(thresholds) > 1:
        raise SettingsError(f"the classes must share one nms_threshold for the format onnx, got {thresholds}.")
    passes = network_passes(predictor.extractor.describe(), detectors)
    return FileContent(detectors, detection, passes, predictor.windows.max_side, predictor.windows.max_area)


def _metadata(predictor: Predictor, network: bytes, name: str) -> dict[str, str]:
    """Return what the file says of itself; no paths and times, so that the same run gives the same bytes."""
    weights = b"".join(detector.coef.tobytes() for detector in predictor.detectors)
    licence = "Apache-2.0" if name == KIND else "that of the network's file"
    source = f"package {PACKAGE}" if name == KIND else "the user's own file"
    return {
        "format": FORMAT,
        "lapsvm_version": metadata("lapsvm")["Version"],
        "classes": json.dumps([detector.class_name for detector in predictor.detectors]),
        "weights_blake2b": blake2b(weights, digest_size=16).hexdigest(),
        "network": name,
        "network_source": source,
        "network_licence": licence,
        "network_sha256": sha256(network).hexdigest(),
    }


# ---- the file beside the run: equal scores of given windows, and what its own windows cost ----
@dataclass(frozen=True)
class _Compared:
    """One picture's detections by both.

    Attributes
    ----------
    record : ImageRecord
    predicted, exported : _Found
        By the run's proposals, and by the file's own windows.
    difference : float
        The largest one of the scores of the run's proposals; NaN where they were not compared.
    """

    record: ImageRecord
    predicted: _Found
    exported: _Found
    difference: float


def _compare_picture(predictor: Predictor, detector: OnnxDetector, record: ImageRecord, *, equal: bool) -> _Compared:
    """Return a picture's detections by both.

    Raises
    ------
    DataError
        If `equal` is asked for and the scores of the same windows differ by more than `_TOLERANCE`.
    """
    pixels = record.pixels()
    windows = picture_windows(pixels, predictor.windows, predictor.seed)
    picture = prepare_windows(pixels, windows, predictor.windows.max_side, predictor.extractor)
    scores = score_many(predictor.detectors, picture.features())
    difference = float("nan")
    if equal:
        difference = float(np.abs(detector.window_scores(pixels, picture.boxes) - scores).max(initial=0.0))
        if not difference <= _TOLERANCE:
            raise DataError(
                f"the exported scores must equal the run's to {_TOLERANCE:g}, but those of picture {record.id!r} "
                f"differ by {difference:.2g}; the file is not written."
            )
    pairs = zip(scores.T, predictor.detection, strict=True)
    own = [detect_windows(of_class, picture.boxes, settings) for of_class, settings in pairs]
    return _Compared(record, own, detector.detect(pixels), difference)


def _summary(compared: Sequence[_Compared], classes: Sequence[str], known: AnnotatedBoxes | None) -> Iterator[str]:
    """Yield the lines that say how the file compares with the run."""
    differences = [one.difference for one in compared if not np.isnan(one.difference)]
    yield f"scores of given windows: largest difference {max(differences):.1g} in {len(differences)} pictures"
    yield from _agreement(compared, classes)
    if known is not None and known.pictures:
        yield from _average_precision(compared, classes, known)


def _agreement(compared: Sequence[_Compared], classes: Sequence[str]) -> Iterator[str]:
    """Yield the share of pictures of each class where both best boxes are in the same place."""
    same = [
        iou(one.predicted[column][0][:1], one.exported[column][0][:1]).max(initial=0.0) >= _SAME_PLACE
        for one in compared
        for column, name in enumerate(classes)
        if one.record.labels.get(name) == 1
    ]
    if same:
        yield f"own windows: the best box of predict and of the file overlap by half in {sum(same)} of {len(same)}"


def _average_precision(compared: Sequence[_Compared], classes: Sequence[str], known: AnnotatedBoxes) -> Iterator[str]:
    """Yield the VOC AP of both, the mean over the classes that the pictures with known boxes show."""
    inside = [one for one in compared if one.record.id in known.pictures]
    ids = {one.record.id for one in inside}
    truth = {name: {key: of for key, of in known.truth[name].items() if key in ids} for name in classes}
    own = _mean_ap({one.record.id: one.predicted for one in inside}, classes, truth)
    exported = _mean_ap({one.record.id: one.exported for one in inside}, classes, truth)
    if own is not None and exported is not None:
        yield (
            f"own windows: VOC AP {exported:.3f} in {len(inside)} pictures, {exported - own:+.3f} from predict's "
            f"{own:.3f}; give boxes to the file where that is too low"
        )


def _mean_ap(found: Mapping[str, _Found], classes: Sequence[str], truth: Truth) -> float | None:
    """Return the mean VOC AP of the classes that have objects, from picture -> detections."""
    by_class = {
        name: Detections.from_images((key, *of_picture[column]) for key, of_picture in found.items())
        for column, name in enumerate(classes)
    }
    return mean(result.ap_area for result in evaluate_voc(by_class, truth).classes.values())
