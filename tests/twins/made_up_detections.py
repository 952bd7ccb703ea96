"""Synthetic detections for tests and benchmarks of evaluation."""

from collections.abc import Mapping

import numpy as np

from lapsvm.arrays import Float64
from lapsvm.boxes import as_boxes
from lapsvm.catalog import GroundTruth
from lapsvm.evaluation import Detections


def made_up_detections(
    ground_truth: Mapping[str, GroundTruth], n: int, seed: int, size: int = 500, decimals: int = 3
) -> Detections:
    """Return random detections of one class: half near objects with higher scores, half anywhere.

    Parameters
    ----------
    ground_truth : mapping of image id to GroundTruth
        Not empty.
    n : int
        Number of detections.
    seed : int
    size : int, default 500
        Side of the pictures in pixels.
    decimals : int, default 3
        Decimals of the scores, which have ties; coordinates are whole pixels.

    Returns
    -------
    Detections
        In random order.
    """
    rng = np.random.default_rng(seed)
    images = list(ground_truth)
    owners = np.repeat(np.arange(len(images)), [len(ground_truth[image].boxes) for image in images])
    objects = as_boxes(np.concatenate([np.empty((0, 4)), *(as_boxes(ground_truth[i].boxes) for i in images)]))
    near = rng.integers(0, max(len(objects), 1), n // 2 if len(objects) else 0)
    sides = np.tile(objects[near, 2:] - objects[near, :2], 2)
    jittered = objects[near] + rng.normal(0, 0.12, (len(near), 4)) * sides
    n_random = n - len(near)
    numbers = np.concatenate([owners[near], rng.integers(0, len(images), n_random)])
    boxes = np.concatenate([jittered, _anywhere(rng, n_random, size)]).round()
    scores = np.concatenate([rng.normal(0.5, 1, len(near)), rng.normal(-1, 1, n_random)]).round(decimals)
    shuffled = rng.permutation(n)
    return Detections(tuple(images[i] for i in numbers[shuffled]), scores[shuffled], boxes[shuffled])


def _anywhere(rng: np.random.Generator, n: int, size: int) -> Float64:
    """Return n boxes in a square of `size` pixels."""
    corners = rng.uniform(0, size, (n, 2, 2))
    return np.concatenate([corners.min(axis=1), corners.max(axis=1)], axis=1)
