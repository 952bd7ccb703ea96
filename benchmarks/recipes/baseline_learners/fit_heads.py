"""Heads on the shards of a run, all classes at once: epochs and step by the image-level AP of held-out pictures."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from lapsvm.pipelines.fitting.selection import mean_score
from lapsvm.pipelines.fitting.training_bags import ContextPairs, window_boxes
from lapsvm.pipelines.products.fold_models import FOLDS_ADVICE, Groups, label_counts
from lapsvm.pipelines.products.models import FitTask
from lapsvm.pipelines.run.progress import Bar, Reporter
from numpy.typing import NDArray

from lapsvm.arrays import Array, Float64
from lapsvm.bags import Bags
from lapsvm.errors import OneClassError
from lapsvm.evaluation import image_average_precision
from lapsvm.features import Shard, ShardSet

from .head_stacks import HeadStack
from .oicr import OICR
from .options import BaselineOptions
from .window_heads import WindowHeads
from .wsddn import WSDDN

KINDS: dict[str, type[WindowHeads]] = {"wsddn": WSDDN, "oicr": OICR}
Record = Mapping[str, Any]


@dataclass(frozen=True)
class HeadPictures:
    """The pictures that heads learn from: windows, shards with boxes, the features' scale and their context."""

    bags: Bags
    shards: ShardSet
    scale: Float64
    pairs: ContextPairs


def fit_heads(
    options: BaselineOptions, tasks: Sequence[FitTask], pictures: HeadPictures, reporter: Reporter
) -> tuple[Callable[[Shard], Float64], Record]:
    """Return the function shard -> scores (n, classes) of its windows, and a record of the choice and the training."""
    chosen, candidates = choose_constants(options, tasks, pictures, reporter)
    with reporter.bar(f"train {options.method}", chosen.epochs, "epochs") as bar:
        model = new_head(options, chosen, partial(_step, bar))
        model.fit(pictures.bags, _labels(tasks), None if options.method == "wsddn" else window_boxes(pictures.shards))
    record = {"epochs": model.epochs, "lr": model.lr, "weight_decay": model.weight_decay}
    return partial(scores, model, pictures), {**record, "held_out_image_ap": candidates, "history": model.history_}


def scores(model: WindowHeads, pictures: HeadPictures, shard: Shard) -> Float64:
    """Return the logarithm of the scores (n, classes) of a shard's windows, their context combined as in training."""
    pairs = pictures.pairs
    features = pairs.combine(shard.features) if pairs.has_context else shard.features
    return model.score_windows(Bags(features, shard.offsets, pictures.scale))


class HeadConstants(NamedTuple):
    """What is chosen for the heads: the passes over the pictures and Adam's step."""

    epochs: int
    lr: float


def choose_constants(
    options: BaselineOptions, tasks: Sequence[FitTask], pictures: HeadPictures, reporter: Reporter
) -> tuple[HeadConstants, list[dict[str, Any]]]:
    """Return the constants of the heads, and the image-level AP of each fold's held-out pictures by each candidate.

    One head for each fold and step is trained for the most epochs, all side by side, and scores its held-out pictures
    after each candidate number of epochs. Of the candidates at most `margin` below the best mean, the one with the
    fewest epochs is taken, then with the smallest step.
    """
    grid = [HeadConstants(*pair) for pair in product(sorted(set(options.epochs)), sorted(set(options.lr)))]
    if not options.needs_folds:
        return grid[0], []
    folds = joint_folds(_labels(tasks), [task.name for task in tasks], options.folds, options.seed, tasks[0].groups)
    with reporter.bar(f"train {options.method} on {len(folds)} folds", grid[-1].epochs, "epochs") as bar:
        candidates = _candidates(options, pictures, _labels(tasks), folds, bar)
    return best_constants(candidates, options.margin), candidates


