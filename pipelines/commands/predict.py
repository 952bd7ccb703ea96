"""Detections in new pictures from trained models."""

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import chain, count
from pathlib import Path
from typing import Any

from lapsvm.arrays import Array, Float64
from lapsvm.catalog import Pixels, read_image
from lapsvm.detection import Detector, score_many, to_json
from lapsvm.errors import ImageError, InputError, MissingError, OptionError, SettingsError
from lapsvm.features import Extractor, settings_difference
from lapsvm.features.extractors.extractor import described_texts

from ..results.detection_record import recorded_detect_settings
from ..results.detections import detect_windows
from ..results.provenance import provenance_value
from ..run.checks import check_detection
from ..run.folder import RunFolder
from ..run.limits import MAX_NUMBER
from ..run.progress import Reporter
from ..run.recipes import AUTO
from ..run.settings import FILE, IMPORTED, DetectSettings, WindowSettings
from ..shards.extractors import open_settings_extractor, with_network_settings
from ..shards.prepared import prepare_windows
from .draw import is_drawing

PICTURES = (".jpg", ".jpeg", ".png", ".bmp", ".tif", ".tiff", ".webp")


@dataclass(frozen=True)
class Predictor:
    """Models that share their features."""

    detectors: Sequence[Detector]
    extractor: Extractor
    windows: WindowSettings
    seed: int
    detection: Sequence[DetectSettings]

    def __call__(self, pixels: Pixels) -> dict[str, tuple[Array, Float64]]:
        """Return class -> (boxes, scores)."""
        picture = prepare_windows(pixels, self.windows, self.seed, self.extractor)
        boxes, scores = picture.boxes, score_many(self.detectors, picture.features())
        return {
            detector.class_name: detect_windows(scores[:, column], boxes, settings)
            for column, (detector, settings) in enumerate(zip(self.detectors, self.detection, strict=True))
        }


def predict_images(
    models: Sequence[Path], images: Sequence[Path], *, draw: Path | None, extractor_specs: Sequence[str] | None,
    detection: Mapping[str, float], threads: int, seed: int | None, quiet: bool, skip_bad: bool,
    windows: str | None = None, device: str = "auto",
) -> None:  # fmt: skip
    """Write the detections in pictures as JSON to standard output.

    Parameters
    ----------
    models : sequence of Path
        Model files, or folders of them.
    images : sequence of Path
        Pictures, or folders of them.
    draw : Path or None
        Folder for pictures with boxes.
    extractor_specs : sequence of str or None
        None: the extractors of the models.
    detection : mapping of str to number
        Fields of DetectSettings that replace those recorded in the model files. A model file of an old version records
        none: then those of its run folder are used.
    threads : int
    seed : int or None
        None: the seed of the models.
    quiet, skip_bad : bool
    windows : str or None
        A method of proposing windows; None: the method of the models.
    device : "auto", "cpu" or "cuda"
        Device of torch networks.

    Raises
    ------
    MissingError, ImageError, SettingsError
    """
    files = _files(models, lambda path: path.suffix == ".safetensors", "model file (*.safetensors)")
    reporter = Reporter(quiet)
    predictor = _open_predictor(files, extractor_specs, detection, seed, windows, device, reporter)
    pictures = _files(images, lambda path: path.suffix.lower() in PICTURES, f"picture ({', '.join(PICTURES)})")
    drawings = [None] * len(pictures) if draw is None else drawing_files(pictures, draw)

    def predict(picture: Path, drawing: Path | None) -> dict[str, Any] | None:
        return _predict_picture(predictor, picture, drawing, skip_bad, reporter)

    results = []
    with reporter.bar("predict", len(pictures), "pictures") as bar, ThreadPoolExecutor(threads) as pool:
        for result in pool.map(predict, pictures, drawings):
            bar.step()
            results += [] if result is None else [result]
    json.dump(results, sys.stdout, indent=1)  # in ASCII, which carries any file name through any terminal
    sys.stdout.write("\n")


