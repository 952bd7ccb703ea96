"""Every kernel's door from many threads at once, on shared inputs: each gives the bits that it gives alone.

`make tsan-test` runs this under ThreadSanitizer, which reports two accesses to one place without an order between them.
"""

import threading

import numpy as np
import pytest

from lapsvm._ext import scores, toppush, voc_matching
from lapsvm.bags import Bags
from lapsvm.bfloat16 import narrowed
from lapsvm.boxes import iou
from lapsvm.detection.picture_scores import box_voting
from lapsvm.detection.suppression import nms
from lapsvm.features import HOG
from lapsvm.features.extractors.maps.pooling import pool_rings, pool_windows, window_lengths
from lapsvm.optim.simplex_qp import solve_simplex_qp
from lapsvm.ranking import (
    NDCGLoss,
    RankBiased,
    RankLoss,
    loss_diminished_ranking,
    most_violated_ranking,
    predicted_ranking,
)
from lapsvm.ranking.inference import violation_and_gradient
from lapsvm.ranking.losses import as_loss
from lapsvm.ranking.predicted import subtract_predicted
from lapsvm.windows import propose

THREADS, ROUNDS = 6, 3
rng = np.random.default_rng(0)

LABELS = rng.random(20_000) < 0.01
SCORES = np.round(rng.standard_normal(20_000) + 2 * LABELS, 3)
NARROW, PLACES = SCORES.astype(np.float32), LABELS.nonzero()[0]
ROWS = rng.standard_normal((300, 24))
WEIGHTS = np.where(rng.random(300) < 0.3, rng.standard_normal(300), 0)
OFFSETS = np.arange(0, 301, 10)
BAGS = [Bags(ROWS.astype(kind), OFFSETS, 0.5, threads=2) for kind in (np.float16, np.float32, np.float64)]
VIEW = BAGS[1].excluding(np.arange(300) % 7 == 0)
VECTORS = rng.standard_normal((24, 7))
CORNERS = rng.integers(0, 40, (200, 2)).astype(float)
BOXES = np.hstack([CORNERS, CORNERS + rng.integers(2, 30, (200, 2))])
OF_BOXES = rng.standard_normal(200)
PICTURE = np.kron(rng.integers(0, 256, (12, 16, 3)), np.ones((5, 5, 1))).astype(np.uint8)
CELLS = rng.standard_normal((40, 9, 11)).astype(np.float32)
GRAM = ROWS[:40] @ ROWS[:40].T
DISCOUNTED = NDCGLoss(RankBiased(0.99))  # its table grows while others read it


class Users(RankLoss):
    """A user's own loss."""

    def derivative(self, j, i, n_pos, n_neg):
        return -1.0 / (n_pos * j * (j + 1))


USERS = Users()


def ranking(loss, method="auto", n=20_000):
    found = most_violated_ranking(SCORES[:n], LABELS[:n], loss, method)
    return found.ranks, found.coefficients, found.violation


def less_predicted(n):
    coefficients = np.ones(n)
    return subtract_predicted(SCORES[:n], LABELS[:n].nonzero()[0], as_loss("ap"), coefficients), coefficients


def other_ranking(function, loss, n):
    found = function(SCORES[:n], LABELS[:n], loss)
    return found.ranks, found.coefficients, found.loss


def balanced():
    alpha, beta = WEIGHTS.copy(), OF_BOXES.copy()
    return toppush.project(alpha, beta), alpha, beta


def matched():
    starts, difficult = np.arange(0, 201, 50), np.zeros(200, np.uint8)
    return voc_matching.match(BOXES, np.arange(200) % 4, BOXES[::-1].copy(), starts, difficult, 0.3, 0, 1.0)


DOORS = {
    **{f"ranking {loss}": lambda loss=loss: ranking(loss) for loss in ("ap", "ndcg", "auc", "mrr", "pos_at_top")},
    **{f"ranking by {way}": lambda way=way: ranking("ap", way, 3000) for way in ("optranks", "search", "greedy")},
    "ranking with a table": lambda: [ranking(DISCOUNTED, n=n) for n in (1000, 9000, 20_000)],
    "ranking by a user's loss": lambda: ranking(USERS, n=2000),
    "violation of float32 scores": lambda: violation_and_gradient(NARROW, PLACES, as_loss("ap"), 0.5),
    "less the predicted ranking": lambda: less_predicted(20_000),
    "predicted ranking": lambda: other_ranking(predicted_ranking, "ap", 20_000),
    **{
        f"diminished {loss}": lambda loss=loss: other_ranking(loss_diminished_ranking, loss, 5000)
        for loss in ("ap", "ndcg")
    },
    "diminished by a user's loss": lambda: other_ranking(loss_diminished_ranking, USERS, 500),
    "best windows": lambda: [tuple(bags.best(VECTORS)) for bags in (*BAGS, VIEW)],
    "scores of windows": lambda: [bags.score_windows(VECTORS[:, 0]) for bags in (*BAGS, VIEW)],
    "means and norms": lambda: [(bags.means(), bags.mean_norm()) for bags in BAGS],
    "sums of rows": lambda: BAGS[0].weighted_sum(np.arange(30.0), np.arange(30) % 10),
    "kept windows": lambda: BAGS[2].kept(3, VECTORS[:, 0])[0],
    "level": scores.level,
    "pooling": lambda: (
        pool_windows(CELLS, BOXES / 8),
        *pool_rings(CELLS, BOXES / 8),
        window_lengths(CELLS, BOXES / 8),
    ),
    "float16": lambda: narrowed(CELLS[0], np.float16),
    "simplex": lambda: solve_simplex_qp(GRAM, WEIGHTS[:40], 3.0),
    "toppush": balanced,
    "matching": matched,
    "overlap": lambda: iou(BOXES, BOXES),
    "suppression": lambda: nms(BOXES, OF_BOXES, 0.3),
    "voting": lambda: box_voting(BOXES[:5], BOXES, OF_BOXES, 1.0, 0.5),
    "hog": lambda: HOG(16, 4, 9)(PICTURE, BOXES[:50]),
    "proposals": lambda: propose(PICTURE, mode="fast", threads=2),
}


def flat(answer):
    """Return the bytes of nested answers."""
    if isinstance(answer, (tuple, list)):
        return b"|".join(flat(part) for part in answer)
    return np.asarray(answer).tobytes()


def together(doors):
    """Call each door once from its own thread, all at the same moment; return what each gave."""
    barrier, answers = threading.Barrier(len(doors)), [b""] * len(doors)

    def work(place):
        barrier.wait()
        answers[place] = flat(DOORS[doors[place]]())

    threads = [threading.Thread(target=work, args=(place,)) for place in range(len(doors))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


@pytest.mark.parametrize("door", DOORS)
def test_a_door_gives_the_same_from_many_threads(door):
    for _ in range(ROUNDS):
        answers = together([door] * THREADS)
        assert answers == [flat(DOORS[door]())] * THREADS


def test_all_doors_at_once():
    alone = [flat(answer()) for answer in DOORS.values()]
    for _ in range(ROUNDS):
        assert together(list(DOORS)) == alone
