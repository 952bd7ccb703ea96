"""Thresholds of scores: by hand, and against every cut of the detections."""

import numpy as np
import pytest

from lapsvm.catalog import GroundTruth
from lapsvm.errors import InputError
from lapsvm.evaluation import Detections, best_f1, evaluate_voc, wanted_precision

OBJECT = np.array([[0.0, 0, 10, 10]])
ELSEWHERE = np.array([[50.0, 50, 60, 60]])


def evaluated(hits, scores, n_pictures=None):
    """Return the evaluation of one detection per picture; every picture has an object."""
    n_pictures = n_pictures or len(hits)
    ids = [f"p{number}" for number in range(n_pictures)]
    truth = {name: GroundTruth(OBJECT, np.zeros(1, dtype=bool)) for name in ids}
    boxes = np.concatenate([OBJECT if hit else ELSEWHERE for hit in hits]) if hits else np.zeros((0, 4))
    detections = Detections(tuple(ids[: len(hits)]), scores, boxes)
    return evaluate_voc({"cat": detections}, {"cat": truth}).classes["cat"], detections


def test_by_hand():
    result, detections = evaluated([True, True, False, True, False], [5, 4, 3, 2, 1], n_pictures=6)
    best = best_f1(result, detections)
    assert (best.score, best.precision, best.recall) == (2, 3 / 4, 3 / 6)
    assert best.f1 == pytest.approx(2 * 0.75 * 0.5 / 1.25)
    assert wanted_precision(result, detections, 0.9).score == 4
    assert wanted_precision(result, detections, 0.7).score == 2
    assert wanted_precision(result, detections, 0.1).score == 1


@pytest.mark.parametrize("seed", range(5))
def test_against_every_cut(seed):
    rng = np.random.default_rng(seed)
    hits, scores = (rng.random(30) < 0.5).tolist(), rng.integers(0, 12, size=30).astype(float)
    result, detections = evaluated(hits, scores)
    cuts = {}
    for score in np.unique(scores):
        kept = scores >= score
        right = np.array(hits)[kept].sum()
        precision, recall = right / kept.sum(), right / 30
        cuts[score] = (precision, 2 * precision * recall / (precision + recall) if right else 0.0)
    best = best_f1(result, detections)
    assert best.f1 == pytest.approx(max(f1 for _, f1 in cuts.values()))
    assert cuts[best.score] == pytest.approx((best.precision, best.f1))
    for wanted in (0.3, 0.5, 0.8):
        reaching = [score for score, (precision, _) in cuts.items() if precision >= wanted]
        found = wanted_precision(result, detections, wanted)
        assert (found.score if found else None) == (min(reaching) if reaching else None)


def test_nothing_to_cut():
    for hits, scores, n_pictures in (([], [], 2), ([False, False], [2, 1], 2)):
        result, detections = evaluated(hits, scores, n_pictures)
        assert best_f1(result, detections) is None
        assert wanted_precision(result, detections, 0.5) is None
    nothing = {"a": GroundTruth(np.zeros((0, 4)), np.zeros(0, dtype=bool))}
    detections = Detections(("a",), [1.0], OBJECT)
    result = evaluate_voc({"cat": detections}, {"cat": nothing}).classes["cat"]
    assert best_f1(result, detections) is None
    assert wanted_precision(result, detections, 0.5) is None


@pytest.mark.parametrize("precision", [0, -1, 1.5, float("nan")])
def test_a_precision_is_a_share(precision):
    with pytest.raises(InputError, match=r"precision must be greater than 0 and at most 1, got"):
        wanted_precision(*evaluated([True], [1.0]), precision)
