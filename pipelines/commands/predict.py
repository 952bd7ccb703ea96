"""Detections in new pictures from trained models."""

import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lapsvm.catalog import Pixels, read_image
from lapsvm.detection import Detector, score_many, to_json
from lapsvm.errors import ImageError, InputError, MissingError, SettingsError, WriteError
from lapsvm.features import Extractor, settings_difference
from lapsvm.features.extractors.extractor import described_texts

from ..fitting.picture_scores import detect_windows
from ..results.detection_record import recorded_detect_settings
from ..results.provenance import provenance_value
from ..run.checks import check_detection
from ..run.folder import RunFolder
from ..run.progress import Reporter
from ..run.recipes import AUTO
from ..run.settings import FILE, IMPORTED, DetectSettings, WindowSettings
from ..shards.extractors import open_settings_extractor, with_network_settings
from ..shards.prepared import prepare_windows
from ..shards.windows import WINDOWS_VERSION
from .detected import Detected
from .draw import draw_boxes
from .drawn_boxes import PROBABLE, drawn_boxes
from .prediction_files import drawing_files, model_files, picture_files


@dataclass(frozen=True)
class Predictor:
    """Models that share their features."""

    detectors: Sequence[Detector]
    extractor: Extractor
    windows: WindowSettings
    seed: int
    detection: Sequence[DetectSettings]
    threshold: float | None = None

    @property
    def least(self) -> float:
        """The least probability of a drawn box."""
        return PROBABLE if self.threshold is None else self.threshold

    def __call__(self, pixels: Pixels) -> dict[str, Detected]:
        """Return class -> detections, those below the threshold left out."""
        picture = prepare_windows(pixels, self.windows, self.seed, self.extractor)
        boxes, scores = picture.boxes, score_many(self.detectors, picture.features())
        detected = {}
        for column, (detector, settings) in enumerate(zip(self.detectors, self.detection, strict=True)):
            found, values = detect_windows(scores[:, column], boxes, settings)
            one = Detected(found, values, detector.probability(values))
            detected[detector.class_name] = one.at_least(self.threshold)
        return detected


@dataclass(frozen=True)
class Predicted:
    """What is known of one picture: its entry in the output, and the number of its drawn boxes."""

    entry: dict[str, Any]
    drawn: int


def predict_images(
    models: Sequence[Path], images: Sequence[Path], *, draw: Path | None, extractor_specs: Sequence[str] | None,
    detection: Mapping[str, float], threads: int, seed: int | None, quiet: bool, skip_bad: bool,
    windows: str | None = None, device: str = "auto", threshold: float | None = None,
) -> None:  # fmt: skip
    """Write the detections in pictures as JSON to standard output.

    Parameters
    ----------
    models : sequence of Path
        Model files, folders of them, or run folders.
    images : sequence of Path
        Pictures, or folders of them.
    draw : Path or None
        Folder for pictures with boxes.
    extractor_specs : sequence of str or None
        None: the extractors of the models.
    detection : mapping of str to number
        Fields of DetectSettings that replace those recorded in the model files.
    threads : int
    seed : int or None
        None: the seed of the models.
    quiet, skip_bad : bool
    windows : str or None
        A method of proposing windows; None: the method of the models.
    device : "auto", "cpu" or "cuda"
        Device of torch networks.
    threshold : float or None
        Least probability of a box.

    Raises
    ------
    MissingError, ImageError, SettingsError
    """
    reporter = Reporter(quiet)
    predictor = _open_predictor(
        model_files(models), extractor_specs, detection, seed, windows, device, threshold, reporter
    )
    pictures = picture_files(images, reporter.say)
    drawings = [None] * len(pictures) if draw is None else drawing_files(pictures, draw)

    def predict(picture: Path, drawing: Path | None) -> Predicted | None:
        return _predict_picture(predictor, picture, drawing, skip_bad, reporter)

    results: list[Predicted] = []
    with reporter.bar("predict", len(pictures), "pictures") as bar, ThreadPoolExecutor(threads) as pool:
        for result in pool.map(predict, pictures, drawings):
            bar.step()
            results += [] if result is None else [result]
    if len(results) < len(pictures):
        reporter.warn(f"left out {len(pictures) - len(results)} of {len(pictures)} pictures, which cannot be read")
    if draw is not None:
        reporter.say(_drawing_summary(results, predictor, draw))
    _print_json([one.entry for one in results])


