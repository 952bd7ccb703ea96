"""Few known boxes say how large objects are, and windows of such sizes come first."""

import numpy as np
import pytest

from lapsvm.detection import Detector, detect_windows
from lapsvm.detection.groups import WindowPrior
from lapsvm.detection.sizes import COUNTED, ENOUGH, FARTHEST, LEAST, WIDE, SizePrior
from lapsvm.settings import DetectSettings

WINDOWS = np.array([[0, 0, 200, 100], [10, 10, 30, 50], [10, 10, 29, 52], [100, 20, 160, 80], [120, 5, 124, 9]], float)
ALIKE = [(20, 40)] * 3


def prior(*sides):
    """Return the prior of boxes with these widths and heights."""
    return SizePrior.of(np.array([[5.0, 5, 5 + width, 5 + height] for width, height in sides]))


def test_a_prior_has_the_moments_of_the_next_box():
    of = prior((20, 40), (20, 40), (30, 40))
    logs = np.log([20, 20, 30])
    variance = (COUNTED * WIDE**2 + 3 * logs.var()) / (COUNTED + 3) * 4 / 3
    assert of[:4] == pytest.approx((logs.mean(), np.log(40), variance, COUNTED * WIDE**2 / (COUNTED + 3) * 4 / 3))


@pytest.mark.parametrize(
    ("sides", "weight"),
    [
        (ALIKE, 1.0),
        ([(20, 40)] * ENOUGH, 1.0),
        ([(20, 40)] * 4 * ENOUGH, 0.25),  # the model knows extent, too
        ([(np.exp(2 + step), np.exp(2 + step)) for step in (0, 0.06**0.5, 2 * 0.06**0.5)], 0.5),  # a variance of .06
    ],
)
def test_a_prior_counts_by_agreement_and_number(sides, weight):
    assert prior(*sides).weight == pytest.approx(weight)


@pytest.mark.parametrize("sides", [ALIKE[: LEAST - 1], [(4, 4), (150, 90), (10, 80), (100, 5)]])
def test_too_few_boxes_and_boxes_of_all_sizes_say_nothing(sides):
    assert prior(*sides) is None


def test_no_box_says_nothing():
    assert SizePrior.of(np.empty((0, 4))) is None


def test_windows_of_the_known_size_come_first_and_the_best_score_stays():
    scores = np.array([1.0, 0.9, 0.9, 1.1, 1.0])
    ranked = prior(*ALIKE).ranked(scores, WINDOWS)
    assert ranked.argmax() == 1
    assert ranked.max() == scores.max()
    assert np.ptp(ranked - scores) <= FARTHEST * scores.std() + 1e-12
    assert prior(*ALIKE).ranked(scores[:0], WINDOWS[:0]).size == 0


@pytest.mark.parametrize(
    "stored", [None, [], "sizes", [0, 0, 1, 1], [0, 0, 1, 1, 0], [0, 0, 1, -1, 1], [0, 0, 1, 1, None]]
)
def test_what_is_no_prior_in_a_model_does_not_count(stored):
    assert Detector("cell", np.ones(2), provenance={"result": {"sizes": stored}}).sizes is None


def test_a_model_keeps_its_prior_and_detection_uses_it(tmp_path):
    of = prior(*ALIKE)
    Detector("cell", np.ones(2), provenance={"result": {"sizes": list(of)}}).save(tmp_path / "cell")
    stored = Detector.load(tmp_path / "cell").sizes
    assert stored == of
    scores, settings = np.array([1.0, 0.9, 0.9, 1.1, 1.0]), DetectSettings(score_smoothing=0.0, box_voting=0.0)
    assert detect_windows(scores, WINDOWS, settings)[0][0].tolist() == WINDOWS[3].tolist()
    assert detect_windows(scores, WINDOWS, settings, WindowPrior(stored, False))[0][0].tolist() == WINDOWS[1].tolist()
