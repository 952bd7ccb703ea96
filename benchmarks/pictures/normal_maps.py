"""What negative pictures do not have, as maps: where they point, and what their regions give refinement.

    python benchmarks/pictures/normal_maps.py ROOT [--size 640] [--patches 20000] [--runs RUN ...]
    python benchmarks/pictures/normal_maps.py ROOT --measure COPY

ROOT is a folder in the VOC layout; negatives are its trainval pictures without any object. A map has the distance of each
patch of EfficientNet-Lite0 to the nearest patch of negatives, less its mean over them at that place, over its deviation
there; the maps of stride 8 and 16 are added. A negative's own patches are no neighbours of it. No positive is used.

Figures are of test pictures: "points" is the share whose largest value is inside an object of the class, "pixels" the
area under the ROC curve of all pixels. With --runs, of runs on ROOT or a part of it: "box" is the share whose best box
has its centre in an object, CorLoc that box's, "score map" pixels of the score map, and "with" the point where the score
map's log odds and the map, less their means and over their deviations, with half the weight for the map, are largest.

--measure writes objectness by the regions of the maps, stretched to 0..1, into the shards of COPY, a copy of a run
folder that was trained with a source of objectness or names one in its run.toml; `lapsvm refine --redo` uses it.
"""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from lapsvm.pipelines.shards.objectness import ObjectnessRequest, measure_stored
from sklearn.metrics import roc_auc_score

from lapsvm.arrays import Array, Float32, Float64
from lapsvm.boxes import iou
from lapsvm.catalog import Dataset, ImageRecord, open_dataset
from lapsvm.detection import Predictor
from lapsvm.features import open_extractor, read_shard
from lapsvm.objectness import object_regions

GRID = 32  # rows and columns of the places at which negatives are summed up
LEAST_DEVIATION = 0.1  # of the mean deviation
MAP_SHARE = 0.5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=Path)
    parser.add_argument("--size", type=int, default=640)
    parser.add_argument("--patches", type=int, default=20_000)
    parser.add_argument("--runs", type=Path, nargs="+", default=[])
    parser.add_argument("--measure", type=Path)
    options = parser.parse_args()
    cv2.setNumThreads(1)
    dataset = open_dataset("voc", options.root)
    records = list(dataset.records("trainval"))
    source = NormalMaps(options.size, [one for one in records if not is_positive(one)], options.patches)
    if options.measure:
        measure(source, [one for one in records if is_positive(one)], options.measure)
    else:
        report(source, dataset, options.runs)


def is_positive(record: ImageRecord) -> bool:
    """Return whether a picture has an object of any class."""
    return any(label >= 0 for label in record.labels.values())


class NormalMaps:
    """Maps of what negative pictures do not have, and the regions of these maps."""

    def __init__(self, size: int, negatives: Sequence[ImageRecord], patches: int) -> None:
        self.extractor: Any = open_extractor(f"efficientnet_lite0?output=stride8,stride16&size={size}")
        seen = [self.extractor.feature_maps(record.pixels()) for record in negatives]
        rng = np.random.default_rng(0)
        self.parts = [NormalPatches([maps[part] for maps in seen], patches, rng) for part in range(2)]
        self.settings = {"kind": "normal-maps", "size": size, "patches": patches}

    def describe(self) -> dict[str, Any]:
        """Return the settings."""
        return self.settings

    def map(self, pixels: Array) -> Float32:
        """Return the map of a picture, float32 of the picture's shape; it has no scale."""
        maps = self.extractor.feature_maps(pixels)
        sizes = pixels.shape[1::-1]
        return np.asarray(sum(resized(part(one), sizes) for part, one in zip(self.parts, maps, strict=True)))

    def regions(self, pixels: Array) -> Float64:
        """Return the regions of the map, stretched to 0..1."""
        values = self.map(pixels)
        span = values.max() - values.min()
        return object_regions(np.clip((values - values.min()) / (span or 1), 0, 1))


