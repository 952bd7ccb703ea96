"""Normal maps: what negative pictures do not have stands out, by a network whose maps are means of squares."""

import math

import cv2
import numpy as np
import pytest

from lapsvm.errors import DataError, InputError, MissingError, ModelFileError, NotFiniteError, SettingsError, ShapeError
from lapsvm.objectness import NormalMap, picture_objectness
from lapsvm.objectness.normal import CHUNK, GRID, LEAST_DEVIATION, MAGNIFIED, distances
from lapsvm.testing.objectness import ObjectnessLaws

SIDES = (4, 8)


class Means:
    """A network whose maps are the mean colours of squares, and of squares of twice their sides."""

    def __init__(self, sides=SIDES, scale=1.0):
        self.sides, self.scale = sides, scale

    def describe(self):
        return {"kind": "means", "sides": list(self.sides), "scale": self.scale}

    def feature_maps(self, pixels):
        return [self.means(pixels.astype(np.float32) * self.scale, side) for side in self.sides]

    def means(self, pixels, side):
        rows, columns = (max(1, length // side) for length in pixels.shape[:2])
        return cv2.resize(pixels, (columns, rows), interpolation=cv2.INTER_AREA).transpose(2, 0, 1)


def plain(number, height=64, width=48):
    """A picture of noise with a bright border on the left, which all have."""
    pixels = np.random.default_rng(number).integers(90, 110, (height, width, 3), dtype=np.uint8)
    pixels[:, :8] = np.random.default_rng(1000 + number).integers(180, 255, (height, 1, 1), dtype=np.uint8)
    return pixels


def with_spot(number, top=30, left=24):
    pixels = plain(number)
    pixels[top : top + 12, left : left + 12] = (90, 160, 100)
    return pixels


def negatives(count=12):
    return [(f"{number:02}", plain(number)) for number in range(count)]


def fitted(network=None, pictures=None, **options):
    return NormalMap.fit(network or Means(), negatives() if pictures is None else pictures, **options)


class TestNormalMap(ObjectnessLaws):
    def make(self):
        return fitted(limit=500)


def slow_distance(vector, patches):
    """The distance to the nearest patch, number by number."""
    return min(math.sqrt(sum((float(a) - float(b)) ** 2 for a, b in zip(vector, one, strict=True))) for one in patches)


@pytest.mark.parametrize("count", [1, CHUNK - 1, CHUNK, CHUNK + 1])
def test_distances_are_those_of_loops(count):
    rng = np.random.default_rng(count)
    cells, patches = rng.normal(size=(3, 1, count)).astype(np.float32), rng.normal(size=(7, 3)).astype(np.float32)
    found = distances(cells, patches, slice(2, 5))
    others = [*patches[:2], *patches[5:]]
    expected = [slow_distance(cells[:, 0, place], others) for place in range(count)]
    np.testing.assert_allclose(found[0], expected, rtol=1e-4, atol=1e-5)


def slow_map(pixels, pictures, side):
    """The normalised distances of a picture's squares of one side; all squares of the other pictures are known."""
    network = Means((side,))
    vectors = [network.feature_maps(one)[0] for one in pictures]
    flat = [list(one.reshape(3, -1).T) for one in vectors]

    def distance_map(cells, others):
        rows, columns = cells.shape[1:]
        known = [vector for own in others for vector in own]
        found = [[slow_distance(cells[:, row, column], known) for column in range(columns)] for row in range(rows)]
        return np.array(found, np.float32)

    grids = []
    for place, cells in enumerate(vectors):
        found = distance_map(cells, flat[:place] + flat[place + 1 :])
        grids.append(cv2.resize(found, (GRID, GRID)))
    mean = cv2.GaussianBlur(np.mean(grids, axis=0, dtype=np.float64), (0, 0), 1)
    deviation = np.sqrt(cv2.GaussianBlur(np.var(grids, axis=0, dtype=np.float64), (0, 0), 1))
    deviation += LEAST_DEVIATION * deviation.mean()
    found = distance_map(network.feature_maps(pixels)[0], flat)
    rows, columns = found.shape
    return (found - cv2.resize(mean, (columns, rows))) / cv2.resize(deviation, (columns, rows))


def test_a_map_is_that_of_its_slow_twin():
    pictures = [plain(number, 32, 24) for number in range(10)]
    pixels = with_spot(99)[:32, :40]
    source = NormalMap.fit(Means(), [(str(place), one) for place, one in enumerate(pictures)], limit=10**6)
    rows, columns = 32 // 4 * MAGNIFIED, 40 // 4 * MAGNIFIED
    parts = [cv2.resize(slow_map(pixels, pictures, side), (columns, rows)) for side in SIDES]
    total = parts[0] + parts[1]
    expected = (total - total.min()) / (total.max() - total.min())
    np.testing.assert_allclose(source.map(pixels), expected, atol=2e-3)


def test_the_map_points_at_what_negatives_do_not_have_and_its_regions_hold_it():
    source = fitted()
    for number, (top, left) in enumerate([(4, 30), (30, 20), (48, 34)], start=50):
        pixels = with_spot(number, top, left)
        cells = source.map(pixels)
        row, column = np.unravel_index(cells.argmax(), cells.shape)
        y, x = (row + 0.5) / cells.shape[0] * 64, (column + 0.5) / cells.shape[1] * 48
        assert top < y < top + 12
        assert left < x < left + 12
        found = picture_objectness(source, pixels, [[left, top, left + 12, top + 12], [0, 0, 8, 64]])
        assert found[0] > 0.5 > found[1]


def test_a_negative_is_no_neighbour_of_itself():
    colours = [(f"{grey}", np.full((32, 32, 3), grey, np.uint8)) for grey in range(0, 200, 20)]
    source = NormalMap.fit(Means(), colours)
    part = source._parts[0]
    np.testing.assert_allclose(part.mean, 20 * math.sqrt(3), rtol=1e-5)
    np.testing.assert_allclose(part.deviation, 1)


def with_grey(grey, other):
    pixels = np.full((32, 32, 3), grey, np.uint8)
    pixels[8:16, 8:16] = other
    return pixels


def test_as_many_cells_of_each_picture_are_kept_as_the_limit_gives():
    cells = 64 // 4 * (48 // 4)
    for limit, count in [(1, 12), (120, 120), (125, 120), (10**6, 12 * cells)]:
        assert len(fitted(limit=limit)._parts[0].patches) == count


def test_the_same_pictures_and_seed_give_the_same_bytes(tmp_path):
    first, again, other = fitted(limit=100), fitted(limit=100), fitted(limit=100, seed=1)
    contents = []
    for place, source in enumerate((first, again, other)):
        source.save(tmp_path / f"{place}.safetensors")
        contents.append((tmp_path / f"{place}.safetensors").read_bytes())
    assert contents[0] == contents[1] != contents[2]
    assert first.describe() == again.describe() != other.describe()


def test_a_stored_source_is_the_one_that_was_saved(tmp_path):
    source, path, pixels = fitted(limit=200), tmp_path / "normal.safetensors", with_spot(5)
    source.save(path)
    loaded = NormalMap.load(path, Means())
    assert loaded.describe() == source.describe()
    assert loaded.pictures == source.pictures == tuple(f"{number:02}" for number in range(12))
    np.testing.assert_array_equal(loaded.map(pixels), source.map(pixels))
    np.testing.assert_array_equal(loaded.regions(pixels), source.regions(pixels))


def test_another_network_and_a_damaged_or_missing_file_are_refused(tmp_path):
    path = tmp_path / "normal.safetensors"
    with pytest.raises(MissingError):
        NormalMap.load(path, Means())
    fitted(limit=50).save(path)
    with pytest.raises(SettingsError, match=r"normal.safetensors was fitted with scale 1.0 instead of 2.0"):
        NormalMap.load(path, Means(scale=2.0))
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match="is damaged"):
        NormalMap.load(path, Means())


def test_other_maps_than_those_of_the_fit_are_refused():
    source = fitted(limit=50)
    source._network = Means((4,))
    with pytest.raises(DataError, match=r"must have the channels of the fit, \[3, 3\], got \[3\]"):
        source.map(plain(0))


def test_too_few_negatives_are_one_sentence():
    with pytest.raises(InputError, match=r"^a normal map needs at least 10 negative pictures, got 9\.$"):
        fitted(pictures=negatives(9))
    assert fitted(pictures=negatives(10)).pictures[-1] == "09"


@pytest.mark.parametrize("limit", [0, -3, 2.5, "all"])
def test_a_limit_is_a_count(limit):
    with pytest.raises(InputError, match="limit"):
        fitted(limit=limit)


def test_numbers_too_large_to_be_squared_are_refused():
    with pytest.raises(NotFiniteError, match="distances of a normal map"):
        fitted(Means(scale=1e20))


def test_what_is_no_picture_is_refused():
    source = fitted(limit=50)
    with pytest.raises(ShapeError):
        source.map(np.zeros((5, 5), np.uint8))
    with pytest.raises(InputError):
        source.regions(np.zeros((5, 5, 3)))


def test_negatives_that_are_all_alike_leave_a_picture_like_them_without_regions():
    grey = np.full((32, 32, 3), 100, np.uint8)
    source = fitted(pictures=[(str(place), grey) for place in range(10)])
    assert not source.map(grey).any()
    assert source.regions(grey).shape == (0, 4)
    assert len(source.regions(with_grey(100, 200)))


CHANGES = {
    "empty": lambda values: values[:0],
    "flat": lambda values: values.reshape(-1),
    "three dimensions": lambda values: values[None],
    "whole numbers": lambda values: values.astype(np.int64),
    "flags": lambda values: values.astype(bool),
    "NaN": lambda values: values * np.float32(np.nan),
    "infinity": lambda values: values + np.float32(np.inf),
}


class Cells:
    """A network whose one map has six channels of made-up numbers."""

    def describe(self):
        return {"kind": "cells"}

    def feature_maps(self, pixels):
        return [np.random.default_rng(int(pixels.sum()) % 997).normal(size=(6, 5, 7)).astype(np.float32)]


@pytest.fixture
def stored(tmp_path):
    """Write a stored normal map with some parts changed, and return its path."""
    from lapsvm.model_files import write_model
    from lapsvm.objectness.normal import FORMAT, VERSION, _tensors

    rng = np.random.default_rng(0)
    pictures = [(f"p{i}", rng.integers(0, 256, (30, 40, 3), dtype=np.uint8)) for i in range(12)]
    arrays = dict(_tensors(NormalMap.fit(Cells(), pictures)._parts))
    head = {"format": FORMAT, "version": VERSION, "network": {"kind": "cells"}, "pictures": ["p0"]}

    def write(header=(), tensors=(), without=()):
        kept = {name: values for name, values in (arrays | dict(tensors)).items() if name not in without}
        write_model(tmp_path / "normal.safetensors", head | dict(header), kept, "a test")
        return tmp_path / "normal.safetensors"

    write.arrays = arrays
    return write


@pytest.mark.parametrize("name", ["patches0", "mean0", "deviation0"])
@pytest.mark.parametrize("how", CHANGES)
def test_a_stored_map_of_other_shapes_types_or_numbers_is_damaged(stored, name, how):
    path = stored(tensors={name: CHANGES[how](stored.arrays[name])})
    with pytest.raises(ModelFileError, match=rf"^normal map .* is damaged: its array {name} must be "):
        NormalMap.load(path, Cells())


def test_a_deviation_that_is_not_positive_is_damage(stored):
    with pytest.raises(ModelFileError, match=r"deviation0 must be greater than 0, got 0\.$"):
        NormalMap.load(stored(tensors={"deviation0": np.zeros((32, 32), np.float32)}), Cells())


@pytest.mark.parametrize("header", [{"network": "x"}, {"network": []}, {"pictures": "p0"}, {"pictures": [3]}])
def test_a_stored_map_with_a_header_of_other_types_is_damaged(stored, header):
    with pytest.raises(ModelFileError, match="is damaged: it"):
        NormalMap.load(stored(header=header), Cells())


@pytest.mark.parametrize("without", [("patches0",), ("patches0", "mean0", "deviation0")])
def test_a_stored_map_that_lacks_arrays_is_damaged(stored, without):
    with pytest.raises(ModelFileError, match="must have the arrays of each map"):
        NormalMap.load(stored(without=without), Cells())


def test_a_stored_map_that_is_whole_is_read(stored):
    assert NormalMap.load(stored(), Cells()).pictures == ("p0",)
