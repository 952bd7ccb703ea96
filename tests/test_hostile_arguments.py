"""Arguments of the wrong kind or far out of range: one sentence of the project's errors."""

import numpy as np
import pytest

from lapsvm.arrays import as_array, as_number, check_positive
from lapsvm.bags import Bags
from lapsvm.bags.stores.memory import as_bytes
from lapsvm.boxes import iou
from lapsvm.detection import Detector, box_voting, demote_scores, detect, nms, score_map, smooth_scores
from lapsvm.errors import InputError, LapsvmError, OptionError
from lapsvm.ranking import average_precision, most_violated_ranking

HUGE = 10**400
SCORES, LABELS, BOXES = np.array([0.1, 0.2, 0.3, 0.4]), np.array([1, 0, 1, 0]), np.eye(4)


def tensor():
    torch = pytest.importorskip("torch")
    return torch.ones(4, requires_grad=True)


ARRAYS = {
    "ragged": lambda: [[1, 2], [3]],
    "gradient": tensor,
    "objects": lambda: [object()] * 4,
    "text": lambda: "abcd",
}
TAKERS = {
    "ranking": lambda bad: most_violated_ranking(bad, LABELS),
    "ranking's labels": lambda bad: most_violated_ranking(SCORES, bad),
    "ap": lambda bad: average_precision(bad, LABELS),
    "ap's labels": lambda bad: average_precision(SCORES, bad),
    "nms": lambda bad: nms(bad, SCORES),
    "nms's scores": lambda bad: nms(BOXES, bad),
    "score_map": lambda bad: score_map(bad, SCORES, (9, 9)),
    "score_map's scores": lambda bad: score_map(BOXES, bad, (9, 9)),
    "score_map's shape": lambda bad: score_map(BOXES, SCORES, bad),
    "iou": lambda bad: iou(bad, BOXES),
    "bags": lambda bad: Bags(bad, [0, 4]),
    "offsets": lambda bad: Bags(BOXES, bad),
    "coef": lambda bad: Detector("cat", bad),
    "scale": lambda bad: Detector("cat", [1.0], 0.0, bad),
    "features": lambda bad: Detector("cat", [1.0]).score(bad),
}


@pytest.mark.parametrize("kind", ARRAYS)
@pytest.mark.parametrize("taker", TAKERS)
def test_what_is_no_array_of_numbers_is_refused(kind, taker):
    with pytest.raises(InputError):
        TAKERS[taker](ARRAYS[kind]())


NUMBERS = [HUGE, -HUGE, None, "1", [1], 1j, float("nan"), float("inf"), object()]


@pytest.mark.parametrize("bad", NUMBERS)
@pytest.mark.parametrize(
    "call",
    [
        lambda bad: nms(BOXES, SCORES, bad),
        lambda bad: detect(SCORES, BOXES, bad),
        lambda bad: demote_scores(SCORES, bad),
        lambda bad: smooth_scores(BOXES, SCORES, bad),
        lambda bad: box_voting(BOXES, BOXES, SCORES, bad),
        lambda bad: Detector("cat", [1.0], bad),
        lambda bad: check_positive("scale", bad),
    ],
)
def test_what_is_no_usable_number_is_refused(call, bad):
    with pytest.raises(InputError):
        call(bad)


@pytest.mark.parametrize("bad", [0, -1, 1.5, "1", [1], float("nan"), True])
def test_what_is_no_count_is_refused(bad):
    for call in (
        lambda: nms(BOXES, SCORES, limit=bad),
        lambda: detect(SCORES, BOXES, max_after=bad),
    ):
        with pytest.raises(InputError, match="must be a whole number of 1 or more"):
            call()


def test_counts_beyond_64_bits_are_no_limit():
    assert len(nms(BOXES, SCORES, limit=HUGE)) == 4


@pytest.mark.parametrize("bad", ["9" * 400, "9" * 400 + "G", "9" * 5000, "1" + "0" * 308 + "T"])
def test_a_memory_of_hundreds_of_digits_is_one_sentence(bad):
    with pytest.raises(OptionError, match="memory must be a size") as caught:
        as_bytes(bad)
    assert len(str(caught.value)) < 200


def test_numbers_keep_their_values():
    assert as_number("x", np.float32(0.5)) == 0.5
    assert as_number("x", HUGE) == np.inf
    assert as_array("x", [1, 2]).tolist() == [1, 2]
    with pytest.raises(LapsvmError, match=r"x must be a number, got '1'\."):
        as_number("x", "1")
