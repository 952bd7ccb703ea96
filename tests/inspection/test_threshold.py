"""From which probability a picture alarms: the promise on new pictures, its intervals, and the file."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta, binomtest

from lapsvm.detection import AlarmThreshold, Calibration, Detector
from lapsvm.detection.scoring import model_hash, threshold_fits
from lapsvm.errors import InputError, MissingError, ModelFileError, NotFiniteError
from lapsvm.evaluation.intervals import clopper_pearson
from lapsvm.inspection.alarm_rate import AlarmRate
from lapsvm.inspection.promises import least_share
from lapsvm.inspection.threshold import choose_threshold
from lapsvm.inspection.threshold_file import signed
from lapsvm.inspection.whole_pictures import PictureModel

PROBABILITIES = st.lists(st.floats(0, 1), min_size=19, max_size=120)
SHARES = st.sampled_from([0.05, 0.1, 0.2, 0.25, 1 / 3, 0.5, 0.9])


def detector(name="crack", slope=2.0):
    return Detector(name, [1.0, -2.0], 0.5, [1.0, 3.0], calibration=Calibration(slope, -1.0))


def rank_share(values, share):
    """Return in how many of n + 1 leave-one-out draws the picture left out would alarm, by its rank alone."""
    alarms = 0
    for left in range(len(values)):
        others = np.delete(values, left)
        alarms += values[left] >= choose_threshold(others, share)
    return alarms / len(values)


@given(PROBABILITIES, SHARES)
def test_a_picture_that_was_left_out_alarms_as_seldom_as_promised(values, share):
    """Any of n + 1 exchangeable pictures may be the new one, so the promise holds for their mean exactly."""
    values = np.array([*values, 0.5])
    assert rank_share(values, share) <= share + 1e-12


@given(PROBABILITIES, SHARES)
def test_no_lower_threshold_keeps_the_promise(values, share):
    values = np.array(values)
    threshold, most = choose_threshold(values, share), math.floor(share * (len(values) + 1) + 1e-9) - 1
    assert (values >= threshold).sum() <= most
    below = np.nextafter(threshold, 0)
    assert (values >= below).sum() > most  # the next lower one has an alarm too many


def test_the_promise_holds_for_new_pictures_of_one_kind():
    random = np.random.default_rng(0)
    shares = [(random.beta(2, 5, 2000) >= choose_threshold(random.beta(2, 5, 59), 0.1)).mean() for _ in range(400)]
    assert 0.09 < np.mean(shares) <= 0.105  # 6 of 60 ranks alarm: 0.1 on average


@pytest.mark.parametrize(("share", "needed"), [(0.05, 19), (0.1, 9), (0.01, 99), (0.5, 1), (0.3, 3)])
def test_few_pictures_promise_no_small_share(share, needed):
    assert choose_threshold([0.25] * needed, share) == np.nextafter(0.25, 1)
    with pytest.raises(InputError, match=rf"{share:g} needs {needed} held-out .* got {needed - 1}, which promise"):
        choose_threshold([0.25] * (needed - 1), share)


@pytest.mark.parametrize("count", [1, 5, 8, 24, 60, 98, 99, 333, 10_001])
def test_the_share_that_pictures_are_said_to_promise_is_granted(count):
    said = float(f"{100 * least_share(count):g}") / 100
    assert choose_threshold([0.25] * count, said) == np.nextafter(0.25, 1)
    assert 1 / (count + 1) - 1e-12 <= said <= 1.01 / (count + 1)
    with pytest.raises(InputError, match=f"which promise {least_share(count):g} at best"):
        choose_threshold([0.25] * count, 0.99 / (count + 1))


@pytest.mark.parametrize("share", [0, 1, -0.1, 1.5, math.nan, math.inf])
def test_a_share_is_above_0_and_below_1(share):
    with pytest.raises(InputError, match=r"above 0 and below 1|must be finite"):
        choose_threshold([0.5] * 99, share)


def test_numbers_that_are_none_are_refused():
    with pytest.raises(NotFiniteError):
        choose_threshold([0.5, math.nan] * 20, 0.1)


def test_certain_pictures_of_no_class_leave_no_alarm():
    threshold = choose_threshold([1.0] * 30, 0.05)
    assert threshold > 1
    assert AlarmThreshold(threshold, 0.05, {}).decide({"crack": 1.0}).is_ok


@given(st.integers(0, 60), st.integers(1, 60))
def test_intervals_are_those_of_clopper_and_pearson(count, of):
    count = min(count, of)
    expected = binomtest(count, of).proportion_ci(0.95, method="exact")
    assert clopper_pearson(count, of) == pytest.approx((expected.low, expected.high), abs=1e-9)
    if 0 < count < of:
        assert clopper_pearson(count, of)[0] == pytest.approx(beta.ppf(0.025, count, of - count + 1))


def test_of_no_picture_any_share_is_possible():
    assert AlarmRate(0, 0).interval == (0.0, 1.0)
    assert str(AlarmRate(0, 0)) == "none"
    assert str(AlarmRate(1, 24)) == "1 of 24 (0.1 to 21.1 %)"


def test_a_picture_is_what_its_most_probable_class_says():
    alarm = AlarmThreshold(0.3, 0.05, {})
    assert str(alarm.decide({"crack": 0.29, "cut": 0.1})) == alarm.decide({"crack": 0.29}).name == "ok"
    decision = alarm.decide({"crack": 0.3, "cut": 0.8})
    assert (decision.class_name, decision.probability, decision.is_ok, str(decision)) == (
        "cut",
        0.8,
        False,
        "cut (0.8)",
    )
    assert alarm.decide({}).is_ok


def test_the_file_keeps_everything(tmp_path):
    alarm = AlarmThreshold(
        choose_threshold([0.1, 0.3] * 20, 0.05), 0.05, {"crack": model_hash(detector())},
        {"ok": AlarmRate(1, 40), "crack": AlarmRate(7, 9)}, {"ok": AlarmRate(0, 3)},
    )  # fmt: skip
    path = tmp_path / "threshold.json"
    path.write_text(alarm.as_text({"crack": detector().calibration}))
    assert AlarmThreshold.load(path) == alarm
    content = json.loads(path.read_text())
    assert content["held_out"]["crack"]["low"] == pytest.approx(clopper_pearson(7, 9)[0])
    score = content["classes"]["crack"]["score"]
    assert detector().probability([score])[0] == pytest.approx(alarm.probability)


def test_a_model_that_says_the_same_of_all_pictures_has_no_score_at_a_threshold():
    content = json.loads(AlarmThreshold(0.3, 0.05, {}).as_text({"crack": detector(slope=0.0).calibration}))
    assert content["classes"]["crack"]["score"] is None


def test_a_threshold_fits_its_own_models_alone():
    alarm = AlarmThreshold(0.3, 0.05, {"crack": model_hash(detector()), "cut": model_hash(detector("cut"))})
    assert threshold_fits(alarm, [detector()])
    assert threshold_fits(alarm, [detector("cut"), detector()])
    assert not threshold_fits(alarm, [detector("bent")])
    changes = {"coef": [1.0, -2.5], "intercept": 0.25, "scale": 2.0, "calibration": None}
    for name, value in changes.items():
        assert not threshold_fits(alarm, [replace(detector(), **{name: value})]), name
    assert not threshold_fits(alarm, [detector(slope=3.0)])


@pytest.mark.parametrize(
    "change",
    [
        {"format": "other"}, {"version": 4}, {"confidence": 1}, {"confidence": "high"}, {"scoring": []},
        {"probability": "high"}, {"probability": None}, {"max_false_alarms": 0},
        {"models": ["crack"]}, {"held_out": {"ok": {"alarms": 1}}}, {"tested": None}, {"probability": -1},
        {"pictures": None}, {"pictures": {"crack": {"slope": 1.0, "offset": 0.0}}},
        *({"pictures": {"crack": {"slope": 1.0, "offset": 0.0, "coef": "AACAPw=="} | wrong}} for wrong in (
            {"slope": -1.0}, {"offset": None}, {"coef": "AACA"}, {"coef": "?"}, {"coef": [1.0]}, {"coef": "AADAfw=="},
        )),
    ],
)  # fmt: skip
def test_a_file_of_another_kind_is_named(tmp_path, change):
    path = tmp_path / "threshold.json"
    path.write_text(signed(json.loads(AlarmThreshold(0.3, 0.05, {}).as_text({})) | change))
    with pytest.raises(ModelFileError, match=r"threshold .*threshold\.json is damaged or of another version"):
        AlarmThreshold.load(path)


def test_a_file_keeps_picture_models_and_fits_features_of_their_number(tmp_path):
    path, hashes = tmp_path / "threshold.json", {"crack": model_hash(detector())}
    alarm = AlarmThreshold(0.3, 0.05, hashes, pictures={"crack": PictureModel(2.0, -1.0, [0.5, 4.0])})
    path.write_text(alarm.as_text({"crack": detector().calibration}))
    read = AlarmThreshold.load(path)
    assert vars(read.pictures["crack"]).keys() == {"slope", "offset", "coef"}
    assert read.pictures["crack"].as_json() == alarm.pictures["crack"].as_json()
    assert threshold_fits(read, [detector()])
    other = replace(alarm, pictures={"crack": PictureModel(2.0, -1.0, [0.5, 4.0, 1.0])})
    assert not threshold_fits(other, [detector()])
    assert threshold_fits(other, [replace(detector(), whole_coef=[1.0, 2.0, 3.0])])


def earlier(alarm, version):
    """Return the content that an earlier version wrote."""
    content = json.loads(alarm.as_text({}))
    later = ("digest", "confidence", "promise", "scoring") + (("pictures",) if version == 1 else ())
    return {key: value for key, value in content.items() if key not in later} | {"version": version}


@pytest.mark.parametrize("version", [1, 2])
def test_a_file_of_an_earlier_version_is_read(tmp_path, version):
    path = tmp_path / "threshold.json"
    alarm = AlarmThreshold(0.3, 0.05, {"crack": "0" * 32}, {"ok": AlarmRate(1, 40)})
    content = earlier(alarm, version)
    path.write_text(json.dumps(content))
    assert AlarmThreshold.load(path) == alarm
    path.write_text(json.dumps(content | {"version": 3}))
    with pytest.raises(ModelFileError, match="not what was written"):
        AlarmThreshold.load(path)
    path.write_text(alarm.as_text({}).replace('"version": 3', f'"version": {version}'))
    with pytest.raises(ModelFileError, match="not what was written"):
        AlarmThreshold.load(path)


def test_every_changed_digit_is_found(tmp_path):
    alarm = AlarmThreshold(0.1 + 0.2, 0.05, {"crack": "0" * 32}, {"ok": AlarmRate(1, 40)}, confidence=0.9)
    path, text = tmp_path / "threshold.json", alarm.as_text({"crack": detector().calibration})
    for place in [place for place, letter in enumerate(text) if letter.isdigit()]:
        path.write_text(text[:place] + str((int(text[place]) + 1) % 10) + text[place + 1 :])
        with pytest.raises(ModelFileError, match="lapsvm threshold makes it again"):
            AlarmThreshold.load(path)
    for cut in range(1, len(text), 97):
        path.write_text(text[:-cut])
        with pytest.raises(ModelFileError, match="lapsvm threshold makes it again"):
            AlarmThreshold.load(path)
    path.write_bytes(text.replace("\n", "\r\n").encode())
    assert AlarmThreshold.load(path) == alarm


def test_what_is_no_file_is_named(tmp_path):
    with pytest.raises(MissingError):
        AlarmThreshold.load(tmp_path / "threshold.json")
    for text in ("", "[]", "{", "[" * 100_000):
        (tmp_path / "threshold.json").write_text(text)
        with pytest.raises(ModelFileError):
            AlarmThreshold.load(tmp_path / "threshold.json")
