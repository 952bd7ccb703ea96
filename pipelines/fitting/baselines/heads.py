"""Heads on the shards of a run, all classes at once: the epochs by the image-level AP of held-out pictures."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lapsvm.arrays import Array, Float64
from lapsvm.bags import Bags
from lapsvm.errors import OneClassError
from lapsvm.evaluation import image_average_precision
from lapsvm.nn import OICR, WSDDN, AttentionMIL, TrainedHeads
from lapsvm.nn.baselines.window_heads import WindowHeads

from ...run.context import RunContext
from ...run.progress import Bar
from ..agreement import Proposals
from ..selection import FOLDS_ADVICE, mean_score
from ..tasks import FitTask, decisive

KINDS: dict[str, type[WindowHeads]] = {"wsddn": WSDDN, "oicr": OICR, "attention_mil": AttentionMIL}
Record = Mapping[str, Any]


def fit_heads(context: RunContext, tasks: Sequence[FitTask], bags: Bags, scale: Float64) -> tuple[TrainedHeads, Record]:
    """Return the heads of all classes, and a record of the choice and the training.

    With several values of `epochs`, one model per fold is trained for the most of them, and its held-out pictures are
    scored after each value. Of the values at most `margin` below the best mean the smallest is taken.
    """
    train, names = context.settings.train, tuple(task.name for task in tasks)
    labels = np.column_stack([task.y for task in tasks])
    boxes = Proposals.of_training(context).boxes if train.learner == "oicr" else None
    values = sorted(set(train.epochs))
    folds = joint_folds(labels, names, train.folds, train.head_seed) if train.needs_folds else []
    with context.reporter.bar(f"train {train.learner}", len(folds) * values[-1] + values[-1], "epochs") as bar:
        candidates = _candidates(context, bags, labels, boxes, folds, bar)
        epochs = best_epochs(candidates, train.margin) if candidates else values[0]
        model = _model(context, epochs, partial(_step, bar, ""))
        _fit(model, bags, labels, boxes)
    result = {"epochs": epochs, "lr": model.lr, "weight_decay": model.weight_decay}
    provenance = {task.name: {**decisive(task.provenance), "result": result} for task in tasks}
    record = {**result, "held_out_image_ap": candidates, "history": model.history_}
    return TrainedHeads(model, names, scale, provenance), record


def joint_folds(labels: NDArray[np.integer], names: Sequence[str], folds: int, seed: int) -> list[NDArray[np.bool_]]:
    """Return a mask of held-out pictures for each fold, the same for all classes (labels are (n, k)).

    Pictures are dealt out in turns, those of the class with the fewest positives first, so that every fold has its
    share of each class.

    Raises
    ------
    OneClassError
        If a class has fewer positives or negatives than folds.
    """
    positives, negatives = (labels > 0).sum(axis=0), (labels < 0).sum(axis=0)
    for name, n_positive, n_negative in zip(names, positives.tolist(), negatives.tolist(), strict=True):
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
    number = np.empty(len(labels), dtype=np.intp)
    number[dealt] = np.arange(len(labels)) % folds
    return [number == fold for fold in range(folds)]


def best_epochs(candidates: Sequence[Mapping[str, Any]], margin: float) -> int:
    """Return the fewest epochs whose mean score is at most `margin` below the best."""
    means = [mean_score(entry["folds"]) for entry in candidates]
    threshold = round(max(means) - margin, 9)
    return min(int(entry["epochs"]) for entry, mean in zip(candidates, means, strict=True) if mean >= threshold)


def _candidates(
    context: RunContext, bags: Bags, labels: Array, boxes: Float64 | None, folds: Sequence[NDArray[np.bool_]], bar: Bar
) -> list[dict[str, Any]]:
    """Return every number of epochs, with each fold's image-level AP of held-out pictures, the mean over classes."""
    if not folds:
        return []
    values = sorted(set(context.settings.train.epochs))
    scores: dict[int, list[float]] = {value: [] for value in values}
    for number, held_out in enumerate(folds, start=1):
        unseen = bags.subset(held_out)

        def score(record: dict[str, float], model: WindowHeads, unseen: Bags, truth: Array, number: int) -> None:
            _step(bar, f"fold {number}, ", record)
            if record["epoch"] in scores:
                scores[int(record["epoch"])].append(mean_image_ap(model.decision_function(unseen), truth))

        model = _model(context, values[-1], None)
        model.set_params(callback=partial(score, model=model, unseen=unseen, truth=labels[held_out], number=number))
        _fit(model, bags, np.where(held_out[:, None], 0, labels), boxes)
    return [{"epochs": value, "folds": aps} for value, aps in scores.items()]


def mean_image_ap(scores: Float64, labels: Array) -> float:
    """Return the mean over the classes of the image-level AP, 0 for a class that no picture shows."""
    columns = zip(scores.T, labels.T, strict=True)
    return float(np.mean([image_average_precision(column, y) or 0.0 for column, y in columns]))


def _model(context: RunContext, epochs: int, callback: Any) -> WindowHeads:
    train = context.settings.train
    return KINDS[train.learner](epochs=epochs, random_state=train.head_seed, callback=callback)


def _fit(model: WindowHeads, bags: Bags, labels: Array, boxes: Float64 | None) -> None:
    if isinstance(model, OICR):
        model.fit(bags, labels, boxes)
    else:
        model.fit(bags, labels)


def _step(bar: Bar, note: str, record: Mapping[str, float]) -> None:
    bar.step(note=f"{note}loss {record['loss']:.4f}")
