"""A supervised ceiling for a run's windows and features: `python benchmarks/recipes/supervised_ceiling.py RUN`.

The supervised counterpart of a finished run, for comparison only. It trains on boxes and on RUN's shards. For each
class the positives of a linear SVM are the windows with an IoU of 0.7 or more with an object (at most ten per object;
the best one if its IoU is 0.5 or more), the negatives are windows with an IoU below 0.3: the twenty highest-scored of
each picture, mined three times. `--C` is its constant (default 0.3).
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
from lapsvm.pipelines.cli.study import Given, print_table, study_command
from lapsvm.pipelines.context import RunContext
from lapsvm.pipelines.fitting.training_bags import stored_bags
from lapsvm.pipelines.products.detections import detect_set
from sklearn.svm import LinearSVC

from lapsvm.bags import Bags
from lapsvm.boxes import iou
from lapsvm.evaluation import Detections, corloc, evaluate_voc
from lapsvm.features import open_shards

POSITIVE_IOU, MIN_IOU, NEGATIVE_IOU = 0.7, 0.5, 0.3
PER_OBJECT, PER_PICTURE, ROUNDS = 10, 20, 3
C_DEFAULT = 0.3


class Pictures(NamedTuple):
    """Training pictures of a run: windows with features, their scale, and class -> picture -> `_sides`."""

    bags: Bags
    scale: np.ndarray
    sides: dict[str, list[tuple[np.ndarray, np.ndarray]]]


@study_command
def main(
    folder: Annotated[Path, Given(metavar="RUN", is_argument=True)], C: Annotated[float, Given("--C")] = C_DEFAULT
) -> None:
    """Train on the true boxes and print the figures."""
    context = RunContext.opened(folder, "a ceiling", threads=2, quiet=True)
    data = context.settings.data
    for set_name, evaluate, measures in (
        (data.test_set, evaluate_voc, ("ap_11point", "ap_area")),
        (data.train_set, corloc, ("corloc",)),
    ):
        found = detections_of(context, set_name, C)
        rows = evaluate(found, context.data.dataset.ground_truth(set_name)).rows()
        titles = [f"{set_name}", *rows, "mean"]
        values = [[measure, *(row[measure] for row in rows.values())] for measure in measures]
        print_table(titles, ([*row, float(np.mean(row[1:]))] for row in values))


def detections_of(context: RunContext, set_name: str, C: float = C_DEFAULT) -> dict[str, Detections]:
    """Return the detections in a set by models that were trained with all training pictures."""
    weights, biases = trained_models(context, C)
    return _detected(context, set_name, lambda shard: shard.features @ weights + biases)


def trained_models(context: RunContext, C: float = C_DEFAULT) -> tuple[np.ndarray, np.ndarray]:
    """Return the weights (features, classes) of stored features and the biases, trained with all training pictures."""
    pictures = _opened(context)
    return _models(context, pictures, np.ones(len(pictures.bags.offsets) - 1, dtype=bool), C)


def held_out_detections(context: RunContext, C: float = C_DEFAULT, folds: int = 3) -> dict[str, Detections]:
    """Return the detections in the training pictures, each by models that were trained without its fold."""
    shards = open_shards(context.run.shards(context.train_set))
    pictures, ids = _opened(context), shards.image_ids
    groups = context.stored.groups(context.train_set, ids, shards)
    order = np.random.default_rng(0).permutation(len(ids))
    order = order[groups[order] == order]  # the first picture of each group
    shown = [[len(sides[picture][0]) > 0 for sides in pictures.sides.values()] for picture in order]
    fold = np.empty(len(ids), dtype=int)
    fold[order[np.lexsort(np.transpose(shown))]] = np.arange(len(order)) % folds
    fold = fold[groups]
    models = [_models(context, pictures, fold != number, C) for number in range(folds)]
    fold_of = dict(zip(ids, fold.tolist(), strict=True))

    def score(shard):
        each = zip(shard.image_ids, np.split(shard.features, shard.offsets[1:-1]), strict=True)
        return np.concatenate([rows @ models[fold_of[one]][0] + models[fold_of[one]][1] for one, rows in each])

    return _detected(context, context.settings.data.train_set, score)


def _opened(context: RunContext) -> Pictures:
    """Return the training pictures of a run."""
    train_set = context.settings.data.train_set
    shards, truth = open_shards(context.run.shards(train_set)), context.data.dataset.ground_truth(train_set)
    bags, scale = stored_bags(context.workspace, train_set, shards)
    boxes = [box for shard in shards for box in np.split(shard.boxes, shard.offsets[1:-1])]
    sides = {
        name: [_sides(windows, truth[name][image]) for windows, image in zip(boxes, shards.image_ids, strict=True)]
        for name in context.data.classes
    }
    return Pictures(bags, scale, sides)


def _models(context: RunContext, pictures: Pictures, seen: np.ndarray, C: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the weights (features, classes) and biases of all classes, trained with the pictures of a mask."""

    def fitted(sides):
        own = [(one[0][: len(one[0]) * s], one[1] & s) for one, s in zip(sides, seen, strict=True)]
        return fit_classifier(pictures.bags, own, C)

    with ThreadPoolExecutor(context.threads) as pool:
        models = list(pool.map(fitted, pictures.sides.values()))
    return np.stack([coef * pictures.scale for coef, _ in models], axis=1), np.array([bias for _, bias in models])


