"""The detector of a run as one ONNX file, compared with the run before it appears."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b, sha256
from importlib.metadata import metadata
from pathlib import Path
from typing import Any

from lapsvm.detection import Detector, Predictor
from lapsvm.detection.onnx_file import FORMAT, INPUTS, FileContent, OnnxDetector, detector_file
from lapsvm.detection.onnx_file.content import network_passes
from lapsvm.detection.onnx_file.deciding import NEVER_UNKNOWN, RULE, UNKNOWN_RULE
from lapsvm.detection.onnx_file.quantisation import quantised_network
from lapsvm.detection.scoring import picture_detectors
from lapsvm.errors import DataError, OptionError, SettingsError
from lapsvm.features import recorded_description
from lapsvm.features.extractors.efficientnet import KIND
from lapsvm.features.extractors.efficientnet.extractor import PACKAGE, network_file
from lapsvm.features.extractors.specs import parse_spec
from lapsvm.files import read_regular, write_atomically
from lapsvm.windows.proposals import FINE

from ...annotations.known_boxes import AnnotatedBoxes, BoxSource, known_boxes
from ...cli.answer import Outcome
from ...cli.parsing import check_in_folder
from ...context import RunContext
from ...settings.packages import check_packages
from . import onnx_precision
from .annotations import checked_set
from .onnx_comparison import COMPARED, EQUAL, Compared, compare_picture, summary
from .onnx_precision import FLOAT32, INT8
from .shown_pictures import readable, spread, telling

_Parts = tuple[FileContent, bytes, str, dict[str, str]]
LACKING = (
    "windows: the file's own lack those around edges and corners that method small has, so that it may miss small "
    "things; a file of --inputs all takes the windows of Predictor.propose"
)
GROUPED = (
    "groups: in the file boxes around several things do not lose to the boxes of the things, as they do in predict"
)
FITTED = "extent: in the file boxes do not take the extent of what stands out of even ground, as they do in predict"
PROMISED = "the promised share of false alarms is that of predict: of its windows, and of the network in float32"
_MOST = 100  # boxes per class, unless the caller of the file says otherwise


def export_detector(options: Mapping[str, Any]) -> Outcome:
    """Write the detectors of a run, with their network, as one ONNX file, compared on pictures of a set before.

    What that needs is imported first, since the comparison takes minutes; `no_comparison` leaves it out.

    Raises OptionError or SettingsError if the extractor cannot be part of a file, the classes have different thresholds
    of suppression, there is no such set, or the file is no new ``*.onnx``; DataError if the file's scores differ from
    the run's, so that it is not written; and MissingError if the run has no models.
    """
    out, to = options["out"], options["to"]
    if to.suffix != ".onnx" or to.exists() or to.is_symlink():
        raise OptionError(f"option --to must be a new file *.onnx for the format onnx, got {to}.")
    check_in_folder("--to", to)
    precision = options["precision"] or FLOAT32
    check_packages(onnx_precision=precision)
    context = RunContext.opened(out, "export", options["root"], quiet=options["quiet"])
    reporter, chosen_set = context.reporter, checked_set(context, options["set_name"])
    # refused before the comparison, which takes a minute
    known = known_boxes(BoxSource.of(context.stored, reporter.say), chosen_set)
    with reporter.warnings():
        predictor = Predictor.open(out, device="cpu", max_detections=_MOST)
    network, name = _network(predictor, context.settings.features.extractors)
    parts = _content(predictor), network, name, _metadata(predictor, network, name)
    inputs = options["inputs"] or INPUTS[0]
    if predictor.windows.method == "small":
        reporter.say(LACKING)
    priors = [prior for prior in (detector.prior for detector in predictor.detectors) if prior is not None]
    if any(prior.are_many for prior in priors):
        reporter.say(GROUPED)
    if any(prior.takes_extent for prior in priors):
        reporter.say(FITTED)
    if predictor.shown.alarm is not None:
        reporter.say(f"decision: {_decides(predictor)}; {PROMISED}; lapsvm threshold --onnx chooses the file's own")
    content = detector_file(*parts, inputs)
    classes = [detector.class_name for detector in predictor.detectors]
    figures: dict[str, Any] = {"classes": classes, "compared": []}
    if not options["no_comparison"]:
        scorer = content if inputs == "all" else detector_file(*parts, "all")
        compared = _compared(context, predictor, (content, scorer), chosen_set)
        figures["compared"] = list(summary(compared, classes, known))
        for line in figures["compared"]:
            reporter.say(line)
    if precision == INT8:
        before, content = content, _in_int8(context, parts, inputs)
        if not options["no_comparison"]:
            figures["precision"] = _precision_figures(context, classes, (before, content), chosen_set, known)
    if options["no_comparison"]:
        OnnxDetector(content)  # can be read
        reporter.say("the file is not compared with the run (--no-comparison)")
    write_atomically(to, content)
    reporter.say(f"{to}: {len(content) / 1e6:.1f} MB, {len(classes)} classes")
    return Outcome({"detector": to}, figures)


def _compared(context: RunContext, predictor: Predictor, files: tuple[bytes, bytes], chosen_set: str) -> list[Compared]:
    """Return pictures' detections by the run and by a file; the second file scores given windows.

    Raises DataError if no picture of the set can be read.
    """
    detectors = OnnxDetector(files[0]), OnnxDetector(files[1])
    pictures, compared = spread(context.data.records[chosen_set], COMPARED), list[Compared]()
    with context.reporter.bar("compare", len(pictures), "pictures") as bar:
        for record, pixels in readable(pictures, skip_bad=context.settings.data.skip_bad):
            is_equal = len(compared) % (COMPARED // EQUAL) == 0
            compared.append(compare_picture(predictor, detectors, (record, pixels), equal=is_equal))
            bar.step()
    if not compared:
        raise DataError(f"the file is compared on pictures of set {chosen_set!r}, but none of them can be read.")
    return compared


def _in_int8(context: RunContext, parts: _Parts, inputs: str) -> bytes:
    """Return the file with its network in int8."""
    content, network, name, described = parts
    data = context.settings.data
    taught = telling(context.data.records[data.train_set], onnx_precision.CALIBRATED, skip_bad=data.skip_bad)
    context.reporter.say(
        f"int8: the ranges between the network's layers are measured on {len(taught)} training pictures"
    )
    small = quantised_network(network, name, content, (record.pixels() for record in taught))
    return detector_file(replace(content, in_8_bits=True), small, name, described | {"precision": INT8}, inputs)


def _precision_figures(
    context: RunContext,
    classes: Sequence[str],
    files: tuple[bytes, bytes],
    chosen_set: str,
    known: AnnotatedBoxes | None,
) -> dict[str, dict[str, float]]:
    """Return how a file in int8 compares with the one in float32, and report it."""
    pictures = spread(context.data.records[chosen_set], onnx_precision.COMPARED)
    shown = readable(pictures, skip_bad=context.settings.data.skip_bad)
    with context.reporter.bar("compare int8", len(pictures), "pictures") as bar:
        compared, timed = onnx_precision.compare_precisions(files, shown, bar.step)
    has_boxes = known if known is not None and known.pictures else None
    sizes = len(files[0]), len(files[1])
    figures = onnx_precision.precision_figures(compared, timed, sizes, classes, has_boxes)
    for line in onnx_precision.precision_lines(figures, len(compared)):
        context.reporter.say(line)
    return figures


def _network(predictor: Predictor, texts: Sequence[str]) -> tuple[bytes, str]:
    """Return the ONNX file of the run's network, and its name; SettingsError if the file has changed."""
    network_passes(recorded_description(predictor.extractor), predictor.detectors)  # refuses what is no network
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
    """Return the content that the file computes."""
    detectors, detection = predictor.detectors, predictor.detection
    thresholds = sorted({rule.nms_threshold for rule in detection})
    if len(thresholds) > 1:
        raise SettingsError(f"the classes must share one nms_threshold for the format onnx, got {thresholds}.")
    windows, alarm = predictor.windows, predictor.shown.alarm
    weighted = [*detectors, *picture_detectors(alarm, detectors)]
    passes = network_passes(recorded_description(predictor.extractor), weighted)
    fine_side = windows.proposal_side if windows.method in FINE else 0
    return FileContent(
        detectors, detection, passes, windows.max_side, windows.max_area, fine_side, alarm=alarm, good=predictor.good
    )


