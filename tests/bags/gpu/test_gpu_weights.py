"""Weight vectors in parts of the windows' type, and the bound of what tensor cores make of them."""

import numpy as np
import pytest

from lapsvm.bags.stores.gpu_weights import STEP, DeviceWeights
from lapsvm.bfloat16 import BFLOAT16, narrowed, type_name, widened

DTYPES = [np.float16, BFLOAT16, np.float32]


def drawn(seed, d=150, k=5):
    """Return weights of all sizes."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(d, k)) * np.exp(rng.normal(scale=6, size=(d, k))) * 10.0 ** rng.integers(-200, 200, k)


def scales(weights, prepared):
    """Return the power of two by which each column was multiplied."""
    largest = np.abs(weights).argmax(axis=0)
    sums = widened(prepared.parts).astype(np.float64).sum(axis=0)
    ratio = sums[np.arange(len(largest)), largest] / np.take_along_axis(weights, largest[None], axis=0)[0]
    return 2.0 ** np.round(np.log2(ratio))


@pytest.mark.parametrize("dtype", DTYPES, ids=type_name)
@pytest.mark.parametrize("seed", range(5))
def test_the_parts_add_up_to_the_weights_times_a_power_of_two(dtype, seed):
    weights = drawn(seed)
    d, k = weights.shape
    prepared = DeviceWeights.of(weights, dtype)
    np.testing.assert_array_equal(prepared.exact, weights.T)
    scaled = weights * scales(weights, prepared)
    wide = widened(prepared.parts).astype(np.float64)
    share = {np.dtype(np.float16): 2.0**-22, BFLOAT16: 2.0**-24, np.dtype(np.float32): 2.0**-20}[np.dtype(dtype)]
    error = np.abs(wide.sum(axis=0)[:k, :d] - scaled.T)
    assert (error <= share * np.abs(scaled.T) + 2.0**-25).all()
    assert np.isfinite(wide).all()
    assert not wide[:, k:].any()
    assert not wide[:, :, d:].any()
    assert (np.abs(wide[1:]) <= 2.0**-7 * np.abs(wide[0]) + 2.0**-24).all()  # as the bound of the sums has it


def cut(numbers, largest):
    """Return numbers without what lies below the last bit of the largest, as if 24 bits were kept."""
    unit = 2.0 ** (np.floor(np.log2(largest)) - 23)
    return np.trunc(numbers / unit) * unit


def tensor_core_sum(windows, parts, block):
    """Return scores as a tensor core sums them at worst: `block` exact products at once, aligned and cut."""
    total = np.zeros(len(windows), dtype=np.float32)
    for first in range(0, parts.shape[1], STEP):
        sums = np.zeros(len(windows))
        for part in parts[::-1]:
            for at in range(first, first + STEP, block):
                numbers = np.column_stack([sums, windows[:, at : at + block] * part[at : at + block]])
                largest = np.maximum(np.abs(numbers).max(axis=1, keepdims=True), 1e-300)
                sums = cut(numbers, largest).sum(axis=1)
                sums = cut(sums, np.maximum(np.abs(sums), 1e-300))
        total += sums.astype(np.float32)
    return total


@pytest.mark.parametrize("dtype", [np.float16, BFLOAT16], ids=type_name)
@pytest.mark.parametrize("block", [4, 8, 16])
@pytest.mark.parametrize("kind", ["normal", "one sign", "one large"])
def test_sums_of_tensor_cores_lie_within_the_bound(dtype, block, kind):
    rng = np.random.default_rng(block)
    d, n = 512, 400
    windows, weights = rng.normal(size=(n, d)), rng.normal(size=(d, 1))
    if kind == "one sign":
        windows, weights = np.abs(windows), np.abs(weights)
    if kind == "one large":
        windows[:, 0], weights[0] = 30 * np.abs(windows[:, 0]), 30
    stored = narrowed(windows.astype(np.float32), dtype)
    wide, prepared = widened(stored).astype(np.float64), DeviceWeights.of(weights, dtype)
    exact = wide @ (weights * scales(weights, prepared))
    found = tensor_core_sum(wide, widened(prepared.parts).astype(np.float64)[:, 0], block)
    bound = np.linalg.norm(wide, axis=1) * prepared.rounding[0]
    assert (np.abs(found - exact[:, 0]) <= bound).all()


def test_the_bound_is_close_enough_to_leave_few_windows_in_doubt():
    weights = np.random.default_rng(0).normal(size=(512, 3))
    prepared = DeviceWeights.of(weights, np.float16)
    assert (prepared.rounding < 1.2e-5 * np.linalg.norm(weights * scales(weights, prepared), axis=0)).all()
