"""Complex numbers at every door of arrays: refused in a sentence, never cut down to their real parts."""

import numpy as np
import pytest
from scipy import sparse

from lapsvm import boxes, detection, evaluation, ranking
from lapsvm.bags import Bags
from lapsvm.boxes import as_boxes
from lapsvm.errors import InputError
from lapsvm.features import Block, PictureWindows, assemble_shard
from lapsvm.features.projection import Projection, fit_projection
from lapsvm.models import RankSVM, TopPush
from lapsvm.ranking.discounts import as_discount

BOXES = np.array([[0.0, 0, 5, 5], [1, 1, 6, 6]])
SCORES = np.array([1.0, 2.0])
LABELS = np.array([1, -1])
COUNTS = np.array([[1, 1], [2, 0]])


def bad(array):
    """Return an array with an imaginary part."""
    return np.asarray(array) + 1j


DOORS = {
    "as_boxes": lambda: as_boxes(bad(BOXES)),
    "areas": lambda: boxes.areas(bad(BOXES)),
    "iou": lambda: boxes.iou(BOXES, bad(BOXES)),
    "from_voc": lambda: boxes.from_voc(bad(BOXES)),
    "nms boxes": lambda: detection.nms(bad(BOXES), SCORES),
    "nms scores": lambda: detection.nms(BOXES, bad(SCORES)),
    "detect": lambda: detection.detect(bad(SCORES), BOXES),
    "demote_scores": lambda: detection.demote_scores(bad(SCORES), 1.0),
    "smooth_scores": lambda: detection.smooth_scores(BOXES, bad(SCORES)),
    "score_map boxes": lambda: detection.score_map(bad(BOXES), SCORES, (9, 9)),
    "score_map scores": lambda: detection.score_map(BOXES, bad(SCORES), (9, 9)),
    "box_voting": lambda: detection.box_voting(BOXES, BOXES, bad(SCORES), 1.0, 0.4),
    "box_voting boxes": lambda: detection.box_voting(bad(BOXES), BOXES, SCORES, 1.0, 0.4),
    "Detector": lambda: detection.Detector("c", bad(SCORES)),
    "score_many": lambda: detection.Detector("c", SCORES).score(bad(BOXES[:, :2])),
    "Detections scores": lambda: evaluation.Detections(("a", "b"), bad(SCORES), BOXES),
    "Detections boxes": lambda: evaluation.Detections(("a", "b"), SCORES, bad(BOXES)),
    "average_precision": lambda: ranking.average_precision(bad(SCORES), LABELS),
    "average_precision labels": lambda: ranking.average_precision(SCORES, bad(LABELS)),
    "most_violated_ranking": lambda: ranking.most_violated_ranking(bad(SCORES), LABELS),
    "most_violated_ranking labels": lambda: ranking.most_violated_ranking(SCORES, bad(LABELS)),
    "predicted_ranking": lambda: ranking.predicted_ranking(bad(SCORES), LABELS),
    "loss_diminished_ranking labels": lambda: ranking.loss_diminished_ranking(SCORES, bad(LABELS)),
    "discount": lambda: as_discount(lambda ranks: bad(1.0 / ranks), None)(np.arange(1, 4)),
    "image_average_precision": lambda: evaluation.image_average_precision(bad(SCORES), LABELS),
    "holm": lambda: evaluation.holm(bad([0.5])),
    "paired_t_test": lambda: evaluation.paired_t_test(SCORES, bad(SCORES)),
    "image_ap_draws": lambda: evaluation.image_ap_draws(bad(SCORES), LABELS, COUNTS),
    "image_auroc_draws": lambda: evaluation.image_auroc_draws(bad(SCORES), LABELS, COUNTS),
    "image_ap_draws counts": lambda: evaluation.image_ap_draws(SCORES, LABELS, bad(COUNTS)),
    "detection_ap_draws": lambda: evaluation.detection_ap_draws([1, -1], bad([0, 1]), [1, 1], COUNTS),
    "share_draws": lambda: evaluation.share_draws([True, False], bad([0, 1]), COUNTS),
    "share_draws hits": lambda: evaluation.share_draws(bad([1, 0]), [0, 1], COUNTS),
    "share_draws counts": lambda: evaluation.share_draws([True, False], [0, 1], bad(COUNTS)),
    "Bags": lambda: Bags(bad(BOXES), [0, 2]),
    "Bags of arrays": lambda: Bags.from_arrays([BOXES, bad(BOXES)]),
    "Bags scale": lambda: Bags(BOXES, [0, 1, 2]).scaled(bad(1.0)),
    "Bags best": lambda: Bags(BOXES, [0, 1, 2]).best(bad(np.ones(4))),
    "Bags excluding": lambda: Bags(BOXES, [0, 2]).excluding(bad([0, 1])),
    "Bags kept": lambda: Bags(BOXES, [0, 2]).kept(bad([0, 1])),
    "RankSVM": lambda: RankSVM().fit(bad(BOXES), LABELS),
    "RankSVM sparse": lambda: RankSVM().fit(sparse.csr_matrix(bad(BOXES)), LABELS),
    "TopPush": lambda: TopPush().fit(bad(BOXES), LABELS),
    "assemble_shard": lambda: assemble_shard([PictureWindows("a", BOXES, bad(BOXES), "00", (9, 9))], {}, "float32"),
    "assemble_shard boxes": lambda: assemble_shard(
        [PictureWindows("a", bad(BOXES), BOXES, "00", (9, 9))], {}, "float32"
    ),
    "fit_projection": lambda: fit_projection([bad(BOXES)], [Block(4)], 2),
    "Projection": lambda: Projection((np.eye(4, dtype=np.float32),), (1.0,), (False,)).unfold(bad(np.ones(4))),
}


@pytest.mark.parametrize("name", DOORS)
def test_complex_numbers_are_refused(name):
    with pytest.raises((InputError, ValueError), match=r"(?i)number|complex|whole"):
        DOORS[name]()


@pytest.mark.parametrize("values", [["1", "2"], [1.0, "2"], np.array([1, "2"], dtype=object), [10**400], None])
def test_what_is_no_number_is_refused(values):
    with pytest.raises(InputError, match="scores must be numbers"):
        detection.nms(BOXES, values)
