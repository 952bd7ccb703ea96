"""A supervised ceiling for a run's windows and features: `python benchmarks/recipes/supervised_ceiling.py RUN`.

The supervised counterpart of a finished run, for comparison only. It trains on boxes and on RUN's shards. For each
class the positives of a linear SVM are the windows with an IoU of 0.7 or more with an object (at most ten per object;
the best one if its IoU is 0.5 or more), the negatives are windows with an IoU below 0.3: the twenty highest-scored of
each picture, mined three times. `--C` is its constant (default 0.3).
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from lapsvm.pipelines.fitting.training_bags import stored_bags
from lapsvm.pipelines.results.detections import detect_runs
from lapsvm.pipelines.run.context import RunContext
from lapsvm.pipelines.run.folder import RunFolder
from lapsvm.pipelines.run.progress import Reporter
from sklearn.svm import LinearSVC

from lapsvm.boxes import iou
from lapsvm.evaluation import Detections, corloc, evaluate_voc
from lapsvm.features import open_shards

POSITIVE_IOU, MIN_IOU, NEGATIVE_IOU = 0.7, 0.5, 0.3
PER_OBJECT, PER_PICTURE, ROUNDS = 10, 20, 3


def main(folder: str, C: float = 0.3) -> None:
    """Train on the true boxes and print the table."""
    run = RunFolder(Path(folder))
    context = RunContext(run, run.settings(), 2, Reporter(True))
    data, names = context.settings.data, context.data.classes
    shards = open_shards(run.shards(data.train_set))
    bags, scale = stored_bags(context, shards)
    boxes = [box for shard in shards for box in np.split(shard.boxes, shard.offsets[1:-1])]
    truth = context.data.dataset.ground_truth(data.train_set)
    models = []
    for name in names:
        sides = [_sides(windows, truth[name][image]) for windows, image in zip(boxes, shards.image_ids, strict=True)]
        models.append(_fitted(bags, sides, C))
    weights = np.stack([coef * scale for coef, _ in models], axis=1)
    biases = np.array([bias for _, bias in models])
    for set_name, evaluate, measures in (
        (data.test_set, evaluate_voc, ("ap_11point", "ap_area")),
        (data.train_set, corloc, ("corloc",)),
    ):
        shards = open_shards(run.shards(set_name))
        (detections,) = detect_runs(
            [context], shards, names, lambda shard: [shard.features @ weights + biases], set_name
        )
        rows = evaluate(
            {name: Detections.from_images(images) for name, images in detections.items()},
            context.data.dataset.ground_truth(set_name),
        ).rows()
        for measure in measures:
            values = [rows[name][measure] for name in names]
            text = " ".join(f"{name} {value:.3f}" for name, value in zip(names, values, strict=True))
            print(f"{set_name} {measure}: {text}; mean {np.mean(values):.3f}")


def _sides(boxes: np.ndarray, objects) -> tuple[np.ndarray, np.ndarray]:
    """Return the positive windows of a picture, and for every window whether it is negative."""
    overlaps = iou(boxes, np.asarray(objects.boxes).reshape(-1, 4))
    positive = []
    for column in np.flatnonzero(~np.asarray(objects.difficult, dtype=bool)):
        order = np.argsort(-overlaps[:, column], kind="stable")[:PER_OBJECT]
        good = order[overlaps[order, column] >= POSITIVE_IOU]
        positive += good.tolist() or order[:1][overlaps[order[:1], column] >= MIN_IOU].tolist()
    return np.unique(np.array(positive, dtype=int)), overlaps.max(axis=1, initial=0) < NEGATIVE_IOU


def _fitted(bags, sides, C: float) -> tuple[np.ndarray, float]:
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
    main(sys.argv[1], float(sys.argv[3]) if sys.argv[2:3] == ["--C"] else 0.3)
