"""Which of a class's models a person means, by verdicts on random pictures.

Labels alone cannot say whether a part, the object or more than it is meant. A run has several models at hand that
differ in just this: refinement's with the lowered weights of surroundings or with all of them, those before refinement,
and the same begun with the reviewed pictures. Another than that of the settings is taken where it is surely better, by
a sign test on the reviewed pictures: on few of them the most right boxes are often those of a worse model
(docs/measurements/boxes.md).

Boxes are held out: a picture counts by the model without its fold, and the model without a fold is chosen by the
verdicts of the other folds.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from lapsvm.arrays import Float64, Index
from lapsvm.detection.picture_scores import best_boxes
from lapsvm.latent import KnownBoxes

from ...run.progress import Reporter
from ...run.settings import Settings
from ..refinement import Chain, Rounds, StoredPictures
from ..tasks import FitTask
from .restart import LEAST
from .reviewed import SAME

LEVEL = 0.05
"""The chance at most that a model which is no better wins so many pictures."""
UNKNOWN = 0.5
"""What a box counts that is unlike the rejected ones: right or wrong."""


class Variant(NamedTuple):
    """Models that a class may take: settings that differ from the run's, the chains, and how they began."""

    values: Mapping[str, float]
    chains: Sequence[Chain]
    start: str = ""

    def __str__(self) -> str:
        changed = [f"{name} {value:g}" for name, value in self.values.items()]
        return ", ".join([self.start, *changed] if self.start else changed) or "the settings"


def variants(settings: Settings, rounds: Rounds, first: Sequence[Chain], last: Sequence[Chain]) -> list[Variant]:
    """Return the models that may be meant, those of the settings first.

    `first` and `last` are the chains before and after refinement, with all weights of surroundings.
    """
    own = [chain._replace(weights=rounds.lowered(chain.weights)) for chain in last]
    unrefined = [chain._replace(solution=refined.solution) for chain, refined in zip(first, last, strict=True)]
    all_weights = [Variant({"refine.surroundings": 1.0}, last)] if settings.refine.surroundings < 1 else []
    return [Variant({}, own), *all_weights, Variant({"refine.rounds": 0}, unrefined)]


def judged_pictures(task: FitTask, fold: Index) -> Index:
    """Return the pictures by whose verdicts models are chosen: random ones of a fold; none if fewer than `LEAST`."""
    rows = [row for row in task.reviews.random if fold[row]]
    return np.array(rows if len(rows) >= LEAST else [], dtype=np.intp)


def chosen_by_verdicts(
    found: Sequence[Variant], fold: Index, task: FitTask, pictures: StoredPictures, settings: Settings,
    reporter: Reporter,
) -> tuple[Sequence[Chain], dict[str, Any]]:  # fmt: skip
    """Return the chains that verdicts choose, and what provenance records of the choice.

    Those of the settings, and no record, where there are no `judged_pictures`.

    Parameters
    ----------
    found : sequence of Variant
    fold : (n_bags,) intp
        The fold of every picture, from 1; 0 for none.
    task : FitTask
    pictures : StoredPictures
    settings : Settings
    reporter : Reporter
    """
    judged = judged_pictures(task, fold)
    if not len(judged):
        return found[0].chains, {}
    right = np.array([_rightness_without_fold(one.chains, fold, judged, task, pictures, settings) for one in found])
    taken = found[_surely_best(right)]
    others = [fold[judged] != number for number in range(1, len(taken.chains))]
    chosen = [found[_surely_best(right[:, seen])] for seen in others]
    chains = [taken.chains[0], *(one.chains[number] for number, one in enumerate(chosen, start=1))]
    counts = right.sum(axis=1)
    said = ", ".join(f"{count:g} by {one}" for count, one in zip(counts, found, strict=True))
    reporter.say(f"refine: {task.name}: right boxes in {len(judged)} reviewed pictures: {said}; it takes {taken}.")
    candidates = {str(one): float(count) for count, one in zip(counts, found, strict=True)}
    return chains, {"chosen_by_verdicts": {"taken": str(taken), "of": len(judged), "right": candidates}}


def _surely_best(right: Float64) -> int:
    """Return which model is surely better than the first, by most pictures; the first if none is.

    `right` (models, pictures) is what each box counts.
    """
    won, lost = (right > right[0]).sum(axis=1), (right < right[0]).sum(axis=1)
    chance = [sign_test(*pair) for pair in zip(won.tolist(), lost.tolist(), strict=True)]
    return int(np.argmax(np.where(np.array(chance) <= LEVEL, won - lost, 0)))


def sign_test(won: int, lost: int) -> float:
    """Return the chance of at least so many wins by the toss of a coin (exact, one-sided)."""
    decided = won + lost
    ways = sum(math.comb(decided, wins) for wins in range(won, decided + 1))
    return float(ways / 2**decided)


def _rightness_without_fold(
    chains: Sequence[Chain], fold: Index, judged: Index, task: FitTask, pictures: StoredPictures, settings: Settings
) -> Float64:
    """Return what the box of every reviewed picture (m,) counts, by the model without its fold."""
    found = np.zeros(len(judged))
    for number, chain in enumerate(chains[1:], start=1):
        own = fold[judged] == number
        boxes, _ = best_boxes(pictures.bags, pictures.boxes, chain.weights, judged[own], settings.detect)
        known = [task.reviews.known[row] for row in judged[own].tolist()]
        found[own] = [_rightness(box, of) for box, of in zip(boxes, known, strict=True)]
    return found


def _rightness(box: Float64, known: KnownBoxes) -> float:
    return float(known.right(box[None], SAME)[0]) * (1.0 if len(known.true) else UNKNOWN)
