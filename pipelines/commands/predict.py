"""Detections in new pictures from trained models."""

import json
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from typing import Any

from lapsvm.catalog import PICTURE_SUFFIXES, read_picture
from lapsvm.detection import Detected, Predictor
from lapsvm.detection.model_sources import model_files
from lapsvm.errors import ImageError, MissingError, OptionError, WriteError
from lapsvm.files import is_system_name

from ..run.progress import Reporter
from ..run.recipes import AUTO
from .draw import PROBABLE, draw_boxes, drawn_boxes, is_drawing
from .heatmap import draw_best_class, draw_heatmap
from .objectness_maps import MapSource, open_recorded

HEATMAP, OBJECTNESS = "{}.heatmap.png", "{}.objectness.png"
"""The names of the files with a score map and with what stands out, beside the one with boxes."""
MEANINGS = {HEATMAP: "where the most probable class scores", OBJECTNESS: "what stands out"}


@dataclass(frozen=True)
class Drawing:
    """The files that are drawn of one picture: that with boxes, and those with maps, if there are any."""

    boxes: Path
    heatmap: Path | None = None
    objectness: Path | None = None

    @property
    def files(self) -> list[Path]:
        """The files, one to three."""
        return [file for file in (self.boxes, self.heatmap, self.objectness) if file is not None]


@dataclass(frozen=True)
class Predicted:
    """What is known of one picture: its entry in the output, and the number of its drawn boxes."""

    entry: dict[str, Any]
    drawn: int


def predict_images(options: Mapping[str, Any], threads: int) -> None:
    """Write the detections in pictures as JSON to standard output.

    Parameters
    ----------
    options : mapping
        Of the verb ``predict``. With ``--extractor auto`` the extractors are those of the models.
    threads : int

    Raises
    ------
    MissingError, ImageError, SettingsError
    OptionError
        If there are to be heat maps but no folder for them, or a drawing has no place.
    """
    reporter, draw, has_heatmaps = Reporter(options["quiet"]), options["draw"], options["heatmap"]
    if has_heatmaps and draw is None:
        raise OptionError("option --heatmap needs --draw DIR, the folder for drawn pictures.")
    predictor = _opened(options, reporter)
    pictures = picture_files(options["images"], reporter.say)
    source = _standing_out(options, predictor, reporter) if has_heatmaps else None
    maps = ([HEATMAP] if has_heatmaps else []) + ([] if source is None else [OBJECTNESS])
    drawings = [None] * len(pictures) if draw is None else drawing_files(pictures, draw, maps)

    def predict(picture: Path, drawing: Drawing | None) -> Predicted | None:
        return _predict_picture(predictor, picture, drawing, source, options["skip_unreadable"], reporter)

    results: list[Predicted] = []
    with reporter.bar("predict", len(pictures), "pictures") as bar, ThreadPoolExecutor(threads) as pool:
        for result in pool.map(predict, pictures, drawings):
            bar.step()
            results += [] if result is None else [result]
    if len(results) < len(pictures):
        reporter.warn(f"left out {len(pictures) - len(results)} of {len(pictures)} pictures, which cannot be read")
    if draw is not None:
        reporter.say(_drawing_summary(results, predictor, draw, maps))
    _print_json([one.entry for one in results])


def _opened(options: Mapping[str, Any], reporter: Reporter) -> Predictor:
    """Open the models, each with the detection settings of its file but for those that are given; report warnings."""
    given = {"nms_threshold": options["nms"], "max_detections": options["max_boxes"]}
    given |= {name.removeprefix("detect."): value for name, value in options["assignments"].items()}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        predictor = Predictor.open(
            options["model"],
            extractor=None if AUTO in (options["specs"] or ()) else options["specs"],
            windows=options["method"],
            **{name: options[name] for name in ("seed", "device", "threshold")},
            **{name: value for name, value in given.items() if value is not None},
        )
    for warning in caught:
        if warning.category is UserWarning:
            reporter.warn(str(warning.message))
    return predictor


def _standing_out(options: Mapping[str, Any], predictor: Predictor, reporter: Reporter) -> MapSource | None:
    """Open what draws what stands out, if the models record it."""
    files = model_files(map(Path, options["model"]))
    return open_recorded(predictor.detectors, files, options["device"], reporter)


def _least(predictor: Predictor) -> float:
    """Return the least probability of a drawn box."""
    return PROBABLE if predictor.threshold is None else predictor.threshold


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
        print(json.dumps(entries, indent=1), flush=True)  # noqa: T201
    except BrokenPipeError:
        raise
    except OSError as error:
        raise WriteError(f"standard output cannot be written: {error.strerror}.") from None


def _drawing_summary(results: Sequence[Predicted], predictor: Predictor, folder: Path, maps: Sequence[str]) -> str:
    """Return the line that says what was drawn, and by which rule."""
    boxes, shown = sum(one.drawn for one in results), sum(one.drawn > 0 for one in results)
    uncalibrated = [detector.class_name for detector in predictor.detectors if detector.calibration is None]
    rules = [f"a probability of at least {_least(predictor):g}"] * (len(uncalibrated) < len(predictor.detectors))
    rules += ["at least half the best score of the picture"] if uncalibrated else []
    meanings = "".join(f"; {name.format('NAME')}: {MEANINGS[name]}" for name in maps)
    counts = f"{boxes} boxes in {shown} of {len(results)} pictures"
    return f"drawn into {folder}: {counts}, with {' or '.join(rules)}{meanings}"


