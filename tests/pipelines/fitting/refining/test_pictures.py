"""Which windows of the training pictures a round trains on."""

import numpy as np
import pytest
from lapsvm.pipelines.fitting.refining.chains import Chain
from lapsvm.pipelines.fitting.refining.pictures import sharing


@pytest.mark.parametrize("copy_bytes", [None, 0, 10**9])
def test_every_chain_sees_its_own_candidates(stored, apart, copy_bytes):
    """Windows that one chain keeps are copied for all that share a copy, and excluded in the others."""
    pictures = stored([[1.0, 0], [0, 1.0]] * 3, apart * 3, [0, 2, 4, 6])
    y = np.array([1, -1, -1], dtype=np.int8)
    seen = [(y, [1.0, 0.0]), (y * [1, 1, 0], [0.0, 1.0])]
    chains = [Chain(labels, np.array(weights), np.zeros(3, dtype=np.intp)) for labels, weights in seen]
    questions, bests = ([1.0, 2.0], [2.0, 1.0]), ([1, 0, 0], [0, 1, 1])  # in places of a shared copy
    seen = iter(zip(questions, bests, strict=True))
    for group in pictures.active(chains, 1, copy_bytes):
        assert len(group) == (1 if copy_bytes == 0 else 2)
        for own, (question, best) in zip(group, seen, strict=False):  # a copy lasts until the next group is asked for
            assert own.bags.n_windows == (4 if copy_bytes == 0 else 6)
            assert own.bags.n_competing.tolist() == [2, 1, 1]
            answer = own.bags.best(np.array(question))
            assert answer.score.tolist() == [2, 1, 1]
            assert copy_bytes == 0 or answer.index.tolist() == best
    assert not list(seen)


def test_chains_share_a_copy_as_far_as_it_fits():
    masks = [np.isin(np.arange(9), own) for own in ([0, 1], [1, 2], [2, 3, 4], [5], [5, 6, 7, 8])]
    assert list(sharing(masks, None)) == [(0, 5)]
    assert list(sharing(masks, 9)) == [(0, 5)]
    assert list(sharing(masks, 5)) == [(0, 3), (3, 5)]
    assert list(sharing(masks, 3)) == [(0, 2), (2, 3), (3, 4), (4, 5)]
    assert list(sharing(masks, 0)) == [(number, number + 1) for number in range(5)]
