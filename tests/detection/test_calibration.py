"""Calibration: laws of the map from scores to probabilities, its reliability, and its place in a model's file."""

import json

import numpy as np
import pytest

from lapsvm.detection import Calibration, Detector, reliability
from lapsvm.errors import InputError, ModelFileError, NotFiniteError, OneClassError, ShapeError
from lapsvm.model_files import read_model, write_model


def scored(seed=0, positives=40, negatives=160, shift=2.0):
    rng = np.random.default_rng(seed)
    y = np.repeat([1, -1], [positives, negatives])
    return rng.normal(size=len(y)) + shift * (y > 0), y, rng.permutation(np.arange(len(y)) % 3) + 1


@pytest.mark.parametrize("shift", [-1.0, 0.0, 2.0, 50.0])
def test_probabilities_never_decrease_and_stay_between_0_and_1(shift):
    scores, y, fold = scored(shift=shift)
    found = Calibration.fit(scores, y, fold)
    probabilities = found.probability(np.sort(np.concatenate([scores, [-1e300, -1e6, 0, 1e6, 1e300]])))
    assert (np.diff(probabilities) >= 0).all()
    assert probabilities[0] >= 0
    assert probabilities[-1] <= 1


def test_an_affine_change_of_the_scores_changes_no_probability():
    scores, y, _ = scored()
    new = np.linspace(-3, 5, 50)
    expected = Calibration.fit(scores, y).probability(new)
    for factor, offset in ((1e-4, 0), (7, -1000), (1e5, 3)):
        moved = Calibration.fit(factor * scores + offset, y)
        np.testing.assert_allclose(moved.probability(factor * new + offset), expected, atol=1e-7)


def test_platts_map_is_the_minimum_of_his_criterion():
    scores, y, _ = scored(positives=9, negatives=30, shift=1.0)
    target = np.where(y > 0, 10 / 11, 1 / 32)

    def loss(slope, offset):
        logits = slope * scores + offset
        return (np.logaddexp(0, logits) - target * logits).sum()

    found = Calibration.fit(scores, y)
    slope, offset = found.slope, found.offset
    near = [loss(slope + a, offset + b) for a in (-1e-3, 0, 1e-3) for b in (-1e-3, 0, 1e-3) if a or b]
    assert loss(slope, offset) < min(near)


def test_scores_that_separate_perfectly_stay_below_certainty():
    found = Calibration.fit([0, 1, 2, 10, 11, 12], [-1, -1, -1, 1, 1, 1])
    assert found.probability([0, 12]) == pytest.approx([0.2, 0.8], abs=0.05)


def test_scores_that_say_nothing_give_the_share_of_positives():
    _, y, _ = scored(positives=50, negatives=50)
    assert Calibration.fit(np.ones(100), y).probability([0, 1, 2]) == pytest.approx([0.5] * 3)


def test_scores_in_the_wrong_order_give_no_falling_map():
    scores, y, _ = scored()
    assert np.ptp(Calibration.fit(-scores, y).probability([-5, 5])) == 0


def test_pictures_without_a_label_do_not_count():
    scores, y, fold = scored()
    more = [np.append(values, extra) for values, extra in ((scores, 99.0), (y, 0), (fold, 7))]
    assert Calibration.fit(*more) == Calibration.fit(scores, y, fold)


def test_reliability_by_hand():
    found = reliability([0.05, 0.05, 0.95, 0.95, 1.0], [-1, 1, 1, 1, -1])
    assert found.brier == pytest.approx((0.05**2 + 0.95**2 + 2 * 0.05**2 + 1) / 5)
    assert found.ece == pytest.approx((2 * 0.45 + 3 * abs(2.9 / 3 - 2 / 3)) / 5)
    assert [(point.share, point.pictures) for point in found.curve] == [(0.5, 2), (2 / 3, 3)]
    assert (found.positives, found.negatives) == (3, 2)


def test_reliability_is_measured_by_maps_of_other_folds():
    """Labels at random: a map that saw them would look reliable; flipping a picture must not mend its own figure."""
    scores, y, fold = scored(shift=0.0)
    found = Calibration.fit(scores, y, fold)
    expected = np.empty(len(y))
    for number in (1, 2, 3):
        own = fold == number
        expected[own] = Calibration.fit(scores[~own], y[~own]).probability(scores[own])
    assert found.reliability == reliability(expected, y)


def test_probabilities_of_new_pictures_are_about_right():
    found = Calibration.fit(*scored(seed=1, positives=300, negatives=900))
    scores, y, _ = scored(seed=2, positives=3000, negatives=9000)
    assert reliability(found.probability(scores), y).ece < 0.03
    assert found.reliability.ece < 0.06


def test_json_gives_the_same_back():
    found = Calibration.fit(*scored())
    assert Calibration.from_json(json.loads(json.dumps(found.as_json()))) == found


@pytest.mark.parametrize(
    ("changes", "error", "sentence"),
    [
        ({"y": np.ones(200)}, OneClassError, "with and without the class, got 200 of one kind"),
        ({"y": [1, -1]}, ShapeError, "scores and y must have the same length, got 200 and 2"),
        ({"scores": np.full(200, np.nan)}, NotFiniteError, "scores must be finite"),
        ({"fold": np.where(np.arange(200) < 40, 1, 2)}, OneClassError, "got 160 of one kind"),
    ],
)
def test_bad_input_is_one_sentence(changes, error, sentence):
    scores, y, fold = scored()
    arguments = {"scores": scores, "y": y, "fold": fold} | changes
    with pytest.raises(error, match=sentence):
        Calibration.fit(arguments["scores"], arguments["y"], arguments["fold"])


def detector(calibration=None):
    return Detector("car", np.arange(3.0), provenance={"loss": "ap"}, calibration=calibration)


def test_a_detector_keeps_its_calibration(tmp_path):
    scores, y, fold = scored()
    one = detector(Calibration.fit(scores, y, fold))
    one.save(tmp_path / "a.safetensors")
    loaded = Detector.load(tmp_path / "a.safetensors")
    assert loaded.calibration == one.calibration
    assert loaded.whole.calibration == one.calibration
    np.testing.assert_array_equal(loaded.probability(scores), one.calibration.probability(scores))


def test_a_detector_without_calibration_has_no_probabilities(tmp_path):
    detector().save(tmp_path / "a.safetensors")
    description, _ = read_model(tmp_path / "a.safetensors", "lapsvm detector", 1)
    assert "calibration" not in description
    assert Detector.load(tmp_path / "a.safetensors").probability([1.0]) is None


@pytest.mark.parametrize(
    "stored",
    [
        [],
        {"method": "platt"},
        {"method": "magic", "first": [1], "second": [0]},
        {"method": "platt", "first": [-1], "second": [0]},
        {"method": "platt", "first": [1, 2], "second": [0, 0]},
        {"method": "isotonic", "first": [0], "second": [0.5]},
        {"method": "platt", "first": ["inf"], "second": [0]},
        {"method": "platt", "first": [1], "second": [0], "reliability": {"ece": 0}},
        {"method": "platt", "first": [1], "second": [0], "reliability": [0, 1]},
    ],
)
def test_a_calibration_that_is_none_is_named_as_damage(tmp_path, stored):
    path = tmp_path / "a.safetensors"
    detector().save(path)
    description, tensors = read_model(path, "lapsvm detector", 1)
    write_model(path, {**description, "calibration": stored}, tensors, "provenance")
    with pytest.raises(ModelFileError, match="is damaged: "):
        Detector.load(path)
    with pytest.raises(InputError):
        Calibration.from_json(stored)
