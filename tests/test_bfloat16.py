"""bfloat16 as bits: rounding, widening, and what it must not be mistaken for."""

import numpy as np
import pytest

from lapsvm.bfloat16 import BFLOAT16, largest_number, named_type, narrowed, type_name, widened


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
