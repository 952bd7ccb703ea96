"""Bags: the pass over the windows, sums of chosen windows, and what is refused."""

import re

import numpy as np
import pytest

from lapsvm._ext import bags as bags_kernel
from lapsvm._ext import scores
from lapsvm.bags import Bags, as_bags, scoring
from lapsvm.bags.scoring import Block, as_stored
from lapsvm.bfloat16 import BFLOAT16, narrowed, widened
from lapsvm.errors import InputError, NotFiniteError, ShapeError, StageError
from lapsvm.features import PictureWindows, assemble_shard, write_shard
from lapsvm.testing.bags import BagsLaws, best_windows

TYPES = (np.float16, BFLOAT16, np.float32, np.float64)
LEVELS = [level for level in scoring.LEVELS.values() if level <= scores.level()]


class TestHalves(BagsLaws):
    def make(self, arrays):
        return Bags.from_arrays([array.astype(np.float16) for array in arrays])


class TestUpperHalves(BagsLaws):
    def make(self, arrays):
        return Bags.from_arrays([narrowed(array, BFLOAT16) for array in arrays])


class TestFloats(BagsLaws):
    def make(self, arrays):
        return Bags.from_arrays([array.astype(np.float32) for array in arrays])


class TestDoubles(BagsLaws):
    def make(self, arrays):
        return Bags.from_arrays(arrays)


class TestScaled(BagsLaws):
    def make(self, arrays):
        factors = 2.0 ** np.arange(-3, 34)  # powers of two: exact in every type
        return Bags.from_arrays([(array / factors).astype(np.float32) for array in arrays], scale=factors)


class TestPlainSequence(BagsLaws):
    def make(self, arrays):
        return as_bags(arrays)


def made(dtype, threads=None):
    rng = np.random.default_rng(0)
    arrays = [narrowed(rng.normal(size=(rng.integers(1, 200), 70)), dtype) for _ in range(40)]
    return Bags.from_arrays(arrays, threads=threads)


@pytest.mark.parametrize("level", LEVELS)
def test_a_pass_sees_every_half_and_bfloat16_as_the_number_that_it_is(level, monkeypatch):
    monkeypatch.setattr("lapsvm.bags.scoring.LEVEL", level)
    bits = np.arange(1 << 16, dtype=np.uint16)[:, None]
    for dtype in (np.float16, BFLOAT16):
        stored = bits.view(dtype).reshape(-1)
        with np.errstate(invalid="ignore"):  # NaN that signals
            numbers = widened(stored).astype(np.float64)
        finite = np.flatnonzero(np.isfinite(numbers))
        rising = finite[np.unique(numbers[finite], return_index=True)[1]]
        pairs = np.stack([stored[rising[:-1]], stored[rising[1:]]], axis=1).reshape(-1, 1)
        for k in (1, scoring.AMX_FROM):
            found = Bags(pairs, np.arange(0, len(pairs) + 1, 2)).best(np.ones((1, k)))
            np.testing.assert_array_equal(found.index, 1)
            np.testing.assert_array_equal(found.score, np.repeat(numbers[rising[1:], None], k, axis=1))


def in_lanes(products):
    """Sum products (d,) as the kernels do: in 32 lanes, these in their order, then the rest."""
    whole = len(products) // 32 * 32
    lanes = np.zeros(32)
    for block in products[:whole].reshape(-1, 32):
        lanes += block
    total = 0.0
    for one in [*lanes, *products[whole:]]:
        total += one
    return total


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dim", [1, 31, 32, 100, 63488])
def test_products_of_halves_have_the_same_bits_at_every_level(level, dim):
    rng = np.random.default_rng(dim)
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    row = rng.permutation(halves[np.isfinite(halves)])[:dim]
    weights = rng.normal(size=dim) * 10.0 ** rng.integers(-9, 9, dim)
    assert bags_kernel.half_score(row.view(np.uint16), weights, level) == in_lanes(row.astype(np.float64) * weights)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("k", [1, 2, 3, 9])
def test_a_pass_finds_what_the_readable_twin_finds(dtype, k):
    bags = made(dtype)
    weights = np.random.default_rng(5).normal(size=(70, k))
    found, expected = bags.best(weights), best_windows([bags[i] for i in range(40)], weights)
    np.testing.assert_array_equal(found.index, expected.index)
    np.testing.assert_allclose(found.score, expected.score, rtol=1e-12)


