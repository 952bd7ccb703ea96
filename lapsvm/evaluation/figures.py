"""The figures of a set of pictures as one value: a row for each class, one of all classes as one, and their means.

`Figures` are computed from measured classes, written into and read from `evaluation.json`, and rendered by the
terminal, the page, the card and comparisons. All of them take titles and order from the table of measures.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

import numpy as np

from lapsvm.evaluation.entries import check_entry
from lapsvm.evaluation.figure import Draws, Figure, mean_figure
from lapsvm.evaluation.intervals import LEVEL
from lapsvm.evaluation.measured import MeasuredClass
from lapsvm.evaluation.measures import MEASURES, Measure, Pictures, Shown, shown_in
from lapsvm.evaluation.tables import class_table

Row = Mapping[str, Figure]
"""Measure -> figure."""
ANY_CLASS, MEAN = "any class", "mean"
"""Names of the last rows of tables."""


class Drawn(NamedTuple):
    """How intervals were drawn: their level, draws and seed, and the number of groups where pictures are in groups."""

    level: float
    draws: int
    seed: int
    groups: int | None = None

    @classmethod
    def of(cls, draws: Draws) -> Self:
        """Describe draws."""
        groups = draws.n_groups if draws.n_groups < len(draws.ids) else None
        return cls(LEVEL, len(draws.counts), draws.seed, groups)

    @property
    def over(self) -> str:
        """What intervals are over: pictures, or groups of them."""
        return "pictures" if self.groups is None else f"{self.groups:,} groups of pictures"


@dataclass(frozen=True, eq=False)
class Figures:
    """The figures of some pictures.

    Attributes
    ----------
    set_name : str
    pictures : Pictures
    classes : mapping of class name to (mapping of measure to Figure)
    any_class : mapping of measure to Figure
        Of all classes as one; empty where some class is not known, or no picture shows none.
    mean : mapping of measure to Figure
    drawn : Drawn or None
        None for figures without intervals.
    """

    set_name: str
    pictures: Pictures
    classes: Mapping[str, Row]
    any_class: Row = field(default_factory=dict)
    mean: Row = field(default_factory=dict)
    drawn: Drawn | None = None

    @classmethod
    def of(
        cls,
        set_name: str,
        pictures: Pictures,
        classes: Mapping[str, MeasuredClass],
        draws: Draws | None = None,
        any_class: MeasuredClass | None = None,
    ) -> Self:
        """Compute every measure of each class that is known for it.

        Of pictures that a model was trained with, hits alone have intervals: one over the pictures that a model has
        seen says nothing about the order of others.
        """
        rows = {name: _computed(of_class, pictures, draws) for name, of_class in classes.items()}
        joined = {} if any_class is None else _computed(any_class, pictures, draws)
        return cls(set_name, pictures, rows, joined, drawn=None if draws is None else Drawn.of(draws)).with_means()

    def with_means(self) -> Self:
        """Return the figures with the means of their classes."""
        keys = dict.fromkeys(key for row in self.classes.values() for key in row)
        means = {
            key: mean_figure([row[key] for row in self.classes.values() if key in row])
            for key in keys
            if not (key in MEASURES and MEASURES[key].is_count)
        }
        return replace(self, mean=means)

    def joined(self, more: "Figures") -> Self:
        """Return the figures with further measures of the same pictures."""
        names = dict.fromkeys([*self.classes, *more.classes])
        classes = {name: {**self.classes.get(name, {}), **more.classes.get(name, {})} for name in names}
        return replace(
            self, classes=classes, any_class={**self.any_class, **more.any_class}, mean={**self.mean, **more.mean}
        )

    def select(self, names: Iterable[str]) -> Self:
        """Return the figures of some classes, with their means."""
        classes = {name: self.classes[name] for name in names}
        return replace(self, classes=classes, any_class={}).with_means()

    def measures(self, table: Shown | None = None) -> list[Measure]:
        """Return the measures of some class, of one table or of all, in the order of the table of measures."""
        known = MEASURES.values() if table is None else shown_in(table)
        rows = [*self.classes.values(), self.any_class]
        return [measure for measure in known if any(measure.key in row for row in rows)]

    def value(self, name: str, key: str) -> float | int | None:
        """Return the value of a measure of a class; None if it is undefined or not known."""
        row = self.classes.get(name, {})
        return row[key].value if key in row else None

    def mean_value(self, key: str) -> float | int | None:
        """Return the mean of a measure; None if it is undefined or not known."""
        return self.mean[key].value if key in self.mean else None

    def rows(self) -> Iterator[tuple[str, Row]]:
        """Yield the rows of a table with their names: the classes, any class if it is known, and the mean."""
        yield from self.classes.items()
        if self.any_class:
            yield ANY_CLASS, self.any_class
        yield MEAN, self.mean

    def difference(self, first: "Figures", key: str) -> dict[str, Any]:
        """Return the differences of a measure to other figures of the same draws, {"classes", "mean"}."""
        classes = {name: difference_entry(first.classes[name][key], row[key]) for name, row in self.classes.items()}
        return {"classes": classes, "mean": difference_entry(first.mean[key], self.mean[key])}

    def to_json(self) -> dict[str, Any]:
        """Return the entry of evaluation.json: {"classes", "mean"}, and "any_class" and "intervals" where known.

        "intervals" has "level", "draws", "seed", "groups" where pictures are in groups, and {"low", "high"} of each
        measure of every row, None where the figure is undefined. Shares of hits stand last in it.
        """
        entry = class_table({name: values(row) for name, row in self.classes.items()})
        entry["mean"] = {key: figure.value for key, figure in self.mean.items()}
        if self.any_class:
            entry["any_class"] = values(self.any_class)
        if self.drawn is not None and any(figure.is_drawn for figure in self.mean.values()):
            known = {key: value for key, value in self.drawn._asdict().items() if value is not None}
            classes = {name: interval_row(row) for name, row in self.classes.items()}
            entry["intervals"] = {**known, "classes": classes, "mean": interval_row(self.mean)}
            if self.any_class:
                entry["intervals"]["any_class"] = interval_row(self.any_class)
        return entry

    @classmethod
    def from_json(cls, entry: Any, set_name: str = "", pictures: Pictures = Pictures.TEST) -> Self:
        """Return the figures of an entry of evaluation.json; DataError if it is none."""
        check_entry({"classes": {}, "mean": {}, **entry}, f"figures of set {set_name}")
        intervals: Mapping[str, Any] = entry.get("intervals", {})
        of_classes = intervals.get("classes", {})
        rows = {name: _read(row, of_classes.get(name, {})) for name, row in entry.get("classes", {}).items()}
        rows = {**{name: _read({}, row) for name, row in of_classes.items()}, **rows}
        joined = _read(entry.get("any_class") or {}, intervals.get("any_class", {}))
        known = {name: intervals[name] for name in Drawn._fields if name in intervals}
        drawn = Drawn(**{"seed": 0, **known}) if known else None
        means = class_table({name: values(row) for name, row in rows.items()})["mean"] | entry.get("mean", {})
        return cls(set_name, pictures, rows, joined, _read(means, intervals.get("mean", {})), drawn)


def read_figures(sets: Mapping[str, Mapping[str, Any]], train_set: str) -> list[Figures]:
    """Return the figures of a run's evaluation.json: unseen pictures first, training pictures last."""
    figures = [Figures.from_json(entry, name) for name, entry in sets.items() if name != train_set]
    if train_set in sets:
        entry = sets[train_set]
        if "held_out" in entry:
            figures.append(Figures.from_json(entry["held_out"], train_set, Pictures.HELD_OUT))
        figures.append(Figures.from_json(entry, train_set, Pictures.TRAINING))
    return figures


