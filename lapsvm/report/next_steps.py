"""What to do next, by what a run found: the three findings that tell classes apart without boxes.

docs/howto/what_now.md lists them, and docs/measurements/results.md says how often they are shown.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from lapsvm.report.contents import NextStep, check_numbers

FEW_PICTURES = 30
WEAK = 0.5
GRADIENTS = "hog"
_SURE = 1.96  # standard deviations: an interval at 95 %
_MORE_PICTURES = (
    f"Add pictures: {FEW_PICTURES} with the class and as many without it are a start, a hundred are better."
)
_HOG_ADVICE = (
    "Gradients (hog) do not tell these pictures apart. Take features from a network, which is installed in the folder "
    "of the source."
)
_NETWORK_ADVICE = (
    "Check the labels of the pictures that the page shows and add pictures; try another network, and larger --sizes "
    "for small objects."
)
_LOOK_AT_BOXES = (
    "Training and refinement put the box of a picture in different places, or make it larger or smaller: the labels "
    "leave open what the object is. Look at, or mark, 20 boxes of each class."
)


class BoxMoves(NamedTuple):
    """Training pictures in which refinement left the box where it began, and those in which it did not."""

    stayed: int
    moved: int

    @property
    def are_unsettled(self) -> bool:
        """Whether the boxes that stayed are not surely more than half: E. B. Wilson's interval reaches below it."""
        excess = self.stayed - self.moved
        return self.moved > 0 and (excess <= 0 or excess**2 <= _SURE**2 * sum(self))


@dataclass(frozen=True)
class Findings:
    """What is known of one class; None where a run does not know it.

    Attributes
    ----------
    name : str
    positive, negative : int
        Training pictures.
    image_ap : float or None
        Of unseen pictures: of the test set, or of held-out training pictures.
    chance : float or None
        The share of positives among these pictures, the image AP of a random order.
    boxes : BoxMoves or None
        What refinement did to the boxes of training pictures.
    """

    name: str
    positive: int
    negative: int
    image_ap: float | None = None
    chance: float | None = None
    boxes: BoxMoves | None = None

    def __post_init__(self) -> None:
        check_numbers(self, f"findings of {self.name!r}")


def next_steps(
    classes: Iterable[Findings], extractors: Iterable[str] = (), review: str = "lapsvm review --out RUN"
) -> tuple[NextStep, ...]:
    """Return the steps for classes with too few pictures, with pictures that are not told apart, and with moving boxes.

    Parameters
    ----------
    classes : iterable of Findings
    extractors : iterable of str, default ()
        Gradients alone are named as the reason of a weak image AP.
    review : str, default "lapsvm review --out RUN"
        The command that shows the run's boxes to a person.

    Returns
    -------
    tuple of NextStep
        Empty if no class has a finding.
    """
    known = tuple(classes)
    few = [one for one in known if min(one.positive, one.negative) < FEW_PICTURES]
    weak = [one for one in known if is_weak(one.image_ap, one.chance)]
    steps = []
    if few:
        numbers = tuple((one.name, f"{one.positive} with it, {one.negative} without") for one in few)
        steps.append(NextStep("Too few pictures", numbers, _MORE_PICTURES))
    if weak:
        numbers = tuple((one.name, f"image AP {one.image_ap:.3f}, by chance {one.chance:.3f}") for one in weak)
        steps.append(NextStep("Unseen pictures are not told apart", numbers, *_advice(tuple(extractors))))
    if moving := {one.name: one.boxes for one in known if one.boxes is not None and one.boxes.are_unsettled}:
        numbers = tuple(
            (name, f"{of.stayed} of {sum(of)} boxes stayed where they began") for name, of in moving.items()
        )
        steps.append(NextStep("Boxes are not settled", numbers, _LOOK_AT_BOXES, (review,)))
    return tuple(steps)


def is_weak(image_ap: float | None, chance: float | None) -> bool:
    """Return whether image AP is less than `WEAK` of the way from a random order to a perfect one."""
    return image_ap is not None and chance is not None and image_ap - chance < WEAK * (1 - chance)


def _advice(extractors: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """Return what helps where pictures are not told apart, and the options for it."""
    if extractors and all(name.startswith(GRADIENTS) for name in extractors):
        return _HOG_ADVICE, ('pip install ".[photos]"', "--extractor efficientnet_lite0 --recipe best")
    return _NETWORK_ADVICE, ("--extractor onnx:FILE",)
