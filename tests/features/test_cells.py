"""Windows cut into cells, pooled from a network's map."""

import numpy as np
import pytest

from lapsvm.errors import OptionError
from lapsvm.features import open_extractor
from lapsvm.features.extractors.pooling import pool_cells, pool_windows

from ..twins import extractors as reference

pytest.importorskip("onnxruntime")
PICTURE = np.random.default_rng(0).integers(0, 256, (96, 128, 3), dtype=np.uint8)  # 3 x 4 cells of 32
WEIGHTS = np.random.default_rng(1).normal(size=(5, 3))
BOXES = np.array([[0, 0, 128, 96], [32, 32, 96, 96], [3, 5, 100.5, 41.25], [7, 7, 7, 50]], dtype=np.float64)


@pytest.fixture
def path(tmp_path, write_network):
    return write_network(tmp_path / "net.onnx", WEIGHTS)


def test_cells_are_the_means_over_even_parts_row_by_row():
    rng = np.random.default_rng(0)
    feature_map = rng.normal(size=(4, 6, 9)).astype(np.float32)
    windows = np.array([[0, 0, 9, 6], [1.2, 0.4, 5.9, 5.5], [2, 1, 2.4, 1.3]])
    found = pool_cells(feature_map, windows, [(2, 3), (1, 1)])
    assert found.shape == (3, 7 * 4)
    for (x1, y1, x2, y2), row in zip(windows, found, strict=True):
        width, height = (x2 - x1) / 3, (y2 - y1) / 2
        corners = [(x1 + width * column, y1 + height * line) for line in range(2) for column in range(3)]
        parts = [[x, y, x + width, y + height] for x, y in corners] + [[x1, y1, x2, y2]]
        expected = [reference.pool(feature_map, part) for part in parts]
        np.testing.assert_allclose(row, np.concatenate(expected), atol=1e-4)


def test_the_mean_of_the_cells_is_the_windows_mean():
    rng = np.random.default_rng(1)
    feature_map = rng.normal(size=(3, 7, 8)).astype(np.float32)
    corners = rng.uniform(0, [6, 5], (20, 2))
    windows = np.hstack([corners, corners + rng.uniform(0.1, 2, (20, 2))])
    cells = pool_cells(feature_map, windows, [(3, 3)]).reshape(20, 9, 3)
    np.testing.assert_allclose(cells.mean(axis=1), pool_windows(feature_map, windows), atol=1e-4)


def test_one_whole_cell_is_the_window_bit_for_bit(path):
    plain = open_extractor(f"onnx:{path}?size=128")
    whole = open_extractor(f"onnx:{path}?size=128&cells=1x1")
    np.testing.assert_array_equal(plain(PICTURE, BOXES), whole(PICTURE, BOXES))
    assert plain.describe() == whole.describe()


def test_cells_of_a_window_are_those_windows_features(path):
    cells = open_extractor(f"onnx:{path}?size=128&norm=none&cells=1x2,1x1")
    plain = open_extractor(f"onnx:{path}?size=128&norm=none")
    parts = [[0, 0, 64, 96], [64, 0, 128, 96], [0, 0, 128, 96]]
    assert (cells.dim, cells.blocks) == (15, (15,))
    np.testing.assert_allclose(cells(PICTURE, [[0, 0, 128, 96]])[0], plain(PICTURE, parts).reshape(-1), atol=1e-5)


def test_all_cells_of_a_window_have_length_one_together(path):
    lengths = np.linalg.norm(open_extractor(f"onnx:{path}?size=128&cells=2x2,1x1")(PICTURE, BOXES), axis=1)
    np.testing.assert_allclose(lengths, [1, 1, 1, 0], atol=1e-6)


def test_every_cell_loses_the_windows_surroundings(path):
    query = "size=128&norm=none&cells=2x1"
    plain, contrast = (open_extractor(f"onnx:{path}?{query}{more}")(PICTURE, BOXES) for more in ("", "&contrast=.5"))
    single, lost = (
        open_extractor(f"onnx:{path}?size=128&norm=none{more}")(PICTURE, BOXES) for more in ("", "&contrast=.5")
    )
    np.testing.assert_allclose(plain - contrast, np.tile(single - lost, (1, 2)), atol=1e-5)
    both = open_extractor(f"onnx:{path}?{query}&surroundings=beside")
    assert (both.dim, both.halves) == (20, (True,))
    own, around = np.split(both(PICTURE, BOXES), 2, axis=1)
    np.testing.assert_allclose(own - 0.5 * around, contrast, atol=1e-5)


def test_cells_are_recorded(path):
    other = open_extractor(f"onnx:{path}?cells=1x1,3x3").describe()
    assert (other["cells"], other["blocks"]) == ("1x1,3x3", [50])


@pytest.mark.parametrize("value", ["4x4", "0x1", "2", "1x1,1x1", "2x2,", "2X2"])
def test_bad_cells_are_named(path, value):
    with pytest.raises(OptionError, match=r"cells must be ROWSxCOLUMNS of 1 to 3 each, or several .*, got '"):
        open_extractor(f"onnx:{path}?cells={value}")


def test_channels_may_have_scales_of_their_own(path):
    query = "size=128&norm=none&mean=1,2,3"
    whole = [[0, 0, 128, 96]]
    colour = PICTURE.mean(axis=(0, 1))
    found = open_extractor(f"onnx:{path}?{query}&scale=1/2,1/3,1/4")
    np.testing.assert_allclose(found(PICTURE, whole)[0], WEIGHTS @ ((colour - [1, 2, 3]) / [2, 3, 4]), rtol=1e-3)
    assert found.describe()["scale"] == [1 / 2, 1 / 3, 1 / 4]
    assert open_extractor(f"onnx:{path}?scale=1/2,1/2,1/2").describe()["scale"] == 1 / 2
