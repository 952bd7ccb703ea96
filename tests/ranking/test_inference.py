"""Loss-augmented inference: exact against brute force and an O(P N) oracle, whatever the scores."""

from functools import cache

import numpy as np
import pytest

from lapsvm.errors import InputError, NotFiniteError, OneClassError, OptionError, ShapeError
from lapsvm.ranking import NDCGLoss, RankBiased, most_violated_ranking, reference
from lapsvm.ranking.losses import as_loss

LOSSES = [
    "ap",
    "ndcg",
    "auc",
    "mrr",
    "pos_at_top",
    NDCGLoss("reciprocal"),
    NDCGLoss(RankBiased(0.8)),
    NDCGLoss(k=3),
    NDCGLoss([1.0, 0.5, 0.25]),
]
CASES = [(loss, method) for loss in LOSSES for method in ("auto", "optranks", "reference")] + [("ap", "search")]
GREEDY_CASES = [("ap", "greedy"), ("ndcg", "greedy"), (NDCGLoss(k=3), "greedy")]


def labels_of(n_pos, n_neg, seed=0):
    return np.random.default_rng(seed).permutation(np.r_[np.ones(n_pos), -np.ones(n_neg)])


def scores_of(kind, n, labels, seed=0):
    rng = np.random.default_rng(seed)
    normal = rng.standard_normal(n) + 0.5 * (labels > 0)
    return {
        "normal": normal,
        "separated": normal + 6 * (labels > 0),
        "reversed": normal - 6 * (labels > 0),
        "tied": np.round(normal),
        "constant": np.zeros(n),
        "tiny": normal * 1e-12,
        "huge": normal * 1e12,
        "offset": normal + 1e9,
        "heavy": normal * 10.0 ** rng.integers(-12, 13, n),
    }[kind]


def example(n_pos, n_neg, kind):
    labels = labels_of(n_pos, n_neg)
    return labels, scores_of(kind, n_pos + n_neg, labels)


KINDS = ["normal", "separated", "reversed", "tied", "constant", "tiny", "huge", "offset", "heavy"]


@cache
def largest_by_interleavings(loss, n_pos, n_neg, kind):
    labels, scores = example(n_pos, n_neg, kind)
    positives, negatives = (np.sort(scores[mask])[::-1].tolist() for mask in (labels > 0, labels <= 0))
    return reference.largest_violation(reference.Problem(positives, negatives, as_loss(loss)))


@cache
def largest_by_table(loss, n_pos, n_neg, kind):
    return oracle(*example(n_pos, n_neg, kind)[::-1], as_loss(loss))


def oracle(scores, labels, loss):
    """The largest violation by an O(P N) table of f_j, written without divide and conquer."""
    positives, negatives = (np.sort(scores[mask])[::-1] for mask in (labels > 0, labels <= 0))
    n_pos, n_neg = len(positives), len(negatives)
    i = np.arange(1, n_pos + 1)
    total = 0.0
    for j, score in enumerate(negatives, start=1):
        steps = 2 * (positives - score) / (n_pos * n_neg) + loss.derivative(j, i, n_pos, n_neg)
        from_rank_to_end = np.append(np.cumsum(steps[::-1])[::-1], 0.0)
        total += max(-from_rank_to_end)
    return total


def recomputed(found, scores, labels, loss):
    """Violation from the ranks alone, as the definition has it."""
    positives, negatives = (np.sort(scores[mask])[::-1] for mask in (labels > 0, labels <= 0))
    ranks = np.sort(found.ranks)
    prefix = np.append(0.0, np.cumsum(positives - positives[-1]))
    rest = prefix[-1] - prefix[ranks - 1]
    swapped = rest - (len(positives) + 1 - ranks) * (negatives - positives[-1])
    above = np.searchsorted(ranks, np.arange(1, len(positives) + 1), side="right")
    return loss.value(above, len(negatives)) - 2 * swapped.sum() / (len(positives) * len(negatives))


def check(scores, labels, name, method, largest):
    loss, found = as_loss(name), most_violated_ranking(scores, labels, name, method)
    scale = max(1.0, abs(largest), float(np.ptp(scores)))
    offset = 1e-15 * np.abs(scores).max()
    assert found.violation == pytest.approx(largest, rel=1e-9, abs=1e-11 * scale)
    assert found.violation >= 0
    assert recomputed(found, scores, labels, loss) == pytest.approx(largest, rel=1e-9, abs=1e-11 * scale)
    assert found.loss - found.coefficients @ scores == pytest.approx(largest, rel=1e-9, abs=1e-11 * scale + offset)
    negatives = scores[labels <= 0]
    order = np.lexsort((np.arange(len(negatives)), -negatives))
    assert (np.diff(found.ranks[order]) >= 0).all(), "a higher negative, or an earlier one of equals, ranks no lower"
    n_pos, n_neg = int((labels > 0).sum()), len(negatives)
    assert np.allclose(found.coefficients[labels <= 0], -2 * (n_pos + 1 - found.ranks) / (n_pos * n_neg), rtol=1e-14)


