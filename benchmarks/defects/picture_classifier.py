"""A classifier of whole pictures by a network's averaged maps, and its class activation maps (Zhou et al., CVPR 2016).

Logistic regression of each class against all other pictures, on channels that are standardised over the training
pictures. The classifier is linear, and the map of a class has its weights at every cell: its mean is the picture's
score, exactly.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import cv2
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV

from lapsvm.arrays import Array, Float32, Float64

CONSTANTS = (0.001, 0.01, 0.1, 1.0)


@dataclass(frozen=True, eq=False)
class PictureClassifier:
    """Weights (d, k) of the averaged channels, and biases (k,)."""

    network: Any
    weights: Float64
    biases: Float64

    @classmethod
    def fit(cls, network: Any, pictures: Iterable[Array], labels: Array) -> Self:
        """Return a classifier of pictures with labels (n, k) of 1, -1 or 0; the latter are left out of their class."""
        averaged = np.stack([averages(network.feature_maps(one)) for one in pictures])
        means, deviations = averaged.mean(axis=0), averaged.std(axis=0) + 1e-6
        rows = (averaged - means) / deviations
        models = [fitted(rows[column != 0], column[column != 0]) for column in labels.T]
        weights = np.stack([one.coef_[0] / deviations for one in models], axis=1)
        return cls(network, weights, np.array([one.intercept_[0] for one in models]) - means @ weights)

    def judge(self, pixels: Array) -> tuple[Float64, list[Float32]]:
        """Return the probabilities (k,) of a picture, and the activation map of every class."""
        maps = self.network.feature_maps(pixels)
        logits = averages(maps) @ self.weights + self.biases
        return 1 / (1 + np.exp(-logits)), list(self.activations(maps))

    def activations(self, maps: Sequence[Float32]) -> Float32:
        """Return the activation maps (k, rows, columns) on the finest of a network's maps."""
        rows, columns = max((one.shape[1:] for one in maps), key=np.prod)
        parts = np.split(self.weights, np.cumsum([len(one) for one in maps])[:-1])
        each = [np.einsum("crs,ck->rsk", one, part, optimize=True) for one, part in zip(maps, parts, strict=True)]
        large = [cv2.resize(one, (columns, rows)).reshape(rows, columns, -1) for one in each]
        return np.moveaxis(np.sum(large, axis=0), 2, 0).astype(np.float32)


def averages(maps: Sequence[Float32]) -> Float64:
    """Return the means of all channels over the picture."""
    return np.concatenate([one.mean(axis=(1, 2), dtype=np.float64) for one in maps])


def fitted(rows: Float64, labels: Array) -> LogisticRegression:
    """Return a logistic regression whose constant is chosen by cross-validated average precision."""
    model = LogisticRegression(class_weight="balanced", max_iter=3000)
    return GridSearchCV(model, {"C": CONSTANTS}, scoring="average_precision").fit(rows, labels > 0).best_estimator_