def _predict_picture(
    predictor: Predictor, path: Path, drawing: Path | None, skip_bad: bool, reporter: Reporter
) -> dict[str, Any] | None:
    """Return the JSON of one picture; None if it is unreadable and `skip_bad` is set."""
    try:
        pixels = read_image(path)
    except (ImageError, MissingError) as error:
        if not skip_bad:
            raise
        reporter.say(f"left out: {error}")
        return None
    detections = predictor(pixels)
    if drawing is not None:
        from .draw import draw_boxes

        draw_boxes(pixels, detections, drawing)
    height, width = pixels.shape[:2]
    return to_json(str(path), width, height, detections)


def _files(paths: Sequence[Path], accepts: Callable[[Path], bool], what: str) -> list[Path]:
    """Return the files in `paths`; of a folder, the accepted files sorted by name."""
    files: list[Path] = []
    for path in paths:
        inside = [file for file in sorted(path.iterdir()) if accepts(file)] if path.is_dir() else [path]
        if not inside:
            raise MissingError(f"folder {path} holds no {what}.")
        files += inside
    return files


def drawing_files(pictures: Sequence[Path], folder: Path) -> list[Path]:
    """Return the file of each drawing: the picture's name, numbered if it is not unique (cat.png, cat-2.png).

    Raises
    ------
    OptionError
        If the folder is a file, or a drawing would replace a picture, or a file that is no drawing of this program.
    """
    if folder.exists() and not folder.is_dir():
        raise OptionError(f"option --draw must name a folder, got the file {folder}.")
    drawings: dict[Path, None] = {}
    for picture in pictures:
        numbers = chain([""], (f"-{number}" for number in count(2)))
        names = (folder / f"{picture.stem}{number}.png" for number in numbers)
        drawings[next(name for name in names if name not in drawings)] = None
    originals = {picture.resolve() for picture in pictures}
    for drawing in drawings:
        if drawing.resolve() in originals:
            raise OptionError(f"picture {drawing} would be replaced by a drawing; choose another folder for --draw.")
        if os.path.lexists(drawing) and not is_drawing(drawing):
            raise OptionError(f"{drawing} is no drawing of lapsvm, so it is not replaced; choose another --draw.")
    return list(drawings)


def _open_predictor(
    files: Sequence[Path], specs: Sequence[str] | None, detection: Mapping[str, float], seed: int | None,
    windows: str | None, device: str, reporter: Reporter,
) -> Predictor:  # fmt: skip
    """Return the predictor of model files, having checked that they share their windows and features."""
    detectors = [Detector.load(path).whole for path in files]
    first = detectors[0]
    settings = _window_settings(first, files[0], windows)
    extractor = _open_extractor(first, files[0], specs, device)
    detect = [_detect_settings(*pair, detection, reporter) for pair in zip(detectors, files, strict=True)]
    shards = provenance_value(first, "shards")
    for detector in detectors:
        if provenance_value(detector, "shards") != shards:
            raise SettingsError(
                f"models {first.class_name!r} and {detector.class_name!r} were trained on different windows or "
                "features; predict with one of them at a time."
            )
    seed = provenance_value(first, "shards", "windows", "seed") if seed is None else seed
    return Predictor(detectors, extractor, settings, seed, detect)


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
    unreduced = {"proposal_side": MAX_NUMBER, "max_side": MAX_NUMBER}  # models of older versions
    recorded = unreduced | {name: windows[name] for name in names if name in windows}
    return WindowSettings(**recorded | ({"method": method, "mode": "fast"} if method else {}))


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


def _detect_settings(
    detector: Detector, file: Path, options: Mapping[str, float], reporter: Reporter
) -> DetectSettings:
    """Return the detection settings of a model file, `options` replacing some."""
    settings = recorded_detect_settings(detector, file)
    if settings is None:
        run = _run_of(file)
        settings = run.settings().detect
        if not run.settings_file.is_file():
            reporter.say(f"model {file} records no detection settings and is in no run folder: defaults are used")
    return check_detection(replace(settings, **options))


def _run_of(model: Path) -> RunFolder:
    """Return the run folder of a model file, which may not exist."""
    return RunFolder(model.resolve().parent.parent)


def _run_extractors(model: Path) -> tuple[str, ...]:
    """Return the --extractor values of the run folder of a model file."""
    run = _run_of(model)
    if not run.settings_file.is_file():
        raise MissingError(f"model {model} is in no run folder that names its extractor; name it with --extractor.")
    return run.settings().features.extractors
