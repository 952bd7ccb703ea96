"""Rounds of refinement of one class, by the model of all pictures and by chains that each never see a fold.

A chain is a model and the labels that it may see. It chooses the windows of its own positives, the windows of negatives
that take part, and its start, so nothing of a fold reaches the chain without it. The model of all pictures takes in
later rounds the windows that the chains choose in their folds, because a model trained on a window keeps it (Cinbis,
Verbeek and Schmid, TPAMI 2017).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lapsvm.arrays import Array, Float64, Index
from lapsvm.bags import Bags, top_mask
from lapsvm.boxes import iou, paired_iou
from lapsvm.detection import box_voting, smooth_scores
from lapsvm.latent import KnownBoxes, LatentProblem, LatentSolution, refine

from ..run.dataset import Labels
from ..run.progress import Reporter
from ..run.settings import Settings
from .fit import Constants, FitRequest, problem, training_progress
from .verdicts.drawn_boxes import AddedWindows, with_boxes, with_masks

SAME = 0.5
"""Boxes with a greater IoU count as the same box: a window like a rejected one is rejected too."""


@dataclass(frozen=True, eq=False)
class StoredPictures:
    """The training pictures with their features as stored.

    Attributes
    ----------
    bags : Bags
    boxes : (n_windows, 4)
    scale : (d,) float64
        What `bags` multiplies the stored features by.
    ids : tuple of str
    inside : (d,) bool
        Which features are a window's own, not those of its surroundings.
    """

    bags: Bags
    boxes: Array
    scale: Float64
    ids: tuple[str, ...]
    inside: NDArray[np.bool_]


class Chain(NamedTuple):
    """A model on its way through the rounds.

    Attributes
    ----------
    y : (n_bags,) int8
        The labels that it may see, 0 for pictures of its fold.
    weights, intercept : (d,) float64, and float
    windows : (n_bags,) intp
        The windows of its positives in the next round.
    solution : LatentSolution or None
        That of the last round.
    """

    y: Labels
    weights: Float64
    intercept: float
    windows: Index
    solution: LatentSolution | None = None


@dataclass(frozen=True, eq=False)
class Rounds:
    """Refines the chains of one class.

    Attributes
    ----------
    settings : Settings
    pictures : StoredPictures
    J : float or None
        Weight of the positives, where the learner has one.
    known : mapping of row to KnownBoxes, optional
        What a person said of positive pictures. A chain without a fold takes nothing from its pictures.
    added : mapping of row to AddedWindows, optional
        Windows of known objects that the pictures lack. Chains that may see the pictures are trained with them.
    room : int, optional
        Bytes for copies of windows: so many chains share a copy as fit, at least one. All by default.
    """

    settings: Settings
    pictures: StoredPictures
    J: float | None
    known: Mapping[int, KnownBoxes] = field(default_factory=dict)
    added: Mapping[int, AddedWindows] = field(default_factory=dict)
    room: int | None = None

    def begin(self, y: Labels, weights: Float64, intercept: float) -> Chain:
        """Return the chain of a trained model (d,), with the windows that it chooses in its positive pictures."""
        chain = Chain(y, weights, intercept, np.zeros(len(y), dtype=np.intp))
        return chain._replace(windows=self._chosen_by(chain, y))

    def refined(self, chains: Sequence[Chain], title: str, reporter: Reporter, C: float | None = None) -> list[Chain]:
        """Return the chains after a round; `C` is the weight of the loss, by default that of the settings."""
        names = [title, *(f"{title}, without fold {number}" for number in range(1, len(chains)))]
        own = self.with_candidates(chains)
        weight = self.settings.refine.C if C is None else C
        each = zip(chains, names, strict=True)
        return [self._refined(self._problem(chain.y, weight), chain, next(own), name, reporter) for chain, name in each]

    def _refined(
        self, problem: LatentProblem, chain: Chain, pictures: StoredPictures, title: str, reporter: Reporter
    ) -> Chain:
        names = ("pos_iou", "neg_iou", "neg_min_iou", "neg_part_iou")
        given = {"known": self.known, **{name: getattr(self.settings.refine, name) for name in names}}
        with training_progress(reporter, title, [title]) as progress:
            solution = refine(problem, pictures.bags, pictures.boxes, chain.windows, progress=progress.update, **given)
        return chain._replace(weights=solution.coef, intercept=solution.intercept, solution=solution)

    def lowered(self, weights: Float64) -> Float64:
        """Return weights of which those of surroundings keep the share of the settings.

        With the weights that refinement learns the best windows are often too large (docs/measurements/boxes.md).
        """
        return weights * np.where(self.pictures.inside, 1.0, self.settings.refine.surroundings)

    def final(self, chain: Chain) -> Chain:
        """Return a chain with the weights that detection takes."""
        return chain._replace(weights=self.lowered(chain.weights))

    def with_new_windows(self, chains: Sequence[Chain], fold: Index) -> list[Chain]:
        """Return the chains with the windows of the next round.

        `chains` are that of all pictures, whose windows in a fold are chosen by the chain without it, and those without
        fold 1, 2 and so on.
        """
        whole, *others = chains
        if not others:
            return [whole._replace(windows=self._chosen_by(whole, whole.y))]
        moved = [chain._replace(windows=self._chosen_by(chain, whole.y)) for chain in others]
        windows = whole.windows.copy()
        for number, chain in enumerate(moved, start=1):
            windows[fold == number] = chain.windows[fold == number]
        return [whole._replace(windows=windows), *moved]

    def _chosen_by(self, chain: Chain, y: Labels) -> Index:
        windows = self.chosen(y, chain.weights)
        pictures, added = self.pictures, {row: one.boxes for row, one in self.added.items()}
        return _settled_windows(pictures.bags, pictures.boxes, chain.weights, windows, self.known, added)

    def _problem(self, y: Labels, C: float) -> LatentProblem:
        settings, constants = self.settings, Constants(C, self.J, None)
        return replace(problem(settings, FitRequest(y, constants)), top=settings.refine.top, init="mean")

    def chosen(self, y: Labels, weights: Float64) -> Index:
        """Return the windows, those of positives chosen as detection chooses boxes if the settings say so."""
        return self._windows_of(y, self.lowered(weights) if self.settings.refine.box_voting else weights)

    def _windows_of(self, y: Labels, weights: Float64) -> Index:
        settings, pictures = self.settings.refine, self.pictures
        if not settings.box_voting:
            return pictures.bags.best(weights).index
        return voted_windows(pictures.bags, pictures.boxes, weights, np.flatnonzero(y > 0), settings.score_smoothing)

    def stayed(self, begun: Chain, final: Chain) -> tuple[int, int]:
        """Return in how many positive pictures the box stayed where refinement began, and in how many it did not.

        It stayed if the windows of both chains overlap by more than half. Pictures of which a person said something
        are not counted: their box is known.
        """
        boxes, first = self.pictures.boxes, self.pictures.bags.offsets
        positives = np.setdiff1d(np.flatnonzero(begun.y > 0), list(self.known))
        windows = begun.windows, self._windows_of(final.y, final.weights)
        before, after = (boxes[first[positives] + own[positives]] for own in windows)
        stayed = int(np.count_nonzero(paired_iou(before, after) > SAME))
        return stayed, len(positives) - stayed

    def with_candidates(self, chains: Sequence[Chain]) -> Iterator[StoredPictures]:
        """Yield the pictures of each chain, in which negatives have their best-scored windows alone.

        A picture of a chain's fold has one window. The windows of all chains of a group are copied once, and each
        excludes those of the others. Positive pictures gain windows of their known objects, after their own.
        """
        pictures, count = self.pictures, self.settings.refine.candidates
        if not count and not self.added:
            yield from [pictures] * len(chains)
            return
        scores = pictures.bags.score_windows(np.stack([chain.weights for chain in chains], axis=1))
        masks = [self._candidates(chain, own, count) for chain, own in zip(chains, scores.T, strict=True)]
        most = None if self.room is None else self.room // (pictures.bags.dim * pictures.bags.dtype.itemsize)
        for first, stop in sharing(masks, most):
            yield from self._copied(masks[first:stop], chains[first:stop])

    def _copied(self, masks: Sequence[NDArray[np.bool_]], chains: Sequence[Chain]) -> list[StoredPictures]:
        """Return the pictures of chains with the windows of their masks, copied once for all."""
        pictures, taken = self.pictures, np.logical_or.reduce(masks)
        copied = replace(pictures, bags=pictures.bags.copied(taken), boxes=pictures.boxes[taken])
        offsets, own = copied.bags.offsets, zip(masks, chains, strict=True)
        masks = [with_masks(mask[taken], offsets, self.added, chain.y > 0) for mask, chain in own]
        grown = self._grown(copied)
        return [replace(grown, bags=grown.bags.excluding(~mask)) for mask in masks]

    def _grown(self, pictures: StoredPictures) -> StoredPictures:
        """Return the pictures with the added windows after their own."""
        bags = pictures.bags.appended({row: one.features for row, one in self.added.items()})
        return replace(pictures, bags=bags, boxes=with_boxes(pictures.boxes, pictures.bags.offsets, self.added))

    def _candidates(self, chain: Chain, scores: Float64, count: int) -> NDArray[np.bool_]:
        offsets, y = self.pictures.bags.offsets, chain.y
        sizes = np.diff(offsets)
        return top_mask(scores, offsets, np.where(y > 0, sizes, np.where(y < 0, count or sizes, 1)))


def sharing(masks: Sequence[NDArray[np.bool_]], most: int | None) -> Iterator[tuple[int, int]]:
    """Yield the first and the end of consecutive masks that select at most so many windows together, or are one."""
    first, taken = 0, masks[0]
    for number, mask in enumerate(masks):
        together = taken | mask
        if number > first and most is not None and together.sum() > most:
            yield first, number
            first, together = number, mask
        taken = together
    yield first, len(masks)


def voted_windows(bags: Bags, boxes: Array, weights: Float64, pictures: Index, smoothing: float) -> Index:
    """Return the window (n_bags,) nearest to the voted box of some pictures, 0 for other pictures.

    Parameters
    ----------
    bags : Bags
    boxes : (n_windows, 4)
    weights : (d,)
        Of the model that chooses the pictures' windows: those with the best smoothed scores.
    pictures : (m,) int
    smoothing : float
        In [0, 1], see `lapsvm.detection.smooth_scores`. Votes have the weights of the scores as they were.
    """
    moved = np.zeros(bags.n_bags, dtype=np.intp)
    if not len(pictures):
        return moved
    part = bags.subset(pictures)
    scores = np.split(part.score_windows(weights), part.offsets[1:-1])
    for picture, values in zip(pictures, scores, strict=True):
        own = boxes[bags.offsets[picture] : bags.offsets[picture + 1]]
        best = int(np.argmax(smooth_scores(own, values, smoothing)))
        box = box_voting(own[[best]], own, values)
        moved[picture] = int(np.argmax(iou(own, box)[:, 0]))
    return moved


def _settled_windows(
    bags: Bags, boxes: Array, weights: Float64, windows: Index, known: Mapping[int, KnownBoxes],
    added: Mapping[int, Array],
) -> Index:  # fmt: skip
    """Return the chosen windows (n_bags,), with those of some pictures replaced by what is known of them.

    A picture with known objects gets the window that overlaps one most. In a picture with rejected boxes, a rejected
    window gives way to the best-scored one that is not; it stays where all are rejected.

    Parameters
    ----------
    bags : Bags
    boxes : (n_windows, 4)
    weights : (d,)
        Of the model that chooses among the windows that are not rejected.
    windows : (n_bags,) int
    known : mapping of picture to KnownBoxes
    added : mapping of picture to (m, 4)
        Windows that a picture has after its own.
    """
    settled = windows.copy()
    for picture, of_picture in known.items():
        own = np.asarray(boxes[bags.offsets[picture] : bags.offsets[picture + 1]], dtype=np.float64)
        if len(of_picture.true):
            settled[picture] = of_picture.nearest(np.concatenate([own, added.get(picture, own[:0])]))
            continue
        right = of_picture.right(own, SAME)
        if right.any() and not right[settled[picture]]:
            scores = bags.subset([picture]).score_windows(weights)
            settled[picture] = int(np.argmax(np.where(right, scores, -np.inf)))
    return settled
