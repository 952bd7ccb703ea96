"""Laws of rank losses: conditions for exact inference (Mohapatra et al., CVPR 2018, supplement)."""

from typing import ClassVar

import numpy as np

from lapsvm.arrays import Float64
from lapsvm.ranking import RankLoss, most_violated_ranking, reference

_ROUNDING = 1e-12


class RankLossLaws:
    """Tests that a rank loss must pass; subclass it in a test module and set `loss`.

    ::

        class TestMyLoss(RankLossLaws):
            loss = MyLoss()

    Attributes
    ----------
    loss : RankLoss
        The loss under test.
    sizes : tuple of (int, int)
        Numbers of positives and negatives for which all derivatives are compared.
    few : tuple of (int, int)
        Numbers of positives and negatives that are small enough for all interleavings.
    """

    loss: ClassVar[RankLoss]
    sizes: ClassVar[tuple[tuple[int, int], ...]] = ((1, 1), (1, 30), (30, 1), (7, 20), (20, 7))
    few: ClassVar[tuple[tuple[int, int], ...]] = ((1, 1), (1, 4), (4, 1), (2, 3), (3, 4))

    def test_the_perfect_ranking_costs_nothing_and_no_ranking_less(self) -> None:
        """Delta(R*) = 0 and Delta >= 0."""
        for n_pos, n_neg in self.few:
            perfect = self.loss.value(np.zeros(n_pos, dtype=np.intp), n_neg)
            np.testing.assert_allclose(perfect, 0.0, atol=_ROUNDING)
            for ranks in reference.all_rankings(n_pos, n_neg):
                value = self.loss.value(reference.negatives_above(ranks, n_pos), n_neg)
                np.testing.assert_array_less(-_ROUNDING, value)

    def test_c1_the_loss_is_the_sum_of_its_derivatives(self) -> None:
        """Delta depends on the interleaving ranks alone and is a sum over the negatives."""
        for n_pos, n_neg in self.few:
            for ranks in reference.all_rankings(n_pos, n_neg):
                above = reference.negatives_above(ranks, n_pos)
                summed = RankLoss.value(self.loss, above, n_neg)
                np.testing.assert_allclose(self.loss.value(above, n_neg), summed, atol=_ROUNDING)

    def test_c2_derivatives_do_not_decrease_with_the_position(self) -> None:
        """d_{j+1}(i) >= d_j(i) for all i and j."""
        for n_pos, n_neg in self.sizes:
            derivatives = self._derivatives(n_pos, n_neg)
            np.testing.assert_array_less(-_ROUNDING, np.diff(derivatives, axis=0))

    def test_c3_derivatives_do_not_depend_on_the_batch(self) -> None:
        """Each d_j(i) is finite and does not depend on the other ranks in the call."""
        for n_pos, n_neg in self.sizes:
            derivatives = self._derivatives(n_pos, n_neg)
            np.testing.assert_array_equal(np.isfinite(derivatives), np.ones_like(derivatives, dtype=bool))
            single = [[self._derivative(j, i, i + 1, n_pos, n_neg)[0] for i in range(1, n_pos + 1)] for j in (1, n_neg)]
            np.testing.assert_allclose(derivatives[[0, -1]], single, rtol=_ROUNDING, atol=_ROUNDING)

    def test_inference_finds_the_largest_of_all_interleavings(self) -> None:
        """The compiled recursion is exact for this loss, equal scores included."""
        rng = np.random.default_rng(0)
        for n_pos, n_neg in self.few:
            for scores in (rng.standard_normal(n_pos + n_neg), rng.integers(0, 2, n_pos + n_neg) / 4):
                labels = np.arange(n_pos + n_neg) < n_pos
                positives, negatives = np.sort(scores[labels])[::-1], np.sort(scores[~labels])[::-1]
                problem = reference.Problem(positives.tolist(), negatives.tolist(), self.loss)
                ranking = most_violated_ranking(scores, labels, self.loss)
                np.testing.assert_allclose(ranking.violation, reference.largest_violation(problem), atol=_ROUNDING)

    def _derivative(self, j: int, first: int, end: int, n_pos: int, n_neg: int) -> Float64:
        """Return d_j(first), ..., d_j(end - 1)."""
        ranks = np.arange(first, end)
        return np.broadcast_to(np.asarray(self.loss.derivative(j, ranks, n_pos, n_neg), np.float64), ranks.shape)

    def _derivatives(self, n_pos: int, n_neg: int) -> Float64:
        """Return d_j(i) as an array (n_neg, n_pos)."""
        return np.stack([self._derivative(j, 1, n_pos + 1, n_pos, n_neg) for j in range(1, n_neg + 1)])
