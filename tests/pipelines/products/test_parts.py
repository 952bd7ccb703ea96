"""Parts of a box tell pictures apart where no picture without the class shows the whole."""

import numpy as np
import pytest
from lapsvm.pipelines.products.held_out import ScoredPictures
from lapsvm.pipelines.products.parts import count_telling, has_telling_parts

from lapsvm.bags import Bags

CAR = (0, 0, 100, 100)
APART = [(5, 5, 25, 25), (40, 40, 60, 60), (70, 70, 95, 95)]  # a light, a plate, a wheel
NEGATIVES = np.linspace(0, 1, 10)


@pytest.mark.parametrize(
    ("parts", "scores", "expected"),
    [
        (APART, [2, 2, 2], True),
        (APART, [2, 2, 0.5], False),  # a picture without the class has the third as well
        (APART[:2], [2, 2], False),
        ([*APART[:2], (42, 42, 60, 60)], [2, 2, 2], False),  # the second again
        ([*APART[:2], (40, 0, 100, 60)], [2, 2, 2], False),  # hardly smaller
        ([*APART[:2], (120, 0, 140, 20)], [2, 2, 2], False),  # another thing
        ([(100 * k, 200, 100 * k + 100, 300) for k in range(3)], [2, 2, 2], False),  # many things
    ],
)
def test_parts_tell_where_three_of_them_score_above_pictures_without_the_class(parts, scores, expected):
    assert has_telling_parts(np.array([CAR, *parts]), np.array([3.0, *scores]), NEGATIVES, 0.0) == expected


@pytest.mark.parametrize(("seen", "told"), [((), 12), ((1,), 0), ((1, 2, 3), 0)])
def test_pictures_that_show_the_parts_without_the_class_settle_it(seen, told):
    """Each window is one of its picture's things; negatives show `seen`, the others nothing."""
    boxes, y = np.array([CAR, *APART], dtype=float), np.repeat([1, -1], 12)
    things, nothing = np.diag([3.0, 2, 2, 2]), np.zeros((4, 4))
    nothing[list(seen)] = things[list(seen)]
    bags = Bags(np.concatenate([things if label > 0 else nothing for label in y]), np.arange(25) * 4)
    pictures = ScoredPictures(bags, np.tile(boxes, (24, 1)), [str(row) for row in range(24)])
    fold = np.tile([1, 2, 3], 8)
    assert count_telling(pictures, y.astype(np.int8), fold, [np.ones(4)] * 3, 0.5) == told


def test_random_scores_have_no_telling_parts():
    rng = np.random.default_rng(0)
    corner, side = rng.uniform(0, 80, (20, 300, 2)), rng.uniform(5, 100, (20, 300, 2))
    scores = rng.normal(size=(40, 300))
    negatives = scores[20:].max(axis=1)
    found = [
        has_telling_parts(np.hstack([corner[row], corner[row] + side[row]]), scores[row], negatives, 0.5)
        for row in range(20)
    ]
    assert not any(found)
