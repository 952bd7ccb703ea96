"""Both promises of a threshold: on average over training sets, and at this very threshold with a confidence."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta, binom

from lapsvm.detection import AlarmThreshold
from lapsvm.errors import InputError
from lapsvm.inspection.alarm_rate import AlarmRate
from lapsvm.inspection.promises import Promise, least_share
from lapsvm.inspection.threshold import UnlikeGood, choose_threshold

SHARES, CONFIDENCES = st.sampled_from([0.01, 0.05, 0.1, 0.2, 0.5]), st.sampled_from([0.5, 0.8, 0.9, 0.95, 0.99])


@given(st.integers(1, 400), SHARES, CONFIDENCES)
def test_the_number_above_the_threshold_is_the_largest_that_the_beta_law_allows(count, share, confidence):
    """Of n uniform values the share above the (k + 1)-th highest is beta(k + 1, n - k)."""
    allowed = math.floor(Promise(share, confidence).budget(count))
    sure = [beta.cdf(share, k + 1, count - k) >= confidence - 1e-9 for k in range(count)]
    assert allowed == sum(sure) - 1
    assert sure == sorted(sure, reverse=True)


@pytest.mark.parametrize(
    ("share", "confidence", "needed"), [(0.05, 0.9, 45), (0.05, 0.95, 59), (0.1, 0.9, 22), (0.5, 0.5, 1)]
)
def test_too_few_pictures_are_refused_with_the_number_needed(share, confidence, needed):
    assert choose_threshold([0.25] * needed, share, confidence=confidence) == np.nextafter(0.25, 1)
    if needed > 1:
        said = rf"{share:g} with confidence {confidence:g} needs {needed} held-out .* got {needed - 1}, which promise"
        with pytest.raises(InputError, match=said):
            choose_threshold([0.25] * (needed - 1), share, confidence=confidence)


@pytest.mark.parametrize("count", [1, 5, 24, 60, 99, 1000])
@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.99])
def test_the_least_share_with_a_confidence_is_granted_and_no_smaller_one(count, confidence):
    least = least_share(count, confidence)
    assert choose_threshold([0.25] * count, least, confidence=confidence) == np.nextafter(0.25, 1)
    with pytest.raises(InputError, match=f"promise {least:g} at best"):
        choose_threshold([0.25] * count, 0.98 * least, confidence=confidence)


@pytest.mark.parametrize(("count", "share", "confidence"), [(45, 0.05, 0.9), (60, 0.1, 0.9), (200, 0.05, 0.95)])
def test_this_threshold_keeps_the_share_with_the_confidence_and_one_on_average_does_not(count, share, confidence):
    random = np.random.default_rng(0)
    draws = [random.random(count) for _ in range(2000)]
    kept = np.mean([1 - choose_threshold(values, share, confidence=confidence) <= share for values in draws])
    error = 2 * math.sqrt(confidence * (1 - confidence) / len(draws))
    assert confidence - error <= kept
    assert np.mean([1 - choose_threshold(values, share) <= share for values in draws]) < confidence - 0.1
    mean = np.mean([1 - choose_threshold(values, share, confidence=confidence) for values in draws])
    assert 0 < mean < share


@pytest.mark.parametrize("kind", ["alike", "alone", "mixed"])
def test_in_groups_new_pictures_of_new_groups_keep_it(kind):
    random, share, confidence, kept = np.random.default_rng(1), 0.1, 0.9, []
    within = {"alike": 0.0, "alone": 1.0, "mixed": 0.5}[kind]
    for _ in range(800):
        groups = np.repeat(np.arange(60), random.integers(1, 8, 60))
        noise = random.normal(size=len(groups)) * math.sqrt(within)
        values = random.normal(size=60)[groups] * math.sqrt(1 - within) + noise
        threshold = choose_threshold(values, share, groups, confidence)
        kept.append(math.erfc(threshold / math.sqrt(2)) / 2 <= share)
    assert np.mean(kept) >= confidence - 2 * math.sqrt(confidence * (1 - confidence) / len(kept))


@given(st.integers(22, 200))
def test_groups_allow_no_more_than_as_many_pictures(count):
    pictures, groups = (Promise(0.1, 0.9).budget(count, in_groups) for in_groups in (False, True))
    assert 0 <= groups <= pictures
    k = math.floor(groups)
    assert not k or math.e * binom.cdf(k, count, 0.1) <= 0.1 + 1e-9


def test_too_few_groups_are_refused():
    with pytest.raises(InputError, match=r"confidence 0\.9 needs 45 groups of held-out pictures of no class, got 20"):
        choose_threshold(np.arange(60) / 60, 0.05, np.arange(60) // 3, 0.9)


@pytest.mark.parametrize("confidence", [0, 1, -0.5, math.nan])
def test_a_confidence_is_above_0_and_below_1(confidence):
    with pytest.raises(InputError, match=r"the confidence must be (above 0 and below 1|finite)"):
        choose_threshold([0.5] * 99, 0.1, confidence=confidence)


def test_one_sentence_says_which_promise_holds_of_what():
    good = {"ok": AlarmRate(0, 60)}
    mean, sure = (AlarmThreshold(0.4, 0.05, {}, good, confidence=one) for one in (None, 0.9))
    assert mean.promise == (
        "The promise holds on average over training sets, of the models of folds and of new pictures like these: at "
        "most 5 % of good ones raise an alarm."
    )
    assert sure.promise == mean.promise.replace(
        "on average over training sets", "with confidence 90 % of this threshold"
    )
    of_memory = replace(mean, unlike=UnlikeGood(0.1, "")).promise
    assert of_memory.startswith("The promise holds on average over draws of good pictures, of the memory of good")
    assert replace(mean, unlike=UnlikeGood(0.1, ""), models={"hole": ""}).promise == mean.promise
    grouped = AlarmThreshold(0.4, 0.05, {}, {"ok": AlarmRate(0, 60, 20.0, 0.0)})
    assert "of pictures of new groups like these, where each group counts the same: at most" in grouped.promise
    assert json.loads(sure.as_text({}))["promise"] == sure.promise


def test_the_file_keeps_the_confidence(tmp_path):
    path, alarm = tmp_path / "threshold.json", AlarmThreshold(0.4, 0.05, {}, {"ok": AlarmRate(0, 60)}, confidence=0.9)
    path.write_text(alarm.as_text({}))
    assert AlarmThreshold.load(path) == alarm
