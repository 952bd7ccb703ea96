"""Laws of bags: tests that every store of windows must pass."""

# ruff: noqa: D102 - the names of the tests state the laws

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np

from lapsvm.arrays import Array, Float64
from lapsvm.bags import Bags, BestWindows

SIZES = (1, 5, 2, 300, 1, 41)


class BagsLaws:
    """Tests of bags; subclasses in a test module define `make`.

    The features are small whole numbers, so that sums and ties are exact.
    """

    @abstractmethod
    def make(self, arrays: Sequence[Array]) -> Bags:
        """Return bags of these (n_i, d) arrays."""

    def windows(self, dim: int = 37, seed: int = 0) -> list[Array]:
        """Return arrays of whole numbers -3..3, as many windows each as `SIZES` says."""
        rng = np.random.default_rng(seed)
        return [rng.integers(-3, 4, (size, dim)).astype(np.float64) for size in SIZES]

    def weights(self, k: int, dim: int = 37, seed: int = 1) -> Array:
        """Return k weight vectors of whole numbers -3..3 (d, k)."""
        return np.random.default_rng(seed).integers(-3, 4, (dim, k)).astype(np.float64)

    def test_sizes_are_those_of_the_arrays(self) -> None:
        bags = self.make(self.windows())
        _equal(np.diff(bags.offsets), np.array(SIZES))
        _equal(np.array([bags.n_bags, bags.n_windows, bags.dim]), np.array([len(SIZES), sum(SIZES), 37]))

    def test_the_best_window_is_the_first_maximum_for_any_number_of_weight_vectors(self) -> None:
        windows = self.windows()
        windows[3][200] = windows[3][17]  # the first of equal windows is the best
        bags = self.make(windows)
        for k in (1, 2, 3, 8, 20):
            answer, expected = bags.best(self.weights(k)), best_windows(windows, self.weights(k))
            _equal(answer.index, expected.index)
            _equal(answer.score, expected.score)

    def test_a_weight_vector_gives_the_same_result_as_a_column(self) -> None:
        bags, weights = self.make(self.windows()), self.weights(5)
        for column in range(5):
            _equal(bags.best(weights[:, column]).index, bags.best(weights).index[:, column])
            _equal(bags.score_windows(weights[:, column]), bags.score_windows(weights)[:, column])

    def test_the_best_score_is_the_maximum_of_the_windows_scores(self) -> None:
        bags, w = self.make(self.windows()), self.weights(1)[:, 0]
        scores = bags.score_windows(w)
        _equal(np.maximum.reduceat(scores, bags.offsets[:-1]), bags.best(w).score)

    def test_a_weighted_sum_scores_as_the_weighted_scores(self) -> None:
        bags, w = self.make(self.windows()), self.weights(1)[:, 0]
        index, score = bags.best(w)
        coefficients = np.array([1.0, 0.0, -2.0, 3.0, 0.0, 0.5])
        _equal(bags.weighted_sum(coefficients, index) @ w, coefficients @ score)

    def test_means_are_means_of_all_windows(self) -> None:
        windows = self.windows()
        means = np.array([array.mean(axis=0) for array in windows])
        np.testing.assert_allclose(self.make(windows).means(), means, atol=1e-12)

    def test_a_subset_equals_bags_of_its_arrays(self) -> None:
        windows, weights = self.windows(), self.weights(3)
        chosen = [4, 3, 0, 3]
        subset = self.make(windows).subset(chosen)
        expected = best_windows([windows[i] for i in chosen], weights)
        _equal(subset.best(weights).index, expected.index)
        _equal(subset.score_windows(weights[:, 0]), np.concatenate([windows[i] @ weights[:, 0] for i in chosen]))

    def test_a_score_has_the_same_bits_in_any_batch(self) -> None:
        bags = self.make(self.windows())
        weights = np.random.default_rng(3).normal(size=(37, 9))
        batch = bags.best(weights)
        for column in range(9):
            alone = bags.subset([3, 5]).best(weights[:, column])
            _equal(alone.index, batch.index[[3, 5], column])
            _equal(alone.score, batch.score[[3, 5], column])

    def test_rows_are_returned_unchanged(self) -> None:
        windows = self.windows()
        bags, owners, index = self.make(windows), [3, 0, 5, 3, 1], [299, 0, 40, 7, 4]
        expected = np.array([windows[bag][i] for bag, i in zip(owners, index, strict=True)])
        w, coefficients = self.weights(1)[:, 0], np.array([1.0, -2.0, 0.0, 3.0, 0.5])
        for _ in range(2):  # the second time they may come from a cache
            _equal(bags.rows(owners, index), expected)
            _equal(bags.sum_rows(coefficients, owners, index), coefficients @ expected)
            _equal(bags.score_rows(w, owners, index), expected @ w)
        _equal(bags[2], windows[2])

    def test_only_remaining_windows_compete(self) -> None:
        windows, weights = self.windows(), self.weights(4)
        bags, excluded = self.make(windows), np.random.default_rng(5).random(sum(SIZES)) < 0.6
        excluded[np.cumsum((0, *SIZES[:-1]))] = False
        left = [array[~mask] for array, mask in zip(windows, np.split(excluded, np.cumsum(SIZES)[:-1]), strict=True)]
        _equal(bags.excluding(excluded).best(weights).score, best_windows(left, weights).score)
        _equal(bags.copied(~excluded).best(weights).index, best_windows(left, weights).index)
        _equal(bags.kept(2).best(weights).index, best_windows([array[:2] for array in windows], weights).index)
        only = bags.narrowed([-1, 3, 0, 250, 0, -1])
        cut = [windows[0], windows[1][3:4], windows[2][:1], windows[3][250:251], windows[4], windows[5]]
        _equal(only.best(weights).score, best_windows(cut, weights).score)

    def test_a_factor_scales_all_results(self) -> None:
        windows, w = self.windows(), self.weights(1)[:, 0]
        bags = self.make(windows)
        double = bags.scaled(2.0)
        _equal(double.best(w).score, 2 * bags.best(w).score)
        norms = [np.linalg.norm(array, axis=1) for array in windows]
        np.testing.assert_allclose(double.mean_norm(), 2 * np.concatenate(norms).mean(), rtol=1e-12)


def best_windows(bags: Sequence[Array], weights: Float64) -> BestWindows:
    """Return the best window of each (n_i, d) array for the columns of `weights` (d, k), by a slow, readable loop."""
    scores = [np.asarray(bag, dtype=np.float64) @ weights for bag in bags]
    index = np.array([score.argmax(axis=0) for score in scores])
    return BestWindows(index, np.array([score.max(axis=0) for score in scores]))


def _equal(actual: Array, expected: Array) -> None:
    np.testing.assert_array_equal(actual, expected)
