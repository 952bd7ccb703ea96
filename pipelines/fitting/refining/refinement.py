"""Refinement of trained models: choose the windows of positive pictures, train on them, and again.

Refinement trains each class's model of all pictures beside those that each never see a fold (`chains`). A class whose
objects a person knows well enough is trained on these alone (`reviewed_alone`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

from lapsvm.features import PictureWindows
from lapsvm.latent import refine

from ...run.progress import Reporter
from ...run.settings import Settings
from ..fit import Constants, FitRequest, problem, training_progress
from ..history import history_rows
from ..tasks import FitTask
from .chains import Chain, Choose, TrainedModels, initial_chains, with_new_windows
from .choice import choose_windows, count_unmoved, prior_share
from .drawn_boxes import with_reviewed_boxes
from .pictures import StoredPictures
from .reviewed_alone import CLOSER, are_enough, judged_pictures, mostly_wrong, reviewed_chains, right_boxes
from .shared_starts import SharedStarts, shared_starts

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
        What the model's provenance records: "C"; "boxes_stayed" and "boxes_moved", or "reviewed_alone"; "starts_like";
        "objectness", see `prior_share`.
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

    @cached_property
    def starts(self) -> SharedStarts:
        """The classes that start from the models of others."""
        return shared_starts(self.models, self.pictures.bags)

    def fit(self, task: FitTask) -> Refined:
        """Return the refined models of a class.

        They learn from all positive pictures; or, where the reviewed ones are enough, or labels choose mostly wrong
        boxes, from the reviewed ones alone.
        """
        settings, models = self.settings.refine, self.models[task.name]
        pictures = with_reviewed_boxes(self.pictures, task.reviews.known, self.drawn, settings.pos_iou)
        prior = None if pictures.prior is None else pictures.prior.of_class(task.name, self.settings.objectness)
        pictures = replace(pictures, prior=prior)
        choose = partial(choose_windows, pictures, settings)
        initial = initial_chains(models, choose, self.starts.weights.get(task.name))
        reviewed, alone = reviewed_chains(initial, pictures.known), list(range(len(initial)))
        if are_enough(reviewed):
            refined = Refined(initial, History(), {})
        else:
            refined = self.run_rounds(task, pictures, initial, choose)
            refined.result.update(self._objectness(task, pictures, initial[0]))
            alone = self._mostly_wrong(task, pictures, refined.chains, reviewed)
        if alone:
            refined = self._train_alone(task, pictures, refined, {number: reviewed[number] for number in alone})
        if task.name in self.starts.weights:
            refined.result["starts_like"] = self.starts.donors
        return refined

    def run_rounds(self, task: FitTask, pictures: StoredPictures, initial: Sequence[Chain], choose: Choose) -> Refined:
        """Return the models after all rounds: train on the windows of the chains, choose windows, and train again."""
        settings, chains, history = self.settings.refine, list(initial), History()
        for number in range(1, settings.rounds + 1):
            if number > 1:
                chains = with_new_windows(chains, self.models[task.name].fold, choose)
            chains = self.train_round(task, pictures, chains, f"round {number} of {settings.rounds}", settings.C)
            history += history_rows(task.name, f"round {number}", Constants(settings.C), chains[0].trained)
        chains = [self._final(chain) for chain in chains]
        unmoved, moved = count_unmoved(pictures, settings, initial[0], chains[0])
        return Refined(chains, history, {"C": settings.C, "boxes_stayed": unmoved, "boxes_moved": moved})

    def _objectness(self, task: FitTask, pictures: StoredPictures, initial: Chain) -> dict[str, Any]:
        """Return what the model records of how much what stands out counts, and say it; empty without a prior."""
        counted = prior_share(pictures, self.settings.refine, initial.y, initial.weights)
        if counted:
            how = f"the windows that scores choose have an objectness of {counted['stands_out']:.2f}"
            self.reporter.say(f"refine: {task.name}: {how}, so what stands out {_counts(counted['share'])}.")
        return {"objectness": counted} if counted else {}

    def _train_alone(
        self, task: FitTask, pictures: StoredPictures, refined: Refined, reviewed: Mapping[int, Chain]
    ) -> Refined:
        """Return the models, those with the numbers of `reviewed` trained on reviewed pictures alone."""
        C, chains = CLOSER * self.settings.refine.C, list(refined.chains)
        learned = self.train_round(task, pictures, list(reviewed.values()), "reviewed pictures", C)
        for number, chain in zip(reviewed, learned, strict=True):
            chains[number] = self._final(chain)
        if 0 not in reviewed:
            return refined._replace(chains=chains)
        count = int((reviewed[0].y > 0).sum())
        self.reporter.say(f"refine: {task.name} learns from the objects of {count} reviewed pictures alone.")
        last = f"round {self.settings.refine.rounds}"
        history = history_rows(task.name, last, Constants(C), chains[0].trained)
        return Refined(chains, history, {"C": C, "reviewed_alone": count})

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

    def _mostly_wrong(
        self, task: FitTask, pictures: StoredPictures, chains: Sequence[Chain], reviewed: Sequence[Chain]
    ) -> list[int]:
        """Return the chains for which labels choose mostly wrong boxes, and say how many are right."""
        fold = self.models[task.name].fold
        judged = judged_pictures(task.reviews, fold)
        right = right_boxes(chains, fold, judged, pictures, self.settings.detect)
        if len(judged):
            counts = f"{right.sum()} of {len(judged)}"
            self.reporter.say(f"refine: {task.name}: held-out boxes are right in {counts} reviewed pictures.")
        return mostly_wrong(right, judged, fold, reviewed)


def _counts(share: float) -> str:
    """Return how much counts, as the end of a sentence."""
    return {0.0: "does not count", 1.0: "counts in full"}.get(share, f"counts by {share:.2f}")
