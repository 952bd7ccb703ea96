"""The choice of windows for pictures with an even ground: a trial tells whether `mixed` holds what separates classes.

Nobody knows boxes. So the windows of `small` by which quick models tell pictures of a class from others, in pictures
that they were not trained with, stand for what is sought. If windows of `mixed` overlap few of them, it is too small.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from lapsvm.arrays import Array, Float32
from lapsvm.bags import Bags
from lapsvm.bags.stores.memory import as_bytes
from lapsvm.boxes import areas, iou
from lapsvm.catalog import ImageRecord
from lapsvm.evaluation import image_average_precision
from lapsvm.features import Block, BlockNorms, Extractor, block_scales
from lapsvm.latent import fit_many

from ..context import Workspace
from ..fitting.fit import Constants, FitRequest, problem
from ..fitting.training_bags import ContextPairs
from ..products.fold_models import fold_numbers, seen_labels
from ..run.dataset import RunData, label_vector, shown_classes
from ..settings.settings import Settings
from ..shards.extraction import prepare_record
from ..shards.prefetch import on_threads
from ..shards.windows import pixels_unless_bad, window_boxes
from .data_checks.ground import EVEN, ground_of
from .data_checks.sides import spread

SIDE = 768
"""Pixels of the longer side of pictures in which windows of `small` are sought, at least."""

OF_CLASS, MOST = 20, 120
"""Pictures of a class, and of all, that a trial takes."""

CHANNELS = 64
"""Random directions on which the features of a block are projected."""

HELD = 0.5
"""The IoU of a window that holds another one, and the share of windows held below which `mixed` is too coarse."""


@dataclass(frozen=True)
class Trial:
    """Some pictures with their windows of `small`, and with those of `mixed`.

    Attributes
    ----------
    settings : Settings
    records : list of ImageRecord
    bags : Bags
        The features of the windows of `small`.
    fine, coarse : list of ndarray of shape (n_i, 4)
        The windows of `small` and of `mixed` of each picture.
    """

    settings: Settings
    records: list[ImageRecord]
    bags: Bags
    fine: list[Array]
    coarse: list[Array]

    def picked(self, class_name: str) -> list[tuple[float, bool]]:
        """Return the side of the best window of each picture of a class, and whether a window of `mixed` holds it.

        The pictures are new to the models. Empty if these do not rank them at least halfway from chance to perfect.
        """
        y = label_vector(self.records, class_name)
        fold = fold_numbers(self.settings, y, None)
        if not fold.any():
            return []
        constants = Constants(self.settings.train.C[0])
        problems = [problem(self.settings, FitRequest(seen, constants)) for seen in seen_labels(y, fold)]
        score, best = np.zeros(len(y)), np.zeros(len(y), np.intp)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # a trial needs no certificate
            solutions = fit_many(problems, self.bags)
        for number, solution in enumerate(solutions, start=1):
            scores = self.bags.split_scores(solution.coef)
            for row in np.flatnonzero(fold == number):
                score[row], best[row] = scores[row].max(), scores[row].argmax()
        ap, chance = image_average_precision(score, y), (y > 0).sum() / (y != 0).sum()
        if ap is None or ap < (1 + chance) / 2:
            return []
        return [self._held(row, best[row]) for row in np.flatnonzero(y > 0).tolist()]

    def _held(self, row: int, window: int) -> tuple[float, bool]:
        """Return the side of a window of `small`, and whether a window of `mixed` holds it."""
        box = self.fine[row][[window]].astype(np.float64)
        return float(np.sqrt(areas(box)[0])), bool(iou(box, self.coarse[row].astype(np.float64)).max() >= HELD)


def fitted_windows(
    workspace: Workspace, settings: Settings, data: RunData, extractor: Extractor
) -> tuple[Settings, str]:
    """Return the settings with the windows that suit the pictures, and a sentence on the choice.

    Where the ground is not even, nothing changes, and nothing is said.
    """
    records = data.records[settings.data.train_set]
    levels = ground_of(records)
    if levels is None or levels >= EVEN:
        return settings, ""
    side = max(SIDE, settings.windows.proposal_side)
    small = settings.with_values({"windows.method": "small", "windows.proposal_side": side})
    trial = _trial(workspace, settings, small, extractor, _sample(records, data.classes))
    picked = [pick for name in data.classes for pick in trial.picked(name)] if trial else []
    n_held = sum(is_held for _, is_held in picked)
    is_small = n_held < HELD * len(picked)
    if is_small:
        start, other = "windows: small", "mixed"
    else:
        start, other = "windows: mixed", f"small --set windows.proposal_side={side}"
    reason = "a quick trial tells no classes apart"
    if picked:
        size = f"{np.median([pixels for pixels, _ in picked]):.0f} pixels"
        reason = (
            f"mixed holds {n_held} of {len(picked)} places, of about {size}, that tell the classes apart in a trial"
        )
    ground = f"the ground is even (the parts of a picture differ by {levels:.0f} grey levels)"
    sentence = f"{start}, because {ground} and {reason}; --windows {other} decides otherwise"
    return small if is_small else settings, sentence


def _sample(records: Sequence[ImageRecord], classes: Sequence[str]) -> list[ImageRecord]:
    """Return some pictures of every class, and some without one."""
    shown = [(record, shown_classes(record)) for record in records]
    groups = [[record for record, names in shown if name in names] for name in classes]
    groups.append([record for record, names in shown if not names])
    each = max(1, min(OF_CLASS, MOST // len(groups)))
    chosen = {record.id: record for group in groups for record in spread(group, each)}
    return list(chosen.values())[:MOST]


def _trial(
    workspace: Workspace, mixed: Settings, small: Settings, extractor: Extractor, records: Sequence[ImageRecord]
) -> Trial | None:
    """Return the trial on pictures, on fewer where memory is short; None without any that can be read."""
    directions = _directions(extractor, mixed.seed)
    projected = zip(directions, extractor.blocks, strict=True)
    blocks = [Block.of(axes.shape[1], block.has_context) for axes, block in projected]
    pairs = ContextPairs(tuple(blocks), mixed.features.contrast)
    sizes, limit = pairs.combined_sizes, as_bytes(workspace.memory)
    if limit is not None:
        n_bytes = 2 * mixed.windows.max_windows * sum(sizes) * np.dtype(np.float32).itemsize
        records = spread(records, max(1, limit // n_bytes))

    def measured(record: ImageRecord) -> tuple[Array, Array, Array] | None:
        pixels = pixels_unless_bad(record, mixed.data.skip_bad)
        prepared = None if pixels is None else prepare_record(record, small, extractor, pixels)
        if pixels is None or prepared is None:
            return None
        features = pairs.combine(prepared[0].projected(directions).features())
        return features, prepared[0].boxes, window_boxes(pixels, mixed.windows, mixed.seed, record.id)

    with on_threads(workspace.reporter, "choose windows", measured, records, workspace.threads) as (_, results):
        pictures = [(record, *arrays) for record, arrays in results if arrays is not None]
    if not pictures:
        return None
    kept, features, fine, coarse = map(list, zip(*pictures, strict=True))
    joined, norms = np.concatenate(features), BlockNorms(sizes)
    norms.add(joined)
    offsets = np.cumsum([0, *map(len, features)])
    bags = Bags(joined, offsets, block_scales(norms.means, sizes), threads=workspace.threads)
    return Trial(mixed, kept, bags, fine, coarse)


def _directions(extractor: Extractor, seed: int) -> list[Float32]:
    """Return orthonormal random directions (d_i, k_i) of each block's features, all if they are few."""
    rng = np.random.default_rng(seed)
    drawn = [rng.normal(size=(block.inside, min(block.inside, CHANNELS))) for block in extractor.blocks]
    return [np.linalg.qr(axes)[0].astype(np.float32) for axes in drawn]
