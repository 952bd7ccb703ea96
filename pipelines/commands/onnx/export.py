"""The detector of a run as one ONNX file, compared with the run's own before it appears."""

import json
from collections.abc import Mapping, Sequence
from hashlib import blake2b, sha256
from importlib.metadata import metadata
from pathlib import Path
from typing import Any

import numpy as np

from lapsvm.catalog import ImageRecord
from lapsvm.detection import Predictor
from lapsvm.detection.onnx_file import FORMAT, FileContent, OnnxDetector, detector_file
from lapsvm.detection.onnx_file.content import network_passes
from lapsvm.errors import OptionError, SettingsError
from lapsvm.features.extractors.efficientnet import KIND
from lapsvm.features.extractors.efficientnet.extractor import PACKAGE, network_file
from lapsvm.features.extractors.specs import parse_spec
from lapsvm.files import read_regular, write_atomically

from ...results.boxes.known import known_boxes
from ...run.context import RunContext
from ..export import checked_set
from .comparison import Compared, compare_picture, summary

COMPARED = 40  # pictures on which the file's own windows are measured
_MOST = 100  # boxes per class, unless the caller of the file says otherwise
EQUAL = 20  # of these, pictures on which the scores of given windows must be equal
_ANNOTATIONS_ONLY = {"threshold": "--threshold", "per_class": "--per-class", "labelled_only": "--labelled-only",
                     "copy": "--copy"}  # fmt: skip


def _check_options(options: Mapping[str, Any]) -> None:
    """Raise OptionError if an option means nothing here, or the file is there, in no folder, or no ``*.onnx``."""
    given = [flag for name, flag in _ANNOTATIONS_ONLY.items() if options[name] not in (None, False)]
    if given:
        raise OptionError(
            f"option {given[0]} chooses boxes of annotations; the format onnx writes the detector itself."
        )
    to: Path = options["to"]
    if to.suffix != ".onnx" or to.exists() or to.is_symlink():
        raise OptionError(f"option --to must be a new file *.onnx for the format onnx, got {to}.")
    if not to.parent.is_dir():  # before the comparison, which takes a minute
        raise OptionError(f"option --to must name a file in a folder that is there, got {to}.")


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
    predictor = Predictor.open(out, device="cpu", max_detections=_MOST)
    network, name = _network(predictor, context.settings.features.extractors)
    content = detector_file(_content(predictor), network, name, _metadata(predictor, network, name))
    detector = OnnxDetector(content)
    pictures = _spread(context.data.records[chosen_set])
    compared: list[Compared] = []
    with reporter.bar("compare", len(pictures), "pictures") as bar:
        for number, record in enumerate(pictures):
            compared.append(compare_picture(predictor, detector, record, equal=number % (COMPARED // EQUAL) == 0))
            bar.step()
    for line in summary(compared, [one.class_name for one in predictor.detectors], known_boxes(context, chosen_set)):
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
    weights = blake2b(digest_size=16)
    for detector in predictor.detectors:
        weights.update(np.ascontiguousarray(detector.coef).tobytes())
    licence = "Apache-2.0" if name == KIND else "that of the network's file"
    source = f"package {PACKAGE}" if name == KIND else "the user's own file"
    return {
        "format": FORMAT,
        "lapsvm_version": metadata("lapsvm")["Version"],
        "classes": json.dumps([detector.class_name for detector in predictor.detectors]),
        "weights_blake2b": weights.hexdigest(),
        "network": name,
        "network_source": source,
        "network_licence": licence,
        "network_sha256": sha256(network).hexdigest(),
    }
