"""Slides of patches in HDF5 files: what is read, what is refused, and their heat maps."""

import numpy as np
import pytest

from lapsvm.bags import Patches, bags_of_patches, read_patches
from lapsvm.errors import ExternalFileError, MissingError, NotFiniteError, ShapeError

h5py = pytest.importorskip("h5py", reason="h5py is not installed")
COORDS = np.array([[512, 256], [1024, 256], [512, 768], [1536, 1280]])
FEATURES = np.arange(8, dtype=np.float32).reshape(4, 2)


def write(path, size=None, **tables):
    with h5py.File(path, "w") as file:
        for name, table in tables.items():
            file[name] = table
        if size:
            file["coords"].attrs[size] = 512
    return path


@pytest.mark.parametrize("size", [None, "patch_size", "patch_size_level0"])
@pytest.mark.parametrize("features", [FEATURES, FEATURES[None], FEATURES.astype(np.float16)])
def test_both_forms_of_a_file_are_read(tmp_path, features, size):
    slide = read_patches(write(tmp_path / "a.h5", size, features=features, coords=COORDS))
    assert np.array_equal(slide.features, FEATURES)
    assert np.array_equal(slide.coords, COORDS)
    assert slide.side == 512


def test_a_heat_map_has_a_pixel_for_each_patch(tmp_path):
    slide = read_patches(write(tmp_path / "a.h5", features=FEATURES, coords=COORDS))
    expected = [[0.5, -1, np.nan], [2, np.nan, np.nan], [np.nan, np.nan, 7]]
    assert np.array_equal(slide.heat_map([0.5, -1, 2, 7]), expected, equal_nan=True)


def test_of_patches_in_one_pixel_the_largest_score_counts():
    slide = Patches(FEATURES[:2], np.array([[0, 0], [10, 5]]), 512)
    assert np.array_equal(slide.heat_map([-3, -2]), [[-2]])


def test_slides_become_bags_in_their_order(tmp_path):
    slides = [read_patches(write(tmp_path / f"{n}.h5", features=FEATURES[:n], coords=COORDS[:n])) for n in (3, 1)]
    bags = bags_of_patches(slides)
    assert np.array_equal(bags.offsets, [0, 3, 4])
    assert np.array_equal(bags[1], FEATURES[:1])


@pytest.mark.parametrize(
    ("tables", "sentence"),
    [
        ({"features": FEATURES}, "a table of numbers called coords, got features"),
        ({"coords": COORDS}, "a table of numbers called features, got coords"),
        ({}, "a table of numbers called features, got nothing"),
        ({"features": [b"a", b"b"], "coords": COORDS}, "a table of numbers called features"),
        ({"features/x": FEATURES, "coords": COORDS}, "a table of numbers called features"),
        ({"features": FEATURES[:3], "coords": COORDS}, r"got \(3, 2\) and \(4, 2\)"),
        ({"features": FEATURES[0], "coords": COORDS}, r"got \(2,\) and \(4, 2\)"),
        ({"features": FEATURES[:0], "coords": COORDS[:0]}, "at least one patch"),
        ({"features": np.stack([FEATURES, FEATURES]), "coords": COORDS}, r"got \(2, 4, 2\)"),
    ],
)
def test_tables_that_do_not_fit_are_named(tmp_path, tables, sentence):
    with pytest.raises(ExternalFileError, match=sentence):
        read_patches(write(tmp_path / "a.h5", **tables))


@pytest.mark.parametrize("name", ["features", "coords"])
def test_numbers_that_are_none_are_named_with_their_file(tmp_path, name):
    tables = {"features": FEATURES, "coords": COORDS.astype(float)}
    tables[name] = np.where(tables[name] == tables[name][2, 1], np.nan, tables[name])
    with pytest.raises(NotFiniteError, match=rf"^{name} of .*a\.h5 must be finite, got nan at index \(2, 1\)\.$"):
        read_patches(write(tmp_path / "a.h5", **tables))


def test_other_and_cut_files_are_named(tmp_path):
    path = write(tmp_path / "a.h5", features=np.zeros((500, 100)), coords=np.zeros((500, 2), int))
    for content in (b"no such format", path.read_bytes()[:3000]):
        path.write_bytes(content)
        with pytest.raises(ExternalFileError, match=r"a\.h5 must be an HDF5 file that can be read whole"):
            read_patches(path)
    with pytest.raises(MissingError, match=r"b\.h5 must be a file of patches"):
        read_patches(tmp_path / "b.h5")


def test_scores_of_other_patches_are_refused():
    with pytest.raises(ShapeError, match="one number for each of 4 patches"):
        Patches(FEATURES, COORDS, 512).heat_map([1, 2])
