"""Pixel AUROC and PRO against a slow twin and against laws, and the peak of a map."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from sklearn.metrics import roc_auc_score

from lapsvm.errors import InputError, NotFiniteError, ShapeError
from lapsvm.evaluation import PixelCounts, map_peak, pixels

from ..twins.evaluation import pixel_figures

SHAPES = st.tuples(st.integers(1, 6), st.integers(1, 6))
LEVELS = arrays.arrays(np.float64, st.shared(SHAPES, key="shape"), elements=st.integers(-40, 40).map(lambda n: n / 8))
MASKS = arrays.arrays(np.bool_, st.shared(SHAPES, key="shape"))

FEW = settings(deadline=None, max_examples=40)  # each picture fills arrays of a million bins


def counted(*pictures):
    counts = PixelCounts()
    for values, mask in pictures:
        counts.add(values, mask)
    return counts


@FEW
@given(st.lists(st.tuples(LEVELS, MASKS), min_size=1, max_size=4))
def test_figures_are_those_of_the_twin(pictures):
    inside = np.concatenate([mask.ravel() for _, mask in pictures])
    assume(inside.any() and not inside.all())
    counts = counted(*pictures)
    auroc, pro = pixel_figures(*zip(*pictures, strict=True))
    assert counts.auroc == pytest.approx(auroc)
    assert counts.pro == pytest.approx(pro)
    values = np.concatenate([own.ravel() for own, _ in pictures])
    assert counts.auroc == pytest.approx(roc_auc_score(inside, values))


@FEW
@given(LEVELS, MASKS)
def test_of_opposite_values_auroc_is_the_other_part(values, mask):
    assume(mask.any() and not mask.all())
    assert counted((values, mask)).auroc == pytest.approx(1 - counted((-values, mask)).auroc)


@FEW
@given(LEVELS, MASKS)
def test_another_scale_changes_nothing(values, mask):
    assume(mask.any() and not mask.all())
    first, second = counted((values, mask)), counted((8 * values, mask))
    assert (first.auroc, first.pro) == pytest.approx((second.auroc, second.pro))  # sums in another order


def test_a_map_that_is_the_mask_is_perfect_and_one_of_one_value_knows_nothing():
    mask = np.zeros((20, 30), bool)
    mask[3:8, 2:9] = True
    counts = counted((mask.astype(float), mask), (np.zeros((9, 9)), np.zeros((9, 9), bool)))
    assert (counts.auroc, counts.pro, counts.n_regions) == (1.0, 1.0, 1)
    flat = counted((np.full((20, 30), 0.25), mask))
    assert flat.auroc == pytest.approx(0.5)
    assert flat.pro == pytest.approx(0.15)  # the mean height of a diagonal up to 0.3


def test_pro_counts_a_small_region_as_a_large_one():
    mask, values = np.zeros((40, 40), bool), np.zeros((40, 40))
    mask[:20, :20], mask[30, 30] = True, True
    values[:20, :20] = 1.0
    found_large = counted((values, mask))
    assert found_large.auroc > 0.99
    assert found_large.pro == pytest.approx(0.5 + 0.5 * 0.15)
    assert found_large.n_regions == 2


def test_random_numbers_are_close_to_exact_figures():
    random = np.random.default_rng(0)
    mask = np.zeros((60, 80), bool)
    mask[10:30, 20:50] = True
    values = random.normal(size=mask.shape) + mask
    assert counted((values, mask)).auroc == pytest.approx(roc_auc_score(mask.ravel(), values.ravel()), abs=1e-4)


def test_zero_has_one_sign():
    values = np.array([[0.0, -0.0]])
    assert counted((values, np.array([[True, False]]))).auroc == 0.5


def test_without_a_pair_of_pixels_there_is_no_figure():
    for mask in (np.zeros((3, 3), bool), np.ones((3, 3), bool)):
        counts = counted((np.zeros((3, 3)), mask))
        assert (counts.auroc, counts.pro) == (None, None)
    assert PixelCounts().auroc is None


def test_what_is_no_map_or_no_mask_is_refused():
    counts, mask = PixelCounts(), np.zeros((2, 3), bool)
    with pytest.raises(ShapeError, match=r"one shape, got \(3, 2\) and \(2, 3\)"):
        counts.add(np.zeros((3, 2)), mask)
    with pytest.raises(ShapeError, match=r"shape \(h, w\)"):
        counts.add(np.zeros(6), mask)
    with pytest.raises(InputError, match="a mask must be of bool, got uint8"):
        counts.add(np.zeros((2, 3)), mask.astype(np.uint8))
    with pytest.raises(NotFiniteError):
        counts.add(np.full((2, 3), np.nan), mask)


@given(LEVELS)
def test_the_peak_is_a_pixel_of_the_largest_value(values):
    assert values[map_peak(values)] == values.max()


def test_of_a_flat_top_the_peak_is_the_middle():
    values = np.zeros((20, 20))
    values[4:9, 10:17] = 2.0
    assert map_peak(values) == (6, 13)
    with pytest.raises(InputError, match="must have a pixel"):
        map_peak(np.zeros((0, 3)))


@pytest.mark.parametrize("offset", [0.0, 100.0, -1e4])
def test_maps_with_an_offset_lose_nothing(offset):
    rng, mask = np.random.default_rng(2), np.zeros((30, 30), bool)
    mask[5:15, 5:15] = True
    values = np.float32(offset + rng.normal(size=(30, 30)) * 0.02) + np.float32(0.04) * mask
    counts = PixelCounts()
    counts.add(values, mask)
    assert counts.auroc == pytest.approx(roc_auc_score(mask.ravel(), values.ravel()), abs=1e-12)


def test_many_different_values_keep_the_figures_in_bounded_memory(monkeypatch):
    monkeypatch.setattr(pixels, "MOST_BINS", 1 << 12)
    monkeypatch.setattr(pixels, "WAITING", 1 << 13)
    rng, counts, exact = np.random.default_rng(3), PixelCounts(), []
    for _ in range(12):
        mask = np.zeros((60, 70), bool)
        mask[10:20, 10:25] = True
        values = (rng.normal(size=mask.shape) + mask).astype(np.float32)
        counts.add(values, mask)
        exact.append((mask.ravel(), values.ravel()))
    labels, scores = (np.concatenate(each) for each in zip(*exact, strict=True))
    assert counts.auroc == pytest.approx(roc_auc_score(labels, scores), abs=1e-3)
    assert max(len(bins._keys) for bins in (counts._others, counts._inside, counts._overlaps)) <= 1 << 12
