"""What to do next, by what a run found: the findings that need no boxes.

docs/howto/what_now.md lists them, and docs/measurements/results.md says how often they are shown.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from lapsvm.evaluation.intervals import NORMAL, wilson
from lapsvm.report.contents import NextStep, check_numbers

FEW_PICTURES = 30
WEAK = HALF = 0.5
EASY = 0.98
GRADIENTS = "hog"
_MORE_PICTURES = (
    f"Add pictures: {FEW_PICTURES} with the class and as many without it are a start, a hundred are better."
)
_HOG_ADVICE = "Gradients (hog) separate these pictures by less than half. Take features from a network."
_INSTALL = " It is installed in the folder of the source."
_NETWORK_ADVICE = (
    "Check the labels of the pictures that the page shows and add pictures; try another network, and, for small "
    "objects, larger sizes at which it sees pictures."
)
_LOOK_AT_EASY = (
    "So easy that the scene may be what is learned, not the object, and no figure says which: look at 20 boxes. If "
    "they are wrong, add pictures without the class from the same scenes."
)
_LOOK_AT_BOXES = (
    "Training and refinement put the box of a picture in different places, or make it larger or smaller: the labels "
    "leave open what the object is. Look at, or mark, 20 boxes of each class."
)
PARTS_TELL = (
    "Parts of the boxes separate the pictures too: pictures without the class never show what surrounds it, and labels "
    "leave open whether the class is the whole or a part. Add such pictures, or look at five boxes."
)


class BoxMoves(NamedTuple):
    """Training pictures in which refinement left the box where it began, and those in which it did not."""

    stayed: int
    moved: int

    @property
    def are_unsettled(self) -> bool:
        """Whether the boxes that stayed are not surely more than half: E. B. Wilson's interval reaches below it."""
        return self.moved > 0 and wilson(self.stayed / sum(self), NORMAL**2 / sum(self))[0] <= HALF


class StepCommands(NamedTuple):
    """What a user types for the steps: the page shows it as it is; nothing by default.

    Attributes
    ----------
    first_network, other_network : tuple of str
        For features of a network in place of gradients, and for those of another one.
    review : tuple of str
        Shows the run's boxes to a person.
    """

    first_network: tuple[str, ...] = ()
    other_network: tuple[str, ...] = ()
    review: tuple[str, ...] = ()


NO_COMMANDS = StepCommands()


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
    verdicts : int, default 0
        Pictures on whose boxes a person has given a verdict: looking at boxes is no advice then.
    scene_may_decide : bool, default False
        Whether labels alone are known, and the pictures without the class may be of other scenes.
    telling_parts : (int, int), optional
        Pictures with the class whose box has several parts that each score above pictures without it, and all of them.
    """

    name: str
    positive: int
    negative: int
    image_ap: float | None = None
    chance: float | None = None
    boxes: BoxMoves | None = None
    verdicts: int = 0
    scene_may_decide: bool = False
    telling_parts: tuple[int, int] = (0, 0)

    @property
    def is_easy(self) -> bool:
        """Whether image AP is nearly perfect, and nobody knows by what."""
        return self.scene_may_decide and not self.verdicts and self.image_ap is not None and self.image_ap >= EASY

    @property
    def is_unsettled(self) -> bool:
        """Whether boxes move, and no person has said which one is meant."""
        return self.boxes is not None and self.boxes.are_unsettled and not self.verdicts

    def __post_init__(self) -> None:
        check_numbers(self, f"findings of {self.name!r}")


def next_steps(
    classes: Iterable[Findings], extractors: Iterable[str] = (), commands: StepCommands = NO_COMMANDS
) -> tuple[NextStep, ...]:
    """Return the steps for classes with too few pictures, hardly or too easily separable ones, and moving boxes.

    Parameters
    ----------
    classes : iterable of Findings
    extractors : iterable of str, default ()
        Gradients alone are named as the reason of a weak image AP.
    commands : StepCommands, optional

    Returns
    -------
    tuple of NextStep
        Empty if no class has a finding.
    """
    known = tuple(classes)
    few = [findings for findings in known if min(findings.positive, findings.negative) < FEW_PICTURES]
    weak = [findings for findings in known if is_weak(findings.image_ap, findings.chance)]
    steps = []
    if few:
        numbers = tuple(
            (findings.name, f"{findings.positive} with it, {findings.negative} without") for findings in few
        )
        steps.append(NextStep("Too few pictures", numbers, _MORE_PICTURES))
    if weak:
        numbers = tuple(
            (findings.name, f"image AP {findings.image_ap:.3f}, by chance {findings.chance:.3f}") for findings in weak
        )
        steps.append(
            NextStep("Unseen pictures are separated by less than half", numbers, *_advice(tuple(extractors), commands))
        )
    if easy := tuple((findings.name, f"image AP {findings.image_ap:.3f}") for findings in known if findings.is_easy):
        steps.append(NextStep("Unseen pictures are separated nearly perfectly", easy, _LOOK_AT_EASY, commands.review))
    if moving := {
        findings.name: findings.boxes for findings in known if findings.boxes is not None and findings.is_unsettled
    }:
        numbers = tuple(
            (name, f"{of.stayed} of {sum(of)} boxes stayed where they began") for name, of in moving.items()
        )
        steps.append(NextStep("Boxes are not settled", numbers, _LOOK_AT_BOXES, commands.review))
    if telling := {
        findings.name: findings.telling_parts
        for findings in known
        if parts_tell(*findings.telling_parts) and not findings.verdicts
    }:
        numbers = tuple((name, f"in {count} of {of} pictures") for name, (count, of) in telling.items())
        steps.append(NextStep("Parts of the boxes separate the pictures too", numbers, PARTS_TELL, commands.review))
    return tuple(steps)


def parts_tell(count: int, of: int) -> bool:
    """Return whether parts separate surely more than half of the pictures, by E. B. Wilson's interval."""
    return count > 0 and wilson(count / of, NORMAL**2 / of)[0] > HALF


def is_weak(image_ap: float | None, chance: float | None) -> bool:
    """Return whether image AP is less than `WEAK` of the way from a random order to a perfect one."""
    return image_ap is not None and chance is not None and image_ap - chance < WEAK * (1 - chance)


def _advice(extractors: tuple[str, ...], commands: StepCommands) -> tuple[str, tuple[str, ...]]:
    """Return the advice for pictures that are not separable, and its commands."""
    if extractors and all(name.startswith(GRADIENTS) for name in extractors):
        needs_install = any(command.startswith("pip ") for command in commands.first_network)
        return _HOG_ADVICE + (_INSTALL if needs_install else ""), commands.first_network
    return _NETWORK_ADVICE, commands.other_network
