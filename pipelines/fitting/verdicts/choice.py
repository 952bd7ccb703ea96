"""Whether a class learns from all positive pictures or from the reviewed ones alone, by verdicts on random pictures.

Refinement trains on the boxes that a person knows and, in the other positive pictures, on those that labels choose.
Labels alone cannot say whether a part, the object or more than it is meant. Where they choose something else than the
person means in most pictures, many wrong boxes outvote a few true ones, and a model of the reviewed pictures alone is
better; elsewhere it is worse, because it knows few pictures (docs/measurements/boxes.md).

A reviewed picture counts by the model without its fold, so its box is held out, and the verdicts of a fold do not
decide for the model without it.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lapsvm.arrays import Index
from lapsvm.detection.picture_scores import best_boxes

from ...run.progress import Reporter
from ...run.settings import Settings
from ..refinement import Chain, Rounds, StoredPictures
from ..tasks import FitTask
from .reviewed import SAME

LEAST = 10
"""Pictures with known objects from which a model is trained alone."""


def judged_pictures(task: FitTask, fold: Index) -> Index:
    """Return the pictures by whose verdicts is decided: random ones of a fold with a known object.

    None if they are fewer than `LEAST`.
    """
    known = task.reviews.known
    rows = [row for row in task.reviews.random if fold[row] and len(known[row].true)]
    return np.array(rows if len(rows) >= LEAST else [], dtype=np.intp)


def right_boxes(
    chains: Sequence[Chain], fold: Index, judged: Index, task: FitTask, pictures: StoredPictures, settings: Settings
) -> NDArray[np.bool_]:
    """Return whether the box of each judged picture (m,), by the model without its fold, is right.

    Parameters
    ----------
    chains : sequence of Chain
        The model that sees all folds, then those without fold 1, 2 and so on.
    fold : (n_bags,) intp
        The fold of every picture, from 1; 0 for none.
    judged : (m,) intp
        See `judged_pictures`.
    task : FitTask
    pictures : StoredPictures
    settings : Settings
    """
    right = np.zeros(len(judged), dtype=np.bool_)
    for number, chain in enumerate(chains[1:], start=1):
        own = np.flatnonzero(fold[judged] == number)
        boxes, _ = best_boxes(pictures.bags, pictures.boxes, chain.weights, judged[own], settings.detect)
        known = (task.reviews.known[row] for row in judged[own].tolist())
        right[own] = [bool(one.right(box[None], SAME)[0]) for one, box in zip(known, boxes, strict=True)]
    return right


def learning_alone(
    rounds: Rounds, begun: Sequence[Chain], right: NDArray[np.bool_], judged: Index, fold: Index, task: FitTask,
    reporter: Reporter,
) -> tuple[dict[int, Chain], dict[str, Any]]:  # fmt: skip
    """Return number -> model of the reviewed pictures alone for chains that need one, and what provenance records.

    A chain needs one if at most half of the boxes that it may know of are right, and takes none if it sees fewer than
    `LEAST` known objects.

    Parameters
    ----------
    rounds : Rounds
    begun : sequence of Chain
        Before the first round.
    right : (m,) bool
        See `right_boxes`.
    judged, fold : (m,) and (n_bags,) intp
    task : FitTask
    reporter : Reporter
    """
    reviewed = [row for row, boxes in task.reviews.known.items() if len(boxes.true)]
    unseen = ~np.isin(np.arange(len(task.y)), reviewed)
    wanted = {}
    for number, chain in enumerate(begun):
        seen = right[fold[judged] != number]
        alone = chain._replace(y=np.where((chain.y > 0) & unseen, 0, chain.y).astype(np.int8))
        if 2 * seen.sum() <= len(seen) and (alone.y > 0).sum() >= LEAST:
            wanted[number] = alone
    title = f"refine {task.name}, reviewed pictures"
    trained = rounds.refined(list(wanted.values()), title, reporter) if wanted else []
    source = "the reviewed pictures alone" if 0 in wanted else "all pictures"
    reporter.say(
        f"refine: {task.name}: held-out boxes are right in {right.sum()} of {len(judged)} reviewed pictures, so it "
        f"learns from {source}."
    )
    record = {"right": int(right.sum()), "of": len(judged), "alone": 0 in wanted}
    return dict(zip(wanted, trained, strict=True)), {"judged_by_verdicts": record}
