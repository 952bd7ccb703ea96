"""Where normal maps point in test pictures, by no positive at all, and where the boxes of runs lie beside them.

    python benchmarks/objectness/normal_maps.py ROOT [--size 640] [--patches 20000] [--runs RUN ...]

ROOT is a folder in the VOC layout. The maps are fitted to at most 100 trainval pictures without any object, drawn with
seed 0, by the maps of stride 16 and 8 of EfficientNet-Lite0. Figures are of test pictures: "points" is the share of a
class's pictures whose largest value lies inside an object of the class, "pixels" the area under the ROC curve of a
picture's pixels, their mean. Of runs on ROOT or a part of it "box" is the share whose best box has its centre in an
object, CorLoc that of best boxes that overlap one by half, "score map" the pixels of score maps, and "both" the share
whose largest sum is inside: of the score map's log odds and half the map, both less their means, over their deviations.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from time import process_time
from typing import Any

import cv2
import numpy as np
from sklearn.metrics import roc_auc_score

from lapsvm.arrays import Array, Float32, Float64
from lapsvm.boxes import iou
from lapsvm.catalog import Dataset, ImageRecord, open_dataset
from lapsvm.detection import Predictor
from lapsvm.features import open_extractor
from lapsvm.objectness import NormalMap

PICTURES, MAP_SHARE = 100, 0.5
Truths = Mapping[str, Mapping[str, Float64]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=Path)
    parser.add_argument("--size", type=int, default=640)
    parser.add_argument("--patches", type=int, default=20_000)
    parser.add_argument("--runs", type=Path, nargs="+", default=[])
    options = parser.parse_args()
    cv2.setNumThreads(1)
    dataset, begin = open_dataset("voc", options.root), process_time()
    source = fitted(dataset, options.size, options.patches)
    seconds, begin = process_time() - begin, process_time()
    pictures = [record for record in dataset.records("test") if is_positive(record)]
    maps = {record.id: source.map(record.pixels()) for record in pictures}
    print(f"{seconds:.1f} s for the fit, {(process_time() - begin) / len(pictures):.3f} s for a map")
    report(dataset, pictures, maps, options.runs)


def fitted(dataset: Dataset, size: int, patches: int) -> NormalMap:
    """Return the normal map of some trainval pictures without any object."""
    free = [record for record in dataset.records("trainval") if not is_positive(record)]
    order = np.sort(np.random.default_rng(0).permutation(len(free))[:PICTURES])
    network: Any = open_extractor(f"efficientnet_lite0?output=stride16,stride8&size={size}")
    return NormalMap.fit(network, ((free[place].id, free[place].pixels()) for place in order), limit=patches)


def is_positive(record: ImageRecord) -> bool:
    """Return whether a picture may have an object of a class."""
    return any(label >= 0 for label in record.labels.values())


def report(
    dataset: Dataset, pictures: Sequence[ImageRecord], maps: Mapping[str, Float32], runs: Sequence[Path]
) -> None:
    """Print the figures of the maps, and of runs beside them."""
    found = dataset.ground_truth("test") or {}
    truths = {name: {one.id: found[name][one.id].boxes for one in pictures if one.labels[name] > 0} for name in found}
    shapes = {record.id: record.pixels().shape[:2] for record in pictures}
    full = {name: resized(values, shapes[name]) for name, values in maps.items()}
    rows = {name: np.mean(list(of_maps(full, truth)), axis=0) for name, truth in truths.items()}
    print_table("normal maps", ("points", "pixels"), truths, rows)
    for run in runs:
        predictor = Predictor.open(run, max_detections=1)
        scored = {record.id: predictor.scored(record.pixels()) for record in pictures}
        rows = {name: np.mean(list(of_run(scored, name, full, truth)), axis=0) for name, truth in truths.items()}
        print_table(run.name, ("box", "CorLoc", "score map", "both"), truths, rows)


def of_maps(maps: Mapping[str, Array], truth: Mapping[str, Float64]) -> Iterator[tuple[float, float]]:
    """Yield the figures "points" and "pixels" of each picture of a class."""
    for name, boxes in truth.items():
        inside = mask(boxes, maps[name].shape)
        yield points_inside(maps[name], inside), pixels_area(maps[name], inside)


def of_run(
    scored: Mapping[str, Any], name: str, maps: Mapping[str, Array], truth: Mapping[str, Float64]
) -> Iterator[tuple[float, float, float, float]]:
    """Yield the figures "box", "CorLoc", "score map" and "both" of each picture of a class."""
    for picture, boxes in truth.items():
        score_map = scored[picture].score_map(name).values.astype(np.float64)
        inside, best = mask(boxes, score_map.shape), scored[picture].detections()[name].boxes[0]
        x, y = ((best[:2] + best[2:]) / 2).astype(int)
        both = standardised(log_odds(score_map)) + MAP_SHARE * standardised(maps[picture])
        overlap = float(iou(best[None], boxes).max())
        yield float(inside[y, x]), float(overlap >= 0.5), pixels_area(score_map, inside), points_inside(both, inside)


def resized(values: Array, shape: tuple[int, ...]) -> Array:
    """Return a map of the rows and columns of a picture."""
    return np.asarray(cv2.resize(values, shape[::-1], interpolation=cv2.INTER_LINEAR))


def mask(boxes: Float64, shape: tuple[int, ...]) -> Array:
    """Return which pixels are inside a box."""
    inside = np.zeros(shape, bool)
    for x1, y1, x2, y2 in boxes.astype(int):
        inside[y1:y2, x1:x2] = True
    return inside


def points_inside(values: Array, inside: Array) -> float:
    """Return whether the largest value is inside an object."""
    return float(inside.ravel()[values.argmax()])


def pixels_area(values: Array, inside: Array) -> float:
    """Return the area under the ROC curve of a picture's pixels; chance where all are inside."""
    return 0.5 if inside.all() else float(roc_auc_score(inside.ravel(), values.ravel()))


def standardised(values: Array) -> Array:
    """Return values less their mean, over their deviation."""
    return np.asarray((values - values.mean()) / (values.std() or 1))


def log_odds(probabilities: Float64) -> Float64:
    """Return the log odds of probabilities."""
    bounded = np.clip(probabilities, 1e-6, 1 - 1e-6)
    return np.asarray(np.log(bounded / (1 - bounded)))


def print_table(title: str, names: Sequence[str], truths: Truths, rows: Mapping[str, Array]) -> None:
    """Print a row of figures for each class, and their means."""
    print(f"\n{title}\n\n| class | pictures | {' | '.join(names)} |\n|---|---|{'---|' * len(names)}")
    for name, row in {**rows, "mean": np.mean(list(rows.values()), axis=0)}.items():
        cells = " | ".join(f"{value:.3f}" for value in row)
        print(f"| {name} | {len(truths.get(name, ''))} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