def _print_json(entries: Sequence[Mapping[str, Any]]) -> None:
    """Write JSON to standard output, in ASCII, which carries any file name through any terminal.

    Raises
    ------
    WriteError
        If it cannot be written, for instance because a disk is full.
    BrokenPipeError
        If the program that reads it has ended.
    """
    try:
        json.dump(entries, sys.stdout, indent=1)
        sys.stdout.write("\n")
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise WriteError(f"standard output cannot be written: {error.strerror}.") from None


def _drawing_summary(results: Sequence[Predicted], predictor: Predictor, folder: Path) -> str:
    """Return the line that says what was drawn, and by which rule."""
    boxes, shown = sum(one.drawn for one in results), sum(one.drawn > 0 for one in results)
    uncalibrated = [detector.class_name for detector in predictor.detectors if detector.calibration is None]
    rules = [] if len(uncalibrated) == len(predictor.detectors) else [f"a probability of at least {predictor.least:g}"]
    rules += ["at least half the best score of the picture"] if uncalibrated else []
    return f"drawn into {folder}: {boxes} boxes in {shown} of {len(results)} pictures, with {' or '.join(rules)}"


def _predict_picture(
    predictor: Predictor, path: Path, drawing: Path | None, skip_bad: bool, reporter: Reporter
) -> Predicted | None:
    """Return what is known of one picture; None if it is unreadable and `skip_bad` is set."""
    try:
        pixels = read_image(path)
    except (ImageError, MissingError) as error:
        if not skip_bad:
            raise type(error)(f"{str(error).rstrip('.')}; --skip-bad leaves such pictures out.") from None
        reporter.say(f"left out: {error}")
        return None
    detected = predictor(pixels)
    boxes = []
    if drawing is not None:
        boxes = drawn_boxes(detected, predictor.least)
        draw_boxes(pixels, boxes, drawing)
    height, width = pixels.shape[:2]
    return Predicted(_entry(path, width, height, detected), len(boxes))


def _entry(path: Path, width: int, height: int, detected: Mapping[str, Detected]) -> dict[str, Any]:
    """Return the JSON of one picture."""
    boxes = {name: (one.boxes, one.scores) for name, one in detected.items()}
    probabilities = {name: one.probabilities for name, one in detected.items() if one.probabilities is not None}
    return to_json(str(path), width, height, boxes, probabilities)


def _open_predictor(
    files: Sequence[Path], specs: Sequence[str] | None, detection: Mapping[str, float], seed: int | None,
    windows: str | None, device: str, threshold: float | None, reporter: Reporter,
) -> Predictor:  # fmt: skip
    """Return the predictor of model files, having checked that they share their windows and features."""
    detectors = [Detector.load(path).whole for path in files]
    _check_classes(detectors, files)
    _check_threshold(detectors, files, threshold)
    first = detectors[0]
    settings = _window_settings(first, files[0], windows)
    _warn_of_other_windows(first, files[0], settings, reporter)
    extractor = _open_extractor(first, files[0], specs, device)
    detect = [_detect_settings(*pair, detection) for pair in zip(detectors, files, strict=True)]
    shards = provenance_value(first, "shards")
    for detector in detectors:
        if provenance_value(detector, "shards") != shards:
            raise SettingsError(
                f"models {first.class_name!r} and {detector.class_name!r} were trained on different windows or "
                "features; predict with one of them at a time."
            )
    seed = provenance_value(first, "shards", "windows", "seed") if seed is None else seed
    return Predictor(detectors, extractor, settings, seed, detect, threshold)


