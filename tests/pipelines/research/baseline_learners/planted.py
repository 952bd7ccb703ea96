"""Pictures of twelve windows, in which one window of each present class is moved along that class's feature."""

import numpy as np

_RNG = np.random.default_rng(0)
Y = np.where(_RNG.random((40, 3)) < 0.4, 1, -1)
PLACES = np.array([_RNG.permutation(12)[:3] for _ in Y])
FEATURES = _RNG.normal(size=(40, 12, 8)) / 4
for _bag, _class in zip(*np.nonzero(Y > 0), strict=True):
    FEATURES[_bag, PLACES[_bag, _class], _class] += 2
CORNERS = _RNG.integers(0, 200, (40 * 12, 2))
BOXES = np.hstack([CORNERS, CORNERS + 10]).astype(np.float32)


def softmax(values, axis):
    shares = np.exp(values - values.max(axis=axis, keepdims=True))
    return shares / shares.sum(axis=axis, keepdims=True)
