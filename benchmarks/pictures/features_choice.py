"""What the defaults of pooled network features rest on: size, normalisation, rounding to 32, place of windows.

    LAPSVM_TEST_DATA=DIR python benchmarks/pictures/features_choice.py

DIR holds ``voc2007_vehicles_cat`` and ``weights``. A stand-in for detection that needs no proposals and no training
of detectors: linear SVMs tell the objects of a class from windows near objects that overlap none by half. Every second
trainval picture trains, every second test picture tests. Minutes per row; rows can be named on the command line.
"""

import os
import sys
from pathlib import Path
from time import process_time

import numpy as np
from defusedxml.ElementTree import parse
from sklearn.metrics import average_precision_score
from sklearn.svm import LinearSVC

from lapsvm.boxes import iou
from lapsvm.catalog import read_image
from lapsvm.features import PooledNetwork, open_extractor
from lapsvm.features.extractors.maps import outputs
from lapsvm.features.extractors.maps.letterbox import network_size
from lapsvm.features.extractors.picture import clip_boxes, l2_normalise
from lapsvm.features.extractors.pooling import pool_windows

DATA = Path(os.environ["LAPSVM_TEST_DATA"])
VOC = DATA / "voc2007_vehicles_cat"
CLASSES = ("bus", "car", "cat", "train", "person")
NEAR = 8  # windows drawn near each object
BACKGROUND = -1
ROWS = {  # name: longest side, rounding, shift of windows in pixels of the network's picture
    "448": (448, 32, 0),
    "640": (640, 32, 0),
    "960": (960, 32, 0),
    "640-not-rounded": (640, 1, 0),
    "640-shift+16": (640, 32, 16),
    "640-shift-16": (640, 32, -16),
}


def objects(name: str) -> tuple[np.ndarray, list[int]]:
    """The boxes of a picture and the numbers of their classes."""
    found = parse(VOC / "Annotations" / f"{name}.xml").getroot().findall("object")
    boxes = [[float(item.find("bndbox").find(k).text) for k in ("xmin", "ymin", "xmax", "ymax")] for item in found]
    names = [item.find("name").text for item in found]
    labels = [CLASSES.index(name) if name in CLASSES else BACKGROUND for name in names]
    return np.array(boxes).reshape(-1, 4) - [1, 1, 0, 0], labels


def near(boxes: np.ndarray, height: int, width: int, seed: int) -> np.ndarray:
    """Windows near objects that overlap none by half."""
    rng = np.random.default_rng(seed)
    boxes = np.repeat(boxes, NEAR, axis=0)
    sides, middles = boxes[:, 2:] - boxes[:, :2], (boxes[:, 2:] + boxes[:, :2]) / 2
    middles = middles + rng.uniform(-0.8, 0.8, middles.shape) * sides
    sides = sides * np.exp(rng.uniform(-0.9, 0.9, sides.shape))
    return np.hstack([middles - sides / 2, middles + sides / 2]).clip(0, [width, height, width, height])


def windows(name: str, pixels: np.ndarray) -> tuple[np.ndarray, list[int]]:
    """Objects and background windows of a picture, with their labels."""
    boxes, labels = objects(name)
    around = near(boxes, *pixels.shape[:2], seed=int(name))
    around = around[((around[:, 2:] - around[:, :2]) > 15).all(axis=1)]
    if len(boxes):
        around = around[iou(around, boxes).max(axis=1) < 0.5]
    return np.concatenate([boxes, around]), labels + [BACKGROUND] * len(around)


def pooled(extractor: PooledNetwork, pixels: np.ndarray, boxes: np.ndarray, size: int, shift: float) -> np.ndarray:
    """Means over windows that are moved against the map."""
    height, width = pixels.shape[:2]
    feature_map = extractor.feature_map(pixels)
    rows, columns = feature_map.shape[1:]
    seen = network_size(height, width, size, outputs.MULTIPLE)
    limits = np.array([columns, rows, columns, rows])
    places = clip_boxes(boxes, height, width) * limits / np.array([width, height, width, height])
    places -= shift * limits / np.array([seen[1], seen[0], seen[1], seen[0]])
    return pool_windows(feature_map, places.clip(0, limits))


def collect(extractor: PooledNetwork, set_name: str, size: int, shift: float) -> tuple[np.ndarray, np.ndarray]:
    features, labels = [], []
    for name in (VOC / "ImageSets" / "Main" / f"{set_name}.txt").read_text().split()[::2]:
        pixels = read_image(VOC / "JPEGImages" / f"{name}.jpg")
        boxes, found = windows(name, pixels)
        features.append(pooled(extractor, pixels, boxes, size, shift))
        labels += found
    return np.concatenate(features), np.array(labels)


def mean_ap(train: tuple[np.ndarray, np.ndarray], test: tuple[np.ndarray, np.ndarray], norm: str) -> float:
    if norm == "l2":
        first, second = l2_normalise(train[0]), l2_normalise(test[0])
    else:
        length = np.linalg.norm(train[0], axis=1).mean()
        first, second = train[0] / length, test[0] / length
    values = []
    for index in range(len(CLASSES)):
        model = LinearSVC(C=1.0, max_iter=5000).fit(first, train[1] == index)
        values.append(average_precision_score(test[1] == index, model.decision_function(second)))
    return float(np.mean(values))


def main() -> None:
    weights = DATA / "weights" / "mobilenet_v2_1.0_tf2_dequantised_fp32.onnx"
    print(f"{'row':18} {'AP, l2':>7} {'AP, none':>9} {'CPU s':>7}")
    for row in sys.argv[1:] or ROWS:
        size, outputs.MULTIPLE, shift = ROWS[row]
        start = process_time()
        extractor = open_extractor(f"onnx:{weights}?size={size}")
        train, test = (collect(extractor, name, size, shift) for name in ("trainval", "test"))
        spent = process_time() - start
        print(
            f"{row:18} {mean_ap(train, test, 'l2'):7.3f} {mean_ap(train, test, 'none'):9.3f} {spent:7.0f}", flush=True
        )


if __name__ == "__main__":
    main()
