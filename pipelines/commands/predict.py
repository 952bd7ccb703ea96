"""`lapsvm predict`: detections in new pictures from trained models."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lapsvm.errors import ImageError, LapsvmError, MissingError, OptionError, WriteError, naming
from lapsvm.inspection.shown import Shown
from lapsvm.settings import AUTO, COUNT_FROM_1, SHARE

from ..cli.answer import Outcome, give, print_json
from ..cli.application import check_device
from ..cli.parameters import add_verb
from ..cli.parsing import thread_count
from ..settings.option import REQUIRED, Option
from ..settings.options import REPEATED, panel

if TYPE_CHECKING:
    from lapsvm.arrays import Float32
    from lapsvm.detection import Decision, Detected, Predictor
    from lapsvm.detection.scored_picture import ScoredPicture
    from lapsvm.pictures.reading import Picture, Pixels

    from ..figures.maps.objectness_maps import MapSource
    from ..run.progress import Reporter
    from .drawing.boxes import DrawnBox
    from .drawing.files import Drawing, PictureFile


Unreadable = ImageError | MissingError


class Predicted(NamedTuple):
    """The result for one picture: its JSON entry, number of drawn boxes, decision, and why it is not drawn."""

    entry: dict[str, Any]
    drawn: int
    decision: "Decision | None" = None
    not_drawn: str = ""


@add_verb(
    "predict",
    *panel("Detection", Option("max_boxes", "--max-detections", int, "The number of detections per picture and class.",
                               rule=COUNT_FROM_1, default=10)),
    *panel(
        "Prediction",
        Option("images", "", Path, "Pictures, or folders with pictures at any depth.", several=REPEATED,
               default=REQUIRED),
        Option("model", "--model", Path, "A run folder, a model file, or a folder of them.", several=REPEATED,
               default=REQUIRED),
        Option("threshold", "--threshold", float, f"The least probability of a box; {Shown.HELP}.", rule=SHARE),
        Option("draw", "--draw", Path, "The folder for pictures with boxes: those of at least the threshold, or 0.5."),
        Option("heatmap", "--heatmap", bool, "Beside each drawing NAME.heatmap.png: where the most probable class "
               "scores; and NAME.objectness.png: what stands out, where the models record what measured it.",
               default=False),
        Option("method", "--windows", str, "The method that proposes windows, in place of the model's."),
        Option("specs", "--extractor", str, "The extractor, in place of the model's.", several=REPEATED),
        Option("skip_unreadable", "--skip-bad", bool, "Leave out pictures that cannot be read.", default=False),
    ),
)  # fmt: skip
def predict(options: dict[str, Any]) -> Outcome:
    """Boxes for pictures, as JSON on standard output.

    Every model detects as its file records, but for the options that are given.

    Example: lapsvm predict --model RUN photo.jpg --draw drawn
    """
    from concurrent.futures import ThreadPoolExecutor

    from ..run.progress import Reporter
    from .drawing.files import HEATMAP, OBJECTNESS, drawing_files, picture_files

    check_device(options["device"])
    reporter, draw, has_heatmaps = Reporter(options["quiet"]), options["draw"], options["heatmap"]
    if has_heatmaps and draw is None:
        raise OptionError("option --heatmap needs --draw DIR, the folder for drawn pictures.")
    predictor = _opened(options, reporter)
    pictures = picture_files(options["images"], reporter.say, draw)
    source = _standing_out(options, predictor, reporter) if has_heatmaps else None
    maps = ([HEATMAP] if has_heatmaps else []) + ([] if source is None else [OBJECTNESS])
    drawings = [None] * len(pictures) if draw is None else drawing_files(pictures, draw, maps)
    threads, skip_bad = thread_count(options), options["skip_unreadable"]
    each = max(1, threads // max(1, len(pictures)))  # threads of a picture, where there are fewer pictures than threads

    def predict_picture(picture: "PictureFile", drawing: "Drawing | None") -> Predicted | Unreadable:
        return _predict_picture(predictor, picture.path, drawing, source, skip_bad, reporter, each)

    results: list[Predicted] = []
    left_out: dict[str, str] = {}
    with reporter.bar("predict", len(pictures), "pictures") as bar, ThreadPoolExecutor(threads) as pool:
        for picture, result in zip(pictures, pool.map(predict_picture, pictures, drawings), strict=True):
            bar.step()
            if not isinstance(result, Predicted):
                left_out[str(picture.path)] = str(result)
                continue
            results.append(result)
            if result.decision is not None:  # by a stored threshold
                reporter.say(f"{result.entry['image']}: {result.decision}")
    if len(results) < len(pictures):
        reporter.warn(f"left out {len(pictures) - len(results)} of {len(pictures)} pictures, which cannot be read")
    alarm = predictor.shown.alarm
    if alarm is not None:
        ok = sum(result.decision is not None and result.decision.is_ok for result in results)
        rules = [f"no class has a probability of at least {alarm.probability:.3g}"] * bool(predictor.detectors)
        rules += [] if predictor.good is None else ["they are like good pictures"]
        reporter.say(f"{ok:,} of {len(results):,} pictures are ok: {', and '.join(rules)}")
    if draw is not None:
        reporter.say(_drawing_summary(results, predictor, draw, maps))
    entries = [result.entry for result in results]
    if not options["as_json"]:
        print_json(entries)
    outcome = Outcome({} if draw is None else {"drawings": draw}, {"pictures": entries, "left_out": left_out})
    _check_drawn(results, outcome)
    return outcome


def _check_drawn(results: Sequence[Predicted], outcome: Outcome) -> None:
    """Raise WriteError, behind the answer to a program, if a picture could not be drawn: what was found is there."""
    if failures := [result.not_drawn for result in results if result.not_drawn]:
        give(outcome)
        rule = f"{len(failures)} of {len(results)} pictures could not be drawn"
        raise WriteError(f"{rule}, the first because {failures[0]}")


def _opened(options: Mapping[str, Any], reporter: "Reporter") -> "Predictor":
    """Open the models, each with the detection settings of its file but for those that are given; report warnings."""
    from lapsvm.detection import Predictor

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


def _standing_out(options: Mapping[str, Any], predictor: "Predictor", reporter: "Reporter") -> "MapSource | None":
    """Open the source of objectness maps that the models record, if they do."""
    from lapsvm.detection.model_sources import model_files

    from ..figures.maps.objectness_maps import open_recorded

    if not predictor.detectors:
        return None
    files = model_files(map(Path, options["model"]))
    return open_recorded(predictor.detectors, files, options["device"], reporter)


def _drawing_summary(results: Sequence[Predicted], predictor: "Predictor", folder: Path, maps: Sequence[str]) -> str:
    """Return the line that says what was drawn, and by which rule."""
    from .drawing.files import HEATMAP, OBJECTNESS

    boxes, shown = sum(result.drawn for result in results), sum(result.drawn > 0 for result in results)
    uncalibrated = [detector.class_name for detector in predictor.detectors if detector.calibration is None]
    rules = [predictor.shown.sentence] * (len(uncalibrated) < len(predictor.detectors))
    rules += ["at least half the best score of the picture"] if uncalibrated else []
    unlike = ["what is unlike good pictures"] * (predictor.good is not None)
    scores = ["where the most probable class scores"] * bool(predictor.detectors)
    shows = {HEATMAP: ", or ".join(scores + unlike), OBJECTNESS: "what stands out"}
    meanings = "".join(f"; {name.format('NAME')}: {shows[name]}" for name in maps)
    counts = f"{boxes} boxes in {shown} of {len(results)} pictures"
    chosen = f", with {' or '.join(rules)}" if rules else ""
    return f"drawn into {folder}: {counts}{chosen}{meanings}"


def _predict_picture(
    predictor: "Predictor",
    path: Path,
    drawing: "Drawing | None",
    source: "MapSource | None",
    skip_bad: bool,
    reporter: "Reporter",
    threads: int,
) -> Predicted | Unreadable:
    """Return the result for one picture; the reason why it cannot be read if `skip_bad` is set."""
    from lapsvm.catalog import read_picture

    from .drawing.boxes import drawn_boxes, unlike_boxes

    try:
        picture = read_picture(path)
    except (ImageError, MissingError) as error:
        if not skip_bad:
            raise type(error)(f"{str(error).rstrip('.')}; --skip-bad leaves such pictures out.") from None
        reporter.say(f"left out: {error}")
        return error
    warning = _warning(picture)
    for sentence in warning.values():
        reporter.warn(f"picture {path}: {sentence}")
    pixels = picture.pixels
    with naming(f"picture {path}"):
        scored = predictor.scored(pixels, threads)
        standing_out = source.map(pixels) if source is not None and drawing is not None else None
    detected, decision = scored.detections(), scored.decision()
    n_drawn, not_drawn = 0, ""
    if drawing is not None:
        boxes = drawn_boxes(detected, predictor.shown.least) + unlike_boxes(decision)
        not_drawn = _not_drawn(drawing, pixels, boxes, scored, standing_out)
        n_drawn = 0 if not_drawn else len(boxes)
    height, width = pixels.shape[:2]
    decided = {} if decision is None else decision.as_json()
    entries = chain.from_iterable(_entries(name, of_class) for name, of_class in detected.items())
    best_first = sorted(entries, key=lambda entry: -entry["score"])
    entry = {"image": str(path), "width": width, "height": height, **warning, **decided, "detections": best_first}
    return Predicted(entry, n_drawn, decision, not_drawn)


def _not_drawn(
    drawing: "Drawing", pixels: "Pixels", boxes: "Sequence[DrawnBox]", scored: "ScoredPicture",
    standing_out: "Float32 | None",
) -> str:  # fmt: skip
    """Draw a picture; return why its files could not be written, "" if they were."""
    from .drawing.boxes import draw_boxes
    from .drawing.heatmap import draw_best_class, draw_heatmap

    try:
        draw_boxes(pixels, boxes, drawing.boxes)
        if drawing.heatmap is not None:
            draw_best_class(pixels, scored, drawing.heatmap)
        if drawing.objectness is not None and standing_out is not None:
            draw_heatmap(pixels, standing_out, "what stands out", drawing.objectness)
    except (OSError, MemoryError) as error:
        reason = getattr(error, "strerror", None) or "memory is not enough"
        return str(error) if isinstance(error, LapsvmError) else f"{drawing.boxes}: {reason}."
    return ""


def _warning(picture: "Picture") -> dict[str, str]:
    """Return, as "warning", why a picture shows nothing; empty if it may show something."""
    from lapsvm.pictures.nothing import Nothing

    if picture.nothing is None:
        return {}
    is_plain = picture.nothing is Nothing.PLAIN
    remedy = "no class is found in it, whatever it is of" if is_plain else picture.nothing.remedy
    return {"warning": f"{picture.nothing.reason}; {remedy}"}


def _entries(name: str, detections: "Detected") -> Iterator[dict[str, Any]]:
    """Yield the boxes of one class, with probabilities where there are some."""
    for row, (score, box) in enumerate(zip(detections.scores.tolist(), detections.boxes.tolist(), strict=True)):
        share = {} if detections.probabilities is None else {"probability": float(detections.probabilities[row])}
        yield {"class": name, "score": score, **share, "box": box}
