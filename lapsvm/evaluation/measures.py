"""The measures of a run: one table that every reader and printer of figures asks.

A row has the key of a measure in `evaluation.json`, its title and one sentence for the reader, how it is computed and
drawn, in which tables it stands, and what it has seen of the label of its own picture. The order of the rows is the
order of every table. A new measure is one row and the function that it names.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lapsvm.arrays import Float64
from lapsvm.evaluation.average_precision import image_auroc, image_average_precision
from lapsvm.evaluation.figure import Draws, Figure, ranking_figure, share_figure
from lapsvm.evaluation.measured import MeasuredClass, Ranking
from lapsvm.evaluation.paired import image_ap_draws, image_auroc_draws
from lapsvm.evaluation.tables import AP_11POINT, AP_AREA, COCO_MEASURES, CORLOC, NPOS, POINTING


class Pictures(StrEnum):
    """The pictures of a figure.

    TEST are those of a set that no training saw. HELD_OUT are training pictures, each by a model of other folds.
    TRAINING are those that the detectors were trained with (trainval by default), also called in-sample.
    """

    TEST = "test"
    HELD_OUT = "held out"
    TRAINING = "training"


class Seen(StrEnum):
    """Whether a figure has seen the label of its own picture.

    CONSTANTS: a few numbers were chosen or fitted by all labels, such as C by cross-validation, the scale of a fold's
    scores, a map of probabilities; the weights were not.
    """

    NO = "no"
    CONSTANTS = "constants"
    YES = "yes"


class Per(StrEnum):
    """What a measure judges."""

    PICTURE = "picture"
    BOX = "box"
    OBJECT = "object"
    PIXEL = "pixel"


class Shown(StrEnum):
    """The tables in which a measure stands.

    FIGURES: that of a set, on the terminal, the card and the page. TOP: what the page says first. DEFECTS: good and
    defective pictures, ORDER: a reason for that table. FIT: how well boxes and windows fit. COCO: COCO's figures.
    CURVE: beside the curves of precision. PROBABILITIES: errors of probabilities.
    """

    FIGURES = "figures"
    TOP = "top"
    DEFECTS = "defects"
    ORDER = "order"
    FIT = "fit"
    COCO = "coco"
    CURVE = "curve"
    PROBABILITIES = "probabilities"


MEANING = {
    Pictures.TEST: "",
    Pictures.HELD_OUT: "each picture by a model that did not see it",
    Pictures.TRAINING: "the detectors were trained with these pictures",
}
"""What kind of model a figure is of, by its pictures."""


_ALL = (Shown.FIGURES, Shown.TOP, Shown.DEFECTS)


@dataclass(frozen=True)
class Measure:
    """A measure of one class in some pictures.

    Attributes
    ----------
    key : str
        In files.
    title : str
        Above columns, and in sentences.
    sentence : str
        What it is: a noun phrase for the page and the glossary.
    per : Per
    source : callable of a MeasuredClass
        What the measure is computed from; None if that is not known.
    value : callable of the source
        The value; None if it is undefined.
    draw : callable of the source and Draws, or None
        The figure with its values on every draw; None for a measure without an interval.
    shown : tuple of Shown
    is_share : bool
        Whether the page's top shows it as per cent.
    is_count : bool
        Counts have no mean.
    test, held_out, training : Seen
    """

    key: str
    title: str
    sentence: str
    per: Per
    source: Callable[[MeasuredClass], Any]
    value: Callable[[Any], float | int | None] = attrgetter("value")
    draw: Callable[[Any, Draws], Figure] | None = None
    shown: tuple[Shown, ...] = (Shown.FIGURES,)
    is_share: bool = False
    is_count: bool = False
    test: Seen = Seen.NO
    held_out: Seen = Seen.CONSTANTS
    training: Seen = Seen.YES

    @property
    def heading(self) -> str:
        """The title with a capital letter, for the page."""
        return self.title[0].upper() + self.title[1:]

    @property
    def definition(self) -> str:
        """The title and the sentence, for the page."""
        return f"{self.heading}: {self.sentence}."

    @property
    def counts_hits(self) -> bool:
        """Whether the measure is a share of hits among pictures, whose interval is exact."""
        return self.draw is share_figure

    def seen(self, pictures: Pictures) -> Seen:
        """Return whether the figure of some pictures has seen their labels."""
        return {
            Pictures.TEST: self.test,
            Pictures.HELD_OUT: self.held_out,
            Pictures.TRAINING: self.training,
        }[pictures]

    def figure(self, of_class: MeasuredClass, draws: Draws | None = None) -> Figure | None:
        """Return the figure of a class, with an interval if there are draws; None if nothing is known for it."""
        source = self.source(of_class)
        if source is None:
            return None
        return Figure(self.value(source)) if draws is None or self.draw is None else self.draw(source, draws)


def image_ap(scores: ArrayLike, labels: ArrayLike) -> float | None:
    """Return the image-level average precision; None where no picture lacks the class: every order is perfect then."""
    return image_average_precision(scores, labels) if (np.asarray(labels) < 0).any() else None


RankingValue = Callable[[ArrayLike, ArrayLike], float | None]
"""(scores, labels) -> value; None if it is undefined."""
RankingDraws = Callable[[ArrayLike, ArrayLike, ArrayLike], Float64]
"""(scores, labels, counts of each draw) -> values on the draws, NaN where undefined."""


def ranked(
    key: str,
    title: str,
    sentence: str,
    value: RankingValue,
    draw: RankingDraws | None = None,
    units: float = 1.0,
    **more: Any,
) -> Measure:
    """Return a measure of the order of pictures.

    Parameters
    ----------
    key, title, sentence : str
    value : callable
    draw : callable, optional
        By default the value is computed anew on the pictures of each draw.
    units : float, default 1
        See `ranking_figure`.
    **more
        Further attributes of `Measure`.
    """
    known: dict[str, Any] = {"source": attrgetter("ranking"), "shown": _ALL, **more}
    value_of, draw_of = partial(_ranking_value, value), partial(_ranking_draws, value, draw or _resampled(value), units)
    return Measure(key, title, sentence, Per.PICTURE, value=value_of, draw=draw_of, **known)


def _sorted_ranking(of_class: MeasuredClass) -> Ranking | None:
    return of_class.ranking if of_class.has_none else None


def _ranking_value(value: RankingValue, ranking: Ranking) -> float | None:
    return value(ranking.scores, ranking.labels)


def _ranking_draws(value: RankingValue, draw: RankingDraws, units: float, ranking: Ranking, draws: Draws) -> Figure:
    known, drawn = _ranking_value(value, ranking), draws.of_pictures(ranking.ids)
    return ranking_figure(known, ranking.scores, ranking.labels, drawn, draw, units)


def _resampled(value: RankingValue) -> RankingDraws:
    """Return the function that computes a value on the pictures of each draw."""

    def draw(scores: ArrayLike, labels: ArrayLike, counts: ArrayLike) -> Float64:
        repeated = [(np.repeat(scores, times), np.repeat(labels, times)) for times in np.asarray(counts)]
        return np.array([value(*pictures) for pictures in repeated], np.float64)  # None is NaN

    return draw


def _hits(
    key: str, title: str, sentence: str, source: Callable[[MeasuredClass], Any], *shown: Shown, is_drawn: bool = True,
    per: Per = Per.BOX,
) -> Measure:  # fmt: skip
    """Return a measure that is a share of hits among pictures with the class."""
    draw = share_figure if is_drawn else None
    return Measure(key, title, sentence, per, source, attrgetter("share"), draw, shown, is_share=True)


def _joint(key: str, title: str, sentence: str, *shown: Shown, per: Per = Per.BOX, is_count: bool = False) -> Measure:
    """Return a measure that is computed together with others, and found by its key."""
    return Measure(
        key, title, sentence, per, lambda of_class: of_class.joint.get(key), draw=None if is_count else _as_it_is,
        shown=shown, is_count=is_count,
    )  # fmt: skip


def _as_it_is(figure: Figure, _: Draws) -> Figure:
    return figure


def _right_boxes(iou: float) -> Callable[[MeasuredClass], Any]:
    return lambda of_class: of_class.corloc.get(iou)


def _of_windows(key: str, title: str, sentence: str, value: Callable[[Float64], float]) -> Measure:
    """Return a measure of the largest overlaps of objects with windows."""
    return Measure(
        key, title, sentence, Per.OBJECT, attrgetter("overlaps"),
        lambda overlaps: value(overlaps) if len(overlaps) else None, shown=(Shown.FIT,),
    )  # fmt: skip


def _errors(key: str, title: str, sentence: str) -> Measure:
    """Return an error of the probabilities of held-out pictures."""
    return Measure(
        key, title, sentence, Per.PICTURE, attrgetter("held_out"),
        lambda held_out: getattr(held_out.errors, key, None), shown=(Shown.FIGURES, Shown.PROBABILITIES),
    )  # fmt: skip


IMAGE_AP_UNITS, AUROC_UNITS = 1.5, 2.0
_COCO_SIZES = ("small", "of up to 32^2 pixels"), ("medium", "of up to 96^2 pixels"), ("large", "of more pixels")
_COCO_TITLES = (
    ("COCO AP", "average precision over IoU .5 to .95"),
    ("AP50", "COCO's AP at IoU .5"),
    ("AP75", "COCO's AP at IoU .75"),
    *((f"AP {size}", f"COCO AP of objects {sentence}") for size, sentence in _COCO_SIZES),
    ("AR1", "average recall with 1 box a picture"),
    ("AR10", "average recall with 10 boxes a picture"),
    ("AR100", "average recall with 100 boxes a picture"),
    *((f"AR {size}", f"AR100 of objects {sentence}") for size, sentence in _COCO_SIZES),
)
"""Of `COCO_MEASURES`."""
_COCO_FIRST = ("COCO AP", "AP50", "AP75", "AR100")
"""Those that stand beside the other figures of a set."""
_ROWS = (
    _joint(AP_11POINT, "AP 11-point", "average precision of boxes, the mean precision at 11 recalls (VOC 2007)",
           Shown.FIGURES, Shown.CURVE),
    _joint(AP_AREA, "AP area", "average precision of boxes, the area under precision over recall (VOC 2010)",
           Shown.FIGURES, Shown.TOP, Shown.CURVE),
    _joint(NPOS, "objects", "number of objects that are not marked difficult", Shown.FIGURES, per=Per.OBJECT,
           is_count=True),
    _hits(CORLOC, "CorLoc", "share of best boxes that overlap an object by more than half (IoU above .5)",
          _right_boxes(0.5), Shown.FIGURES, Shown.TOP, Shown.FIT),
    _hits(POINTING, "pointing", "share of best boxes with their centre in an object, however well they fit",
          attrgetter("pointing"), *_ALL),
    ranked("image_ap", "image AP", "average precision of whole pictures, each scored by its best box", image_ap,
           image_ap_draws, IMAGE_AP_UNITS),
    ranked("image_auroc", "image AUROC", "share of pairs of a picture with and one without the class that are in the "
           "right order; .5 is chance", image_auroc, image_auroc_draws, AUROC_UNITS, source=_sorted_ranking,
           shown=(*_ALL, Shown.ORDER), is_share=True),
    Measure("chance", "chance", "image AP of a random order", Per.PICTURE, attrgetter("held_out"),
            attrgetter("chance"), held_out=Seen.NO, training=Seen.NO),
    _errors("ece", "ECE", "mean distance of a probability from the share of pictures with the class (expected "
            "calibration error)"),
    _errors("brier", "Brier", "mean squared error of the probability that a picture shows the class (Brier score)"),
    _hits("corloc_30", "CorLoc at .3", "CorLoc for an overlap above .3", _right_boxes(0.3), Shown.FIT, is_drawn=False),
    _hits("corloc_70", "CorLoc at .7", "CorLoc for an overlap above .7", _right_boxes(0.7), Shown.FIT, is_drawn=False),
    *(_joint(key, title, sentence, Shown.COCO, *([Shown.FIGURES] if title in _COCO_FIRST else []))
      for key, (title, sentence) in zip(COCO_MEASURES, _COCO_TITLES, strict=True)),
    Measure("pixel_auroc", "pixel AUROC", "share of pairs of a pixel in and one outside of a mask that a score map has "
            "in the right order", Per.PIXEL, attrgetter("pixels"), attrgetter("auroc"),
            shown=(Shown.FIGURES, Shown.DEFECTS)),
    Measure("pro", "PRO", "share of a region's pixels that a score map finds, each region counted the same (per-region "
            "overlap)", Per.PIXEL, attrgetter("pixels"), attrgetter("pro"), shown=(Shown.FIGURES, Shown.DEFECTS)),
    _hits("map_pointing", "map pointing", "share of score maps that are largest in the mask of an object",
          attrgetter("map_pointing"), *_ALL, per=Per.PIXEL),
    _of_windows("abo", "best overlap of windows", "largest overlap of an object with a window, on average; its mean "
                "over the classes is MABO", lambda overlaps: float(overlaps.mean())),
    _of_windows("recall_50", "window recall at .5", "share of objects with a window of IoU .5 or more",
                lambda overlaps: float((overlaps >= 0.5).mean())),
    _of_windows("recall_70", "window recall at .7", "share of objects with a window of IoU .7 or more",
                lambda overlaps: float((overlaps >= 0.7).mean())),
)  # fmt: skip
MEASURES = {measure.key: measure for measure in _ROWS}
"""The measures by their keys, in the order of every table."""


def shown_in(table: Shown) -> list[Measure]:
    """Return the measures of a table, in order."""
    return [measure for measure in MEASURES.values() if table in measure.shown]


def seen_note(measures: Iterable[Measure], pictures: Pictures) -> str:
    """Return in one line whether figures of some pictures have seen their labels; "" without any measure.

    Counts are left out.
    """
    groups: dict[Seen, list[str]] = {}
    for measure in measures:
        if not measure.is_count:
            groups.setdefault(measure.seen(pictures), []).append(measure.title)
    if not groups:
        return ""
    named = [seen if len(groups) == 1 else f"{seen} ({', '.join(titles)})" for seen, titles in groups.items()]
    return f"figures have seen the labels of these pictures: {'; '.join(named)}"
