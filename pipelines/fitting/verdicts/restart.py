"""A new start from reviewed pictures, where the model of the labels chooses other boxes than a person.

Labels alone cannot say whether a part, the object or its surroundings is meant. Where the model of the labels has
chosen something else than the person means in most pictures, a few true boxes among many wrong ones change little. So
refinement is then also begun with a model of the reviewed pictures alone, which chooses the windows of the others, and
verdicts choose between the two (`choice`): on some pictures refinement settles by itself what the labels leave wrong.

A chain without a fold decides by the verdicts that it may see, so its boxes in the fold stay held out.
"""

import numpy as np

from lapsvm.arrays import Index

from ...run.progress import Reporter
from ..refinement import Chain, Rounds, StoredPictures
from ..tasks import FitTask
from .reviewed import SAME

LEAST = 5
"""Pictures with known objects that a chain must see."""
RIGHT = 0.5
"""It begins anew if its choice is right in a smaller share of these."""


def restarted(rounds: Rounds, chain: Chain, pictures: StoredPictures, task: FitTask, reporter: Reporter) -> Chain:
    """Return a chain that begins with the reviewed pictures, or the same chain where its choice is mostly right.

    Parameters
    ----------
    rounds : Rounds
    chain : Chain
        Before the first round.
    pictures : StoredPictures
    task : FitTask
    reporter : Reporter
    """
    known = task.reviews.known
    seen = np.array([row for row, boxes in known.items() if len(boxes.true) and chain.y[row] > 0], dtype=np.intp)
    if len(seen) < LEAST:
        return chain
    right = _right(rounds.chosen(chain.y, chain.weights), seen, pictures, task)
    if right >= RIGHT * len(seen):
        return chain
    reporter.say(
        f"refine: {task.name}: labels alone choose the right box in {right} of {len(seen)} reviewed pictures, so "
        "refinement is also begun with these."
    )
    alone = np.where((chain.y > 0) & ~np.isin(np.arange(len(chain.y)), seen), 0, chain.y).astype(np.int8)
    (begun,) = rounds.refined([chain._replace(y=alone)], f"refine {task.name}, reviewed pictures", reporter)
    return rounds.begin(chain.y, begun.weights, begun.intercept)


def _right(windows: Index, rows: Index, pictures: StoredPictures, task: FitTask) -> int:
    """Return in how many pictures the window overlaps a true box by more than one half."""
    offsets = pictures.bags.offsets
    chosen = np.asarray(pictures.boxes[offsets[rows] + windows[rows]], dtype=np.float64)
    known = task.reviews.known
    return sum(bool(known[row].right(box[None], SAME)[0]) for box, row in zip(chosen, rows.tolist(), strict=True))