def joint_folds(
    labels: NDArray[np.integer], names: Sequence[str], folds: int, seed: int, groups: Groups = None
) -> list[NDArray[np.bool_]]:
    """Return a mask of held-out pictures for each fold, the same for all classes (labels are (n, k)).

    Pictures are dealt out in turns, those of the class with the fewest positives first, so that every fold has its
    share of each class; those of a group follow its first one. Raises OneClassError if a class has fewer groups of
    positives or negatives than folds.
    """
    group = np.arange(len(labels)) if groups is None else groups
    first, positives = group == np.arange(len(labels)), (labels > 0).sum(axis=0)
    for name, column in zip(names, labels.T, strict=True):
        n_positive, n_negative = label_counts(column, groups)
        if min(n_positive, n_negative) < folds:
            raise OneClassError(
                f"class {name!r} must have {folds} positive and {folds} negative pictures for {folds} folds, "
                f"got {n_positive} and {n_negative}; {FOLDS_ADVICE}."
            )
    order = np.argsort(positives, kind="stable")
    shows = labels[:, order] > 0
    rarest = np.where(shows.any(axis=1), shows.argmax(axis=1), len(names))
    shuffled = np.random.default_rng(seed).permutation(len(labels))
    dealt = shuffled[np.argsort(rarest[shuffled], kind="stable")]
    dealt = dealt[first[dealt]]
    number = np.empty(len(labels), dtype=np.intp)
    number[dealt] = np.arange(len(dealt)) % folds
    return [number[group] == fold for fold in range(folds)]


def best_constants(candidates: Sequence[Mapping[str, Any]], margin: float) -> HeadConstants:
    """Return the fewest epochs, then the smallest step, whose mean score is at most `margin` below the best."""
    means = [mean_score(entry["folds"]) for entry in candidates]
    threshold = round(max(means) - margin, 9)
    good = [entry for entry, mean in zip(candidates, means, strict=True) if mean >= threshold]
    return min(HeadConstants(int(entry["epochs"]), float(entry["lr"])) for entry in good)


def _candidates(
    options: BaselineOptions, pictures: HeadPictures, labels: Array, folds: Sequence[NDArray[np.bool_]], bar: Bar
) -> list[dict[str, Any]]:
    """Return every pair of constants, with each fold's image-level AP of held-out pictures, the mean over classes."""
    rates, values = sorted(set(options.lr)), sorted(set(options.epochs))
    members = list(product(rates, folds))
    stack = HeadStack([new_head(options, HeadConstants(values[-1], rate), None) for rate, _ in members])
    stack.models[0].set_params(callback=partial(_step, bar))
    scores: dict[HeadConstants, list[float]] = {HeadConstants(*pair): [] for pair in product(values, rates)}

    def visit(epoch: int) -> None:
        if epoch in values:
            found = stack.decision_function(pictures.bags, np.stack([held_out for _, held_out in members]))
            for (rate, held_out), of_pictures in zip(members, found, strict=True):
                ap = mean_image_ap(of_pictures[held_out], labels[held_out])
                scores[HeadConstants(epoch, rate)].append(ap)

    seen = [np.where(held_out[:, None], 0, labels) for _, held_out in members]
    stack.fit(pictures.bags, seen, None if options.method == "wsddn" else window_boxes(pictures.shards), visit)
    return [{**constants._asdict(), "folds": aps} for constants, aps in scores.items()]


def mean_image_ap(scores: Float64, labels: Array) -> float:
    """Return the mean over the classes of the image-level AP, 0 for a class that no picture shows."""
    columns = zip(scores.T, labels.T, strict=True)
    return float(np.mean([image_average_precision(column, y) or 0.0 for column, y in columns]))


def new_head(options: BaselineOptions, constants: HeadConstants, callback: Any) -> WindowHeads:
    """Return an untrained head of a run's kind and seed."""
    own = {**constants._asdict(), "weight_decay": options.weight_decay, "random_state": options.seed}
    return KINDS[options.method](**own, callback=callback)


def _labels(tasks: Sequence[FitTask]) -> NDArray[np.integer]:
    """Return the labels (n, k) of the pictures."""
    return np.column_stack([task.y for task in tasks])


def _step(bar: Bar, record: Mapping[str, float]) -> None:
    bar.step(note=f"loss {record['loss']:.4f}")
