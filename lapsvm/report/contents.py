"""The values that a page shows, as frozen dataclasses that the report stage fills.

Values that a run may lack are optional. ``None`` means "undefined" or "unknown" and is shown as "-". NaN and infinity
raise NotFiniteError.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from numbers import Real
from typing import Any

from numpy.typing import ArrayLike

from lapsvm.arrays import as_floats, check_same_length
from lapsvm.catalog import Pixels
from lapsvm.detection import Reliability, ScoreMap
from lapsvm.errors import InputError, NotFiniteError
from lapsvm.evaluation import Figures, check_entry, read_figures
from lapsvm.inspection.threshold import AlarmThreshold


@dataclass(frozen=True)
class LabelCounts:
    """Pictures of one class in one set.

    Attributes
    ----------
    positive, negative : int
        Pictures labelled +1 and -1.
    left_out : int, default 0
        Pictures labelled 0 (only difficult objects), left out of training.
    """

    positive: int
    negative: int
    left_out: int = 0


@dataclass(frozen=True)
class SetSummary:
    """A set of pictures.

    Attributes
    ----------
    name : str
        For instance "trainval".
    pictures : int
    has_boxes : bool
        Whether ground-truth boxes are known. Without them detection AP, CorLoc and pointing are left out.
    windows : int or None
        Candidate windows of all its pictures together.
    labels : mapping of class name to LabelCounts
    """

    name: str
    pictures: int
    has_boxes: bool
    windows: int | None = None
    labels: Mapping[str, LabelCounts] = field(default_factory=dict)


@dataclass(frozen=True)
class RunSummary:
    """The data, settings and versions of a run.

    Attributes
    ----------
    title : str
        The page's heading.
    dataset : str
    extractors : tuple of str
        One name per source of features.
    loss : str
    train : SetSummary
    test : SetSummary or None
        None if the data have no test set.
    command : str
        The command line that repeats the run.
    iou : float, default 0.5
        Smallest overlap of a correct detection with an object.
    seeds : mapping of a use ("run", "windows", ...) to its seed
    settings : mapping of an option to its value
    versions : mapping of a package to its version
    seconds : mapping of a stage to its wall time in seconds, in running order
    """

    title: str
    dataset: str
    extractors: tuple[str, ...]
    loss: str
    train: SetSummary
    test: SetSummary | None
    command: str
    iou: float = 0.5
    seeds: Mapping[str, int] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class CccpStep:
    """One outer step of training.

    Attributes
    ----------
    objective : float
        Primal objective after the step.
    duality_gap : float or None
        Relative gap of the step's convex problem, (primal - dual) / abs(primal).
    passes : float or None
        Passes over the windows from the start of training to the end of the step.
    seconds : float or None
        Wall time from the start of training to the end of the step.
    """

    objective: float
    duality_gap: float | None = None
    passes: float | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        check_numbers(self, "a CCCP step")


@dataclass(frozen=True, eq=False)
class Curve:
    """A precision-recall curve, one point per detection, best score first.

    Attributes
    ----------
    recall, precision : array-like of shape (n,)

    Raises
    ------
    ShapeError, NotFiniteError
        If they differ in length, or hold NaN or infinity.
    """

    recall: ArrayLike
    precision: ArrayLike

    def __post_init__(self) -> None:
        recall, precision = as_floats("recall", self.recall, 1), as_floats("precision", self.precision, 1)
        check_same_length("recall", recall, "precision", precision)


@dataclass(frozen=True, eq=False)
class Example:
    """A picture with one window to show.

    Attributes
    ----------
    id : str
    pixels : callable returning a uint8 RGB array of shape (h, w, 3)
        For instance ``record.pixels`` of an `ImageRecord`; called only for the pictures that the page shows.
    box : array-like of shape (4,)
        The window x1, y1, x2, y2 in pixels of the picture.
    score : float
    truth : array-like of shape (n, 4), or None
        Objects of the class; empty if there are none, None if boxes are unknown.
    others : mapping of class name to array-like of shape (m, 4)
        Objects of the other classes.
    note : str
        Text for the caption, for instance "a second detection of the object".
    second : array-like of shape (4,), or None
        Another window to compare with: that of the model of all pictures.
    probability : float or None
        That of a picture whose best score this is, as `predict` has it; captions show it in place of the score.
    score_map : callable returning a ScoreMap or None, optional
        Where in the picture the class scores, if that is known; called only for the pictures that the page shows.
    objectness_map : callable returning an array-like of shape (rows, columns) or None, optional
        What stands out in the whole picture, 0 to 1, of any resolution; called like `score_map`.
    good : callable returning a uint8 RGB array of shape (h, w, 3), optional
        A picture without any class, to compare with.
    """

    id: str
    pixels: Callable[[], Pixels]
    box: ArrayLike
    score: float
    truth: ArrayLike | None = None
    others: Mapping[str, ArrayLike] = field(default_factory=dict)
    note: str = ""
    second: ArrayLike | None = None
    probability: float | None = None
    score_map: Callable[[], ScoreMap | None] | None = None
    objectness_map: Callable[[], ArrayLike | None] | None = None
    good: Callable[[], Pixels] | None = None

    def __post_init__(self) -> None:
        check_numbers(self, f"example {self.id!r}")


@dataclass(frozen=True, eq=False)
class ClassSummary:
    """How one class was trained, and its pictures; its figures are those of `Contents`.

    Attributes
    ----------
    name : str
    C : float or None
        The chosen weight of the loss.
    duality_gap : float or None
        Relative gap at the end of training; none if the weights changed after it.
    steps : tuple of CccpStep
        Empty if unknown.
    curve : Curve or None
        On the test set.
    best, false_positives, misses : tuple of Example
        Best detections; highest scored false positives; pictures of the training set with the class whose best window
        is wrong. Each in display order. Pass all misses: the page lists those it does not show by id.
    missed_on : str
        The pictures of `misses` and `hits`, for instance "on trainval".
    false_alarms, weak_positives : tuple of Example
        Highest scored boxes in pictures labelled as not showing the class; pictures with the class whose best box
        scores lowest. In display order.
    sample : tuple of Example
        The best boxes of pictures with the class in even steps of their scores, the lowest first.
    shown_on : str
        The pictures of these and of `best` and `false_positives`, for instance "on test".
    disagreements : tuple of Example
        Training pictures with the class in which a model that did not see them chooses another window.
    hits : int or None
        Pictures of the training set with the class whose best window is correct.
    stands_out : str
        A sentence that says whether its objects stand out; above its pictures.
    """

    name: str
    C: float | None = None
    duality_gap: float | None = None
    steps: tuple[CccpStep, ...] = ()
    curve: Curve | None = None
    best: tuple[Example, ...] = ()
    false_positives: tuple[Example, ...] = ()
    misses: tuple[Example, ...] = ()
    false_alarms: tuple[Example, ...] = ()
    weak_positives: tuple[Example, ...] = ()
    sample: tuple[Example, ...] = ()
    shown_on: str = ""
    missed_on: str = ""
    disagreements: tuple[Example, ...] = ()
    hits: int | None = None
    stands_out: str = ""

    def __post_init__(self) -> None:
        check_numbers(self, f"class {self.name!r}")

    @property
    def cccp_steps(self) -> int | None:
        """Number of outer steps, None if unknown."""
        return len(self.steps) or None


@dataclass(frozen=True)
class NextStep:
    """One finding, and what to do.

    Attributes
    ----------
    finding : str
        A noun phrase, such as "Boxes are too large".
    classes : tuple of (str, str)
        The classes, each with the number that shows it.
    advice : str
        One or two sentences.
    options : tuple of str
        Options, or a command, that address it.
    """

    finding: str
    classes: tuple[tuple[str, str], ...]
    advice: str
    options: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Contents:
    """All values that one page shows.

    Attributes
    ----------
    summary : RunSummary
    classes : tuple of ClassSummary
    skipped : mapping of a class that was not trained to the reason
    left_out : mapping of the id of a picture that was left out to the reason
    warnings : tuple of str
        Complete sentences, shown at the top.
    figures : mapping of set name to its entry of evaluation.json
        All figures of the page; intervals, kinds of errors and figures of windows are shown if they are in it.
    reliability : mapping of class name to Reliability
        Of the probabilities of held-out pictures; classes without probabilities are missing.
    next_steps : tuple of NextStep
        See `lapsvm.report.next_steps`.
    verified : tuple of str
        How many boxes are right as a person says, or how to look; below the title.
    verdicts : mapping of class name to str
        The share of right boxes as a person says, for instance "14 of 20 right: 48 to 85 %".
    objectness : tuple of str
        Sentences on what marks what stands out, and how it counts; above the pictures.
    alarm : AlarmThreshold or None
        From which probability a picture of this run is not ok, if that was chosen.
    threshold : str
        The command that chooses it; "" where it was chosen, or cannot be.
    has_good : bool
        Whether pictures are sorted into good and defective ones, so that the page has figures of that decision.
    """

    summary: RunSummary
    classes: tuple[ClassSummary, ...]
    skipped: Mapping[str, str] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    figures: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    reliability: Mapping[str, Reliability] = field(default_factory=dict)
    next_steps: tuple[NextStep, ...] = ()
    verified: tuple[str, ...] = ()
    verdicts: Mapping[str, str] = field(default_factory=dict)
    objectness: tuple[str, ...] = ()
    alarm: AlarmThreshold | None = None
    threshold: str = ""
    has_good: bool = False

    def __post_init__(self) -> None:
        for name, entry in self.figures.items():
            check_entry(entry, f"figures of set {name}")

    @cached_property
    def places(self) -> list[Figures]:
        """The figures of the test set, of held-out and of training pictures, those that are known."""
        sets = [data.name for data in (self.summary.test, self.summary.train) if data is not None]
        return read_figures({name: self.figures[name] for name in sets if name in self.figures}, sets[-1])

    @property
    def names(self) -> list[str]:
        """The classes."""
        return [of_class.name for of_class in self.classes]


def check_numbers(value: Any, owner: str) -> None:
    """Raise InputError unless plain numbers of a dataclass are numbers or None, NotFiniteError if one is not finite."""
    for attribute in fields(value):
        number = getattr(value, attribute.name)
        wants_number = attribute.type in (int, float, int | None, float | None)
        if wants_number and number is not None and (isinstance(number, bool) or not isinstance(number, Real)):
            raise InputError(f"{attribute.name} of {owner} must be a number, got {number!r}.")
        if isinstance(number, float) and not math.isfinite(number):
            raise NotFiniteError(f"{attribute.name} of {owner} must be finite (None where undefined), got {number}.")
