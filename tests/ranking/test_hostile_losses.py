"""Losses that break the rules: a right answer or one clear error, and never memory that is not ours."""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lapsvm.errors import InputError, OptionError
from lapsvm.ranking import APLoss, AUCLoss, NDCGLoss, RankLoss, most_violated_ranking, reference
from lapsvm.ranking.discounts import Tabulated
from lapsvm.ranking.losses import Kernel

from ..twins.ranking import first_violation

METHODS = ("auto", "optranks", "reference")


class PrecisionAt(RankLoss):
    """1 - Precision@k, which breaks C2."""

    def __init__(self, k):
        self.k = k

    def derivative(self, j, i, n_pos, n_neg):
        return np.where(i + j == self.k + 1, -1 / self.k, 0.0)


class Matrix(RankLoss):
    """Any derivatives at all (N, P)."""

    def __init__(self, matrix):
        self.matrix = matrix

    def derivative(self, j, i, n_pos, n_neg):
        return self.matrix[j - 1, i - 1]


class Late(RankLoss):
    """C2 holds but for one position in the middle of many."""

    def __init__(self, j):
        self.j = j

    def derivative(self, j, i, n_pos, n_neg):
        return np.full(len(i), -1e-3 if j == self.j else -1e-6)


class Answering(RankLoss):
    """Answers with whatever a function gives."""

    def __init__(self, function):
        self.function = function

    def derivative(self, j, i, n_pos, n_neg):
        return self.function(j, i)


