"""Block scales: after scaling, every part has the same mean norm."""

import numpy as np
import pytest

from lapsvm.errors import InputError, NotFiniteError, ShapeError
from lapsvm.features import block_scales, mean_block_norms

BLOCKS = (3, 1, 6)


def features(n=50, dtype=np.float32, seed=0):
    return (np.random.default_rng(seed).normal(size=(n, 10)) * [5] * [1] * 10).astype(dtype)


def test_mean_norms_are_those_of_the_parts():
    x = features() * np.repeat([100.0, 1.0, 0.01], BLOCKS).astype(np.float32)
    expected = [np.linalg.norm(part, axis=1).mean() for part in np.split(x.astype(np.float64), [3, 4], axis=1)]
    np.testing.assert_allclose(mean_block_norms(x, BLOCKS), expected, rtol=1e-6)


def test_after_scaling_each_part_has_the_same_share_of_norm_one():
    x = features() * np.repeat([100.0, 1.0, 0.01], BLOCKS)
    scales = block_scales(mean_block_norms(x, BLOCKS), BLOCKS)
    assert scales.shape == (10,)
    np.testing.assert_allclose(mean_block_norms(x * scales, BLOCKS), 1 / np.sqrt(3), rtol=1e-6)


def test_one_part_is_brought_to_mean_norm_one():
    x = features()
    assert np.linalg.norm(x * block_scales(mean_block_norms(x, [10]), [10]), axis=1).mean() == pytest.approx(1.0)


def test_shards_one_after_the_other_count_as_one():
    x = features(20_000, np.float16)
    parts = [x[:1], x[1:1], x[1:9000], x[9000:]]
    np.testing.assert_allclose(mean_block_norms(iter(parts), BLOCKS), mean_block_norms(x, BLOCKS), rtol=1e-12)


def test_float16_squares_do_not_overflow():
    x = np.full((2, 10), 60_000, np.float16)
    np.testing.assert_allclose(mean_block_norms(x, BLOCKS), 60_000 * np.sqrt(BLOCKS), rtol=1e-3)


def test_a_part_that_is_always_zero_gets_the_scale_zero():
    x = features()
    x[:, 3] = 0
    scales = block_scales(mean_block_norms(x, BLOCKS), BLOCKS)
    assert scales[3] == 0
    assert (scales[[0, 4]] > 0).all()


def test_no_windows_have_mean_norm_zero():
    assert mean_block_norms(np.empty((0, 10), np.float32), BLOCKS).tolist() == [0, 0, 0]
    assert mean_block_norms([], BLOCKS).tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (lambda: mean_block_norms(features(), (3, 3)), ShapeError, r"shape \(n, 6\) to have blocks \(3, 3\), got"),
        (lambda: mean_block_norms(features(), ()), InputError, r"blocks must be one or more numbers .* got \[\]"),
        (lambda: mean_block_norms(features(), (10, 0)), InputError, "of at least 1"),
        (lambda: block_scales([1, 2], (3,)), ShapeError, "one mean norm per block, got 2 for 1"),
        (lambda: block_scales([-1.0], (3,)), InputError, "mean norms must not be negative, got -1"),
        (lambda: block_scales([np.nan], (3,)), NotFiniteError, "mean norms must be finite"),
    ],
)
def test_what_does_not_fit_is_refused(call, error, sentence):
    with pytest.raises(error, match=sentence):
        call()
