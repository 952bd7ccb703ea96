"""What a run knows, in plain words: first of boxes, then of whole pictures; for all classes, and for each of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lapsvm.report.contents import Contents
from lapsvm.report.diagnosis import Cell, FigureTable, interval_text, mean_intervals, place
from lapsvm.report.tables import IN_SAMPLE, Column, decimal


class _Words(NamedTuple):
    """A measure in plain words, above its column, and whether it is a share to be read as per cent."""

    sentence: str
    title: str
    is_share: bool = False


BOXES = {
    "corloc": _Words("of the best boxes are right", "Boxes right", True),
    "pointing": _Words("of the best boxes point at the object", "Point at it", True),
    "map_pointing": _Words("of the score maps point at the object", "Maps point at it", True),
    "ap_area": _Words("average precision of boxes (area)", "AP of boxes"),
}
"""Measures of boxes; keys as in evaluation.json."""
PICTURES = {
    "image_auroc": _Words("of pairs of pictures in the right order (image AUROC)", "Pairs in order", True),
    "image_ap": _Words("whole pictures in order (image AP)", "Pictures (AP)"),
    "train_image_ap": _Words("whole pictures in order (image AP)", "Pictures (AP)"),
}
"""Measures of whole pictures, whatever their boxes."""
_EXPLAINED = (
    "A box is right if it and an object overlap by more than half (CorLoc), and points at it if its middle lies in "
    "one. Figures of whole pictures say nothing of boxes."
)


@dataclass(frozen=True)
class Fact:
    """A mean over the classes: its value and interval as texts, what it says, and of which pictures."""

    value: str
    interval: str
    words: str
    where: str


@dataclass(frozen=True)
class Headline:
    """What stands at the top: sentences and facts of boxes, then facts of pictures."""

    sentences: tuple[str, ...]
    boxes: tuple[Fact, ...]
    pictures: tuple[Fact, ...]

    @property
    def knows_boxes(self) -> bool:
        """Whether anything is said of boxes."""
        return bool(self.sentences or self.boxes)


def headline(contents: Contents, columns: Sequence[Column]) -> Headline:
    """Return what is known of boxes, and of pictures: of unseen ones, or of the others if there are none."""
    known = unseen_columns(columns)
    intervals = mean_intervals(contents)
    boxes, pictures = (
        tuple(
            _fact(column, words[column.key], intervals.get((column.group, column.key)))
            for column in _chosen(known, words)
        )
        for words in (BOXES, PICTURES)
    )
    return Headline(contents.verified, boxes, pictures)


def unseen_columns(columns: Sequence[Column]) -> list[Column]:
    """Return the columns whose means stand at the top, one of each measure.

    They are of the test set, else of held-out pictures; of pictures that the models have seen if there are no others.
    """
    known = [column for column in columns if column.key in {**BOXES, **PICTURES} and column.average is not None]
    unseen = [column for column in known if not column.group.startswith(IN_SAMPLE)] or known
    return list({column.key: column for column in reversed(unseen)}.values())


def _chosen(columns: Sequence[Column], words: Mapping[str, _Words]) -> list[Column]:
    """Return the columns of some measures, in the order of these."""
    return [column for key in words for column in columns if column.key == key]


def _fact(column: Column, words: _Words, interval: Mapping[str, float] | None) -> Fact:
    shown = "" if interval is None else interval_text(interval)
    if interval is not None and words.is_share:
        shown = f"{100 * interval['low']:.0f} to {100 * interval['high']:.0f} %"
    return Fact(_text(column.average, words), shown, words.sentence, place(column.group))


def _text(value: float | None, words: _Words) -> str:
    """Return a figure, a share as per cent."""
    return f"{100 * value:.0f} %" if words.is_share and value is not None else decimal(value)


def class_table(contents: Contents, columns: Sequence[Column]) -> FigureTable | None:
    """Return the same figures of each class, what a person says of its boxes first; None if nothing is known."""
    known = [(column, of[column.key]) for of in (BOXES, PICTURES) for column in _chosen(unseen_columns(columns), of)]
    if not contents.classes or not (known or contents.verdicts):
        return None
    header = [words.title for _, words in known]
    rows = [[_text(column.values[row], words) for column, words in known] for row in range(len(contents.classes))]
    last = [_text(column.average, words) for column, words in known]
    caption = _places([(column, words.title) for column, words in known])
    if contents.verdicts or any(column.key in BOXES for column, _ in known):
        caption = f"{caption} {_EXPLAINED}"
    names = [result.name for result in contents.classes]
    if contents.verdicts:
        header, last = ["Judged by a person", *header], ["", *last]
        rows = [[contents.verdicts.get(name, "nothing"), *row] for name, row in zip(names, rows, strict=True)]
    cells = (tuple(map(Cell, row)) for row in rows)
    named = tuple(zip(names, cells, strict=True))
    return FigureTable("Class by class", "", caption, tuple(header), named, tuple(map(Cell, last)))


def _places(titled: Sequence[tuple[Column, str]]) -> str:
    """Return a sentence on the pictures that columns with their titles are of."""
    by_place: dict[str, list[str]] = {}
    for column, title in titled:
        by_place.setdefault(place(column.group), []).append(title)
    if len(by_place) == 1:
        return f"Figures {next(iter(by_place))}."
    return " ".join(f"{', '.join(of)}: {where}." for where, of in by_place.items())
