"""Figures: values on the pictures and on every bootstrap draw of them, so that means and differences have intervals."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
from lapsvm.evaluation.paired import (
    detection_ap_draws,
    draw_pictures,
    image_ap_draws,
    image_auroc_draws,
    share_draws,
)
from lapsvm.evaluation.tables import mean

DRAWS = 1000
UNITS = {"image_auroc": 2.0, "image_ap": 1.5}
"""Objects, see `intervals`, for each picture of the rarer kind: a picture at chance costs half a place of AUROC."""


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
        Its value on every draw of the pictures; NaN where undefined.
    with_pseudo : Smoothed
        See `intervals`.
    n_groups : float
        Effective groups of pictures that were drawn.
    exact : tuple of 2 floats or None, default None
        The interval, where it does not follow from the draws.
    """

    value: float | None
    draws: Float64
    with_pseudo: Smoothed
    n_groups: float
    exact: tuple[float, float] | None = None

    @property
    def interval(self) -> tuple[float, float] | None:
        """The interval at `LEVEL`; None where the figure is undefined."""
        if self.value is None or self.exact is not None:
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
    return Figure(None, np.full(n_draws, np.nan), Smoothed(0.5, 0.0), 1.0)


def mean_figure(figures: Sequence[Figure]) -> Figure:
    """Return the mean of the figures that are defined, on the pictures and on every draw."""
    known = [figure for figure in figures if figure.value is not None]
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
    """Return the detection APs of one class, "ap_11point" and "ap_area", over draws of all pictures."""
    positions = {image: position for position, image in enumerate(draws.ids)}
    images = detections.image_ids.numbers_in(positions)[result.order]
    objects = [truth[image].difficult for image in draws.ids]
    npos = [len(difficult) and len(difficult) - int(np.count_nonzero(difficult)) for difficult in objects]
    if result.ap_11point is None or result.ap_area is None:
        return dict.fromkeys(("ap_11point", "ap_area"), undefined_figure(len(draws.counts)))
    points, areas = detection_ap_draws(result.matches.outcome, images, npos, draws.counts)
    units, n_groups = effective_groups(np.repeat(draws.groups, npos)), effective_groups(draws.groups)
    return {
        "ap_11point": Figure(result.ap_11point, points, smoothed(result.ap_11point, units), n_groups),
        "ap_area": Figure(result.ap_area, areas, smoothed(result.ap_area, units), n_groups),
    }


def ranking_figures(
    known: Mapping[str, float | None], scores: ArrayLike, labels: ArrayLike, draws: Draws
) -> dict[str, Figure]:
    """Return the figures of a ranking of pictures whose values are known, "image_ap" and "image_auroc".

    Parameters
    ----------
    known : mapping of measure to float or None
    scores, labels : array-like of shape (n,)
        Of the pictures of `draws`; labels are 1, -1, or 0 for a picture that is not ranked.
    draws : Draws
    """
    signs = np.asarray(labels, dtype=np.int64)
    return {
        measure: undefined_figure(len(draws.counts))
        if value is None
        else Figure(
            value,
            _RANKINGS[measure](scores, signs, draws.counts),
            smoothed(value, UNITS[measure] * _rarer(signs, draws.groups)),
            effective_groups(draws.groups[signs != 0]),
        )
        for measure, value in known.items()
    }


_RANKINGS = {"image_ap": image_ap_draws, "image_auroc": image_auroc_draws}


Interval = dict[str, float] | None
"""{"low", "high"}, or None where the figure is undefined."""


def interval_row(figures: Mapping[str, Figure]) -> dict[str, Interval]:
    """Return the intervals of figures by measure."""
    return {measure: interval(figure) for measure, figure in figures.items()}


def interval(figure: Figure) -> Interval:
    """Return the interval of a figure as an entry of evaluation.json."""
    limits = figure.interval
    return None if limits is None else dict(zip(("low", "high"), limits, strict=True))


def _rarer(signs: NDArray[np.int64], groups: Index) -> float:
    """Return the number of independent pictures of the rarer kind; of positives where there are no negatives."""
    kinds = [groups[signs > 0], groups[signs < 0]]
    return min(effective_groups(kind) for kind in kinds if len(kind))
