"""Pooling that torch can differentiate, against the extractors' own."""

import numpy as np
import pytest

from lapsvm.errors import InputError, NotFiniteError, ShapeError
from lapsvm.features.extractors.maps.prepared import PoolingRules

torch = pytest.importorskip("torch", reason="torch is not installed")

from lapsvm.nn import WindowPooling  # noqa: E402


def make_windows(rng, n=40):
    """Return relative windows: random ones, the whole picture, slim ones, and one without area."""
    corners = np.sort(rng.random((n, 2, 2)), axis=1).reshape(n, 4)
    return np.concatenate([corners, [[0, 0, 1, 1], [0.2, 0.1, 0.2001, 1], [0.999, 0, 1, 1], [0, 0, 0, 0]]])


@pytest.mark.parametrize("normalise", [True, False])
@pytest.mark.parametrize(("contrast", "beside"), [(0.0, False), (0.5, False), (0.0, True)])
def test_features_are_the_extractors(contrast, beside, normalise):
    rng = np.random.default_rng(0)
    feature_map, windows = rng.random((5, 7, 9)).astype(np.float32), make_windows(rng)
    rules = PoolingRules(contrast, beside, normalise)
    expected = rules.features(feature_map, windows * [9, 7, 9, 7])
    found = WindowPooling(contrast, beside=beside, normalise=normalise)(torch.tensor(feature_map), windows)
    assert found.shape == expected.shape
    assert found.dtype == torch.float32
    assert found.numpy() == pytest.approx(expected, abs=2e-5)


@pytest.mark.parametrize("normalise", [True, False])
@pytest.mark.parametrize(("contrast", "beside"), [(0.0, False), (0.5, False), (0.0, True)])
@pytest.mark.parametrize("channels", [5, 400], ids=["few channels", "many channels"])
def test_scores_and_their_gradients_are_those_of_the_features(contrast, beside, normalise, channels):
    rng = np.random.default_rng(2)
    pooling, windows = WindowPooling(contrast, beside=beside, normalise=normalise), make_windows(rng)
    shapes = (channels, 5, 6), (3, channels * (1 + beside))
    inputs = [torch.tensor(rng.normal(size=shape), requires_grad=True) for shape in shapes]
    chances = torch.tensor(rng.normal(size=(len(windows), 3)))
    expected = pooling(inputs[0], windows) @ inputs[1].T
    found = pooling.scores(inputs[0], windows, inputs[1])
    assert torch.allclose(found, expected, rtol=1e-10, atol=1e-12)
    gradients = [torch.autograd.grad((value * chances).sum(), inputs) for value in (found, expected)]
    assert all(torch.allclose(a, b, rtol=1e-9, atol=1e-11) for a, b in zip(*gradients, strict=True))


@pytest.mark.parametrize("normalise", [True, False])
def test_the_gradient_is_exact(normalise):
    rng = np.random.default_rng(1)
    feature_map = torch.tensor(rng.normal(size=(2, 3, 4)), requires_grad=True)
    pooling = WindowPooling(0.5, normalise=normalise)
    windows = make_windows(rng, 4)
    assert torch.autograd.gradcheck(lambda values: pooling(values, windows), (feature_map,))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: WindowPooling(1.5), InputError, r"contrast must lie in \[0, 1\], got 1.5"),
        (lambda: WindowPooling(0.5, beside=True), InputError, "contrast must be 0 where beside keeps both parts"),
        (lambda: WindowPooling(normalise=2), InputError, "normalise must be"),
        (lambda: WindowPooling()(torch.zeros(3, 4), np.zeros((1, 4))), ShapeError, "feature_map must have shape"),
        (lambda: WindowPooling()(torch.zeros(3, 4, 4), np.zeros((1, 3))), ShapeError, "windows must have shape"),
        (lambda: WindowPooling()(torch.zeros(3, 4, 4), [[0, 0, np.nan, 1]]), NotFiniteError, "windows must be finite"),
        (
            lambda: WindowPooling().scores(torch.zeros(3, 4, 4), np.zeros((1, 4)), torch.zeros(2, 4)),
            ShapeError,
            r"weight must have shape \(k, 3\), got \(2, 4\)",
        ),
        (
            lambda: WindowPooling()(torch.zeros(3, 4, 4), np.array([[0, 0, 4, 4]])),
            InputError,
            "windows must lie in the unit square, got 4",
        ),
    ],
)  # fmt: skip
def test_bad_input_is_one_sentence(call, error, message):
    with pytest.raises(error, match=message):
        call()
