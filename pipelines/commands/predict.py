"""Boxes for new pictures from trained models."""

import json
import os
import sys
from collections.abc import Mapping, Sequence
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
from ..run.progress import Reporter
from ..run.recipes import AUTO
from ..run.settings import FILE, IMPORTED, DetectSettings, WindowSettings
from ..shards.extractors import open_settings_extractor, with_network_settings
from ..shards.windows import window_boxes
from .draw import is_drawing

PICTURES = (".jpg", ".jpeg", ".png", ".bmp", ".tif", ".tiff", ".webp")


@dataclass(frozen=True)
class Predictor:
    """Models that share their features, ready for pictures."""

    detectors: Sequence[Detector]
    extractor: Extractor
    windows: WindowSettings
    seed: int
    detection: Sequence[DetectSettings]

    def __call__(self, pixels: Pixels) -> dict[str, tuple[Array, Float64]]:
        """Return class -> (boxes, scores)."""
        boxes = window_boxes(pixels, self.windows, self.seed)
        scores = score_many(self.detectors, self.extractor(pixels, boxes))
        return {
            detector.class_name: detect_windows(scores[:, column], boxes, own)
            for column, (detector, own) in enumerate(zip(self.detectors, self.detection, strict=True))
        }


def predict_images(
    models: Sequence[Path], images: Sequence[Path], *, draw: Path | None, extractor_specs: Sequence[str] | None,
    detection: Mapping[str, float], threads: int, seed: int | None, quiet: bool, skip_bad: bool,
    windows: str | None = None, device: str = "auto",
) -> None:  # fmt: skip
    """Write the boxes in some pictures as JSON to standard output.

    Parameters
    ----------
    models : sequence of Path
        Model files, or folders of them.
    images : sequence of Path
        Pictures, or folders of them.
    draw : Path or None
        Folder for pictures with boxes.
    extractor_specs : sequence of str or None
        None: the models' own.
    detection : mapping of str to number
        Fields of DetectSettings; the others are those that each model's file records, or those of the run that it
        lies in if it is of a version that records none.
    threads : int
    seed : int or None
        None: the models' own.
    quiet, skip_bad : bool
    windows : str or None
        A method of proposing windows; None: the models' own.
    device : "auto", "cpu" or "cuda"
        Where torch runs networks.

    Raises
    ------
    MissingError, ImageError, SettingsError
    """
    files = _model_files(models)
    detectors = [Detector.load(path).whole for path in files]
    window_settings = _window_settings(detectors[0], files[0], windows)
    extractor = _extractor(detectors, files, extractor_specs, device)
    reporter = Reporter(quiet)
    own = [_detection(*one, detection, reporter) for one in zip(detectors, files, strict=True)]
    predictor = _predictor(detectors, extractor, window_settings, seed, own)
    pictures = _picture_files(images)
    drawings = [None] * len(pictures) if draw is None else drawing_files(pictures, draw)
    results = []
    with reporter.bar("predict", len(pictures), "pictures") as bar, ThreadPoolExecutor(threads) as pool:
        for result in pool.map(
            lambda job: _one(predictor, *job, skip_bad, reporter), zip(pictures, drawings, strict=True)
        ):
            bar.step()
            results += [] if result is None else [result]
    json.dump(results, sys.stdout, indent=1)  # in ASCII, which carries any file name through any terminal
    sys.stdout.write("\n")


def _one(
    predictor: Predictor, path: Path, drawing: Path | None, skip_bad: bool, reporter: Reporter
) -> dict[str, Any] | None:
    """Return the JSON of one picture."""
    try:
        pixels = read_image(path)
    except (ImageError, MissingError) as error:
        if not skip_bad:
            raise
        reporter.say(f"left out: {error}")
        return None
    found = predictor(pixels)
    if drawing is not None:
        from .draw import draw_boxes

        draw_boxes(pixels, found, drawing)
    height, width = pixels.shape[:2]
    return to_json(str(path), width, height, found)


def _model_files(models: Sequence[Path]) -> list[Path]:
    """Return the model files, those of folders sorted by name."""
    files: list[Path] = []
    for path in models:
        inside = sorted(path.glob("*.safetensors")) if path.is_dir() else [path]
        if not inside:
            raise MissingError(f"folder {path} holds no model file (*.safetensors).")
        files += inside
    return files


