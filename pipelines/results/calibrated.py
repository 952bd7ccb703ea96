"""Give a trained detector its probabilities, and a run the held-out scores that they come from."""

from dataclasses import dataclass, replace

import numpy as np

from lapsvm.bags.scoring import BestWindows
from lapsvm.detection import Calibration, Detector

from ..fitting.agreement import Proposals
from ..fitting.fold_scores import FoldScores
from ..fitting.window_subset import weights_hash
from ..run.context import RunContext
from ..run.dataset import Labels
from .held_out import HeldOut


@dataclass(frozen=True)
class Pictures:
    """The training pictures: their ids and the boxes of their windows, in the shards' order."""

    ids: tuple[str, ...]
    proposals: Proposals


def save_held_out(
    context: RunContext, detector: Detector, y: Labels, pictures: Pictures, scores: FoldScores, final: BestWindows
) -> Detector:
    """Write the held-out scores of a final detector, and return it with the calibration that is fitted on them.

    Parameters
    ----------
    context : RunContext
    detector : Detector
    y : (n,) int8
        Labels of the training pictures.
    pictures : Pictures
    scores : FoldScores
    final : BestWindows
        The best windows (n,) by `detector`.
    """
    held_out = _held_out(detector, y, pictures, scores, final)
    path = context.run.held_out(detector.class_name)
    context.run.files.claim([path])
    held_out.save(path)
    return replace(detector, calibration=Calibration.fit(held_out.score, held_out.y, held_out.fold))


def _held_out(detector: Detector, y: Labels, pictures: Pictures, scores: FoldScores, final: BestWindows) -> HeldOut:
    rows = np.flatnonzero(scores.fold)
    windows = scores.window[rows]
    return HeldOut(
        ids=tuple(pictures.ids[row] for row in rows),
        y=y[rows],
        fold=scores.fold[rows],
        score=scores.aligned(final.score + detector.intercept)[rows],
        boxes=pictures.proposals.boxes[pictures.proposals.first[rows] + windows],
        agreement=pictures.proposals.overlaps(rows, windows, final.index[rows]),
        model=weights_hash(detector),
    )


def too_few_pictures(class_name: str, y: Labels, least: int) -> str:
    """Return a sentence that says why a class has no probabilities; empty if it has enough pictures of each kind."""
    positives, negatives = int((y > 0).sum()), int((y < 0).sum())
    if min(positives, negatives) >= least:
        return ""
    return (
        f"scores of {class_name} have no probabilities, which need {least} pictures with it and {least} without, got "
        f"{positives} and {negatives}."
    )
