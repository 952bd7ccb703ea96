"""Windows that do not compete change nothing: neither the sections of candidates nor whether there are some."""

import numpy as np
import pytest

from lapsvm.bags import Bags
from lapsvm.latent import LatentProblem, fit_many

PICTURES, DIM, CANDIDATES = 24, 6, 3
Y = np.where(np.arange(PICTURES) % 3 == 0, 1, -1)


@pytest.mark.parametrize("seed", range(5))
def test_training_on_candidates_does_not_see_windows_that_do_not_compete(seed):
    rng = np.random.default_rng(seed)
    arrays = [rng.normal(size=(rng.integers(20, 40), DIM)) for _ in range(PICTURES)]
    for array in arrays[::3]:
        array[rng.integers(len(array)), 0] += 3
    masks = [rng.permutation(np.repeat([False, True], [len(array), rng.integers(1, 60)])) for array in arrays]
    wider = [np.full((len(mask), DIM), 9.0) for mask in masks]
    for array, mask, wide in zip(arrays, masks, wider, strict=True):
        wide[~mask] = array
    start = np.zeros(PICTURES, dtype=int)
    among_others = np.array([np.flatnonzero(~mask)[0] for mask in masks])
    (alone,) = fit_many([LatentProblem(Y, C=10, init=start)], Bags.from_arrays(arrays), candidates=CANDIDATES)
    bags = Bags.from_arrays(wider).excluding(np.concatenate(masks))
    (among,) = fit_many([LatentProblem(Y, C=10, init=among_others)], bags, candidates=CANDIDATES)
    np.testing.assert_array_equal(among.coef, alone.coef)
