"""The instruction sets of a pass: each gives the same answers, and the environment chooses one."""

import os
import subprocess
import sys

import numpy as np
import pytest

from lapsvm._ext import scores as kernel
from lapsvm.bags import Bags, scoring
from lapsvm.bfloat16 import BFLOAT16, narrowed, type_name, widened

HALVES = pytest.mark.parametrize("dtype", [np.float16, BFLOAT16], ids=type_name)
HERE = {name: level for name, level in scoring.LEVELS.items() if level <= kernel.level()}
amx = pytest.mark.skipif("amx" not in HERE, reason="this machine has no AMX")

PRINT_ANSWERS = """
import hashlib
import numpy as np
from lapsvm.bags import Bags, scoring
rng = np.random.default_rng(0)
bags = Bags(rng.normal(size=(3000, 70)).astype(np.float16), np.arange(0, 3001, 100))
found = bags.best(rng.normal(size=(70, 20)))
print(scoring.LEVEL, hashlib.sha256(found.index.tobytes() + found.score.tobytes()).hexdigest())
"""


def run(name):
    environment = os.environ | {scoring.VARIABLE: name}
    return subprocess.run(
        [sys.executable, "-c", PRINT_ANSWERS], env=environment, capture_output=True, text=True, check=False
    )


def test_the_environment_chooses_the_instructions_and_they_agree():
    answers = {name: run(name).stdout.split() for name in scoring.LEVELS}
    assert [int(level) for level, _ in answers.values()] == [min(at, kernel.level()) for at in scoring.LEVELS.values()]
    assert len({digest for _, digest in answers.values()}) == 1


def test_an_unknown_name_is_a_sentence():
    message = "the environment variable LAPSVM_INSTRUCTIONS must be one of plain, avx2, avx512, amx, got 'sse'."
    assert message in run("sse").stderr


def answers(monkeypatch, level, bags, weights):
    monkeypatch.setattr(scoring, "LEVEL", level)
    return bags.best(weights)


@amx
@HALVES
@pytest.mark.parametrize("dim", [1, 31, 32, 33, 127, 128, 129, 300])
def test_panels_have_the_answers_of_tiles_whatever_bags_they_hold(dtype, dim, monkeypatch):
    """Bags of 1 to 70 windows, windows that do not compete, 8 to 70 weight vectors."""
    rng = np.random.default_rng(dim)
    for k in (8, 16, 17, 20, 33, 70):
        sizes = rng.integers(1, 71, 30)
        bags = Bags(narrowed(rng.normal(size=(sizes.sum(), dim)), dtype), np.append(0, np.cumsum(sizes)))
        weights = rng.normal(size=(dim, k)) * 10.0 ** rng.integers(-4, 4, (dim, 1))
        mask = rng.random(bags.n_windows) < 0.5
        mask[bags.offsets[:-1]] = False
        for some in (bags, bags.excluding(mask), bags.subset([7, 3, 7, 20])):
            one, other = (answers(monkeypatch, level, some, weights) for level in (scoring.AMX - 1, scoring.AMX))
            np.testing.assert_array_equal(one.index, other.index)
            np.testing.assert_array_equal(one.score, other.score)


def bfloat(values):
    """Round float32 numbers to bfloat16, and give them as float64."""
    return widened(narrowed(values, BFLOAT16)).astype(np.float64)


def in_pairs(row, w):
    """Sum as AMX does, each step rounded to float32: 16 products of a step for either half, then three products."""
    size = -(-len(row) // 32) * 32
    x, v = (np.pad(a.astype(np.float32), (0, size - len(a))).reshape(-1, 2, 16) for a in (row, w))
    high, total = (bfloat(x), bfloat(v)), np.float32(0)
    low = bfloat(x - high[0].astype(np.float32)), bfloat(v - high[1].astype(np.float32))
    for step in range(len(x)):
        for a, b in ((high[0], high[1]), (low[0], high[1]), (high[0], low[1])):
            sums = np.zeros(2, np.float32)
            for products in (a[step] * b[step]).T:
                sums = (sums.astype(np.float64) + products).astype(np.float32)
            total = np.float32(total + np.float32(sums[0] + sums[1]))
    return float(total)


@HALVES
@pytest.mark.parametrize("dim", [1, 16, 300, 4000])
def test_the_margin_bounds_what_sums_of_bfloat16_are_off(dtype, dim, monkeypatch):
    from math import fsum

    monkeypatch.setattr(scoring, "LEVEL", scoring.AMX)
    rng = np.random.default_rng(3)
    own = widened(narrowed(rng.normal(size=(10, dim)) * 10.0 ** rng.integers(-3, 3, dim), dtype)).astype(np.float64)
    w = rng.normal(size=(dim, scoring.AMX_FROM))
    margins = scoring.PackedWeights.of(w, dtype).margins(float(np.linalg.norm(own, axis=1).max()))
    off = [abs(in_pairs(row, w[:, 0]) - fsum(row * w[:, 0])) for row in own]
    assert 2 * max(off) <= margins[0]
    assert max(off) > 2.0**-24 * margins[0]  # they are off


@amx
def test_windows_whose_order_is_that_of_what_is_left_out(monkeypatch):
    """The first window has bfloat16 numbers; what is left out of the second one's sum is more than their difference."""
    steps = 3200
    first, second = np.ones(steps), np.full(steps, 1 + 3 * 2.0**-10)
    first[: 3 * steps // 8] = 1 + 2.0**-7
    first[-1] = 1 - 2.0**-8
    weights = np.full((steps, 8), 1 + 0.49 * 2.0**-7)
    assert in_pairs(first, weights[:, 0]) > in_pairs(second, weights[:, 0])
    bags = Bags(np.stack([first, second]).astype(np.float16), [0, 2])
    np.testing.assert_array_equal(answers(monkeypatch, scoring.AMX, bags, weights).index, 1)
    no_margin = scoring.PackedWeights.margins
    monkeypatch.setattr(scoring.PackedWeights, "margins", lambda self, longest: 0 * no_margin(self, longest))
    np.testing.assert_array_equal(bags.best(weights).index, 0)  # so the test would fail without the margin


@amx
@HALVES
@pytest.mark.parametrize("size", [1e-44, 1e-38, 1e38, 1e300])
def test_weights_near_and_beyond_the_ends_of_float32_choose_by_float64(dtype, size, monkeypatch):
    rng = np.random.default_rng(0)
    bags = Bags(narrowed(rng.normal(size=(90, 40)), dtype), [0, 40, 90])
    weights = size * rng.normal(size=(40, 9))
    found = answers(monkeypatch, scoring.AMX, bags, weights)
    expected = np.transpose([[own.argmax() for own in np.split(bags.score_windows(w), [40])] for w in weights.T])
    np.testing.assert_array_equal(found.index, expected)
