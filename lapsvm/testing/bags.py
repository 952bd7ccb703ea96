"""Laws of bags: what any store of windows must answer, whatever holds the windows."""

# ruff: noqa: D102 - the names of the laws are their sentences

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np

from lapsvm.arrays import Array
from lapsvm.bags import Bags
from lapsvm.bags.reference import best_windows

SIZES = (1, 5, 2, 300, 1, 41)


class BagsLaws:
    """Subclass it in a test module and say how to make bags; pytest collects the laws.

    The features of the laws are small whole numbers, so that every sum is exact and ties are real ties.
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
        windows[3][200] = windows[3][17]  # a later equal never wins
        bags = self.make(windows)
        for k in (1, 2, 3, 8, 20):
            found, expected = bags.best(self.weights(k)), best_windows(windows, self.weights(k))
            _equal(found.index, expected.index)
            _equal(found.score, expected.score)

    def test_one_vector_and_a_column_are_the_same_question(self) -> None:
        bags, weights = self.make(self.windows()), self.weights(5)
        for column in range(5):
            _equal(bags.best(weights[:, column]).index, bags.best(weights).index[:, column])

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

    def test_a_subset_answers_like_its_bags_alone(self) -> None:
        windows, weights = self.windows(), self.weights(3)
        chosen = [4, 3, 0, 3]
        part = self.make(windows).subset(chosen)
        expected = best_windows([windows[i] for i in chosen], weights)
        _equal(part.best(weights).index, expected.index)
        _equal(part.score_windows(weights[:, 0]), np.concatenate([windows[i] @ weights[:, 0] for i in chosen]))


def _equal(actual: Array, expected: Array) -> None:
    np.testing.assert_array_equal(actual, expected)
