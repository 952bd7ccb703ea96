"""A figure: a value on the pictures and on every bootstrap draw of them, from which intervals follow."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lapsvm.arrays import Float64, Index
from lapsvm.catalog import GroundTruth
from lapsvm.evaluation.boxes.localisation import ClassHits
from lapsvm.evaluation.boxes.voc import ClassResult
from lapsvm.evaluation.detections import Detections
from lapsvm.evaluation.intervals import (
    DifferenceInterval,
    Smoothed,
    correlation,
    correlations,
    difference_interval,
    draws_variance,
    effective_groups,
    pseudo_variance,
    ranking_interval,
    share_interval,
    smoothed,
)
from lapsvm.evaluation.paired import detection_ap_draws, draw_pictures, share_draws
from lapsvm.evaluation.tables import mean

DRAWS = 1000
NOT_DRAWN = np.empty(0)
"""The draws of a figure that has none."""
UNDEFINED = Smoothed(0.5, 0.0)


class Draws(NamedTuple):
    """Bootstrap draws of pictures, or rather of their groups.

    Attributes
    ----------
    ids : sequence of n str
    counts : (draws, n) int
        How often each draw has each picture, see `draw_pictures`.
    seed : int
    groups : (n,) int
        The group of each picture.
    """

    ids: Sequence[str]
    counts: NDArray[np.integer]
    seed: int
    groups: Index

    @classmethod
    def of(cls, ids: Sequence[str], seed: int, groups: ArrayLike | None = None, draws: int = DRAWS) -> Self:
        """Draw pictures, which may be in groups (n,)."""
        group = np.arange(len(ids)) if groups is None else np.asarray(groups, dtype=np.intp)
        return cls(ids, draw_pictures(len(ids), draws, seed, group), seed, group)

    @property
    def n_groups(self) -> int:
        """The number of groups."""
        return len(np.unique(self.groups))

    def of_pictures(self, ids: Sequence[str]) -> "Draws":
        """Return the draws of some of the pictures."""
        if list(ids) == list(self.ids):
            return self
        rows = self.rows(ids)
        return self._replace(ids=ids, counts=self.counts[:, rows], groups=self.groups[rows])

    def rows(self, ids: Sequence[str]) -> Index:
        """Return the positions of some of the pictures."""
        positions = {image: position for position, image in enumerate(self.ids)}
        return np.array([positions[image] for image in ids], dtype=np.intp)


@dataclass(frozen=True, eq=False)
class Figure:
    """A figure of one class, or the mean over classes.

    Attributes
    ----------
    value : float or None
        None where the figure is undefined.
    draws : (draws,) float64
        Its value on every draw of the pictures; NaN where undefined. `NOT_DRAWN` by default.
    with_pseudo : Smoothed
        See `intervals`.
    n_groups : float
        Effective groups of pictures that were drawn.
    exact : tuple of 2 floats or None, default None
        The interval, where it does not follow from the draws: that of a share, or of a figure that was read.
    """

    value: float | int | None
    draws: Float64 = field(default_factory=lambda: NOT_DRAWN)
    with_pseudo: Smoothed = UNDEFINED
    n_groups: float = 1.0
    exact: tuple[float, float] | None = None

    @property
    def is_drawn(self) -> bool:
        """Whether the figure has an interval wherever it has a value."""
        return self.draws is not NOT_DRAWN or self.exact is not None

    @property
    def interval(self) -> tuple[float, float] | None:
        """The interval at `LEVEL`; None where the figure is undefined, or not drawn."""
        if self.value is None or not self.is_drawn or self.exact is not None:
            return self.exact if self.value is not None else None
        variance = draws_variance(self.draws, self.n_groups)
        return ranking_interval(self.value, self.with_pseudo, variance, self.n_groups)

    def minus(self, first: "Figure") -> tuple[float, DifferenceInterval] | None:
        """Return the difference to another figure over the same draws, with its interval; None where undefined."""
        if self.value is None or first.value is None:
            return None
        n_groups = min(self.n_groups, first.n_groups)
        variance = draws_variance(self.draws - first.draws, n_groups)
        shared = correlation(self.draws, first.draws)
        added = pseudo_variance(self.with_pseudo, first.with_pseudo, shared)
        difference = self.value - first.value
        return difference, difference_interval(difference, variance + added, n_groups)


def undefined_figure(n_draws: int) -> Figure:
    """Return a figure without a value."""
    return Figure(None, np.full(n_draws, np.nan))


def mean_figure(figures: Sequence[Figure]) -> Figure:
    """Return the mean of the figures that are defined, on the pictures and on every draw."""
    known = [figure for figure in figures if figure.value is not None]
    if not all(figure.is_drawn for figure in figures):
        return Figure(mean(figure.value for figure in known))
    if not known:
        return undefined_figure(len(figures[0].draws) if figures else 0)
    draws = np.ma.masked_invalid([figure.draws for figure in known]).mean(axis=0).filled(np.nan)
    values, variances = zip(*(figure.with_pseudo for figure in known), strict=True)
    deviations = np.sqrt(variances) / len(known)
    shared = np.maximum(correlations([figure.draws for figure in known]), 0)
    added = Smoothed(float(np.mean(values)), float(deviations @ shared @ deviations))
    return Figure(mean(figure.value for figure in known), draws, added, min(figure.n_groups for figure in known))


def share_figure(hits: ClassHits, draws: Draws) -> Figure:
    """Return the share of hits of one class, CorLoc for instance."""
    if hits.share is None:
        return undefined_figure(len(draws.counts))
    rows = draws.rows(hits.image_ids)
    drawn, groups = share_draws(hits.hits, rows, draws.counts), draws.groups[rows]
    units = effective_groups(groups)
    return Figure(hits.share, drawn, smoothed(hits.share, units), units, share_interval(hits.hits, groups))


def detection_figures(
    result: ClassResult, detections: Detections, truth: Mapping[str, GroundTruth], draws: Draws
) -> dict[str, Figure]:
    """Return the detection APs of one class by their keys, over draws of all pictures."""
    positions = {image: position for position, image in enumerate(draws.ids)}
    images = detections.image_ids.numbers_in(positions)[result.order]
    objects = [truth[image].difficult for image in draws.ids]
    npos = [len(difficult) and len(difficult) - int(np.count_nonzero(difficult)) for difficult in objects]
    known = {key: value for key, value in result.aps.items() if value is not None}
    if len(known) < len(result.aps):
        return dict.fromkeys(result.aps, undefined_figure(len(draws.counts)))
    drawn = detection_ap_draws(result.matches.outcome, images, npos, draws.counts)
    units, n_groups = effective_groups(np.repeat(draws.groups, npos)), effective_groups(draws.groups)
    return {
        key: Figure(value, values, smoothed(value, units), n_groups)
        for (key, value), values in zip(known.items(), drawn, strict=True)
    }


def ranking_figure(
    value: float | None,
    scores: ArrayLike,
    labels: ArrayLike,
    draws: Draws,
    draw: Callable[[ArrayLike, ArrayLike, ArrayLike], Float64],
    units: float,
) -> Figure:
    """Return a figure of a ranking of pictures whose value is known.

    Parameters
    ----------
    value : float or None
    scores, labels : array-like of shape (n,)
        Of the pictures of `draws`; labels are 1, -1, or 0 for a picture that is not ranked.
    draws : Draws
    draw : callable of scores, labels and counts
        The values on the draws.
    units : float
        Objects, see `intervals`, for each picture of the rarer kind: a picture at chance costs half a place of AUROC.
    """
    if value is None:
        return undefined_figure(len(draws.counts))
    signs = np.asarray(labels, dtype=np.int64)
    return Figure(
        value,
        draw(scores, signs, draws.counts),
        smoothed(value, units * _rarer(signs, draws.groups)),
        effective_groups(draws.groups[signs != 0]),
    )


def _rarer(signs: NDArray[np.int64], groups: Index) -> float:
    """Return the number of independent pictures of the rarer kind; of positives where there are no negatives."""
    kinds = [groups[signs > 0], groups[signs < 0]]
    return min(effective_groups(kind) for kind in kinds if len(kind))
