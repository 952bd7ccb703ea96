"""One class under review: its pictures in order, what was said of them, and the models that its boxes come from."""

from dataclasses import dataclass, field
from functools import cached_property

from lapsvm.arrays import Float64
from lapsvm.detection import Detector

from ..products.held_out import HeldOut
from ..verdicts.counting import decided
from ..verdicts.right_boxes import Verified
from ..verdicts.verdict import Verdict


@dataclass(frozen=True, eq=False)
class BoxModels:
    """The models that boxes of a class come from.

    Attributes
    ----------
    detector : Detector
        That of all pictures, which scores windows.
    held_out : HeldOut or None
        The best boxes by models that did not see the pictures.
    """

    detector: Detector
    held_out: HeldOut | None

    @cached_property
    def first_boxes(self) -> dict[str, Float64]:
        """Picture -> its held-out box (4,)."""
        return {} if self.held_out is None else dict(zip(self.held_out.ids, self.held_out.boxes, strict=True))


@dataclass(eq=False)
class ClassReview:
    """One class under review.

    Attributes
    ----------
    name : str
    rows : list of int
        The shards' rows of its positive pictures, in the order in which they are asked for.
    verdicts : dict of picture to Verdict
        "skip" included; what was said last comes last.
    models : list of BoxModels
        Those of the run, then those that were learned since. Boxes come from the last ones; the others say which boxes
        a person saw who answers late.
    former : dict of picture to list of Verdict
        The verdicts that were replaced since the review began, so that they can come back as they were.
    """

    name: str
    rows: list[int]
    verdicts: dict[str, Verdict]
    models: list[BoxModels]
    former: dict[str, list[Verdict]] = field(default_factory=dict)

    @property
    def version(self) -> int:
        """The place of the models of now in `models`."""
        return len(self.models) - 1

    @property
    def detector(self) -> Detector:
        """The detector that scores windows now."""
        return self.models[-1].detector

    @property
    def held_out(self) -> HeldOut | None:
        """The held-out boxes of now."""
        return self.models[-1].held_out

    def decided(self) -> dict[str, Verdict]:
        """Return the verdicts of now, without "skip"."""
        return decided(self.verdicts.copy())  # other threads add to them

    def verified(self) -> Verified | None:
        """Return how many held-out boxes are right; None if that is not known."""
        return None if self.held_out is None else self.held_out.verified(self.decided())

    def restored(self, verdict: Verdict) -> Verdict:
        """Return the verdict that was replaced last in a picture, if it says what `verdict` says, or else `verdict`."""
        former = self.former.get(verdict.picture, [])
        is_same = former and (former[-1].verdict, former[-1].boxes) == (verdict.verdict, verdict.boxes)
        return former[-1] if is_same else verdict

    def take(self, verdict: Verdict) -> None:
        """Let a verdict count, in place of that which the picture had."""
        former = self.former.setdefault(verdict.picture, [])
        if former and former[-1] is verdict:  # it comes back
            former.pop()
        elif verdict.picture in self.verdicts:
            former.append(self.verdicts[verdict.picture])
        others = {picture: said for picture, said in self.verdicts.items() if picture != verdict.picture}
        self.verdicts = {**others, verdict.picture: verdict}
