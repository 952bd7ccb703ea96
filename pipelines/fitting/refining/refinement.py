"""Refinement of trained models: choose the windows of positive pictures, train on them, and again.

Refinement trains each class's model of all pictures beside those that each never see a fold (`chains`). Objects that a
person knows teach it beside the labels (`teaching`). Classes are refined at the same time, as many as memory admits
(`side_by_side`): each on a thread that chooses windows, while the chains of all are trained on the threads of one pool.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from threading import local
from typing import Any, NamedTuple

import numpy as np

from lapsvm.bags import Buffer
from lapsvm.blas import one_blas_thread
from lapsvm.features import PictureWindows
from lapsvm.latent import refine

from ...products.models import FitTask
from ...run.progress import Reporter
from ...settings.settings import Settings
from ...shards.prefetch import PREFETCHED, prefetched
from ...verdicts.reviewed import Reviews
from ..fit import Constants, FitRequest, TrainingProgress, problem, training_progress
from ..history import history_rows
from .chains import Chain, Choose, TrainedModels, initial_chains, with_new_windows
from .choice import choose_windows, count_unmoved, prior_share
from .drawn_boxes import with_reviewed_boxes
from .pictures import StoredPictures
from .shared_starts import SharedStarts, shared_starts
from .teaching import CLOSER, WIDER, can_teach, count_positives, joined, reviewed_chains, teachers

Update = Callable[[dict[str, Any]], None]
History = list[dict[str, Any]]
"""Rows of history.csv."""


class Refined(NamedTuple):
    """What refinement makes of a class.

    Attributes
    ----------
    chains : list of Chain
        With the weights of detection: that of all pictures, then those without fold 1, 2 and so on.
    history : list of dict
        Rows of history.csv.
    result : dict
        What the model's provenance records: "C"; "boxes_stayed" and "boxes_moved"; "reviewed", how many pictures
        teach; "starts_like"; "objectness", see `prior_share`.
    notes : list of str
        What the run says of it.
    """

    chains: list[Chain]
    history: History
    result: dict[str, Any]
    notes: list[str]


class AtWork(NamedTuple):
    """What the classes that are refined at the same time share.

    Attributes
    ----------
    progress : TrainingProgress
    pool : Executor or None
        The threads that train chains; None: those that choose windows do.
    first : mapping of class to int
        The number of its first chain among those of all.
    """

    progress: TrainingProgress
    pool: Executor | None
    first: Mapping[str, int]


@dataclass(frozen=True, eq=False)
class ClassAtWork:
    """A class on its way through refinement.

    Attributes
    ----------
    task : FitTask
    pictures : StoredPictures
        With what is known of the class.
    choose : Choose
        How windows are chosen in them.
    shared : AtWork
    """

    task: FitTask
    pictures: StoredPictures
    choose: Choose
    shared: AtWork


class _OfThread(local):
    """The memory for copies of each thread, which its classes use one after the other."""

    def __init__(self) -> None:
        self.copies = Buffer()


@dataclass(frozen=True, eq=False)
class Refinement:
    """Refines the trained models of the classes of a run.

    Attributes
    ----------
    settings : Settings
    pictures : StoredPictures
    models : mapping of class to TrainedModels
        Of all classes, because some start from the models of others.
    drawn : mapping of picture to PictureWindows
        Drawn boxes that no window covers, with features.
    reporter : Reporter
    copy_bytes : int, optional
        Bytes for copied windows of a class, see `StoredPictures.active`.
    at_once : int, default 1
        Classes that are refined at the same time, see `side_by_side`; their models do not depend on it.
    """

    settings: Settings
    pictures: StoredPictures
    models: Mapping[str, TrainedModels]
    drawn: Mapping[str, PictureWindows]
    reporter: Reporter
    copy_bytes: int | None = None
    at_once: int = 1
    _of_labels: dict[str, list[Chain]] = field(default_factory=dict, init=False, repr=False)  # by class
    _of_thread: _OfThread = field(default_factory=_OfThread, init=False, repr=False)

    @cached_property
    def starts(self) -> SharedStarts:
        """The classes that start from the models of others."""
        return shared_starts(self.models, self.pictures.bags)

    def fit(self, task: FitTask) -> Refined:
        """Return the refined models of a class.

        They learn from all positive pictures; the objects of enough reviewed ones teach them (`teaching`).
        """
        with self.fit_all([task]) as found:
            ((_, refined),) = found
        return refined

    @contextmanager
    def fit_all(self, tasks: Sequence[FitTask]) -> Iterator[Iterator[tuple[FitTask, Refined]]]:
        """Yield classes with their refined models, in order, and say the notes of each.

        Trainings end with their next outer step where one raises, or the block, or the program is interrupted.
        """
        _ = self.starts  # a pass, once
        with self._at_work(tasks) as shared, self._on_threads(partial(self._fit, shared), tasks) as found:
            try:
                yield self._finished(shared, found)
            except BaseException:
                shared.progress.stop()
                raise

    @contextmanager
    def _at_work(self, tasks: Sequence[FitTask]) -> Iterator[AtWork]:
        """Show the progress of classes, and yield what they share."""
        names, threads = (
            [task.name for task in tasks for _ in self.models[task.name].weights.T],
            self.pictures.bags.threads,
        )
        with (
            one_blas_thread(),
            training_progress(self.reporter, "refine", names, classes=len(tasks)) as progress,
            nullcontext() if threads == 1 else ThreadPoolExecutor(threads, "chain") as pool,
        ):
            yield AtWork(progress, pool, {task.name: names.index(task.name) for task in tasks})

    @contextmanager
    def _on_threads(
        self, fit: Callable[[FitTask], Refined], tasks: Sequence[FitTask]
    ) -> Iterator[Iterable[tuple[FitTask, Refined]]]:
        """Yield what `fit` returns for each class, as many at the same time as may be."""
        count = min(self.at_once, len(tasks))
        if count == 1:
            yield ((task, fit(task)) for task in tasks)
            return
        with (
            ThreadPoolExecutor(count, "class") as pool,
            closing(prefetched(pool, fit, tasks, PREFETCHED * count)) as found,
        ):
            yield found

    def _finished(self, shared: AtWork, found: Iterable[tuple[FitTask, Refined]]) -> Iterator[tuple[FitTask, Refined]]:
        for task, refined in found:
            shared.progress.finish(task.name)
            for note in refined.notes:
                self.reporter.say(note)
            yield task, refined

    def _fit(self, shared: AtWork, task: FitTask) -> Refined:
        own, initial = self._begin(shared, task)
        reviewed = reviewed_chains(initial, own.pictures.known)
        refined = self._teach(own, initial, reviewed) if can_teach(reviewed) else self.run_rounds(own, initial)
        refined.result.update(self._objectness(own, initial[0], refined.notes))
        if task.name in self.starts.weights:
            refined.result["starts_like"] = self.starts.donors
        return refined

    def _begin(self, shared: AtWork, task: FitTask) -> tuple[ClassAtWork, list[Chain]]:
        """Return a class, with what reviewed boxes and what stands out say of its pictures, and its first chains."""
        pictures = with_reviewed_boxes(self.pictures, task.reviews.known, self.drawn, self.settings.refine.pos_iou)
        prior = None if pictures.prior is None else pictures.prior.of_class(task.name, self.settings.objectness)
        pictures = replace(pictures, prior=prior, copies=self._of_thread.copies)
        choose = partial(choose_windows, pictures, self.settings.refine)
        chains = initial_chains(self.models[task.name], choose, self.starts.weights.get(task.name))
        return ClassAtWork(task, pictures, choose, shared), chains

    def prepare(self, task: FitTask) -> Sequence[Chain]:
        """Return the chains that learn from labels alone, with the weights of training; kept for the next `fit`."""
        with self._at_work([task]) as shared:
            return self._taught_by_labels(shared, task)

    def _taught_by_labels(self, shared: AtWork, task: FitTask) -> Sequence[Chain]:
        kept = self._of_labels.get(task.name)
        if kept is None or not np.array_equal(kept[0].y, task.y):
            kept, _ = self._rounds(*self._begin(shared, replace(task, reviews=Reviews())))
            self._of_labels[task.name] = kept
        return kept

    def _teach(self, own: ClassAtWork, initial: Sequence[Chain], reviewed: Sequence[Chain]) -> Refined:
        """Return the models that labels and the objects of reviewed pictures make together."""
        settings, C, name = self.settings.refine, WIDER * self.settings.refine.C, own.task.name
        labels = self._taught_by_labels(own.shared, own.task)
        by_boxes = self.train_round(own, reviewed, "reviewed pictures", CLOSER * settings.C)
        taught = [one._replace(weights=w) for one, w in zip(initial, teachers(labels, by_boxes), strict=True)]
        whole = taught[0]  # its windows stay where no fold decides; the others choose theirs in `with_new_windows`
        taught[0] = whole._replace(windows=own.choose(whole.y, whole.weights, whole.y))
        taught = with_new_windows(taught, self.models[name].fold, own.choose)
        taught = self.train_round(own, taught, "taught pictures", C)
        count = count_positives(reviewed[0])
        note = f"refine: the objects of {count} reviewed pictures teach {name} beside its labels."
        history = history_rows(name, f"round {settings.rounds}", Constants(C), taught[0].trained)
        chains = [self._final(chain) for chain in joined(taught, by_boxes)]
        result = {"C": C, "reviewed": count} | self._unmoved(own.pictures, initial, chains)
        return Refined(chains, history, result, [note])

    def run_rounds(self, own: ClassAtWork, initial: Sequence[Chain]) -> Refined:
        """Return the models after all rounds: train on the windows of the chains, choose windows, and train again."""
        chains, history = self._rounds(own, initial)
        chains = [self._final(chain) for chain in chains]
        result = {"C": self.settings.refine.C} | self._unmoved(own.pictures, initial, chains)
        return Refined(chains, history, result, [])

    def _rounds(self, own: ClassAtWork, initial: Sequence[Chain]) -> tuple[list[Chain], History]:
        settings, chains, history, name = self.settings.refine, list(initial), History(), own.task.name
        for number in range(1, settings.rounds + 1):
            if number > 1:
                chains = with_new_windows(chains, self.models[name].fold, own.choose)
            chains = self.train_round(own, chains, f"round {number} of {settings.rounds}", settings.C)
            history += history_rows(name, f"round {number}", Constants(settings.C), chains[0].trained)
        return chains, history

    def _unmoved(self, pictures: StoredPictures, initial: Sequence[Chain], final: Sequence[Chain]) -> dict[str, Any]:
        unmoved, moved = count_unmoved(pictures, self.settings.refine, initial[0], final[0])
        return {"boxes_stayed": unmoved, "boxes_moved": moved}

    def _objectness(self, own: ClassAtWork, initial: Chain, notes: list[str]) -> dict[str, Any]:
        """Return what the model records of how much what stands out counts, and note it; empty without a prior."""
        counted = prior_share(own.pictures, self.settings.refine, initial.y, initial.weights)
        if counted:
            how = f"the windows that scores choose have an objectness of {counted['stands_out']:.2f}"
            notes.append(f"refine: {own.task.name}: {how}, so what stands out {_counts(counted['share'])}.")
        return {"objectness": counted} if counted else {}

    def train_round(self, own: ClassAtWork, chains: Sequence[Chain], what: str, C: float) -> list[Chain]:
        """Return the chains after training on their windows; `what` names the round, `C` is the weight of the loss.

        Chains that share a copy of their windows are trained at the same time, beside those of other classes.
        """
        name, shared = own.task.name, own.shared
        constants, first, trained = Constants(C, self.models[name].J), shared.first[name], list[Chain]()

        def train(index: int, pictures: StoredPictures) -> Chain:
            shared.progress.title = f"refine {name}, {what}"
            return self._train_chain(chains[index - first], pictures, constants, partial(shared.progress.update, index))

        for group in own.pictures.active(chains, self.settings.refine.candidates, self.copy_bytes):
            begin = first + len(trained)
            trained += shared.progress.run(train, shared.pool, range(begin, begin + len(group)), group)
            del group  # the next copy may need larger memory in its place
        return trained

    def _train_chain(self, chain: Chain, pictures: StoredPictures, constants: Constants, update: Update) -> Chain:
        latent = problem(self.settings, FitRequest(chain.y, constants))
        latent = replace(latent, top=self.settings.refine.top, init="mean")
        names = ("pos_iou", "neg_iou", "neg_min_iou", "neg_part_iou")
        given = {"known": pictures.known, **{name: getattr(self.settings.refine, name) for name in names}}

        def progress(_: int, record: dict[str, Any]) -> None:
            update(record)

        solution = refine(latent, pictures.bags, pictures.boxes, chain.windows, progress=progress, **given)
        return chain._replace(weights=solution.coef, solution=solution)

    def _final(self, chain: Chain) -> Chain:
        """Return a chain with the weights of detection."""
        share = self.settings.refine.context_share
        return chain._replace(weights=self.pictures.with_context_share(chain.weights, share))


def _counts(share: float) -> str:
    """Return how much counts, as the end of a sentence."""
    return {0.0: "does not count", 1.0: "counts in full"}.get(share, f"counts by {share:.2f}")
