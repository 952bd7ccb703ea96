"""Pictures that tests of refinement share."""

import numpy as np
import pytest
from lapsvm.pipelines.fitting.refining.pictures import StoredPictures

from lapsvm.bags import Bags


@pytest.fixture
def stored():
    """Make pictures whose first column is of content, the second of surroundings."""

    def stored(features, boxes, offsets):
        bags = Bags(np.array(features, dtype=float), np.array(offsets))
        inside = np.array([True, False])
        return StoredPictures(bags, np.array(boxes, dtype=float), np.ones(2), ("a",) * bags.n_bags, inside)

    return stored


@pytest.fixture
def apart():
    """Two boxes that do not touch."""
    return [[0, 0, 10, 10], [20, 20, 30, 30]]
