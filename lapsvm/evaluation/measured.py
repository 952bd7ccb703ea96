"""What measures are computed from: one class in some pictures, its rankings, hits, pixels and probabilities."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from numpy.typing import ArrayLike

from lapsvm.arrays import Float64
from lapsvm.evaluation.boxes.localisation import ClassHits
from lapsvm.evaluation.figure import Figure
from lapsvm.evaluation.pixels import PixelCounts


class Ranking(NamedTuple):
    """Pictures ranked by a score.

    Attributes
    ----------
    ids : sequence of n str
    scores : array-like of shape (n,)
    labels : array-like of shape (n,)
        1, -1, or 0 for a picture that is not ranked.
    """

    ids: Sequence[str]
    scores: ArrayLike
    labels: ArrayLike


class ProbabilityErrors(Protocol):
    """Errors of the probabilities of pictures."""

    @property
    def ece(self) -> float:
        """Expected calibration error."""

    @property
    def brier(self) -> float:
        """Mean squared error."""


class HeldOutClass(NamedTuple):
    """The share of positives among held-out pictures, and the errors of their probabilities, None if not known."""

    chance: float
    errors: ProbabilityErrors | None


@dataclass(frozen=True, eq=False)
class MeasuredClass:
    """One class in some pictures, or all classes as one. A part that is not known is None or empty.

    Attributes
    ----------
    ranking : Ranking or None
    has_none : bool
        Whether some of the pictures show no class, so that their order can be judged.
    corloc : mapping of a least IoU to ClassHits
        Best boxes that are right.
    pointing, map_pointing : ClassHits or None
        Best boxes, and maps of scores, that point at an object.
    pixels : PixelCounts or None
    held_out : HeldOutClass or None
    overlaps : (n,) float64 or None
        The largest overlap of each object with a window.
    joint : mapping of measure to Figure
        Figures that one function computes together: those of VOC and COCO.
    """

    ranking: Ranking | None = None
    has_none: bool = False
    corloc: Mapping[float, ClassHits] = field(default_factory=dict)
    pointing: ClassHits | None = None
    map_pointing: ClassHits | None = None
    pixels: PixelCounts | None = None
    held_out: HeldOutClass | None = None
    overlaps: Float64 | None = None
    joint: Mapping[str, Figure] = field(default_factory=dict)
