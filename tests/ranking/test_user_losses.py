"""A user's own loss: a small Python object, held to the shipped laws, through the compiled recursion."""

import re
from pathlib import Path

import numpy as np
import pytest

from lapsvm.errors import InputError
from lapsvm.ranking import (
    APLoss,
    AUCLoss,
    MRRLoss,
    NDCGLoss,
    PartialAUCLoss,
    PosAtTopLoss,
    RankBiased,
    RankLoss,
    most_violated_ranking,
    reference,
)
from lapsvm.testing import RankLossLaws

GUIDE = Path(__file__).parents[2] / "docs" / "howto" / "extending" / "add_a_loss.md"


class TestAP(RankLossLaws):
    loss = APLoss()


class TestNDCG(RankLossLaws):
    loss = NDCGLoss()


class TestReciprocalNDCG(RankLossLaws):
    loss = NDCGLoss("reciprocal")


class TestRankBiasedNDCG(RankLossLaws):
    loss = NDCGLoss(RankBiased(0.9))


class TestCutOffNDCG(RankLossLaws):
    loss = NDCGLoss(k=3)


class TestAUC(RankLossLaws):
    loss = AUCLoss()


class TestMRR(RankLossLaws):
    loss = MRRLoss()


class TestPosAtTop(RankLossLaws):
    loss = PosAtTopLoss()


class TestPartialAUC(RankLossLaws):
    loss = PartialAUCLoss(0.37)


class TestPartialAUCOfTheTop(RankLossLaws):
    loss = PartialAUCLoss(1e-9)


class PlainAP(RankLoss):
    """AP as a user would write it."""

    def derivative(self, j, i, n_pos, n_neg):
        return -i / (n_pos * (i + j - 1) * (i + j))


class PrecisionAtTwo(RankLoss):
    """1 - Precision@2, which breaks C2."""

    def derivative(self, j, i, n_pos, n_neg):
        return np.where(i + j == 3, -0.5, 0.0)


class Chakrabarti(RankLoss):
    """NDCG with D(1) = D(2) = 1, as NDCGLoss refuses it."""

    def discount(self, ranks):
        return np.where(ranks <= 2, 1.0, 1 / np.log2(np.maximum(ranks, 2)))

    def derivative(self, j, i, n_pos, n_neg):
        norm = self.discount(np.arange(1, n_pos + 1)).sum()
        return (self.discount(i + j) - self.discount(i + j - 1)) / norm


def broken_laws(loss):
    laws = RankLossLaws()
    laws.loss = loss
    broken = []
    for name in sorted(dir(laws)):
        if name.startswith("test_"):
            try:
                getattr(laws, name)()
            except (AssertionError, InputError):
                broken.append(re.match(r"test_(c\d)?", name).group(1) or name)
    return broken


def test_a_loss_without_our_base_class_runs_through_the_same_recursion():
    rng = np.random.default_rng(0)
    labels = rng.random(400) < 0.2
    scores = rng.standard_normal(400) + 0.5 * labels
    for method in ("auto", "optranks", "reference"):
        own, ours = (most_violated_ranking(scores, labels, loss, method) for loss in (PlainAP(), "ap"))
        assert own.violation == pytest.approx(ours.violation, rel=1e-12)
        assert np.array_equal(own.ranks, ours.ranks)


def test_the_laws_find_what_is_not_qs_suitable():
    assert "c2" in broken_laws(PrecisionAtTwo())
    assert "c2" in broken_laws(Chakrabarti())
    assert broken_laws(APLoss()) == []


def test_the_supplements_counter_example_has_no_greedy_ranking():
    tiny = 1e-3
    problem = reference.Problem([5 * tiny], [3 * tiny, tiny], Chakrabarti())
    assert [problem.best_rank(j, 1, 2) for j in (1, 2)] == [2, 1]


def test_an_error_in_a_users_loss_reaches_the_user():
    class Failing(RankLoss):
        def derivative(self, j, i, n_pos, n_neg):
            raise ZeroDivisionError("mine")

    class NotANumber(RankLoss):
        def derivative(self, j, i, n_pos, n_neg):
            return np.full(len(i), np.nan)

    for method in ("auto", "optranks", "reference"):
        with pytest.raises(ZeroDivisionError, match="mine"):
            most_violated_ranking([1.0, 2.0, 0.5], [1, 0, 0], Failing(), method)
    with pytest.raises(InputError, match=r"derivative of NotANumber\(\) must be finite, got another value at j = \d"):
        most_violated_ranking([1.0, 2.0, 0.5], [1, 0, 0], NotANumber())


def test_the_guides_example_works():
    examples = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), flags=re.DOTALL)
    assert examples
    names = {"__name__": "guide"}
    for example in examples:
        exec(compile(example, str(GUIDE), "exec"), names)  # noqa: S102
    (laws,) = (found for found in names.values() if isinstance(found, type) and found.__name__.startswith("Test"))
    for name in dir(laws):
        if name.startswith("test_"):
            getattr(laws(), name)()
