"""Numbers of 16 bits: halves as NumPy rounds them, and bfloat16 as bits."""

import numpy as np
import pytest

from lapsvm.bfloat16 import BFLOAT16, as_float32, largest_number, named_type, narrowed, to_float16, type_name, widened


def test_every_finite_bfloat16_survives_the_way_there_and_back():
    bits = np.arange(1 << 16, dtype=np.uint16)
    finite = bits[(bits & 0x7F80) != 0x7F80].view(BFLOAT16)
    np.testing.assert_array_equal(narrowed(widened(finite), BFLOAT16).view(np.uint16), finite.view(np.uint16))


def test_numbers_become_the_nearest_and_of_two_the_even():
    numbers = np.random.default_rng(0).normal(size=20_000).astype(np.float32)
    found = widened(narrowed(numbers, BFLOAT16))
    bits = numbers.view(np.uint32) & 0xFFFF0000
    below, above = bits.view(np.float32), (bits + 0x10000).view(np.float32)
    nearest = np.minimum(abs(numbers - below), abs(above - numbers))
    np.testing.assert_array_equal(abs(found - numbers), nearest)
    halfway = np.array([0x3F808000, 0x3F818000], dtype=np.uint32).view(np.float32)
    np.testing.assert_array_equal(narrowed(halfway, BFLOAT16).view(np.uint16), [0x3F80, 0x3F82])


def test_nothing_is_calculated_with_bits_by_mistake():
    stored = narrowed(np.ones(3), BFLOAT16)
    with pytest.raises(TypeError):
        stored + stored
    with pytest.raises(TypeError):
        np.square(stored)


def test_other_types_pass():
    numbers = np.ones((2, 2), dtype=np.float16)
    assert widened(numbers) is numbers
    assert narrowed(numbers, np.float32).dtype == np.float32


@pytest.mark.parametrize("name", ["float16", "float32", "bfloat16"])
def test_names_and_types_belong_together(name):
    assert type_name(named_type(name)) == name
    largest = np.array([largest_number(name)])
    stored = widened(narrowed(largest, named_type(name)))
    np.testing.assert_array_equal(stored.astype(np.float64), largest)


def single_bits():
    """Floats around every half and every middle of two halves, of both signs, and 200,000 of any bits."""
    halves = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float32)
    edges = np.concatenate([halves, (halves[1:] + halves[:-1]) / 2])
    near = (edges.view(np.uint32)[:, None] + np.array([-1, 0, 1], dtype=np.int64)).astype(np.uint32).ravel()
    some = np.random.default_rng(0).integers(0, 1 << 32, 200_000, dtype=np.uint32)
    numbers = np.concatenate([near, near | np.uint32(0x80000000), some]).view(np.float32)
    return numbers[abs(numbers) <= 65504]


def test_halves_are_those_of_numpy():
    numbers = single_bits()
    for rows in (numbers[:, None], numbers[: len(numbers) // 70 * 70].reshape(-1, 70), numbers[None, ::2]):
        halves = np.empty(rows.shape, np.float16)
        assert to_float16(rows, halves)
        np.testing.assert_array_equal(halves.view(np.uint16), rows.astype(np.float16).view(np.uint16))
        np.testing.assert_array_equal(narrowed(rows, np.float16).view(np.uint16), halves.view(np.uint16))


@pytest.mark.parametrize("number", [np.nan, -np.nan, np.inf, -np.inf, 65504.01, -1e9])
@pytest.mark.parametrize("place", [(0, 0), (2, 36), (4, 17)])
def test_what_no_half_can_hold_is_noticed(number, place):
    numbers = np.ones((5, 37), np.float32)
    assert to_float16(numbers, np.empty((5, 37), np.float16))
    numbers[place] = number
    assert not to_float16(numbers, np.empty((5, 37), np.float16))


def test_just_above_the_largest_half_numbers_are_rounded_down_to_it():
    assert narrowed(np.array([[65519.9, 1]], np.float32), np.float16).tolist() == [[65504, 1]]


@pytest.mark.parametrize("shape", [(0, 3), (3, 0)])
def test_nothing_becomes_no_halves(shape):
    assert narrowed(np.empty(shape, np.float32), np.float16).shape == shape


def test_every_half_is_widened_as_numpy_does():
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    for rows in (halves.reshape(-1, 1), halves.reshape(64, 1024), halves.reshape(64, 1024)[:, 3:900:2]):
        np.testing.assert_array_equal(as_float32(rows), rows.astype(np.float32))


def test_every_half_is_widened_where_subnormal_floats_are_zero():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16).reshape(64, 1024)
    expected = halves.astype(np.float32).view(np.uint32)
    torch.set_flush_denormal(True)
    try:
        found = as_float32(halves)
    finally:
        torch.set_flush_denormal(False)
    np.testing.assert_array_equal(found.view(np.uint32), expected)


@pytest.mark.parametrize("dtype", [np.float64, np.int64, np.float32, BFLOAT16])
def test_stored_features_of_any_type_become_singles(dtype):
    numbers = np.arange(12).reshape(3, 4)
    found = as_float32(narrowed(numbers.astype(np.float32), dtype))
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, numbers)
