"""Learning while a person looks: which class learns when, what its boxes are then, and what the page says of it."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from lapsvm.boxes import paired_iou
from lapsvm.errors import LapsvmError
from lapsvm.features import Extractor, ShardSet

from ..context import StoredRun, Workspace
from ..settings.settings import RefineSettings
from ..verdicts.reviewed import SAME
from ..verdicts.verdict import Verdict
from .class_review import BoxModels, ClassReview
from .learner import Learned, Learner
from .worker import PATIENCE, Worker

EVERY = 5
"""New verdicts after which a class learns again."""


class StopRule(NamedTuple):
    """When more looks pay little: after a number of verdicts, if each of the last learnings moved few boxes.

    Attributes
    ----------
    verdicts : int
        The least number of verdicts that the class learned from.
    learnings : int
        How many of the last ones moved few boxes.
    moved : float
        Few: those of fewer than this share of the pictures that nobody has looked at.
    """

    verdicts: int
    learnings: int
    moved: float

    def holds(self, n_verdicts: int, moved: Sequence[float | None]) -> bool:
        """Return whether more looks pay little, by the share of boxes that each learning moved; None if unknown."""
        last = moved[-self.learnings :]
        are_few = [share is not None and share < self.moved for share in last]
        return n_verdicts >= self.verdicts and len(last) == self.learnings and all(are_few)


STOP = StopRule(verdicts=10, learnings=2, moved=0.05)
ADVICE = "boxes hardly change any more: more looks of this class will pay little"


@dataclass(eq=False)
class _Progress:
    """How far learning of a class is.

    Attributes
    ----------
    asked : mapping of picture to Verdict
        What it learned from last, or is about to; at first the verdicts with which the review began.
    obstacle : str
        Why it does not learn; "" if it does.
    sentence, advice : str
        What the page says.
    has_learned : bool
        Whether the sentence says that boxes are new.
    is_busy : bool
    began : float
        When it was asked to learn, in seconds of `time.perf_counter`.
    moved : list of float or None
        The share of boxes that each learning moved.
    """

    asked: Mapping[str, Verdict]
    obstacle: str
    sentence: str = ""
    advice: str = ""
    has_learned: bool = False
    is_busy: bool = False
    began: float = 0.0
    moved: list[float | None] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """Seconds since it was asked to learn."""
        return time.perf_counter() - self.began

    def ask(self, verdicts: Mapping[str, Verdict]) -> None:
        """Note that the class is to learn from verdicts."""
        self.began = self.began if self.is_busy else time.perf_counter()
        self.asked, self.is_busy, self.has_learned = verdicts, True, False
        self.sentence = f"learning from {_counted(verdicts)}..."

    def end(self, verdicts: Mapping[str, Verdict], sentence: str, *, has_learned: bool) -> None:
        """Note how learning from verdicts has ended, unless newer ones wait: then it goes on."""
        if self.asked is verdicts:
            self.sentence, self.has_learned, self.is_busy = sentence, has_learned, False
        else:
            self.began = time.perf_counter()


class Learning:
    """Learns the classes of a review, one at a time, on a thread of its own.

    Parameters
    ----------
    stored : StoredRun
    shards : ShardSet
        The training set's.
    classes : sequence of ClassReview
        Gain models.
    workspace : Workspace
        Its reporter is not used: the worker has one of its own.
    open_extractor : callable
        Returns the extractor of the settings, for drawn boxes.
    """

    def __init__(
        self, stored: StoredRun, shards: ShardSet, classes: Sequence[ClassReview], workspace: Workspace,
        open_extractor: Callable[[], Extractor],
    ) -> None:  # fmt: skip
        self._stored, self._shards, self._classes = stored, shards, classes
        self._lock, self._worker = Lock(), Worker()
        self._workspace, self._open_extractor = replace(workspace, reporter=self._worker.reporter), open_extractor
        self._learner: Learner | None = None  # the worker's
        self._prepared: set[int] = set()
        self._progress = [_Progress(one.decided(), obstacle=_obstacle(stored.settings.refine, one)) for one in classes]

    def notice(self, index: int) -> None:
        """Let a class learn if it has enough new verdicts; after the first one, prepare it."""
        progress = self._progress[index]
        with self._lock:
            if progress.obstacle:
                return
            verdicts = self._classes[index].decided()
            if n_changed(progress.asked, verdicts) >= EVERY:
                progress.ask(verdicts)
                self._worker.ask(index, partial(self._learn, index, verdicts))
            elif index not in self._prepared:
                self._prepared.add(index)
                self._worker.ask(index, partial(self._prepare, index, verdicts))

    def state(self, index: int) -> dict[str, Any]:
        """Return the page's sentence on a class.

        Returns
        -------
        dict
            "version", the number of its models since the review began; "busy", whether it learns; "learning" and
            "advice", sentences, perhaps empty; "learned", whether the first one says that boxes are new.
        """
        with self._lock:
            one = self._progress[index]
            said = {"learning": one.obstacle or one.sentence, "advice": one.advice, "learned": one.has_learned}
            return {"version": self._classes[index].version, "busy": one.is_busy, **said}

    def stop(self, patience: float = PATIENCE) -> bool:
        """Stop learning, and return whether it has ended within some seconds."""
        return self._worker.stop(patience)

    # ---- on the worker's thread ----
    def _prepare(self, index: int, verdicts: Mapping[str, Verdict]) -> None:
        with suppress(Exception, SystemExit):  # learning meets the same error, and says it
            self._loaded().prepare(self._classes[index].name, verdicts)

    def _loaded(self) -> Learner:
        if self._learner is None:
            self._learner = Learner.loaded(self._stored, self._shards, self._workspace, self._open_extractor)
        return self._learner

    def _learn(self, index: int, verdicts: Mapping[str, Verdict]) -> None:
        try:
            learned = self._loaded().learn(self._classes[index].name, verdicts)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever it is, of users' code too, looking goes on
            self._fail(index, verdicts, error)
        else:
            self._use(index, verdicts, learned)

    def _fail(self, index: int, verdicts: Mapping[str, Verdict], error: BaseException) -> None:
        reason = str(error) if isinstance(error, LapsvmError) else f"{type(error).__name__}: {error}"
        with self._lock:
            sentence = f"boxes stay as they are, because learning failed: {' '.join(reason.split())}"
            self._progress[index].end(verdicts, sentence, has_learned=False)

    def _use(self, index: int, verdicts: Mapping[str, Verdict], learned: Learned) -> None:
        """Let the boxes of a class come from what it has learned."""
        one, progress = self._classes[index], self._progress[index]
        old = one.models[-1]
        new, decided = _with_boxes(old, learned), one.decided()
        moved = moved_share(old, new, [picture for picture in learned.boxes if picture not in decided])
        with self._lock:
            one.models.append(new)
            progress.moved.append(moved)
            is_settled = STOP.holds(len(verdicts), progress.moved) and one.verified() is not None
            progress.advice = ADVICE if is_settled else ""
            sentence = f"learned from {_counted(verdicts)} in {max(1, round(progress.seconds))} s"
            progress.end(verdicts, sentence, has_learned=True)


def _obstacle(settings: RefineSettings, one: ClassReview) -> str:
    """Return why a class does not learn while a person looks; "" if it does."""
    if not settings.rounds:
        return "the run has no refinement, so boxes stay as they are while you look"
    if one.held_out is None:
        return f"{one.name} has no held-out boxes, so boxes stay as they are while you look"
    return ""


def n_changed(before: Mapping[str, Verdict], now: Mapping[str, Verdict]) -> int:
    """Return in how many pictures the verdict is new, another one, or gone."""
    return sum(before.get(picture) != now.get(picture) for picture in before.keys() | now.keys())


def moved_share(old: BoxModels, new: BoxModels, pictures: Sequence[str]) -> float | None:
    """Return in which share of pictures old and new held-out box overlap by one half at most; None without pictures."""
    known = [picture for picture in pictures if picture in old.first_boxes and picture in new.first_boxes]
    if not known:
        return None
    before, after = (np.array([one.first_boxes[picture] for picture in known]) for one in (old, new))
    return float(np.mean(paired_iou(before, after) <= SAME))


def _with_boxes(old: BoxModels, learned: Learned) -> BoxModels:
    """Return the models of a class with what it has learned; held-out boxes of other pictures stay."""
    if old.held_out is None:
        raise AssertionError("a class without held-out boxes does not learn")
    boxes = np.array([learned.boxes.get(picture, box) for picture, box in old.first_boxes.items()])
    return BoxModels(learned.detector, replace(old.held_out, boxes=boxes))


def _counted(verdicts: Mapping[str, Verdict]) -> str:
    return f"{len(verdicts)} verdict{'' if len(verdicts) == 1 else 's'}"