def _check_classes(detectors: Sequence[Detector], files: Sequence[Path]) -> None:
    """Raise SettingsError if two models are of one class."""
    counts = Counter(detector.class_name for detector in detectors)
    name, count = counts.most_common(1)[0]
    if count > 1:
        same = [str(file) for detector, file in zip(detectors, files, strict=True) if detector.class_name == name]
        raise SettingsError(f"models must be of different classes, got {' and '.join(same)} for {name!r}.")


def _check_threshold(detectors: Sequence[Detector], files: Sequence[Path], threshold: float | None) -> None:
    """Raise SettingsError if there is a threshold, and a model without probabilities."""
    without = [file for detector, file in zip(detectors, files, strict=True) if detector.calibration is None]
    if threshold is not None and without:
        raise SettingsError(
            f"model {without[0]} has no probabilities for --threshold; train it again, or leave the option out."
        )


def _window_settings(detector: Detector, file: Path, method: str | None) -> WindowSettings:
    """Return the settings of window proposals: those of the model, or another method.

    Raises
    ------
    SettingsError
        If the features of the model are imported, or its windows are and `method` is None.
    """
    windows = provenance_value(detector, "shards", "windows")
    source = provenance_value(detector, "shards", "windows", "method")
    if source == IMPORTED:
        raise SettingsError(
            f"model {file} was trained on imported features, which lapsvm cannot compute for new pictures; import "
            "their features and run lapsvm detect."
        )
    if method is None and source == FILE:
        raise SettingsError(
            f"model {file} was trained on windows from a file, which has none for new pictures; name a method with "
            "--windows, such as selective_search."
        )
    names = ("method", "mode", "max_windows", "max_area", "proposal_side", "max_side")
    recorded = {name: windows[name] for name in names if name in windows}  # without a mode: windows of a file
    return WindowSettings(**recorded | ({"method": method, "mode": "fast"} if method else {}))


def _warn_of_other_windows(detector: Detector, file: Path, settings: WindowSettings, reporter: Reporter) -> None:
    """Report that a model was trained on the selective search of another version, whose windows are others."""
    windows = provenance_value(detector, "shards", "windows")
    version = windows.get("version")
    is_searched = settings.method == windows["method"] and settings.method in ("selective_search", "mixed")
    if is_searched and version != WINDOWS_VERSION:
        reporter.warn(
            f"model {file} was trained on windows of version {version} of {settings.method}, predict proposes those of "
            f"version {WINDOWS_VERSION}: scores may differ; extract and train again for equal windows."
        )


def _open_extractor(detector: Detector, file: Path, specs: Sequence[str] | None, device: str) -> Extractor:
    """Return the extractor of a model; a model knows the hash of a network file, its run folder the path."""
    features = provenance_value(detector, "shards", "features", "extractor")
    expected = features.get("of", features)  # a projection is part of the models' weights
    networks = provenance_value(detector, "shards", "features", "networks")
    specs = None if AUTO in (specs or ()) else specs
    texts = tuple(specs) if specs else described_texts(expected) or _run_extractors(file)
    extractor = open_settings_extractor(with_network_settings(texts, networks), device, specs or ())
    difference = settings_difference(expected, extractor.describe())
    if specs is None and difference:
        raise SettingsError(f"model {file} was trained with {difference}; name its extractor with --extractor.")
    if extractor.dim != len(detector.coef):
        raise InputError(
            f"the extractor must give the {len(detector.coef)} features of the model's training, got {extractor.dim}."
        )
    return extractor


def _detect_settings(detector: Detector, file: Path, options: Mapping[str, float]) -> DetectSettings:
    """Return the detection settings of a model file, `options` replacing some."""
    return check_detection(replace(recorded_detect_settings(detector, file), **options))


def _run_of(model: Path) -> RunFolder:
    """Return the run folder of a model file, which may not exist."""
    return RunFolder(model.resolve().parent.parent)


def _run_extractors(model: Path) -> tuple[str, ...]:
    """Return the --extractor values of the run folder of a model file."""
    run = _run_of(model)
    if not run.settings_file.is_file():
        raise MissingError(f"model {model} is in no run folder that names its extractor; name it with --extractor.")
    return run.settings().features.extractors
