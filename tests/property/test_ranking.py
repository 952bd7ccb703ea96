"""Properties of loss-augmented inference that hold for any scores and labels."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lapsvm.ranking import NDCGLoss, most_violated_ranking, reference
from lapsvm.ranking.losses import as_loss

LOSSES = ["ap", "ndcg", "auc", "mrr", "pos_at_top", NDCGLoss(k=2)]
SETTINGS = settings(max_examples=150, deadline=None, derandomize=True)
# few distinct values, so that ties are common; halves and doubles, so that sums are exact
TIED = st.integers(-8, 8).map(lambda value: value / 4)
ANY = st.floats(-1e12, 1e12, allow_nan=False)


@st.composite
def problems(draw, value, largest):
    n = draw(st.integers(2, largest))
    scores = np.array(draw(st.lists(value, min_size=n, max_size=n)))
    labels = np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    labels[draw(st.integers(0, n - 1))] = True
    labels[draw(st.integers(0, n - 1))] ^= labels.all()
    return scores, labels


def largest(scores, labels, loss):
    positives, negatives = (np.sort(scores[mask])[::-1].tolist() for mask in (labels, ~labels))
    return reference.largest_violation(reference.Problem(positives, negatives, as_loss(loss)))


def near(value, scores):
    return pytest.approx(value, rel=1e-10, abs=1e-12 * max(1.0, float(np.abs(scores).max())))


@SETTINGS
@given(st.one_of(problems(TIED, 7), problems(ANY, 7)), st.sampled_from(LOSSES))
def test_nothing_violates_more_than_what_is_found(problem, loss):
    scores, labels = problem
    for method in ("auto", "optranks", "reference"):
        found = most_violated_ranking(scores, labels, loss, method)
        assert found.violation == near(largest(scores, labels, loss), scores)
        assert found.loss - found.coefficients @ scores == near(found.violation, scores)


@SETTINGS
@given(st.one_of(problems(TIED, 60), problems(ANY, 60)), st.sampled_from(LOSSES))
def test_coefficients_balance_and_have_their_signs(problem, loss):
    scores, labels = problem
    found = most_violated_ranking(scores, labels, loss)
    assert found.coefficients.sum() == pytest.approx(0, abs=1e-12)
    assert (found.coefficients[labels] >= 0).all()
    assert (found.coefficients[~labels] <= 0).all()
    assert found.ranks.min() >= 1
    assert found.ranks.max() <= labels.sum() + 1
    assert 0 <= found.loss <= 1 + 1e-12


@SETTINGS
@given(problems(TIED, 40), st.sampled_from(LOSSES), st.randoms(use_true_random=False))
def test_order_and_offset_change_nothing(problem, loss, random):
    scores, labels = problem
    order = list(range(len(scores)))
    random.shuffle(order)
    found = most_violated_ranking(scores, labels, loss)
    assert most_violated_ranking(scores[order], labels[order], loss).violation == near(found.violation, scores)
    assert most_violated_ranking(scores + 1024, labels, loss).violation == near(found.violation, scores + 1024)


@SETTINGS
@given(problems(TIED, 40), st.sampled_from(LOSSES))
def test_a_larger_margin_never_violates_more(problem, loss):
    scores, labels = problem
    before = most_violated_ranking(scores, labels, loss).violation
    assert most_violated_ranking(scores + labels, labels, loss).violation <= before + 1e-12


@SETTINGS
@given(problems(TIED, 40), st.sampled_from(LOSSES))
def test_all_methods_agree(problem, loss):
    scores, labels = problem
    values = {method: most_violated_ranking(scores, labels, loss, method).violation for method in ("auto", "optranks")}
    if loss in ("ap", "ndcg"):
        values["greedy"] = most_violated_ranking(scores, labels, loss, "greedy").violation
    if loss == "ap":
        values["search"] = most_violated_ranking(scores, labels, loss, "search").violation
    assert max(values.values()) == near(min(values.values()), scores)