def small_problem(n_neg=40):
    rng = np.random.default_rng(0)
    labels = np.arange(n_neg + 3) % (n_neg // 3) == 0
    return rng.standard_normal(n_neg + 3) + labels, labels


@pytest.mark.parametrize("method", METHODS)
def test_precision_at_3_is_refused(method):
    with pytest.raises(InputError, match=r"violates condition C2.*rank i = 1.*got 0 at j = 2 and -0.333333") as caught:
        most_violated_ranking([0, 1, -0.1, -0.2, -0.3, -0.4, -0.5], [1, 0, 0, 0, 0, 0, 0], PrecisionAt(3), method)
    guide = (Path(__file__).parents[2] / "docs" / "howto" / "extending" / "add_a_loss.md").read_text(encoding="utf-8")
    assert str(caught.value).replace("PrecisionAt()", "PrecisionAt3()") in " ".join(guide.split())


@pytest.mark.parametrize("method", METHODS[:2])
@pytest.mark.parametrize(("k", "n_neg"), [(5, 600), (300, 600), (5, 9_000), (300, 9_000), (5, 100_000)])
def test_precision_at_k_is_refused_among_many_negatives(method, n_neg, k):
    scores, labels = small_problem(n_neg)
    with pytest.raises(InputError, match="violates condition C2"):
        most_violated_ranking(scores, labels, PrecisionAt(k), method)


@given(st.integers(1, 4), st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_any_derivatives_give_the_largest_violation_or_an_error(n_pos, n_neg, seed):
    rng = np.random.default_rng(seed)
    matrix = rng.integers(-3, 1, (n_neg, n_pos)) / 4
    if seed % 2:
        matrix.sort(axis=0)
    scores = rng.integers(-2, 3, n_pos + n_neg) / 2
    labels = np.arange(n_pos + n_neg) < n_pos
    loss = Matrix(matrix)
    suitable = (np.diff(matrix, axis=0) >= 0).all()
    for method in METHODS:
        if not suitable:
            with pytest.raises(InputError, match="violates condition C2"):
                most_violated_ranking(scores, labels, loss, method)
            continue
        found = most_violated_ranking(scores, labels, loss, method)
        positives, negatives = np.sort(scores[labels])[::-1].tolist(), np.sort(scores[~labels])[::-1].tolist()
        best = reference.largest_violation(reference.Problem(positives, negatives, loss))
        assert found.violation == pytest.approx(max(best, 0.0), abs=1e-12)


@pytest.mark.parametrize("method", METHODS[:2])
@pytest.mark.parametrize("seed", range(20))
def test_derivatives_without_any_order_end_in_an_error(method, seed):
    """Whatever is answered, changing from call to call: ranks stay in their ranges, and cuts in their memory."""
    rng = np.random.default_rng(seed)
    n_neg = int(rng.integers(1, 3000))
    n_pos = int(rng.integers(2, 60))
    scores = rng.standard_normal(n_pos + n_neg) * 10.0 ** rng.integers(-12, 3)
    loss = Answering(lambda j, i: rng.standard_normal(len(i)) * 10.0 ** rng.integers(-12, 12))
    with pytest.raises(InputError, match=r"violates condition C2|must not change between calls"):
        most_violated_ranking(scores, np.arange(len(scores)) < n_pos, loss, method)


def test_the_ranges_nest_though_nothing_is_checked():
    """The kernel by itself, without the checks of its door: ranks never fall, and count every negative once."""
    from lapsvm._ext import inference

    for seed in range(200):
        rng = np.random.default_rng(seed)
        n_pos, n_neg = int(rng.integers(1, 20)), int(rng.integers(1, 400))
        scores = rng.standard_normal(n_pos + n_neg)
        noise = [lambda j, first, n, rng=rng: rng.standard_normal(n) * 5, lambda j, first, n: np.full(n, np.nan)]
        for method in (0, 1):
            ranks, _, above, _, _ = inference.most_violated(
                scores, np.arange(n_pos), 6, 1.0, None, noise[seed % 2], method
            )
            prefetched = ranks[np.argsort(-scores[n_pos:])]
            assert (np.diff(prefetched) >= 0).all()
            assert prefetched[0] >= 1
            assert prefetched[-1] <= n_pos + 1
            assert (above == np.searchsorted(prefetched, np.arange(1, n_pos + 1), side="right")).all()


def test_what_inference_asked_for_is_compared_where_a_sample_misses_it():
    n_neg = 5000
    scores, labels = np.append(10.0, -np.arange(n_neg) / n_neg), np.arange(n_neg + 1) == 0
    most_violated_ranking(scores, labels, Late(10**6))
    seen = []

    class Watched(Late):
        def derivative(self, j, i, n_pos, n_neg):
            seen.append(j)
            return super().derivative(j, i, n_pos, n_neg)

    watched = Watched(10**6)
    most_violated_ranking(scores, labels, watched, "optranks")
    seen.clear()
    most_violated_ranking(scores, labels, watched, "optranks")  # the sample is not asked for again
    asked = max(seen)
    watched.j = asked
    with pytest.raises(InputError, match=f"and -0.001 at j = {asked}"):
        most_violated_ranking(scores, labels, watched, "optranks")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (np.nan, "must be finite, got another value at j = 1"),
        (-np.inf, "must be finite"),
        (1e308, "must be finite"),
        (None, "must be finite"),
        ("many", "must return one number, or one for each of 4 ranks, got str 'many' at j = 1"),
        (1j, "must return one number"),
        ([1.0, 2.0], "must return one number"),
        (np.zeros((4, 4)), r"got an array of shape \(4, 4\)"),
        ([[1.0], [2.0, 3.0]], "must return one number"),
        ({}, "must return one number"),
        (10**400, "must return one number"),
    ],
)
def test_answers_that_are_no_numbers(method, answer, sentence):
    scores, labels = small_problem()
    with pytest.raises(InputError, match=sentence):
        most_violated_ranking(scores, labels, Answering(lambda j, i: answer), method)


@pytest.mark.parametrize("answer", [np.nan, None, "none", [1.0, 2.0], -np.inf])
def test_a_delta_that_is_no_number(answer):
    class Odd(AUCLoss):
        def derivative(self, j, i, n_pos, n_neg):
            return -1.0 / (n_pos * n_neg)

        def value(self, above, n_neg):
            return answer

    scores, labels = small_problem()
    with pytest.raises(InputError, match=r"value of Odd\(\) must be a finite number, got"):
        most_violated_ranking(scores, labels, Odd())


def test_a_delta_that_is_not_the_sum_of_the_derivatives():
    class Halved(AUCLoss):
        def derivative(self, j, i, n_pos, n_neg):
            return -0.5 / (n_pos * n_neg)

    scores, labels = small_problem()
    with pytest.raises(InputError, match=r"value of Halved\(\) must be the sum of its derivatives, got 1 .* 0.5"):
        most_violated_ranking(scores, labels, Halved())


