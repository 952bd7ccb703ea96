"""Self-training: turns a classifier of pictures into a detector of objects.

Latent training classifies pictures, so its windows need only contain something that no negative picture contains: a
part of the object, or its usual background. Refinement treats the chosen windows as objects and adds the negatives
that training on boxes has, those of the same picture. Every positive picture appears once as a positive for each
of its chosen windows, with the windows near it, and once as a negative, with those far from all of them, whose most
confusing window counts as in every negative.

(Tang et al., "Multiple instance detection network with online instance classifier refinement", CVPR 2017, for windows
near the chosen one as positives.)
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lapsvm.arrays import Float64, Index, as_array, as_whole_numbers
from lapsvm.bags import Bags
from lapsvm.boxes import areas, as_boxes, common_areas, iou
from lapsvm.errors import InputError, ShapeError
from lapsvm.latent.cccp.problem import LatentProblem, LatentSolution, check_windows
from lapsvm.latent.scheduling.candidates import CANDIDATES
from lapsvm.latent.scheduling.many import fit_many

_INSIDE = 0.9  # a window is a part of the chosen one if at least this share of its area lies in it

Mask = NDArray[np.bool_]


class OverlapLimits(NamedTuple):
    """The overlaps (intersection over union) with the chosen window that class the windows of a positive picture.

    Attributes
    ----------
    pos_iou : float, default 0.7
        A positive picture's positive windows overlap the chosen one at least so much.
    neg_iou : float, default 0.3
        Its negative windows overlap the chosen one less than this. Where all overlap more, it is a positive only.
    neg_min_iou : float, default 0.0
        Windows that overlap the chosen one less than this are no negatives: they may hold another object of the class.
    neg_part_iou : float, default 1.0
        Windows inside the chosen one (nine tenths of their area) that overlap it at least so much are no negatives:
        they may be the object, where the chosen window is too large. 1 makes no difference between them and others.
    """

    pos_iou: float = 0.7
    neg_iou: float = 0.3
    neg_min_iou: float = 0.0
    neg_part_iou: float = 1.0

    def check(self) -> None:
        """Raise InputError unless the limits are in order."""
        if not 0 <= self.neg_min_iou < self.neg_iou <= self.pos_iou <= 1:
            rule = "neg_min_iou, neg_iou and pos_iou must be 0 <= neg_min_iou < neg_iou <= pos_iou <= 1"
            raise InputError(f"{rule}, got {self.neg_min_iou}, {self.neg_iou} and {self.pos_iou}.")
        if not 0 <= self.neg_part_iou <= 1:
            raise InputError(f"neg_part_iou must be from 0 to 1, got {self.neg_part_iou}.")

    def far(self, overlaps: Float64) -> Mask:
        """Return which windows are far enough from a box, and not too far, for their IoU (n,) with it."""
        return np.asarray((overlaps >= self.neg_min_iou) & (overlaps < self.neg_iou))

    def negative(self, windows: Float64, chosen: Float64, overlaps: Float64) -> Mask:
        """Return which windows (n, 4) of a picture are negatives, for their IoU (n, m) with the chosen ones (m, 4)."""
        far = self.far(overlaps.max(axis=1))
        if self.neg_part_iou < self.neg_iou:
            for box, column in zip(chosen, overlaps.T, strict=True):
                far &= ~(inside(windows, box) & (column >= self.neg_part_iou))
        return far


class KnownBoxes(NamedTuple):
    """Boxes of a positive picture that are known: where its objects are, and where they are not.

    Attributes
    ----------
    true : (m, 4) float64
        Objects of the picture; none if no object is known.
    wrong : (k, 4) float64
        Boxes that hold none. They count where `true` is empty.
    """

    true: Float64
    wrong: Float64

    def nearest(self, windows: Float64) -> int:
        """Return which of the windows (n, 4) overlaps an object most."""
        return int(np.argmax(iou(windows, self.true).max(axis=1)))

    def right(self, windows: Float64, least: float) -> Mask:
        """Return which windows (n, 4) may hold an object.

        Those that overlap one by more than `least`; or, where no object is known, those that overlap no wrong box so
        much.
        """
        if len(self.true):
            return np.asarray(iou(windows, self.true).max(axis=1) > least)
        return np.asarray(iou(windows, self.wrong).max(axis=1, initial=0.0) <= least)

    def classify(self, windows: Float64, near: Mask, far: Mask, limits: OverlapLimits) -> tuple[Mask, Mask]:
        """Return which windows (n, 4) are positives and negatives, from what they are for the chosen window.

        With known objects the overlap with these decides: parts of them are negatives, and windows that hardly overlap
        them are not, because a person may have marked one of several objects. Otherwise windows near a wrong box are
        negatives.
        """
        if len(self.true):
            overlaps = iou(windows, self.true).max(axis=1)
            return np.asarray(overlaps >= limits.pos_iou), limits.far(overlaps)
        wrong = iou(windows, self.wrong).max(axis=1, initial=0.0) >= limits.pos_iou
        return near & ~wrong, far | wrong


def inside(windows: Float64, box: Float64) -> Mask:
    """Return which windows (n, 4) lie in a box (4,) with at least nine tenths of their area."""
    return np.asarray(common_areas(windows, box[None]) >= _INSIDE * areas(windows))


def refine(
    problem: LatentProblem,
    bags: Bags,
    boxes: ArrayLike,
    windows: ArrayLike,
    *,
    limits: OverlapLimits = OverlapLimits(),  # noqa: B008 - a tuple of numbers
    candidates: int = CANDIDATES,
    known: Mapping[int, KnownBoxes] | None = None,
    progress: Callable[[int, dict[str, Any]], None] | None = None,
) -> LatentSolution:
    """Train a model of the chosen windows against all windows far from them.

    Parameters
    ----------
    problem : LatentProblem
        Its `y`, `risk`, `C`, `top` and tolerances are used; `init` and `fixed_windows` are not. With ``top=1`` a
        positive is its best window near the chosen one; a larger `top` takes the mean of so many.
    bags : Bags
        The pictures.
    boxes : (n_windows, 4)
        The boxes of their windows, in the same order.
    windows : (n_bags,) or (n_bags, m) int
        The chosen window of every positive picture, and up to m - 1 more that hold other objects, then -1; those of
        other pictures are ignored.
    limits : OverlapLimits, optional
        The overlaps with the chosen window that make a window a positive or a negative.
    candidates : int, default 20
        As for `fit_many`.
    known : mapping of bag to KnownBoxes, optional
        Boxes of some positive pictures, such as a person's. They decide which windows are positives and negatives; the
        chosen window stays a positive.
    progress : callable, optional
        As for `fit_many`.

    Returns
    -------
    LatentSolution
        Its `windows` (n_bags,) are the best windows at the new weights, in positive pictures among those near the
        first chosen one; pictures of label 0 take no part in training.

    Raises
    ------
    ShapeError
        If boxes or windows do not fit the bags.
    InputError
        If a window lies outside its bag, or the limits break their rule.

    Warns
    -----
    ConvergenceWarning
        If training stopped early.
    """
    labels, box_array = problem.labels(bags), as_boxes(boxes)
    positives = np.flatnonzero(labels > 0)
    if len(box_array) != bags.n_windows:
        raise ShapeError(f"boxes must be one per window, {bags.n_windows}, got {len(box_array)}.")
    given = as_array("windows", windows)
    chosen = as_whole_numbers("windows", given.ravel() if given.ndim == 2 else given)
    chosen = chosen.reshape(len(given), -1)
    for number, column in enumerate(chosen.T):
        check_windows("windows", column, bags, positives if number == 0 else positives[column[positives] != -1])
    limits.check()
    excluded, has_far = _excluded(bags, box_array, positives, chosen, limits, known or {})
    more = chosen[positives, 1:]
    others = np.repeat(positives, (more >= 0).sum(axis=1))
    pictures = bags.subset(np.concatenate([np.arange(bags.n_bags), others, positives])).excluding(excluded)
    y = np.concatenate([labels, np.ones(len(others)), np.where(has_far, -1.0, 0.0)])
    first, unused = np.where(labels > 0, chosen[:, 0], 0), np.zeros(len(positives), dtype=np.intp)
    start = np.concatenate([first, more[more >= 0], unused])
    full = replace(problem, y=y, init=start, fixed_windows=None)
    (solution,) = fit_many([full], pictures, progress, candidates=candidates)
    return replace(solution, windows=solution.windows[: bags.n_bags])


def _excluded(
    bags: Bags, boxes: Float64, positives: Index, chosen: Index, limits: OverlapLimits, known: Mapping[int, KnownBoxes]
) -> tuple[Mask, Mask]:
    """Return which windows do not compete, and which positive pictures have windows far from the chosen ones.

    A positive picture appears first among all, without the windows that are not near its first chosen one; after all
    pictures once for each further one; at last as a negative, without those that are not far.
    """
    first, others, negative = np.zeros(bags.n_windows, dtype=np.bool_), [], []
    for bag in positives:
        rows = slice(bags.offsets[bag], bags.offsets[bag + 1])
        windows = boxes[rows]
        picks = chosen[bag][chosen[bag] >= 0]
        overlaps = iou(windows, windows[picks])
        near, far = overlaps >= limits.pos_iou, limits.negative(windows, windows[picks], overlaps)
        if bag in known:
            of_first, far = known[bag].classify(windows, near[:, 0], far, limits)
            near[:, 0] = of_first
        near[picks, range(len(picks))], far[picks] = True, False  # a box without area overlaps nothing, not even itself
        first[rows] = ~near[:, 0]
        others += [~column for column in near.T[1:]]
        negative.append(~far)
    has_far = np.array([not close.all() for close in negative])
    negative = [
        close & some for close, some in zip(negative, has_far, strict=True)
    ]  # without far ones it takes no part
    return np.concatenate([first, *others, *negative]), has_far