@pytest.mark.parametrize(("loss", "method"), CASES + GREEDY_CASES, ids=str)
@pytest.mark.parametrize("n_pos", [1, 2, 3])
def test_small_rankings_agree_with_all_interleavings(loss, method, n_pos):
    for n_neg in (1, 4):
        for kind in KINDS:
            labels, scores = example(n_pos, n_neg, kind)
            check(scores, labels, loss, method, largest_by_interleavings(loss, n_pos, n_neg, kind))


@pytest.mark.parametrize(("loss", "method"), [case for case in CASES if case[1] != "reference"] + GREEDY_CASES, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_larger_rankings_agree_with_an_oracle(loss, method, kind):
    for n_pos, n_neg in ((40, 700), (1, 500), (300, 1), (200, 60)):
        labels, scores = example(n_pos, n_neg, kind)
        check(scores, labels, loss, method, largest_by_table(loss, n_pos, n_neg, kind))


@pytest.mark.parametrize(("loss", "method"), [("ap", "auto"), ("ndcg", "auto"), ("ap", "optranks"), ("ap", "search")])
@pytest.mark.parametrize(("n_pos", "n_neg"), [(300, 5000), (5000, 300)])
@pytest.mark.parametrize("kind", ["normal", "separated", "tied", "heavy"])
def test_long_rankings_agree_with_an_oracle(loss, method, n_pos, n_neg, kind):
    labels, scores = example(n_pos, n_neg, kind)
    check(scores, labels, loss, method, largest_by_table(loss, n_pos, n_neg, kind))


def test_separated_scores_far_apart_violate_nothing():
    found = most_violated_ranking([9e3, 8e3, 1.0, 2.0, 0.5], [1, 1, 0, 0, 0])
    assert found.ranks.tolist() == [3, 3, 3]
    assert (found.loss, found.violation) == (0.0, 0.0)
    assert not found.coefficients.any()


def test_no_margin_at_all_gives_the_worst_ranking():
    found = most_violated_ranking(np.zeros(5), [1, 1, 0, 0, 0])
    assert found.loss == found.violation == pytest.approx(1 - (1 / 4 + 2 / 5) / 2)


@pytest.mark.parametrize("kind", KINDS)
def test_the_zero_one_loss_has_the_mean_hinge_as_its_violation(kind):
    labels = labels_of(30, 70)
    scores = scores_of(kind, 100, labels)
    signs = np.where(labels > 0, 1.0, -1.0)
    found = most_violated_ranking(scores, labels, "zero_one")
    assert found.violation == pytest.approx(np.maximum(0, 1 - signs * scores).mean())
    assert found.loss == np.mean(signs * scores < 1)
    scale = max(1.0, np.abs(scores).max())
    assert found.loss - found.coefficients @ scores == pytest.approx(found.violation, abs=1e-14 * scale)
    assert found.ranks.tolist() == [1 if score > -1 else 31 for score in scores[labels < 0]]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int64])
@pytest.mark.parametrize("label_dtype", [bool, np.int8, np.uint8, np.int64, np.float32, np.float64])
def test_dtypes_and_strides_do_not_matter(dtype, label_dtype):
    labels = labels_of(20, 80) > 0
    scores = (10 * scores_of("normal", 100, labels)).astype(dtype)
    plain = most_violated_ranking(scores.astype(np.float64), labels)
    spread_scores, spread_labels = np.zeros((100, 3), dtype), np.zeros(200, label_dtype)
    spread_scores[:, 1], spread_labels[::-2] = scores, labels
    found = most_violated_ranking(spread_scores[:, 1], spread_labels[::-2])
    assert np.array_equal(found.ranks, plain.ranks)
    assert np.array_equal(found.coefficients, plain.coefficients)
    assert found.violation == plain.violation