def difference_entry(first: Figure, other: Figure) -> dict[str, float] | None:
    """Return the difference of two figures of the same draws with its interval. None if one has no value."""
    difference = other.minus(first)
    return None if difference is None else {"difference": difference[0], **difference[1]._asdict()}


def interval_entry(figure: Figure) -> dict[str, float] | None:
    """Return the interval of a figure as {"low", "high"}; None where the figure is undefined."""
    limits = figure.interval
    return None if limits is None else dict(zip(("low", "high"), limits, strict=True))


def interval_row(row: Row) -> dict[str, dict[str, float] | None]:
    """Return the intervals of the figures that are drawn, shares of hits last."""
    drawn = {key: figure for key, figure in row.items() if figure.is_drawn}
    ordered = sorted(drawn, key=lambda key: key in MEASURES and MEASURES[key].counts_hits)
    return {key: interval_entry(drawn[key]) for key in ordered}


def _computed(of_class: MeasuredClass, pictures: Pictures, draws: Draws | None) -> Row:
    """Return the measures of a class in the order of the table."""
    row = {}
    for measure in MEASURES.values():
        has_interval = pictures is not Pictures.TRAINING or measure.counts_hits
        figure = measure.figure(of_class, draws if has_interval else None)
        if figure is not None:
            row[measure.key] = figure
    return row


def values(row: Row) -> dict[str, float | int | None]:
    """Return the values of a row of figures."""
    return {key: figure.value for key, figure in row.items()}


def _read(known: Mapping[str, Any], intervals: Mapping[str, Any]) -> Row:
    """Return a row of figures from their values and intervals; one of the two may be missing."""
    return {key: _read_figure(known.get(key), intervals, key) for key in dict.fromkeys([*known, *intervals])}


def _read_figure(value: float | None, intervals: Mapping[str, Any], key: str) -> Figure:
    limits = intervals.get(key)
    if limits is not None:
        return Figure(value, exact=(limits["low"], limits["high"]))
    is_undefined = key in intervals and value is None  # drawn, and without an interval
    return Figure(value, np.empty(0)) if is_undefined else Figure(value)
