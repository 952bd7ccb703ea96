"""The evidence of windows' content, and the choice of the strongest contrast before training flips."""

import numpy as np
import pytest

from lapsvm.errors import InputError, NotFiniteError, ShapeError
from lapsvm.latent.evidence import content_evidence, is_flipped, strongest_unflipped


def test_evidence_is_the_difference_of_means_in_standard_deviations():
    every = np.random.default_rng(0).normal(3.0, 2.0, 500)
    assert content_evidence([7.0, 9.0], every) == pytest.approx((8.0 - every.mean()) / every.std())


def test_evidence_depends_on_neither_the_unit_nor_the_zero_of_scores():
    rng = np.random.default_rng(1)
    chosen, every = rng.normal(2.0, 1.0, 9), rng.normal(0.0, 1.0, 99)
    assert content_evidence(5 * chosen - 3, 5 * every - 3) == pytest.approx(content_evidence(chosen, every))


def test_negated_weights_have_the_opposite_evidence():
    rng = np.random.default_rng(2)
    chosen, every = rng.normal(2.0, 1.0, 9), rng.normal(0.0, 1.0, 99)
    assert content_evidence(-chosen, -every) == pytest.approx(-content_evidence(chosen, every))


def test_windows_that_all_score_alike_are_no_evidence():
    assert content_evidence([1.0], [1.0, 1.0]) == 0


@pytest.mark.parametrize(
    ("evidence", "best"),
    [
        ([4.0, 4.1, 3.9, 4.2], 3),
        ([4.0, 4.1, 3.9, 2.1], 2),
        ([4.0, 3.5, 4.0, 4.0], 0),  # a flip does not end at a stronger contrast
        ([4.0, 3.6, 1.0, 4.0], 1),
        ([-1.0, 4.0, 4.0, 4.0], 0),  # without evidence there is nothing to keep
        ([0.0, 0.0, 0.0, 0.0], 0),
    ],
)
def test_the_strongest_contrast_before_the_flip_is_taken(evidence, best):
    assert strongest_unflipped([0.0, 0.5, 0.8, 0.9], evidence) == best


def test_a_training_has_flipped_if_it_lost_the_evidence_of_its_start():
    assert is_flipped(2.1, 4.0)
    assert not is_flipped(2.5, 4.0)
    assert not is_flipped(-1.0, -2.0)  # a start without evidence has no right side


@pytest.mark.parametrize("contrasts", [[0.0, 0.5, 0.5], [0.5, 0.0, 0.8], []])
def test_contrasts_that_do_not_ascend_are_refused(contrasts):
    with pytest.raises(InputError, match="contrasts must be one or more and ascend"):
        strongest_unflipped(contrasts, [1.0] * len(contrasts))


def test_bad_scores_are_refused():
    with pytest.raises(InputError, match="must hold a window, got 0 and 1"):
        content_evidence([], [1.0])
    with pytest.raises(NotFiniteError):
        content_evidence([np.nan], [1.0])
    with pytest.raises(ShapeError):
        strongest_unflipped([0.0, 0.5], [1.0])