def test_inputs_are_not_modified():
    labels = labels_of(20, 80)
    scores = scores_of("tied", 100, labels)
    scores.flags.writeable = labels.flags.writeable = False
    kept = scores.copy()
    for loss, method in (("ap", "auto"), ("ap", "search"), ("zero_one", "auto"), ("ap", "reference")):
        most_violated_ranking(scores, labels, loss, method)
    assert np.array_equal(scores, kept)


BAD_INPUT = [
    (([1.0, np.nan, 0.0], [1, 0, 0]), NotFiniteError, "scores must be finite, got nan at index 1"),
    (([1.0, 0.0, -np.inf], [1, 0, 0]), NotFiniteError, "scores must be finite, got -inf at index 2"),
    (([1.0, 1e300], [1, 0]), NotFiniteError, r"scores must be at most 1e\+290 in magnitude, got 1e\+300 at index 1"),
    (([1.0, 2.0], [0, 0]), OneClassError, r"labels must hold .* got no positive among 2"),
    (([1.0, 2.0], [1, 1]), OneClassError, r"labels must hold .* got no negative among 2"),
    (([], []), OneClassError, r"labels must hold .* got no positive among 0"),
    (([1.0, 2.0], [1, 0, 0]), ShapeError, r"labels must have shape \(2,\) like scores, got \(3,\)"),
    (([[1.0, 2.0]], [1, 0]), ShapeError, r"scores must have 1 dimension, got shape \(1, 2\)"),
    (([1.0, 2.0], [1, np.nan]), NotFiniteError, "labels must be finite, got nan at index 1"),
    (([1.0, 2.0], [0.25, 0]), InputError, "labels must be binary, 0 or 1, or -1 and 1, got 0.25"),
    (([1.0, 2.0, 3.0], [2, 1, 0]), InputError, "labels must be binary, 0 or 1, or -1 and 1, got 2"),
    (([1.0, 2.0], [1, -0.5]), InputError, "labels must be binary, 0 or 1, or -1 and 1, got -0.5"),
    ((["a", "b"], [1, 0]), InputError, "scores must be real numbers, got dtype <U1"),
    (([1.0, 2.0], ["a", "b"]), InputError, "labels must be numbers or booleans, got dtype <U1"),
    (([1j, 2.0], [1, 0]), InputError, "scores must be real numbers, got dtype complex128"),
    (([1.0, 2.0], [1, 0], "map"), OptionError, "loss must be one of ap, ndcg, .* got 'map'"),
    (([1.0, 2.0], [1, 0], "ap", "fast"), OptionError, "method must be one of auto, .* got 'fast'"),
    (([1.0, 2.0], [1, 0], "auc", "search"), OptionError, r"method 'search' exists for the loss ap only, got AUCLoss"),
    (([1.0, 2.0], [1, 0], "zero_one", "greedy"), OptionError, "method 'greedy' does not support the loss 'zero_one'"),
]


@pytest.mark.parametrize(("arguments", "error", "sentence"), BAD_INPUT, ids=lambda value: str(value)[:40])
def test_bad_input_is_refused_with_one_sentence(arguments, error, sentence):
    with pytest.raises(error, match=sentence) as caught:
        most_violated_ranking(*arguments)
    assert str(caught.value).count(".\n") == 0
    assert str(caught.value).endswith(".")


@pytest.mark.parametrize("loss", ["ap", "zero_one"])
@pytest.mark.parametrize("method", ["auto", "reference"])
def test_every_method_refuses_scores_that_are_not_finite(loss, method):
    with pytest.raises(NotFiniteError, match="got nan at index 2"):
        most_violated_ranking([1.0, 2.0, np.nan], [1, 0, 0], loss, method)


@pytest.mark.parametrize("place", [0, 1, 500, 20_000, 29_999])
@pytest.mark.parametrize("value", [np.nan, -np.nan, np.inf, -np.inf, 1.1e290, -1e300])
def test_one_unusable_score_anywhere_is_found(place, value):
    scores, labels = np.zeros(30_000), np.arange(30_000) % 500 == 0
    scores[labels] = 9.0
    scores[place] = value
    for method in ("auto", "optranks"):
        with pytest.raises(NotFiniteError, match=f"at index {place}"):
            most_violated_ranking(scores, labels, "ap", method)


def test_the_largest_usable_scores_are_taken():
    scores = np.array([1e290, -1e290, 5e-324, 0.0, -1e290, 1e290])
    found = most_violated_ranking(scores, [1, 0, 1, 0, 1, 0])
    assert found.violation == pytest.approx(
        most_violated_ranking(scores, [1, 0, 1, 0, 1, 0], "ap", "optranks").violation
    )
