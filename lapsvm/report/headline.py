"""What a run knows, first of boxes, then of whole pictures; for all classes, and for each of them."""

from collections.abc import Sequence
from dataclasses import dataclass

from lapsvm.evaluation import Figure, Figures
from lapsvm.evaluation.measures import Measure, Per, Pictures, Shown, shown_in
from lapsvm.report.contents import Contents
from lapsvm.report.diagnosis import Cell, FigureTable
from lapsvm.report.tables import decimal, where


@dataclass(frozen=True)
class Fact:
    """A mean over the classes: its value and interval as texts, its measure, and of which pictures."""

    value: str
    interval: str
    measure: Measure
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


Chosen = tuple[Figures, Measure]


def headline(contents: Contents) -> Headline:
    """Return the facts on boxes and on whole pictures, of unseen pictures if there are any."""
    facts = [_fact(figures.mean[measure.key], measure, figures) for figures, measure in top_measures(contents)]
    pictures = [fact for fact in facts if fact.measure.per is Per.PICTURE]
    return Headline(contents.verified, tuple(fact for fact in facts if fact not in pictures), tuple(pictures))


def top_measures(contents: Contents) -> list[Chosen]:
    """Return the measures whose means stand at the top, of boxes first, each with its figures.

    They are of the test set, else of held-out pictures; of pictures that the models have seen if there are no others.
    """
    known = [
        (figures, measure)
        for measure in sorted(shown_in(Shown.TOP), key=lambda measure: measure.per is Per.PICTURE)
        for figures in contents.places
        if figures.mean_value(measure.key) is not None
    ]
    unseen = [(figures, measure) for figures, measure in known if figures.pictures is not Pictures.TRAINING] or known
    return list({measure.key: (figures, measure) for figures, measure in reversed(unseen)}.values())[::-1]


def _fact(mean: Figure, measure: Measure, figures: Figures) -> Fact:
    limits = mean.interval
    shown = "" if limits is None else f"{decimal(limits[0])} to {decimal(limits[1])}"
    if limits is not None and measure.is_share:
        shown = f"{100 * limits[0]:.0f} to {100 * limits[1]:.0f} %"
    return Fact(_text(mean.value, measure), shown, measure, where(figures))


def _text(value: float | None, measure: Measure) -> str:
    """Return a figure, a share as per cent."""
    return f"{100 * value:.0f} %" if measure.is_share and value is not None else decimal(value)


def class_table(contents: Contents) -> FigureTable | None:
    """Return the same figures of each class, what a person says of its boxes first; None if nothing is known."""
    known, names = top_measures(contents), contents.names
    if not names or not (known or contents.verdicts):
        return None
    header = [measure.heading for _, measure in known]
    rows = [[_text(figures.value(name, measure.key), measure) for figures, measure in known] for name in names]
    last = [_text(figures.mean_value(measure.key), measure) for figures, measure in known]
    if contents.verdicts:
        header, last = ["Judged by a person", *header], ["", *last]
        rows = [[contents.verdicts.get(name, "nothing"), *row] for name, row in zip(names, rows, strict=True)]
    cells = (tuple(map(Cell, row)) for row in rows)
    named = tuple(zip(names, cells, strict=True))
    return FigureTable("Class by class", "", _places(known), tuple(header), named, tuple(map(Cell, last)))


def _places(known: Sequence[Chosen]) -> str:
    """Return a sentence on the pictures that columns are of."""
    by_place: dict[str, list[str]] = {}
    for figures, measure in known:
        by_place.setdefault(where(figures), []).append(measure.heading)
    if len(by_place) == 1:
        return f"Figures {next(iter(by_place))}."
    return " ".join(f"{', '.join(headings)}: {pictures}." for pictures, headings in by_place.items())
