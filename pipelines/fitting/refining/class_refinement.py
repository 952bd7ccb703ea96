"""The refinement of one class: choose the windows of its positive pictures, train on them, and again.

The model of all pictures is refined beside those that each never see a fold (`chains`). Objects that a person knows
teach the class beside its labels (`teaching`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

from lapsvm.arrays import Float64
from lapsvm.detection.detector import EXTENT, SIZES, THINGS
from lapsvm.detection.groups import WindowPrior
from lapsvm.latent import refine
from lapsvm.latent.refinement import OverlapLimits

from ...settings.settings import Settings
from ..fit import Constants, FitRequest, problem
from ..history import history_rows
from .chains import Chain, Choose, TrainedModels, initial_chains, with_new_windows
from .choice import choose_windows, count_unmoved, prior_share
from .extent import with_extent
from .pictures import StoredPictures
from .prior import share_text
from .side_by_side import ClassTrainings, Update
from .teaching import CLOSER, WIDER, count_positives, joined, known_sizes, reviewed_chains, teachers
from .things import MANY, choose_things, count_things, count_unseen_things, teach_as_well

History = list[dict[str, Any]]
"""Rows of history.csv."""


class Refined(NamedTuple):
    """The refined models of a class.

    Attributes
    ----------
    chains : list of Chain
        With the weights of detection: that of all pictures, then those without fold 1, 2 and so on.
    history : list of dict
        Rows of history.csv.
    result : dict
        For the model's provenance: "C"; "boxes_stayed" and "boxes_moved"; "reviewed", the number of pictures that
        teach; "sizes", the numbers of its `SizePrior`; "things", their mean number in a picture if it shows several;
        "extent", the share of boxes that find a part, if they take its extent; "objectness", see `prior_share`;
        "starts_like".
    notes : list of str
        Sentences for the user.
    priors : list of WindowPrior or None
        What each chain knows of boxes beside its weights, from the pictures that it may see.
    """

    chains: list[Chain]
    history: History
    result: dict[str, Any]
    notes: list[str]
    priors: list[WindowPrior | None]


@dataclass(frozen=True, eq=False)
class ClassRefinement:
    """Refines the trained models of a class.

    Attributes
    ----------
    trainings : ClassTrainings
        The name of the class, and how its chains are trained at the same time.
    settings : Settings
    pictures : StoredPictures
        With the known boxes and the prior of the class.
    models : TrainedModels
    start : (d,) float64 or None
        The weights that all chains start from. None: those of `models`.
    copy_bytes : int, optional
        Bytes for copied windows, see `StoredPictures.active`.
    """

    trainings: ClassTrainings
    settings: Settings
    pictures: StoredPictures
    models: TrainedModels
    start: Float64 | None
    copy_bytes: int | None = None

    @cached_property
    def choose(self) -> Choose:
        """The choice of windows in the pictures."""
        return partial(choose_windows, self.pictures, self.settings.refine)

    @cached_property
    def initial(self) -> list[Chain]:
        """The chains before the first round."""
        return initial_chains(self.models, self.choose, self.start)

    @cached_property
    def reviewed(self) -> list[Chain]:
        """The chains with only the reviewed ones of their positive pictures."""
        return reviewed_chains(self.initial, self.pictures.known)

    def by_labels(self) -> list[Chain]:
        """Return the chains after all rounds on labels alone, with the weights of training."""
        return replace(self, pictures=replace(self.pictures, known={}, added={})).rounds()[0]

    def rounds(self) -> tuple[list[Chain], History]:
        """Return the chains after all rounds, and their history.

        Where pictures show several things, all are learned from, if models tell pictures that they did not see as well.
        """
        alone, several = self._rounds(self.initial, self.choose), self.several
        if several is None:
            return alone
        more = self._rounds(initial_chains(self.models, several, self.start), several)
        return more if teach_as_well(self.pictures.bags, self.models, alone[0], more[0]) else alone

    @property
    def several(self) -> Choose | None:
        """The choice of several windows of a picture. None if pictures show one thing, or windows are those of `small`.

        Windows of `small` that score alike are edges and corners of the ground as well.
        """
        if self.settings.windows.method == "small":
            return None
        if count_unseen_things(self.pictures, self.settings.refine, self.models, self.initial) < MANY:
            return None
        return partial(choose_things, self.pictures, self.settings.refine)

    def _rounds(self, chains: Sequence[Chain], choose: Choose) -> tuple[list[Chain], History]:
        """Return the chains after all rounds on the windows that `choose` returns, and their history."""
        history = History()
        count, C = self.settings.refine.rounds, self.settings.refine.C
        for number in range(1, count + 1):
            if number > 1:
                chains = with_new_windows(chains, self.models.fold, choose)
            chains = self._train(chains, f"round {number} of {count}", C)
            history += history_rows(self.trainings.name, f"round {number}", Constants(C), chains[0].trained)
        return list(chains), history

    def fit(self) -> Refined:
        """Return the models after all rounds."""
        chains, history = self.rounds()
        return self._refined(chains, history, {"C": self.settings.refine.C, **self._counted(chains[0])}, [])

    def fit_taught(self, by_labels: Sequence[Chain]) -> Refined:
        """Return the models that the objects of reviewed pictures teach beside the chains `by_labels`."""
        settings = self.settings.refine
        C, count = WIDER * settings.C, count_positives(self.reviewed[0])
        by_boxes = self._train(self.reviewed, "reviewed pictures", CLOSER * settings.C)
        weights = teachers(by_labels, by_boxes)
        taught = [chain._replace(weights=own) for chain, own in zip(self.initial, weights, strict=True)]
        whole = taught[0]  # its windows stay where no fold decides; the others choose theirs in `with_new_windows`
        taught[0] = whole._replace(windows=self.choose(whole.y, whole.weights, whole.y))
        taught = with_new_windows(taught, self.models.fold, self.choose)
        taught = self._train(taught, "taught pictures", C)
        history = history_rows(self.trainings.name, f"round {settings.rounds}", Constants(C), taught[0].trained)
        note = f"refine: the objects of {count} reviewed pictures teach {self.trainings.name} beside its labels."
        result = {"C": C, "reviewed": count, **self._counted(by_labels[0])}
        return self._refined(joined(taught, by_boxes), history, result, [note])

    def _train(self, chains: Sequence[Chain], title: str, C: float) -> list[Chain]:
        """Return the chains, trained on their windows with the weight `C` of the loss.

        Chains that share a copy of their windows are trained at the same time.
        """
        train = partial(self._train_chain, Constants(C, self.models.J))
        trained = list[Chain]()
        for group in self.pictures.active(chains, self.settings.refine.candidates, self.copy_bytes):
            first = len(trained)
            trained += self.trainings.run(title, first, train, chains[first : first + len(group)], group)
            del group  # the next copy may need larger memory in its place
        return trained

    def _train_chain(self, constants: Constants, update: Update, chain: Chain, pictures: StoredPictures) -> Chain:
        def report(_: int, record: dict[str, Any]) -> None:
            update(record)

        settings = self.settings.refine
        latent = replace(problem(self.settings, FitRequest(chain.y, constants)), top=settings.top, init="mean")
        limits = OverlapLimits(*(getattr(settings, name) for name in OverlapLimits._fields))
        given = latent, pictures.bags, pictures.boxes, chain.windows
        solution = refine(*given, limits=limits, known=pictures.known, progress=report)
        return chain._replace(weights=solution.coef, solution=solution)

    def _refined(self, chains: Sequence[Chain], history: History, result: dict[str, Any], notes: list[str]) -> Refined:
        """Return chains with the weights of detection, and add to the result how many boxes stayed."""
        settings, first = self.settings.refine, self.initial[0]
        weights = (self.pictures.with_context_share(chain.weights, settings.context_share) for chain in chains)
        final = [chain._replace(weights=own) for chain, own in zip(chains, weights, strict=True)]
        stayed, moved = count_unmoved(self.pictures, settings, first, final[0])
        result |= {"boxes_stayed": stayed, "boxes_moved": moved}
        if counted := prior_share(self.pictures, settings, first.y, first.weights):
            how = f"the windows that scores choose have an objectness of {counted['stands_out']:.2f}"
            notes.append(f"refine: {self.trainings.name}: {how}, so what stands out {share_text(counted['share'])}.")
            result["objectness"] = counted
        is_small, are_many = self.settings.windows.method == "small", THINGS in result
        sizes = [known_sizes(self.pictures, chain) if is_small else None for chain in chains]
        if sizes[0] is not None:
            result[SIZES] = list(sizes[0])
        if are_many:
            notes.append(
                f"refine: {self.trainings.name}: learned from {result[THINGS]:.1f} things of a picture on average."
            )
        priors = [WindowPrior.of(known, are_many) for known in sizes]
        priors, share = with_extent(self.pictures, self.models.fold, final, priors, self.settings.detect)
        if share is not None:
            result[EXTENT] = share
            how = f"what stands out of the even ground, as {share:.0%} of held-out boxes find such a part"
            notes.append(f"refine: {self.trainings.name}: boxes take the extent of {how}.")
        return Refined(final, history, result, notes, priors)

    def _counted(self, by_labels: Chain) -> dict[str, float]:
        """Return the number of things that a chain has learned from, {} if it is one of each picture."""
        if by_labels.windows.ndim == 1:
            return {}
        return {THINGS: count_things(self.pictures, self.settings.refine, by_labels)}