def _picture_files(images: Sequence[Path]) -> list[Path]:
    """Return the pictures, those of folders sorted by name."""
    files: list[Path] = []
    for path in images:
        inside = (
            [file for file in sorted(path.iterdir()) if file.suffix.lower() in PICTURES] if path.is_dir() else [path]
        )
        if not inside:
            raise MissingError(f"folder {path} holds no picture ({', '.join(PICTURES)}).")
        files += inside
    return files


def drawing_files(pictures: Sequence[Path], folder: Path) -> list[Path]:
    """Return where each picture is drawn: under its own name, numbered where that is taken (one.png, one-2.png).

    Raises
    ------
    OptionError
        If the folder is a file, or a drawing would take the place of a picture, or of any file but a drawing.
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


def _predictor(
    detectors: Sequence[Detector], extractor: Extractor, windows: WindowSettings, seed: int | None,
    detection: Sequence[DetectSettings],
) -> Predictor:  # fmt: skip
    """Return the predictor, having checked that the models share their windows and features."""
    shards = [provenance_value(detector, "shards") for detector in detectors]
    for detector, other in zip(detectors, shards, strict=True):
        if other != shards[0]:
            raise SettingsError(
                f"models {detectors[0].class_name!r} and {detector.class_name!r} were trained on different windows or "
                "features; predict with one of them at a time."
            )
    own_seed = provenance_value(detectors[0], "shards", "windows", "seed") if seed is None else seed
    return Predictor(detectors, extractor, windows, own_seed, detection)


def _window_settings(detector: Detector, file: Path, method: str | None) -> WindowSettings:
    """Return how windows are proposed in new pictures: as for the model, or by another method.

    Raises
    ------
    SettingsError
        If the model's features, or its windows and there is no other method, come from files.
    """
    stored, own = (
        provenance_value(detector, "shards", "windows"),
        provenance_value(detector, "shards", "windows", "method"),
    )
    if own == IMPORTED:
        raise SettingsError(
            f"model {file} was trained on imported features, which nothing here can measure in new pictures; import "
            "theirs and run lapsvm detect."
        )
    known = {name: stored[name] for name in ("method", "mode", "max_windows", "max_area") if name in stored}
    if method is None and own == FILE:
        raise SettingsError(
            f"model {file} was trained on windows from a file, which has none of new pictures; name a method with "
            "--windows, such as selective_search."
        )
    return WindowSettings(**known | ({"method": method, "mode": "fast"} if method else {}))


def _extractor(
    detectors: Sequence[Detector], files: Sequence[Path], specs: Sequence[str] | None, device: str
) -> Extractor:
    """Return the extractor that the models were trained with; a network's own file is named in the run folder."""
    stored = provenance_value(detectors[0], "shards", "features", "extractor")
    wanted = stored.get("of", stored)  # a projection is part of the models' weights
    networks = provenance_value(detectors[0], "shards", "features", "networks")
    specs = None if AUTO in (specs or ()) else specs
    texts = tuple(specs) if specs else described_texts(wanted) or _own_specs(files[0])
    extractor = open_settings_extractor(with_network_settings(texts, networks), device, specs or ())
    difference = settings_difference(wanted, extractor.describe())
    if specs is None and difference:
        raise SettingsError(f"model {files[0]} was trained with {difference}; name its extractor with --extractor.")
    if extractor.dim != len(detectors[0].coef):
        raise InputError(
            f"the extractor must give the {len(detectors[0].coef)} features that the model was trained with, "
            f"got {extractor.dim}."
        )
    return extractor


def _detection(detector: Detector, file: Path, given: Mapping[str, float], reporter: Reporter) -> DetectSettings:
    """Return how a model detects: as its file records, but for what is given."""
    recorded = recorded_detect_settings(detector, file)
    if recorded is None:
        run = _run_of(file)
        recorded = run.settings().detect
        if not run.settings_file.is_file():
            reporter.say(f"model {file} does not record how it detects and lies in no run folder: defaults are used")
    return check_detection(replace(recorded, **given))


def _run_of(model: Path) -> RunFolder:
    """Return the run folder that a model lies in, if it does lie in one."""
    return RunFolder(model.resolve().parent.parent)


def _own_specs(model: Path) -> tuple[str, ...]:
    """Return the --extractor values of the run that a model lies in."""
    run = _run_of(model)
    if not run.settings_file.is_file():
        raise MissingError(
            f"model {model} does not lie in a run folder that names its extractor; name it with --extractor."
        )
    return run.settings().features.extractors
