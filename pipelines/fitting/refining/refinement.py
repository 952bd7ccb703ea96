"""Refinement of the trained models of a run: as many classes at the same time as memory admits."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from threading import local
from typing import TypeVar

import numpy as np

from lapsvm.bags import Buffer
from lapsvm.features import PictureWindows

from ...products.models import FitTask
from ...run.progress import Reporter
from ...settings.settings import Settings
from .chains import Chain, TrainedModels
from .class_refinement import ClassRefinement, Refined
from .drawn_boxes import with_reviewed_boxes
from .pictures import StoredPictures
from .shared_starts import SharedStarts, shared_starts
from .side_by_side import ClassTrainings, side_by_side
from .teaching import can_teach

T = TypeVar("T")


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
        Classes that are refined at the same time, see `memory`; their models do not depend on it.
    """

    settings: Settings
    pictures: StoredPictures
    models: Mapping[str, TrainedModels]
    drawn: Mapping[str, PictureWindows]
    reporter: Reporter
    copy_bytes: int | None = None
    at_once: int = 1
    _by_labels: dict[str, list[Chain]] = field(default_factory=dict, init=False, repr=False)  # by class
    _of_thread: _OfThread = field(default_factory=_OfThread, init=False, repr=False)

    @cached_property
    def starts(self) -> SharedStarts:
        """The classes that start from the models of others."""
        return shared_starts(self.models, self.pictures.bags)

    def fit(self, task: FitTask) -> Refined:
        """Return the refined models of a class.

        All positive pictures teach the class, and the objects of the reviewed ones if these are enough (`teaching`).
        """
        with self.fit_all([task]) as found:
            ((_, refined),) = found
        return refined

    @contextmanager
    def fit_all(self, tasks: Sequence[FitTask]) -> Iterator[Iterator[tuple[FitTask, Refined]]]:
        """Yield classes with their refined models, in order, and print the notes of each."""
        _ = self.starts  # a pass, once
        with self._side_by_side(tasks, self._fit) as found:
            yield self._with_notes(zip(tasks, found, strict=False))

    def prepare(self, task: FitTask) -> Sequence[Chain]:
        """Return the chains that learn from labels alone, with the weights of training; kept for the next `fit`."""
        with self._side_by_side([task], self._learned_by_labels) as found:
            (chains,) = found
        return chains

    def _side_by_side(
        self, tasks: Sequence[FitTask], work: Callable[[ClassRefinement], T]
    ) -> AbstractContextManager[Iterator[T]]:
        """Work on classes at the same time."""
        by_name = {task.name: task for task in tasks}
        counts = {name: self.models[name].weights.shape[1] for name in by_name}

        def work_on(trainings: ClassTrainings) -> T:
            return work(self._of_class(by_name[trainings.name], trainings))

        return side_by_side(work_on, counts, self.pictures.bags.threads, self.at_once, self.reporter)

    def _of_class(self, task: FitTask, trainings: ClassTrainings) -> ClassRefinement:
        """Prepare a class: its known boxes, its prior, its start."""
        name, pictures = task.name, self.pictures
        pictures = with_reviewed_boxes(pictures, task.reviews.known, self.drawn, self.settings.refine.pos_iou)
        prior = None if pictures.prior is None else pictures.prior.of_class(name, self.settings.objectness)
        pictures = replace(pictures, prior=prior, copies=self._of_thread.copies)
        start = self.starts.weights.get(name)
        return ClassRefinement(trainings, self.settings, pictures, self.models[name], start, self.copy_bytes)

    def _fit(self, own: ClassRefinement) -> Refined:
        refined = own.fit_taught(self._learned_by_labels(own)) if can_teach(own.reviewed) else own.fit()
        if own.start is not None:
            refined.result["starts_like"] = self.starts.donors
        return refined

    def _learned_by_labels(self, own: ClassRefinement) -> Sequence[Chain]:
        name = own.trainings.name
        kept = self._by_labels.get(name)
        if kept is None or not np.array_equal(kept[0].y, own.models.y):
            kept = self._by_labels[name] = own.by_labels()
        return kept

    def _with_notes(self, found: Iterable[tuple[FitTask, Refined]]) -> Iterator[tuple[FitTask, Refined]]:
        for task, refined in found:
            for note in refined.notes:
                self.reporter.say(note)
            yield task, refined
