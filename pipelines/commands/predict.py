"""Detections in new pictures from trained models."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lapsvm.catalog import PICTURE_SUFFIXES, read_picture
from lapsvm.detection import Detected, PictureVerdict, Predictor
from lapsvm.detection.model_sources import model_files
from lapsvm.detection.picture_scores import PROBABLE
from lapsvm.errors import ImageError, MissingError, OptionError
from lapsvm.files import is_system_name

from ..cli.answer import Outcome, print_json
from ..run.progress import Reporter
from ..run.settings import AUTO
from .draw import draw_boxes, drawn_boxes, is_drawing
from .heatmap import draw_best_class, draw_heatmap

if TYPE_CHECKING:
    from ..results.maps.objectness_maps import MapSource  # a tenth of a second, and few ask for heat maps

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


class PictureFile(NamedTuple):
    """A picture, and its place among the drawings: its path in the folder that was named, or its name."""

    path: Path
    place: Path


@dataclass(frozen=True)
class Predicted:
    """What is known of one picture: its entry in the output, the number of its drawn boxes, and what is said of it."""

    entry: dict[str, Any]
    drawn: int
    verdict: PictureVerdict | None = None


def predict_images(options: Mapping[str, Any], threads: int) -> Outcome:
    """Write the detections in pictures as JSON to standard output, if they are not to be part of the answer.

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
    pictures = picture_files(options["images"], reporter.say, draw)
    source = _standing_out(options, predictor, reporter) if has_heatmaps else None
    maps = ([HEATMAP] if has_heatmaps else []) + ([] if source is None else [OBJECTNESS])
    drawings = [None] * len(pictures) if draw is None else drawing_files(pictures, draw, maps)

    each = max(1, threads // max(1, len(pictures)))  # threads of a picture, where there are fewer pictures than threads

    def predict(picture: PictureFile, drawing: Drawing | None) -> Predicted | None:
        skip_bad = options["skip_unreadable"]
        return _predict_picture(predictor, picture.path, drawing, source, skip_bad, reporter, each)

    results: list[Predicted] = []
    with reporter.bar("predict", len(pictures), "pictures") as bar, ThreadPoolExecutor(threads) as pool:
        for result in pool.map(predict, pictures, drawings):
            bar.step()
            if result is not None:
                results.append(result)
                if result.verdict is not None:  # a threshold decides
                    reporter.say(f"{result.entry['image']}: {result.verdict}")
    if len(results) < len(pictures):
        reporter.warn(f"left out {len(pictures) - len(results)} of {len(pictures)} pictures, which cannot be read")
    if predictor.alarm is not None:
        ok = sum(result.verdict is not None and result.verdict.is_ok for result in results)
        rule = f"no class has a probability of at least {predictor.alarm.probability:.3g}"
        reporter.say(f"{ok:,} of {len(results):,} pictures are ok: {rule}")
    if draw is not None:
        reporter.say(_drawing_summary(results, predictor, draw, maps))
    entries = [result.entry for result in results]
    if not options["as_json"]:
        print_json(entries)
    return Outcome({} if draw is None else {"drawings": draw}, {"pictures": entries})


def _opened(options: Mapping[str, Any], reporter: Reporter) -> Predictor:
    """Open the models, each with the detection settings of its file but for those that are given; report warnings."""
    given = {"nms_threshold": options["nms"], "max_detections": options["max_boxes"]}
    given |= {name.removeprefix("detect."): value for name, value in options["assignments"].items()}
    with reporter.warnings():
        return Predictor.open(
            options["model"],
            extractor=None if AUTO in (options["specs"] or ()) else options["specs"],
            windows=options["method"],
            **{name: options[name] for name in ("seed", "device", "threshold")},
            **{name: value for name, value in given.items() if value is not None},
        )


def _standing_out(options: Mapping[str, Any], predictor: Predictor, reporter: Reporter) -> "MapSource | None":
    """Open what draws what stands out, if the models record it."""
    from ..results.maps.objectness_maps import open_recorded

    files = model_files(map(Path, options["model"]))
    return open_recorded(predictor.detectors, files, options["device"], reporter)


def _least(predictor: Predictor) -> float:
    """Return the least probability of a drawn box."""
    if predictor.threshold is not None:
        return predictor.threshold
    if predictor.alarm is None:
        return PROBABLE
    return 0.0 if predictor.alarm.pictures else predictor.alarm.probability  # whole pictures chose the boxes already


def _drawing_summary(results: Sequence[Predicted], predictor: Predictor, folder: Path, maps: Sequence[str]) -> str:
    """Return the line that says what was drawn, and by which rule."""
    boxes, shown = sum(result.drawn for result in results), sum(result.drawn > 0 for result in results)
    uncalibrated = [detector.class_name for detector in predictor.detectors if detector.calibration is None]
    is_chosen = predictor.threshold is None and predictor.alarm is not None and bool(predictor.alarm.pictures)
    probable = "an alarm of their class" if is_chosen else f"a probability of at least {_least(predictor):g}"
    rules = [probable] * (len(uncalibrated) < len(predictor.detectors))
    rules += ["at least half the best score of the picture"] if uncalibrated else []
    meanings = "".join(f"; {name.format('NAME')}: {MEANINGS[name]}" for name in maps)
    counts = f"{boxes} boxes in {shown} of {len(results)} pictures"
    return f"drawn into {folder}: {counts}, with {' or '.join(rules)}{meanings}"


def _predict_picture(
    predictor: Predictor,
    path: Path,
    drawing: Drawing | None,
    source: "MapSource | None",
    skip_bad: bool,
    reporter: Reporter,
    threads: int,
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
    scored = predictor.scored(pixels, threads)
    detected, verdict, boxes = scored.detections(), scored.verdict(), []
    if drawing is not None:
        boxes = drawn_boxes(detected, _least(predictor))
        draw_boxes(pixels, boxes, drawing.boxes)
        if drawing.heatmap is not None:
            draw_best_class(pixels, scored, drawing.heatmap)
        if drawing.objectness is not None and source is not None:
            draw_heatmap(pixels, source.map(pixels), "what stands out", drawing.objectness)
    height, width = pixels.shape[:2]
    said = {} if verdict is None else {"verdict": verdict.name, "probability": verdict.probability}
    entry = {"image": str(path), "width": width, "height": height, **said, **_boxes_entry(detected)}
    return Predicted(entry, len(boxes), verdict)


def _boxes_entry(detected: Mapping[str, Detected]) -> dict[str, Any]:
    """Return the JSON of the boxes of all classes, the highest score first."""
    entries = chain.from_iterable(_entries(name, of_class) for name, of_class in detected.items())
    return {"detections": sorted(entries, key=lambda entry: -entry["score"])}


def _entries(name: str, detections: Detected) -> Iterator[dict[str, Any]]:
    """Yield the boxes of one class, with probabilities where there are some."""
    for row, (score, box) in enumerate(zip(detections.scores.tolist(), detections.boxes.tolist(), strict=True)):
        share = {} if detections.probabilities is None else {"probability": float(detections.probabilities[row])}
        yield {"class": name, "score": score, **share, "box": box}


def picture_files(paths: Iterable[Path], say: Callable[[str], None], drawn: Path | None = None) -> list[PictureFile]:
    """Return the pictures of files, and of folders with all folders in them, those of a folder sorted by path.

    Parameters
    ----------
    paths : iterable of Path
    say : callable
        Is called with one line for each folder that holds something else, too.
    drawn : Path, optional
        The folder of drawings, which is passed over inside of another one.

    Raises
    ------
    MissingError
        If a folder has none.
    """
    files: list[PictureFile] = []
    for path in paths:
        if not path.is_dir():
            files.append(PictureFile(path, Path(path.name)))
            continue
        inside = sorted(_files_in(path, drawn), key=lambda file: file.relative_to(path).parts)
        pictures = [PictureFile(file, file.relative_to(path)) for file in inside if _is_picture(file)]
        if not pictures:
            raise MissingError(f"folder {path} holds no picture ({', '.join(PICTURE_SUFFIXES)}), nor do folders in it.")
        if len(pictures) < len(inside):
            say(f"folder {path}: {len(pictures)} pictures; left out: {len(inside) - len(pictures)} others")
        files += pictures
    return files


def _files_in(folder: Path, drawn: Path | None) -> Iterator[Path]:
    """Yield the files below a folder, each folder once, and the folders of the system without what is in them."""
    passed = {os.path.realpath(path) for path in [folder, *([] if drawn is None else [drawn])]}
    for directory, names, files in os.walk(folder, followlinks=True):
        here = Path(directory)
        yield from (here / name for name in files)
        yield from (here / name for name in names if is_system_name(name))
        new = {os.path.realpath(here / name): name for name in sorted(names, reverse=True) if not is_system_name(name)}
        names[:] = sorted(name for real, name in new.items() if real not in passed)
        passed |= new.keys()


def _is_picture(path: Path) -> bool:
    """Return whether a file of a folder is taken for a picture by its name."""
    return not is_system_name(path.name) and path.suffix.lower() in PICTURE_SUFFIXES and not path.is_dir()


def drawing_files(pictures: Sequence[PictureFile], folder: Path, maps: Sequence[str] = ()) -> list[Drawing]:
    """Return the files of each drawing: the picture's place, numbered if it is not unique (a/cat.png, a/cat-2.png).

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
        target, name = folder / picture.place.parent, picture.place.stem
        choices = (_drawing(target, f"{name}{number}", maps) for number in numbers)
        drawings.append(next(drawing for drawing in choices if taken.isdisjoint(drawing.files)))
        taken.update(drawings[-1].files)
    originals = {picture.path.resolve() for picture in pictures}
    for file in chain.from_iterable(drawing.files for drawing in drawings):
        if file.resolve() in originals:
            raise OptionError(f"picture {file} would be replaced by a drawing; choose another folder for --draw.")
        if os.path.lexists(file) and not is_drawing(file):
            raise OptionError(f"{file} is no drawing of lapsvm, so it is not replaced; choose another --draw.")
    return drawings


def _drawing(folder: Path, name: str, maps: Sequence[str]) -> Drawing:
    """Return the files of a drawing of this name."""
    return Drawing(folder / f"{name}.png", *(folder / pattern.format(name) for pattern in maps))