@pytest.mark.parametrize("dtype", TYPES)
def test_the_number_of_threads_changes_not_a_bit(dtype, monkeypatch):
    monkeypatch.setattr("lapsvm.bags.passes.WORTH_THREADS", 0)
    monkeypatch.setattr("lapsvm.bags.passes.CHUNK_ROWS", 100)
    weights = np.random.default_rng(5).normal(size=(70, 7))
    one, three = made(dtype, threads=1), made(dtype, threads=3)
    for part in (slice(None), slice(0, 1)):
        for first, second in zip(one.best(weights[:, part]), three.best(weights[:, part]), strict=True):
            np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(one.score_windows(weights[:, 0]), three.score_windows(weights[:, 0]))


@pytest.mark.parametrize("dtype", TYPES)
def test_a_column_has_the_bits_that_it_has_alone(dtype):
    """Whatever tile a window and a weight vector fall into."""
    bags, weights = made(dtype), np.random.default_rng(5).normal(size=(70, 13))
    for k in range(1, 14):
        index, score = bags.best(weights[:, :k])
        np.testing.assert_array_equal(index[:, -1], bags.best(weights[:, k - 1]).index)
        np.testing.assert_array_equal(score[:, -1], bags.best(weights[:, k - 1]).score)


@pytest.mark.skipif(max(LEVELS) < 4, reason="this machine has no AVX-512")
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("dim", [1, 15, 16, 17, 70])
def test_instruction_sets_that_fuse_products_agree_bit_for_bit(dtype, dim):
    rng = np.random.default_rng(0)
    features = Bags(narrowed(rng.normal(size=(57, dim)), dtype), [0, 50, 57])._store.array
    block = Block(features, np.array([0, 50]), np.array([50, 57]))
    for k in (1, 2, 3, 5, 8):
        best = []
        for level in (3, 4):
            wide = dtype is np.float64
            weights = np.random.default_rng(1).normal(size=(dim, k)).astype(np.float64 if wide else np.float32)
            packed = np.empty(k * -(-dim // (8 if wide else 16)) * (8 if wide else 16), weights.dtype)
            scores.pack(weights, scores.WIDEST[level], packed)
            near, index = np.zeros((600, 3), np.intp), np.empty((2, k), np.intp)
            margins, none = np.full(k, 0.3, weights.dtype), np.empty(0, np.uint8)
            bags = block.starts, block.stops
            counts = scores.best_rows(as_stored(block.features), *bags, packed, margins, none, near, index, level)
            best.append((near, index, counts))
        for one, other in zip(*best, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("size", [1e-30, 1e-6, 1.0, 1e6, 1e30])
def test_extreme_scales_of_float32_features_lose_nothing(size):
    rng = np.random.default_rng(0)
    arrays = [(rng.normal(size=(9, 20)) * size).astype(np.float32) for _ in range(5)]
    w = rng.normal(size=20) / size
    found, expected = Bags.from_arrays(arrays).best(w), best_windows(arrays, w[:, None])
    np.testing.assert_array_equal(found.index, expected.index[:, 0])
    np.testing.assert_allclose(found.score, expected.score[:, 0], rtol=1e-10)


def test_a_scale_multiplies_everything_that_leaves():
    rng = np.random.default_rng(1)
    arrays = [rng.normal(size=(6, 4)) for _ in range(3)]
    scale = np.array([1.0, -2.0, 0.5, 3.0])
    scaled, plain = Bags.from_arrays(arrays, scale), Bags.from_arrays([array * scale for array in arrays])
    w, coefficients = rng.normal(size=4), np.array([1.0, 2.0, -1.0])
    index = plain.best(w).index
    np.testing.assert_allclose(scaled.best(w).score, plain.best(w).score)
    np.testing.assert_allclose(scaled.weighted_sum(coefficients, index), plain.weighted_sum(coefficients, index))
    np.testing.assert_allclose(scaled.rows([2, 0], [5, 1]), plain.rows([2, 0], [5, 1]))
    np.testing.assert_allclose(scaled.score_rows(w, [2, 0], [5, 1]), plain.rows([2, 0], [5, 1]) @ w)
    np.testing.assert_allclose(scaled.means([1]), plain.means([1]))


def test_a_subset_shares_the_memory():
    bags = made(np.float32)
    assert bags.subset([3, 1])._store is bags._store


@pytest.mark.parametrize("index", [[3, 4, 5], [5, 4, 3], [4], [4, 4], [2, 4], [0, 1, 2, 3, 4, 5, 6]])
def test_stored_rows_are_copies_in_the_given_order(index):
    features = np.arange(33.0).reshape(11, 3)
    bags = Bags(features, [0, 4, 11], scale=2.0)
    rows = bags.stored_rows(np.full(len(index), 1), index)
    np.testing.assert_array_equal(rows, features[4 + np.array(index)])
    rows[:] = 0
    assert features[5, 0] == 15


def test_a_mask_chooses_a_subset():
    bags = made(np.float32)
    mask = np.arange(40) % 3 == 0
    np.testing.assert_array_equal(bags.subset(mask).means(), bags.means()[mask])


def test_shards_are_opened_one_after_the_other(tmp_path):
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(n, 6)).astype(np.float32) for n in (3, 1, 4)]
    pictures = [
        PictureWindows(f"p{i}", np.tile([0.0, 0, 9, 9], (len(array), 1)), array, f"{i:064x}", (9, 9))
        for i, array in enumerate(arrays)
    ]
    folder = tmp_path / "shards" / "trainval"
    folder.mkdir(parents=True)
    write_shard(folder / "a.safetensors", assemble_shard(pictures[:2], {"a": 1}, "float32"))
    write_shard(folder / "b.safetensors", assemble_shard(pictures[2:], {"a": 1}, "float32"))
    bags = Bags.open(tmp_path, "trainval", scale=2.0)
    assert bags.dtype == np.float32
    for i, array in enumerate(arrays):
        np.testing.assert_array_equal(bags[i], 2.0 * array)


def test_training_before_extraction_is_told(tmp_path):
    with pytest.raises(StageError, match="must hold shards, which `extract` writes, got none"):
        Bags.open(tmp_path, "trainval")


@pytest.mark.parametrize(
    ("features", "offsets", "error", "message"),
    [
        (np.zeros((3, 2)), [0, 1, 1, 3], ShapeError, "every bag must have one or more windows, got 0 for bag 1."),
        (np.zeros((3, 2)), [0, 2, 1, 3], ShapeError, "every bag must have one or more windows, got -1 for bag 1."),
        (np.zeros((3, 2)), [0, 2], ShapeError, "offsets must run from 0 to 3, got 0 to 2."),
        (np.zeros((3, 2)), [1, 3], ShapeError, "offsets must run from 0 to 3, got 1 to 3."),
        (np.zeros((3, 2)), [0.5, 3], InputError, "offsets must be whole numbers, got float64."),
        (np.zeros((3, 2)), [0], ShapeError, "offsets must be n_bags + 1 >= 2 whole numbers"),
        (np.zeros(3), [0, 3], ShapeError, "features must have shape (n_windows, d) with d >= 1, got (3,)."),
        (np.array([["a"]]), [0, 1], InputError, "features must be numbers"),
        (np.array([[1.0], [np.nan]]), [0, 2], NotFiniteError, "features must be finite, got nan in window 1."),
        (np.float16([[1], [-np.inf]]), [0, 2], NotFiniteError, "features must be finite, got -inf in window 1."),
        (np.float32([[np.inf]]), [0, 1], NotFiniteError, "features must be finite, got inf in window 0."),
    ],
)
def test_bags_that_are_none_are_refused(features, offsets, error, message):
    with pytest.raises(error, match=re.escape(message)):
        Bags(features, offsets)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ([], "bags must be one or more, got 0."),
        ([np.zeros((2, 3)), np.zeros((0, 3))], "got shape (0, 3) for bag 1 after (2, 3) for bag 0."),
        ([np.zeros((2, 3)), np.zeros((2, 4))], "got shape (2, 4) for bag 1 after (2, 3) for bag 0."),
        ([np.zeros(3)], "got shape (3,) for bag 0"),
    ],
)
def test_arrays_that_make_no_bags_are_refused(arrays, message):
    with pytest.raises(ShapeError, match=re.escape(message)):
        as_bags(arrays)


def test_wrong_questions_are_refused():
    bags = Bags.from_arrays([np.ones((2, 3)), np.ones((4, 3))])
    with pytest.raises(ShapeError, match=r"weights must have 3 rows, one per feature, got shape \(2, 5\)"):
        bags.best(np.ones((2, 5)))
    with pytest.raises(ShapeError, match=r"weights must have 3 rows"):
        bags.score_windows(np.ones((3, 1, 1)))
    with pytest.raises(NotFiniteError, match="weights must be finite"):
        bags.best([1, np.nan, 1])
    with pytest.raises(InputError, match="a window's index must lie inside its bag, got 2 for a bag of 2 windows"):
        bags.weighted_sum([1.0, 1.0], [2, 0])
    with pytest.raises(ShapeError, match="scale must be one number or 3, got shape"):
        Bags.from_arrays([np.ones((2, 3))], scale=[1.0, 2.0])
    with pytest.raises(ShapeError, match="bag_indices must choose one or more bags"):
        bags.subset(np.empty(0, dtype=int))
