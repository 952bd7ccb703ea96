"""Inputs made to hurt: a million scores in the worst orders, callers at once, small stacks, little memory."""

import subprocess
import sys
import threading
from contextlib import suppress

import numpy as np
import pytest

from lapsvm.errors import NotFiniteError
from lapsvm.ranking import loss_diminished_ranking, most_violated_ranking
from lapsvm.ranking.losses import as_loss

MILLION = 1_000_000


def median_killer(n):
    """Musser's permutation, on which median-of-three quicksort is quadratic."""
    half = n // 2
    killer = np.empty(n)
    killer[0:half:2] = np.arange(1, half, 2)
    killer[1:half:2] = np.arange(half + 1, 2 * half, 2)
    killer[half:] = np.arange(2, 2 * half + 1, 2)
    return killer


PATTERNS = {
    "equal": np.zeros,
    "sorted": lambda n: np.arange(n) / n,
    "reversed": lambda n: -np.arange(n) / n,
    "organ pipe": lambda n: np.minimum(np.arange(n), np.arange(n)[::-1]) / n,
    "median killer": lambda n: median_killer(n) / n,
    "two values": lambda n: (np.arange(n) % 2) / 2.0,
    "powers": lambda n: np.exp2(-(np.arange(n) % 1000.0)),
    "one outlier": lambda n: np.where(np.arange(n) == n // 3, 1e200, np.sin(np.arange(n))),
}


def violation_of(ranks, scores, labels, loss):
    """Violation from sorted scores and ranks, in O(P + N log N)."""
    positives, negatives = (np.sort(scores[mask])[::-1] for mask in (labels > 0, labels <= 0))
    ranks = np.sort(ranks)
    centre = positives[-1]
    prefix = np.append(0.0, np.cumsum(positives - centre))
    swapped = prefix[-1] - prefix[ranks - 1] - (len(positives) + 1 - ranks) * (negatives - centre)
    above = np.searchsorted(ranks, np.arange(1, len(positives) + 1), side="right")
    return loss.value(above, len(negatives)) - 2 * swapped.sum() / (len(positives) * len(negatives))


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("loss", ["ap", "ndcg"])
def test_a_million_scores_in_a_bad_order(pattern, loss):
    scores = PATTERNS[pattern](MILLION)
    labels = np.zeros(MILLION, dtype=np.int8)
    labels[:: MILLION // 400] = 1
    methods = ("auto", "optranks", "search") if loss == "ap" else ("auto", "optranks")
    results = [most_violated_ranking(scores, labels, loss, method) for method in methods]
    scale = max(1.0, abs(results[0].violation))
    for found in results:
        assert found.violation == pytest.approx(results[0].violation, rel=1e-9)
        own = violation_of(found.ranks, scores, labels, as_loss(loss))
        assert own == pytest.approx(found.violation, rel=1e-9, abs=1e-9 * scale)


@pytest.mark.parametrize("pattern", ["equal", "sorted", "median killer", "powers"])
def test_the_recursion_is_shallow(pattern):
    scores, labels = PATTERNS[pattern](MILLION // 5), np.arange(MILLION // 5) % 100 == 0
    done = []

    def work():
        done.extend(most_violated_ranking(scores, labels, "ap", method).violation for method in ("auto", "optranks"))

    before = threading.stack_size(256 * 1024)
    try:
        thread = threading.Thread(target=work)
        thread.start()
    finally:
        threading.stack_size(before)
    thread.join()
    assert done[0] == pytest.approx(done[1], rel=1e-9)


def test_half_the_samples_positive_at_size():
    rng = np.random.default_rng(0)
    labels = rng.random(60_000) < 0.5
    scores = rng.standard_normal(60_000) + labels
    first, second = (most_violated_ranking(scores, labels, "ap", method) for method in ("auto", "optranks"))
    assert first.violation == pytest.approx(second.violation, rel=1e-11)


def test_concurrent_callers_get_identical_results():
    rng = np.random.default_rng(0)
    labels = rng.random(50_000) < 0.02
    scores = np.round(rng.standard_normal(50_000) + 0.5 * labels, 3)
    alone = {loss: most_violated_ranking(scores, labels, loss) for loss in ("ap", "ndcg")}
    wrong = []

    def work(loss):
        for _ in range(10):
            found = most_violated_ranking(scores, labels, loss)
            same = np.array_equal(found.ranks, alone[loss].ranks)
            if not (same and np.array_equal(found.coefficients, alone[loss].coefficients)):
                wrong.append(loss)

    threads = [threading.Thread(target=work, args=(loss,)) for loss in ("ap", "ndcg", "ap", "ndcg")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_scores_that_become_nan_during_a_call_are_not_read_beyond_the_end():
    rng = np.random.default_rng(0)
    labels = np.arange(MILLION // 2) % 500 == 0
    scores, negatives = rng.standard_normal(len(labels)), np.flatnonzero(~labels)
    stop = threading.Event()

    def change():
        while not stop.wait(0.003):
            scores[negatives] = np.nan
            scores[negatives] = 0.5

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(60):
            with suppress(NotFiniteError):
                ranks = loss_diminished_ranking(scores, labels, "ap").ranks
                assert 1 <= ranks.min() <= ranks.max() <= labels.sum() + 1
    finally:
        stop.set()
        thread.join()


def test_the_gil_is_released():
    scores, labels = np.sin(np.arange(MILLION)), np.arange(MILLION) % 500 == 0
    ticks, stop = [0], threading.Event()

    def tick():
        while not stop.is_set():
            ticks[0] += 1
            stop.wait(0.0005)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1.0)  # only a released GIL lets the other thread in
    try:
        thread = threading.Thread(target=tick)
        thread.start()
        for _ in range(5):
            most_violated_ranking(scores, labels, "ap", "optranks")
        counted = ticks[0]
    finally:
        sys.setswitchinterval(before)
        stop.set()
        thread.join()
    assert counted > 5


@pytest.mark.slow
def test_ten_million_scores_need_little_memory():
    program = """
import resource, numpy as np
from lapsvm.ranking import most_violated_ranking
n = 10**7
rng = np.random.default_rng(0)
scores = rng.standard_normal(n)
labels = np.zeros(n, np.int8); labels[:1000] = 1
most_violated_ranking(scores[:5000], labels[:5000])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for method in ("auto", "optranks"):
    most_violated_ranking(scores, labels, "ap", method)
extra = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
print(extra / scores.nbytes)
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    output = 2.0  # ranks and coefficients, each as large as the scores
    assert float(ran.stdout) <= output + 2.0
