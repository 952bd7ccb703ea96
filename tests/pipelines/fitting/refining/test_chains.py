"""What a chain may see, where it starts, and whose windows it takes."""

from functools import partial

import numpy as np
import pytest
from lapsvm.pipelines.fitting.refining.chains import TrainedModels, initial_chains, with_new_windows
from lapsvm.pipelines.fitting.refining.choice import choose_windows
from lapsvm.pipelines.settings.settings import RefineSettings


@pytest.fixture
def choose(stored, apart):
    """Choose between the two windows of three pictures: the first column scores window 0, the second window 1."""
    return partial(choose_windows, stored([[1.0, 0.0], [0.0, 1.0]] * 3, apart * 3, [0, 2, 4, 6]), RefineSettings())


def test_every_chain_chooses_its_own_windows_at_first(choose):
    y, fold = np.array([1, 1, -1], dtype=np.int8), np.array([1, 2, 0])
    models = TrainedModels(y, fold, np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 0.0]]))
    chains = initial_chains(models, choose)
    assert [chain.y.tolist() for chain in chains] == [[1, 1, -1], [0, 1, -1], [1, 0, -1]]
    assert [chain.windows.tolist() for chain in chains] == [[0, 0, 0], [0, 1, 0], [0, 0, 0]]
    shared = initial_chains(models, choose, np.array([0.0, 1.0]))
    assert [chain.windows.tolist() for chain in shared] == [[1, 1, 0], [0, 1, 0], [1, 0, 0]]


def test_the_windows_of_the_next_round_are_chosen_without_the_fold(choose):
    y, fold = np.array([1, 1, 1], dtype=np.int8), np.array([1, 2, 0])
    models = TrainedModels(y, fold, np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 0.0]]))
    chains = initial_chains(models, choose)
    assert with_new_windows(chains, fold, choose)[0].windows.tolist() == [1, 0, 0]
    assert with_new_windows(chains[:1], np.zeros(3, dtype=int), choose)[0].windows.tolist() == [0, 0, 0]
