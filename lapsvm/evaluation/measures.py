"""What each figure has seen of the label of its own picture: one table, which the page and the terminal print."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


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


MEANING = {
    Pictures.TEST: "",
    Pictures.HELD_OUT: "each picture by a model that did not see it",
    Pictures.TRAINING: "the detectors were trained with these pictures",
}
"""What kind of model a figure is of, by its pictures."""


@dataclass(frozen=True)
class Measure:
    """A figure, and whether it has seen the label of its own picture, by the kind of pictures."""

    title: str
    test: Seen = Seen.NO
    held_out: Seen = Seen.CONSTANTS
    training: Seen = Seen.YES

    def seen(self, pictures: Pictures) -> Seen:
        """Return whether the figure of some pictures has seen their labels."""
        return {
            Pictures.TEST: self.test,
            Pictures.HELD_OUT: self.held_out,
            Pictures.TRAINING: self.training,
        }[pictures]


MEASURES = {
    "ap_11point": Measure("AP 11-point"),
    "ap_area": Measure("AP area"),
    "corloc": Measure("CorLoc"),
    "pointing": Measure("pointing"),
    "map_pointing": Measure("map pointing"),
    "pixel_auroc": Measure("pixel AUROC"),
    "pro": Measure("PRO"),
    "image_ap": Measure("image AP"),
    "image_auroc": Measure("image AUROC"),
    "chance": Measure("chance", Seen.NO, Seen.NO, Seen.NO),  # of random orders
    "ece": Measure("ECE"),
    "brier": Measure("Brier"),
    "coco_ap": Measure("COCO AP"),
    "coco_ap50": Measure("AP50"),
    "coco_ap75": Measure("AP75"),
    "coco_ar100": Measure("AR100"),
}
"""The measures of `evaluation.json` by their keys, in the order in which they are printed."""


def seen_note(measures: Iterable[str], pictures: Pictures) -> str:
    """Return in one line whether figures of some pictures have seen their labels; other names are left out.

    Parameters
    ----------
    measures : iterable of str
        Keys of `MEASURES`.
    pictures : Pictures

    Returns
    -------
    str
        "" without any measure.
    """
    groups: dict[Seen, list[str]] = {}
    for measure in (MEASURES[name] for name in dict.fromkeys(measures) if name in MEASURES):
        groups.setdefault(measure.seen(pictures), []).append(measure.title)
    if not groups:
        return ""
    named = [seen if len(groups) == 1 else f"{seen} ({', '.join(titles)})" for seen, titles in groups.items()]
    return f"figures have seen the labels of these pictures: {'; '.join(named)}"