class NormalPatches:
    """The distance of patches of one stride to those of negative pictures, normalised at each place.

    Parameters
    ----------
    maps : list of ndarray of shape (channels, rows, columns)
        Of negative pictures.
    limit : int
        Largest number of patches that are kept, as many of each picture, drawn at random.
    rng : numpy.random.Generator
    """

    def __init__(self, maps: Sequence[Float32], limit: int, rng: np.random.Generator) -> None:
        drawn = [drawn_rows(patches_of(one), max(1, limit // len(maps)), rng) for one in maps]
        ends = np.cumsum([0, *map(len, drawn)])
        self.known = np.concatenate(drawn)
        self.squares = (self.known**2).sum(axis=1)
        own = [slice(first, last) for first, last in zip(ends, ends[1:], strict=False)]
        distances = [self.distances(one, mine) for one, mine in zip(maps, own, strict=True)]
        grids = np.stack([resized(one, (GRID, GRID)) for one in distances])
        self.mean = cv2.GaussianBlur(grids.mean(axis=0), (0, 0), 1)
        deviation = np.sqrt(cv2.GaussianBlur(grids.var(axis=0), (0, 0), 1))
        self.deviation = deviation + LEAST_DEVIATION * deviation.mean()

    def __call__(self, feature_map: Float32) -> Float32:
        """Return the normalised distances (rows, columns) of a map (channels, rows, columns)."""
        found = self.distances(feature_map)
        size = found.shape[::-1]
        return np.asarray((found - resized(self.mean, size)) / resized(self.deviation, size))

    def distances(self, feature_map: Float32, own: slice = slice(0)) -> Float32:
        """Return the distance of each patch to the nearest known one, none of which is in `own`."""
        rows = patches_of(feature_map)
        squares = self.squares - 2 * (rows @ self.known.T)
        squares[:, own] = np.inf
        nearest = squares.min(axis=1) + (rows**2).sum(axis=1)
        return np.sqrt(np.maximum(nearest, 0)).reshape(feature_map.shape[1:])


def patches_of(feature_map: Float32) -> Float32:
    """Return the patches (rows x columns, channels) of a map."""
    return feature_map.reshape(len(feature_map), -1).T


def drawn_rows(rows: Float32, limit: int, rng: np.random.Generator) -> Float32:
    """Return some rows, drawn at random."""
    return rows[rng.choice(len(rows), min(limit, len(rows)), replace=False)]


def resized(values: Float32, size: tuple[int, int]) -> Float32:
    """Return a map of a width and height."""
    return np.asarray(cv2.resize(values, size, interpolation=cv2.INTER_LINEAR))


def measure(source: NormalMaps, records: Sequence[ImageRecord], copy: Path) -> None:
    """Write the objectness of positive pictures into the shards of a run's training set."""
    request, known = ObjectnessRequest(source, frozenset(one.id for one in records)), {one.id: one for one in records}
    for path in sorted((copy / "shards" / "trainval").glob("*.safetensors")):
        wanted = [known[name] for name in read_shard(path, verify=False).image_ids if name in known]
        measure_stored(path, wanted, request, skip_bad=True)


def report(source: NormalMaps, dataset: Dataset, runs: Sequence[Path]) -> None:
    """Print the figures of the maps, and of runs beside them."""
    found = dataset.ground_truth("test") or {}
    pictures = [record for record in dataset.records("test") if is_positive(record)]
    maps = {record.id: source.map(record.pixels()) for record in pictures}
    truths = {name: {one.id: found[name][one.id].boxes for one in pictures if one.labels[name] > 0} for name in found}
    table("maps", truths, {name: np.mean(list(of_maps(maps, truth)), axis=0) for name, truth in truths.items()})
    for run in runs:
        predictor = Predictor.open(run, max_detections=1)
        scored = {record.id: predictor.scored(record.pixels()) for record in pictures}
        rows = {name: np.mean(list(of_run(scored, name, maps, truth)), axis=0) for name, truth in truths.items()}
        table(str(run), truths, rows)


def of_maps(maps: dict[str, Float32], truth: dict[str, Float64]) -> Iterator[tuple[float, ...]]:
    """Yield the figures "points" and "pixels" of the pictures of a class."""
    for name, boxes in truth.items():
        inside = mask(boxes, maps[name].shape)
        yield points_inside(maps[name], inside), pixels_area(maps[name], inside)


def of_run(scored: dict[str, Any], name: str, maps: dict[str, Float32], truth: dict[str, Float64]) -> Iterator[Any]:
    """Yield the figures "box", CorLoc, "score map" and "with" of the pictures of a class."""
    for picture, boxes in truth.items():
        score_map = scored[picture].score_map(name).values.astype(np.float64)
        inside, best = mask(boxes, score_map.shape), scored[picture].detections()[name].boxes[0]
        x, y = (int(side) for side in (best[:2] + best[2:]) / 2)
        right = iou(best[None], boxes).max() >= 0.5
        both = standardised(log_odds(score_map)) + MAP_SHARE * standardised(maps[picture])
        yield float(inside[y, x]), right, pixels_area(score_map, inside), points_inside(both, inside)


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


def table(title: str, truths: dict[str, Any], rows: dict[str, Array]) -> None:
    """Print a row of figures for each class, and their means."""
    names = ("points", "pixels") if title == "maps" else ("box", "CorLoc", "score map", "with")
    print(f"\n{title}\n\n| class | pictures | {' | '.join(names)} |\n|---|---|{'---|' * len(names)}")
    for name, row in {**rows, "mean": np.mean(list(rows.values()), axis=0)}.items():
        cells = " | ".join(f"{value:.3f}" for value in row)
        print(f"| {name} | {len(truths.get(name, ''))} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
