"""What methods say of test pictures, and figures of it with intervals over the pictures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.stats import binomtest

from lapsvm.arrays import Array, Float64
from lapsvm.evaluation import (
    MEASURES,
    ClassHits,
    Draws,
    Figure,
    MeasuredClass,
    Ranking,
    mean_figure,
    share_figure,
)

DRAWS = 2000


@dataclass(frozen=True, eq=False)
class Pictures:
    """The test pictures and what is known of them.

    Attributes
    ----------
    classes : tuple of str
    labels : (n, k) int
        1, -1, or 0 where it is not known.
    boxes : class -> for every picture its boxes (m, 4)
    """

    classes: tuple[str, ...]
    labels: Array
    boxes: Mapping[str, Sequence[Float64]]

    @property
    def defective(self) -> Array:
        """For every picture 1 if it shows a class, -1 if none, 0 if that is not known."""
        return np.where((self.labels > 0).any(axis=1), 1, np.where((self.labels < 0).all(axis=1), -1, 0))

    def hits(self, name: str, points: Float64) -> tuple[Array, Array]:
        """Return which pictures have a box of a class, and for each whether its point (x, y) lies in one."""
        own = self.boxes[name]
        rows = np.array([row for row, boxes in enumerate(own) if len(boxes)], dtype=int)
        return rows, np.array([_is_inside(points[row], own[row]) for row in rows], dtype=bool)

    def hits_of_any(self, judgement: "Judgement", points: Float64) -> tuple[Array, Array]:
        """Return which pictures show a class, and whether the point of their most probable one lies in any box."""
        own = [np.concatenate(boxes) for boxes in zip(*self.boxes.values(), strict=True)]
        best = np.zeros(len(own), int) if judgement.scores is None else judgement.scores.argmax(axis=1)
        rows = np.flatnonzero([len(boxes) > 0 for boxes in own])
        return rows, np.array([_is_inside(points[row, best[row]], own[row]) for row in rows], dtype=bool)


def _is_inside(point: Float64, boxes: Float64) -> bool:
    """Return whether a point (x, y) lies in a box; one that is NaN lies in none."""
    return bool(((boxes[:, :2] <= point) & (point < boxes[:, 2:])).all(axis=1).any())


@dataclass(frozen=True, eq=False)
class Judgement:
    """What a method says of n pictures.

    Attributes
    ----------
    name : str
    defective : (n,) float64
        How defective it calls them.
    scores : (n, k) float64 or None
        How much of each class they show; None for a method that knows no classes.
    points : way -> (n, k, 2) float64
        Where each class is, as x, y.
    """

    name: str
    defective: Float64
    scores: Float64 | None = None
    points: Mapping[str, Float64] = field(default_factory=dict)


def wilson(hits: int, n: int) -> tuple[float, float]:
    """Return E. B. Wilson's 95 % interval of a share of hits."""
    found = binomtest(hits, n).proportion_ci(method="wilson") if n else None
    return (found.low, found.high) if found else (np.nan, np.nan)


def figures_of(pictures: Pictures, judgement: Judgement, draws: int = DRAWS) -> dict[str, dict[str, Figure]]:
    """Return measure -> class, or "any class", or "mean" -> figure.

    "AUROC" and "AP" of a class are of its pictures against all others, "detected" is the AUROC of its pictures against
    good ones by how defective they are called. Pointing at "any class" asks whether the point of a picture's most
    probable class lies in a box of whatever class.
    """
    drawn = Draws.of([str(row) for row in range(len(pictures.labels))], 0, draws=draws)
    found = {"detected": _detected(pictures, judgement, drawn)}
    found["AP of any class"] = {"any class": _ranking("image_ap", judgement.defective, pictures.defective, drawn)}
    if judgement.scores is not None:
        for title, measure in (("AUROC", "image_auroc"), ("AP", "image_ap")):
            found[title] = _with_mean({
                name: _ranking(measure, judgement.scores[:, column], pictures.labels[:, column], drawn)
                for column, name in enumerate(pictures.classes)
            })  # fmt: skip
    for way, points in judgement.points.items():
        hits = {name: pictures.hits(name, points[:, column]) for column, name in enumerate(pictures.classes)}
        shares = {name: _share(*of_class, drawn) for name, of_class in hits.items()}
        any_class = _share(*pictures.hits_of_any(judgement, points), drawn)
        found[f"pointing, {way}"] = _with_mean(shares) | {"any class": any_class}
    return found


def _ranking(measure: str, scores: Float64, labels: Array, draws: Draws) -> Figure:
    ranked = MeasuredClass(Ranking(draws.ids, scores, labels), has_none=True)
    return MEASURES[measure].figure(ranked, draws) or Figure(None)


def _share(rows: Array, hits: Array, draws: Draws) -> Figure:
    return share_figure(ClassHits(tuple(draws.ids[row] for row in rows), hits), draws)


def _detected(pictures: Pictures, judgement: Judgement, draws: Draws) -> dict[str, Figure]:
    """Return the AUROC of each class's pictures, and of all defective ones, against good ones."""
    signs = {name: np.where(column > 0, 1, 0) for name, column in zip(pictures.classes, pictures.labels.T, strict=True)}
    signs["any class"] = np.maximum(pictures.defective, 0)
    good = pictures.defective < 0
    labels = {name: np.where(good, -1, own) for name, own in signs.items()}
    return {name: _ranking("image_auroc", judgement.defective, own, draws) for name, own in labels.items()}


def _with_mean(figures: dict[str, Figure]) -> dict[str, Figure]:
    return figures | {"mean": mean_figure(list(figures.values()))}


def pointing_entries(pictures: Pictures, judgement: Judgement) -> dict[str, dict[str, dict[str, Any]]]:
    """Return way -> class -> hits, pictures and Wilson's interval of the share."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for way, points in judgement.points.items():
        found[way] = {}
        for column, name in enumerate(pictures.classes):
            _, hit = pictures.hits(name, points[:, column])
            low, high = wilson(int(hit.sum()), len(hit))
            found[way][name] = {"hits": int(hit.sum()), "pictures": len(hit), "low": low, "high": high}
    return found