def _detected(context: RunContext, set_name: str, score) -> dict[str, Detections]:
    """Return class -> detections in a set; `score(shard)` are the scores (windows, classes)."""
    shards, names = open_shards(context.run.shards(set_name)), dict.fromkeys(context.data.classes)
    settings = context.settings.detect
    found = detect_set(shards, names, score, settings, set_name, context.workspace)
    return {name: Detections.from_images(images) for name, images in found.items()}


def _sides(boxes: np.ndarray, objects) -> tuple[np.ndarray, np.ndarray]:
    """Return the positive windows of a picture, and for every window whether it is negative."""
    overlaps = iou(boxes, np.asarray(objects.boxes).reshape(-1, 4))
    positive = []
    for column in np.flatnonzero(~np.asarray(objects.difficult, dtype=bool)):
        order = np.argsort(-overlaps[:, column], kind="stable")[:PER_OBJECT]
        good = order[overlaps[order, column] >= POSITIVE_IOU]
        positive += good.tolist() or order[:1][overlaps[order[:1], column] >= MIN_IOU].tolist()
    return np.unique(np.array(positive, dtype=int)), overlaps.max(axis=1, initial=0) < NEGATIVE_IOU


def fit_classifier(bags, sides, C: float) -> tuple[np.ndarray, float]:
    """Return the weights and the bias of one class."""
    owners = np.concatenate([np.full(len(positive), bag) for bag, (positive, _) in enumerate(sides)])
    positives = bags.rows(owners, np.concatenate([positive for positive, _ in sides]))
    rng = np.random.default_rng(0)
    mined = [set(rng.permutation(np.flatnonzero(negative))[: PER_PICTURE // 2].tolist()) for _, negative in sides]
    for mining_round in range(ROUNDS + 1):
        negatives = np.concatenate(list(_rows(bags, mined)))
        x = np.concatenate([positives, negatives])
        model = LinearSVC(C=C, tol=1e-3, max_iter=5000).fit(x, np.repeat([1, 0], [len(positives), len(negatives)]))
        if mining_round < ROUNDS:
            scores = np.split(bags.score_windows(model.coef_[0]) + model.intercept_[0], bags.offsets[1:-1])
            for windows, values, (_, negative) in zip(mined, scores, sides, strict=True):
                candidates = np.where(negative, values, -np.inf)
                hardest = np.argsort(-candidates, kind="stable")[:PER_PICTURE]
                windows |= set(hardest[candidates[hardest] > -1].tolist())
    return model.coef_[0], float(model.intercept_[0])


def _rows(bags, mined) -> Iterator[np.ndarray]:
    """Yield the features of the mined windows of each picture."""
    for bag, windows in enumerate(mined):
        if windows:
            yield bags.rows(np.full(len(windows), bag), np.array(sorted(windows)))


if __name__ == "__main__":
    main()
