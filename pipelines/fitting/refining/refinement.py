"""Refinement of trained models: choose the windows of positive pictures, train on them, and again.

Refinement trains each class's model of all pictures beside those that each never see a fold (`chains`). Objects that a
person knows teach it beside the labels (`teaching`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from lapsvm.features import PictureWindows
from lapsvm.latent import refine

from ...run.progress import Reporter
from ...run.settings import Settings
from ..fit import Constants, FitRequest, problem, training_progress
from ..history import history_rows
from ..reviewed import Reviews
from ..tasks import FitTask
from .chains import Chain, Choose, TrainedModels, initial_chains, with_new_windows
from .choice import choose_windows, count_unmoved, prior_share
from .drawn_boxes import with_reviewed_boxes
from .pictures import StoredPictures
from .shared_starts import SharedStarts, shared_starts
from .teaching import CLOSER, WIDER, can_teach, count_positives, joined, reviewed_chains, teachers

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
    """

    chains: list[Chain]
    history: History
    result: dict[str, Any]


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
        Bytes for copied windows, see `StoredPictures.active`.
    """

    settings: Settings
    pictures: StoredPictures
    models: Mapping[str, TrainedModels]
    drawn: Mapping[str, PictureWindows]
    reporter: Reporter
    copy_bytes: int | None = None
    _of_labels: dict[str, list[Chain]] = field(default_factory=dict, init=False, repr=False)  # by class

    @cached_property
    def starts(self) -> SharedStarts:
        """The classes that start from the models of others."""
        return shared_starts(self.models, self.pictures.bags)

    def fit(self, task: FitTask) -> Refined:
        """Return the refined models of a class.

        They learn from all positive pictures; the objects of enough reviewed ones teach them (`teaching`).
        """
        pictures, choose, initial = self._begin(task)
        reviewed = reviewed_chains(initial, pictures.known)
        if can_teach(reviewed):
            refined = self._teach(task, pictures, initial, reviewed, choose)
        else:
            refined = self.run_rounds(task, pictures, initial, choose)
        refined.result.update(self._objectness(task, pictures, initial[0]))
        if task.name in self.starts.weights:
            refined.result["starts_like"] = self.starts.donors
        return refined

    def _begin(self, task: FitTask) -> tuple[StoredPictures, Choose, list[Chain]]:
        """Return the pictures with what is known of a class, how windows are chosen in them, and its first chains.

        Known are reviewed boxes, and what stands out.
        """
        pictures = with_reviewed_boxes(self.pictures, task.reviews.known, self.drawn, self.settings.refine.pos_iou)
        prior = None if pictures.prior is None else pictures.prior.of_class(task.name, self.settings.objectness)
        pictures = replace(pictures, prior=prior)
        choose = partial(choose_windows, pictures, self.settings.refine)
        return pictures, choose, initial_chains(self.models[task.name], choose, self.starts.weights.get(task.name))

    def prepare(self, task: FitTask) -> Sequence[Chain]:
        """Return the chains that learn from labels alone, with the weights of training; kept for the next `fit`."""
        kept = self._of_labels.get(task.name)
        if kept is None or not np.array_equal(kept[0].y, task.y):
            pictures, choose, initial = self._begin(replace(task, reviews=Reviews()))
            kept, _ = self._rounds(task, pictures, initial, choose)
            self._of_labels[task.name] = kept
        return kept

    def _teach(
        self,
        task: FitTask,
        pictures: StoredPictures,
        initial: Sequence[Chain],
        reviewed: Sequence[Chain],
        choose: Choose,
    ) -> Refined:
        """Return the models that labels and the objects of reviewed pictures make together."""
        settings, C = self.settings.refine, WIDER * self.settings.refine.C
        labels = self.prepare(task)
        own = self.train_round(task, pictures, reviewed, "reviewed pictures", CLOSER * settings.C)
        taught = [one._replace(weights=w) for one, w in zip(initial, teachers(labels, own), strict=True)]
        whole = taught[0]  # its windows stay where no fold decides; the others choose theirs in `with_new_windows`
        taught[0] = whole._replace(windows=choose(whole.y, whole.weights, whole.y))
        taught = with_new_windows(taught, self.models[task.name].fold, choose)
        taught = self.train_round(task, pictures, taught, "taught pictures", C)
        count = count_positives(reviewed[0])
        self.reporter.say(f"refine: the objects of {count} reviewed pictures teach {task.name} beside its labels.")
        history = history_rows(task.name, f"round {settings.rounds}", Constants(C), taught[0].trained)
        chains = [self._final(chain) for chain in joined(taught, own)]
        return Refined(chains, history, {"C": C, "reviewed": count} | self._unmoved(pictures, initial, chains))

    def run_rounds(self, task: FitTask, pictures: StoredPictures, initial: Sequence[Chain], choose: Choose) -> Refined:
        """Return the models after all rounds: train on the windows of the chains, choose windows, and train again."""
        chains, history = self._rounds(task, pictures, initial, choose)
        chains = [self._final(chain) for chain in chains]
        return Refined(chains, history, {"C": self.settings.refine.C} | self._unmoved(pictures, initial, chains))

    def _rounds(
        self, task: FitTask, pictures: StoredPictures, initial: Sequence[Chain], choose: Choose
    ) -> tuple[list[Chain], History]:
        settings, chains, history = self.settings.refine, list(initial), History()
        for number in range(1, settings.rounds + 1):
            if number > 1:
                chains = with_new_windows(chains, self.models[task.name].fold, choose)
            chains = self.train_round(task, pictures, chains, f"round {number} of {settings.rounds}", settings.C)
            history += history_rows(task.name, f"round {number}", Constants(settings.C), chains[0].trained)
        return chains, history

    def _unmoved(self, pictures: StoredPictures, initial: Sequence[Chain], final: Sequence[Chain]) -> dict[str, Any]:
        unmoved, moved = count_unmoved(pictures, self.settings.refine, initial[0], final[0])
        return {"boxes_stayed": unmoved, "boxes_moved": moved}

    def _objectness(self, task: FitTask, pictures: StoredPictures, initial: Chain) -> dict[str, Any]:
        """Return what the model records of how much what stands out counts, and say it; empty without a prior."""
        counted = prior_share(pictures, self.settings.refine, initial.y, initial.weights)
        if counted:
            how = f"the windows that scores choose have an objectness of {counted['stands_out']:.2f}"
            self.reporter.say(f"refine: {task.name}: {how}, so what stands out {_counts(counted['share'])}.")
        return {"objectness": counted} if counted else {}

    def train_round(
        self, task: FitTask, pictures: StoredPictures, chains: Sequence[Chain], what: str, C: float
    ) -> list[Chain]:
        """Return the chains after training on their windows; `what` ends the title, `C` is the weight of the loss."""
        title, constants = f"refine {task.name}, {what}", Constants(C, self.models[task.name].J)
        names = [title, *(f"{title}, without fold {number}" for number in range(1, len(chains)))]
        active = pictures.active(chains, self.settings.refine.candidates, self.copy_bytes)
        each = zip(chains, names, strict=True)
        return [self._train_chain(chain, next(active), constants, name) for chain, name in each]  # one copy lives

    def _train_chain(self, chain: Chain, pictures: StoredPictures, constants: Constants, title: str) -> Chain:
        latent = problem(self.settings, FitRequest(chain.y, constants))
        latent = replace(latent, top=self.settings.refine.top, init="mean")
        names = ("pos_iou", "neg_iou", "neg_min_iou", "neg_part_iou")
        given = {"known": pictures.known, **{name: getattr(self.settings.refine, name) for name in names}}
        with training_progress(self.reporter, title, [title]) as progress:
            solution = refine(latent, pictures.bags, pictures.boxes, chain.windows, progress=progress.update, **given)
        return chain._replace(weights=solution.coef, solution=solution)

    def _final(self, chain: Chain) -> Chain:
        """Return a chain with the weights of detection."""
        share = self.settings.refine.surroundings
        return chain._replace(weights=self.pictures.with_context_share(chain.weights, share))


def _counts(share: float) -> str:
    """Return how much counts, as the end of a sentence."""
    return {0.0: "does not count", 1.0: "counts in full"}.get(share, f"counts by {share:.2f}")
