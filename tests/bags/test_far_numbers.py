"""Counts and offsets near the end of 64 bits: differences of such numbers wrap around, and must not be trusted."""

import numpy as np
import pytest

from lapsvm.bags import Bags
from lapsvm.errors import ExternalFileError, InputError, ShapeError
from lapsvm.features import Shard
from lapsvm.features.external.numpy_files import open_npy
from lapsvm.features.external.windows import ArrayNames

FEATURES = np.random.default_rng(0).standard_normal((12, 5))
OFFSETS = [0, 3, 6, 9, 12]
WRAPPING = [0, 2**63 - 1, -2, 12]  # every difference is above 0 in 64 bits
VECTOR = np.ones(5)


@pytest.mark.parametrize("count", [2**31, 2**62, 2**63 - 1, 2**63, 2**70])
def test_as_many_windows_as_there_are_numbers_are_all_of_them(count):
    bags = Bags(FEATURES, OFFSETS)
    for view in (
        bags.kept(count),
        bags.subset([2, 0, 2]).kept(count),
        bags.excluding(np.arange(12) % 3 == 0).kept(count),
    ):
        assert view.n_windows == 3 * view.n_bags
        view.best(VECTOR)
    assert np.array_equal(bags.kept(count).best(VECTOR).index, bags.best(VECTOR).index)
    assert np.array_equal(bags.kept(count, VECTOR).score_windows(VECTOR), bags.score_windows(VECTOR))
    assert np.array_equal(bags.subdivided(count).offsets, np.arange(13))


@pytest.mark.parametrize("kind", [np.int64, object])
def test_offsets_whose_differences_wrap_are_refused(kind):
    with pytest.raises(InputError, match=r"got -9223372036854775809 for bag 1|whole numbers, got object"):
        Bags(FEATURES, np.array(WRAPPING, dtype=kind))


@pytest.mark.parametrize("offsets", [np.array([0, 2**63 + 3, 12], np.uint64), [0, 2**64, 12], [0, -(2**63), 12]])
def test_offsets_beyond_64_bits_are_refused(offsets):
    with pytest.raises(InputError, match=r"offsets|every bag"):
        Bags(FEATURES, offsets)


def test_offsets_that_change_later_change_nothing():
    offsets = np.array(OFFSETS, dtype=np.intp)
    bags = Bags(FEATURES, offsets)
    before = bags.best(VECTOR)
    offsets[:] = 2**62
    assert np.array_equal(bags.best(VECTOR).index, before.index)
    for view in (bags, bags.subset([1, 2]), bags.kept(2)):
        with pytest.raises(ValueError, match="read-only"):
            view.offsets[1] = 2**62


def test_shards_with_such_offsets_are_refused():
    with pytest.raises(ShapeError, match="offsets must rise from 0 to the number of windows 12"):
        Shard(
            image_ids=("a", "b", "c"),
            boxes=np.zeros((12, 4), np.float32),
            features=FEATURES.astype(np.float32),
            offsets=np.array(WRAPPING, np.int64),
            pixel_hashes=("", "", ""),
            sizes=np.ones((3, 2), np.int32),
            provenance={},
        )


@pytest.mark.parametrize("offsets", [WRAPPING, [0, 2**64 - 1, 4, 12]])
def test_imports_with_such_offsets_are_refused(tmp_path, offsets):
    np.save(tmp_path / "boxes.npy", np.zeros((12, 4)))
    np.save(tmp_path / "offsets.npy", np.array(offsets, np.int64 if min(offsets) < 0 else np.uint64))
    (tmp_path / "ids.txt").write_text("a\nb\nc\n")
    with pytest.raises(ExternalFileError, match="offsets must"):
        open_npy(tmp_path, ArrayNames())