def _decides(predictor: Predictor) -> str:
    """Return the rule of the file's decisions."""
    return f"{RULE}; {NEVER_UNKNOWN if predictor.good is None else UNKNOWN_RULE}; 0, ok: otherwise"


def _threshold_metadata(predictor: Predictor) -> dict[str, str]:
    """Return the metadata of a file that decides; none of a run without a threshold."""
    alarm = predictor.shown.alarm
    if alarm is None:
        return {}
    unlike = {} if predictor.good is None or alarm.unlike is None else {"unknown_distance": repr(alarm.unlike.distance)}
    confidence = {} if alarm.confidence is None else {"confidence": repr(alarm.confidence)}
    return {
        "decision": _decides(predictor),
        "threshold": repr(alarm.probability),
        **unlike,
        "max_false_alarms": repr(alarm.max_false_alarms),
        **confidence,
        "promise": f"{alarm.promise} {PROMISED}",
    }


def weights_digest(detectors: Sequence[Detector]) -> str:
    """Return the hash of the weights of a run's detectors in the order of their names, before a projection."""
    in_order = sorted(detectors, key=lambda detector: detector.class_name)
    weights = b"".join(detector.coef.tobytes() for detector in in_order)
    return blake2b(weights, digest_size=16).hexdigest()


def _metadata(predictor: Predictor, network: bytes, name: str) -> dict[str, str]:
    """Return the metadata of the file; no paths and times, so that the same run gives the same bytes."""
    licence = "Apache-2.0" if name == KIND else "that of the network's file"
    source = f"package {PACKAGE}" if name == KIND else "the user's own file"
    return {
        "format": FORMAT,
        "lapsvm_version": metadata("lapsvm")["Version"],
        "classes": json.dumps([detector.class_name for detector in predictor.detectors]),
        "weights_blake2b": weights_digest(predictor.detectors),
        "network": name,
        "network_source": source,
        "precision": FLOAT32,
        "network_licence": licence,
        "network_sha256": sha256(network).hexdigest(),
        **_threshold_metadata(predictor),
    }