def _predict_picture(
    predictor: Predictor,
    path: Path,
    drawing: Drawing | None,
    source: MapSource | None,
    skip_bad: bool,
    reporter: Reporter,
) -> Predicted | None:
    """Return what is known of one picture; None if it is unreadable and `skip_bad` is set."""
    try:
        picture = read_picture(path)
    except (ImageError, MissingError) as error:
        if not skip_bad:
            raise type(error)(f"{str(error).rstrip('.')}; --skip-bad leaves such pictures out.") from None
        reporter.say(f"left out: {error}")
        return None
    if picture.nothing is not None:
        reporter.warn(f"picture {path}: {picture.nothing.reason}; {picture.nothing.remedy}")
    pixels = picture.pixels
    scored = predictor.scored(pixels)
    detected, boxes = scored.detections(), []
    if drawing is not None:
        boxes = drawn_boxes(detected, _least(predictor))
        draw_boxes(pixels, boxes, drawing.boxes)
        if drawing.heatmap is not None:
            draw_best_class(pixels, scored, drawing.heatmap)
        if drawing.objectness is not None and source is not None:
            draw_heatmap(pixels, source.map(pixels), "what stands out", drawing.objectness)
    height, width = pixels.shape[:2]
    return Predicted(_entry(path, width, height, detected), len(boxes))


def _entry(path: Path, width: int, height: int, detected: Mapping[str, Detected]) -> dict[str, Any]:
    """Return the JSON of one picture: the boxes of all classes, the highest score first."""
    found = [entry for name, of_class in detected.items() for entry in _entries(name, of_class)]
    found.sort(key=lambda entry: -entry["score"])
    return {"image": str(path), "width": width, "height": height, "detections": found}


def _entries(name: str, found: Detected) -> Iterator[dict[str, Any]]:
    """Yield the boxes of one class, with probabilities where there are some."""
    for row, (score, box) in enumerate(zip(found.scores.tolist(), found.boxes.tolist(), strict=True)):
        share = {} if found.probabilities is None else {"probability": float(found.probabilities[row])}
        yield {"class": name, "score": score, **share, "box": box}


def picture_files(paths: Iterable[Path], say: Callable[[str], None]) -> list[Path]:
    """Return the pictures of files and folders, those of a folder sorted by name.

    Parameters
    ----------
    paths : iterable of Path
    say : callable
        Is called with one line for each folder that holds something else, too.

    Raises
    ------
    MissingError
        If a folder has none.
    """
    files: list[Path] = []
    for path in paths:
        inside = sorted(path.iterdir()) if path.is_dir() else [path]
        pictures = [file for file in inside if not path.is_dir() or _is_picture(file)]
        if not pictures:
            raise MissingError(f"folder {path} holds no picture ({', '.join(PICTURE_SUFFIXES)}).")
        if len(pictures) < len(inside):
            say(f"folder {path}: {len(pictures)} pictures; left out: {len(inside) - len(pictures)} others")
        files += pictures
    return files


def _is_picture(path: Path) -> bool:
    """Return whether a file of a folder is taken for a picture by its name."""
    return not is_system_name(path.name) and path.suffix.lower() in PICTURE_SUFFIXES and not path.is_dir()


def drawing_files(pictures: Sequence[Path], folder: Path, maps: Sequence[str] = ()) -> list[Drawing]:
    """Return the files of each drawing: the picture's name, numbered if it is not unique (cat.png, cat-2.png).

    `maps` are the names of the maps beside it: none, HEATMAP, or HEATMAP and OBJECTNESS.

    Raises
    ------
    OptionError
        If the folder is a file, or a drawing would replace a picture, or a file that is no drawing of this program.
    """
    if folder.exists() and not folder.is_dir():
        raise OptionError(f"option --draw must name a folder, got the file {folder}.")
    drawings: list[Drawing] = []
    taken: set[Path] = set()
    for picture in pictures:
        numbers = chain([""], (f"-{number}" for number in count(2)))
        choices = (_drawing(folder, f"{picture.stem}{number}", maps) for number in numbers)
        drawings.append(next(drawing for drawing in choices if taken.isdisjoint(drawing.files)))
        taken.update(drawings[-1].files)
    originals = {picture.resolve() for picture in pictures}
    for file in chain.from_iterable(drawing.files for drawing in drawings):
        if file.resolve() in originals:
            raise OptionError(f"picture {file} would be replaced by a drawing; choose another folder for --draw.")
        if os.path.lexists(file) and not is_drawing(file):
            raise OptionError(f"{file} is no drawing of lapsvm, so it is not replaced; choose another --draw.")
    return drawings


def _drawing(folder: Path, name: str, maps: Sequence[str]) -> Drawing:
    """Return the files of a drawing of this name."""
    return Drawing(folder / f"{name}.png", *(folder / pattern.format(name) for pattern in maps))