class Signed(RankLoss):
    """A multiple of the share of swapped pairs, less a bonus for each negative above the last positive."""

    def __init__(self, factor, bonus=0.0):
        self.factor, self.bonus = factor, bonus

    def derivative(self, j, i, n_pos, n_neg):
        return (np.where(i == n_pos, self.bonus, 0.0) - self.factor) / (n_pos * n_neg)


@pytest.mark.parametrize("n_neg", [40, 100_000])
def test_a_loss_of_the_wrong_sign_is_refused(n_neg):
    scores, labels = small_problem(n_neg)
    for method in METHODS[:2]:
        with pytest.raises(InputError, match=r"Delta of Signed\(\) must be at least 0, got -\d.* negatives above"):
            most_violated_ranking(scores, labels, Signed(-1), method)
    with pytest.raises(InputError, match=r"negatives above 1 of \d+ positives"):
        most_violated_ranking(scores, labels, Signed(1, bonus=1.5))
    assert most_violated_ranking(scores, labels, Signed(1, bonus=0.5)).violation > 0


@given(st.integers(1, 4), st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_the_sign_is_checked_for_every_interleaving(n_pos, n_neg, seed):
    """The check looks at rankings with one rank for all negatives, which is enough under C2."""
    rng = np.random.default_rng(seed)
    loss = Matrix(np.sort(rng.integers(-4, 3, (n_neg, n_pos)) / 4, axis=0))
    rankings = [reference.negatives_above(ranks, n_pos) for ranks in reference.all_rankings(n_pos, n_neg)]
    scores, labels = rng.standard_normal(n_pos + n_neg), np.arange(n_pos + n_neg) < n_pos
    if min(loss.value(above, n_neg) for above in rankings) < -1e-9:
        with pytest.raises(InputError, match="must be at least 0"):
            most_violated_ranking(scores, labels, loss)
    else:
        assert most_violated_ranking(scores, labels, loss).violation >= 0


def test_a_child_of_a_compiled_loss_is_asked_for_its_own_derivative():
    class Weighted(APLoss):
        def derivative(self, j, i, n_pos, n_neg):
            return 3 * super().derivative(j, i, n_pos, n_neg)

        def value(self, above, n_neg):
            return 3 * super().value(above, n_neg)

    scores, labels = small_problem()
    found = most_violated_ranking(scores, labels, Weighted())
    twin = most_violated_ranking(scores, labels, Weighted(), "reference")
    assert found.violation == pytest.approx(twin.violation, rel=1e-12)
    assert found.violation > most_violated_ranking(scores, labels, "ap").violation
    for method in ("search", "greedy"):
        with pytest.raises(OptionError, match="does not evaluate derivatives"):
            most_violated_ranking(scores, labels, Weighted(), method)


@pytest.mark.parametrize(
    ("kernel", "sentence"),
    [
        (Kernel(2, 1.0, np.ones(5)), "discounts must be those of the ranks 0 to 43, got 5"),
        (Kernel(2, 1.0, None), "discounts must be those"),
        (Kernel(2, 0.0, np.ones(99)), "norm of a loss must be finite and greater than 0"),
        (Kernel(1, np.nan), "norm of a loss"),
        (Kernel(6, 0.0), "norm of a loss must be finite and greater than 0"),
        (Kernel(99), "kind of a loss must be 0 to 7, got 99"),
        (Kernel(7, gains=lambda j, first, n: None), "must be an array, got None"),
        (Kernel(7, gains=lambda j, first, n: np.zeros(n + 1)), "must be"),
    ],
)
def test_a_compiled_form_that_does_not_fit(kernel, sentence):
    class Own(RankLoss):
        def derivative(self, j, i, n_pos, n_neg):
            return 0.0

        def kernel(self, n_pos, n_neg):
            return kernel

    scores, labels = small_problem()
    with pytest.raises(ValueError, match=sentence):
        most_violated_ranking(scores, labels, Own())


def test_a_loss_without_hash_is_checked_too():
    @dataclass
    class NoHash(RankLoss):
        scale: float = 1.0

        def derivative(self, j, i, n_pos, n_neg):
            return np.where(i + j == 4, -self.scale, 0.0)

    scores, labels = small_problem()
    loss = NoHash()
    for _ in range(2):
        with pytest.raises(InputError, match="violates condition C2"):
            most_violated_ranking(scores, labels, loss)


def test_a_callback_may_ask_for_another_ranking_and_change_its_arguments():
    class Busy(RankLoss):
        def derivative(self, j, i, n_pos, n_neg):
            most_violated_ranking([0.5, 0.1, 0.7], [1, 0, 0], "ap")
            answer = -i / (n_pos * (i + j - 1.0) * (i + j))
            i[:] = -1
            return answer

        def value(self, above, n_neg):
            delta = APLoss().value(above, n_neg)
            above[:] = 7
            return delta

    scores, labels = small_problem()
    found, ours = (most_violated_ranking(scores, labels, loss) for loss in (Busy(), "ap"))
    assert np.array_equal(found.ranks, ours.ranks)
    assert np.array_equal(found.coefficients, ours.coefficients)


def test_discounts_whose_sum_is_not_positive():
    scores, labels = example_with_positives(300)
    with pytest.raises(InputError, match="discounts of the first 300 ranks must sum to more than 0, got -16"):
        most_violated_ranking(scores, labels, NDCGLoss(lambda i: 1 - 0.01 * i * 2 / 3 - 0.05))


def example_with_positives(n_pos):
    rng = np.random.default_rng(0)
    return rng.standard_normal(n_pos + 20), np.arange(n_pos + 20) < n_pos


def test_a_table_of_discounts_is_copied():
    values = np.arange(49.0, 0, -1) / 49
    discount = Tabulated(values)
    values[:] = np.arange(49)
    assert discount.values[0] == 1.0
    with pytest.raises(ValueError, match="read-only"):
        discount.values[0] = 2.0


def test_a_discount_of_texts_is_refused():
    with pytest.raises(InputError, match="discount must be numbers"):
        NDCGLoss(lambda i: np.full(len(i), "a"))


RACE = """
import sys, threading
import numpy as np
from lapsvm.errors import InputError
from lapsvm.ranking import most_violated_ranking
n, seconds = int(sys.argv[1]), 1.0
rng = np.random.default_rng(0)
labels = rng.random(n) < 0.05
good = rng.standard_normal(n)
bad = np.where(rng.random(n) < 0.5, rng.standard_normal(n) * 1e3, rng.choice([np.nan, np.inf, -1e300, 0.0], n))
scores, stop = good.copy(), threading.Event()
def write():
    while not stop.is_set():
        for values in (good, bad, -good):
            scores[:] = values
writer = threading.Thread(target=write)
writer.start()
timer = threading.Timer(seconds, stop.set)
timer.start()
while not stop.is_set():
    for method in ("auto", "optranks", "search", "greedy"):
        try:
            found = most_violated_ranking(scores, labels, "ap", method)
        except InputError:
            continue
        assert 1 <= found.ranks.min() <= found.ranks.max() <= labels.sum() + 1
writer.join()
print("still here")
"""


@pytest.mark.parametrize("n", [300, 20_000])
def test_scores_that_another_thread_changes_corrupt_nothing(n):
    ran = subprocess.run([sys.executable, "-c", RACE, str(n)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == "still here\n"


@given(st.integers(0, 2**32 - 1))
def test_the_search_for_falling_derivatives_is_its_twins(seed):
    from lapsvm._ext import inference

    rng = np.random.default_rng(seed)
    n_pos, n_rows = int(rng.integers(1, 6)), int(rng.integers(0, 8))
    ranks = rng.integers(1, n_pos + 1, n_rows)
    starts = np.append(0, np.cumsum([rng.integers(0, n_pos + 2 - rank) for rank in ranks])).astype(np.intp)
    values = np.sort(rng.integers(-9, 1, starts[-1])) / 4.0 + rng.integers(0, 2, starts[-1]) * rng.random() / 4
    arguments = (rng.permutation(n_rows) if seed % 3 else np.arange(n_rows)), ranks, starts, values, n_pos, 0.25
    assert inference.first_violation(*arguments) == first_violation(*arguments)
