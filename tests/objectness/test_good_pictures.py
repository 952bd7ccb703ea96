"""The memory of good pictures: distances to it, its file, and where a picture is unlike them."""

from dataclasses import replace

import numpy as np
import pytest

from lapsvm.errors import ModelFileError, SettingsError
from lapsvm.features import HOG
from lapsvm.inspection.threshold import choose_threshold
from lapsvm.objectness.good_pictures import (
    AROUND,
    PROJECTED,
    GoodPictures,
    Unlike,
    distance_of,
    good_network,
    parts_of,
)

from .test_normal import Means, plain, with_spot

NETWORK = Means(sides=(4,))
GOOD = [parts_of(NETWORK, plain(number)) for number in range(12)]


@pytest.fixture(scope="module")
def memory():
    return GoodPictures.fit(NETWORK, GOOD, range(12), limit=600)


def unlike(memory, pixels):
    return Unlike(memory.map(parts_of(NETWORK, pixels)), pixels.shape[:2])


def test_parts_are_means_and_deviations_of_neighbourhoods():
    cells, reach = NETWORK.feature_maps(plain(0))[0], AROUND // 2
    around = cells[:, 5 - reach : 6 + reach, 4 - reach : 5 + reach].reshape(3, -1).astype(float)
    np.testing.assert_allclose(parts_of(NETWORK, plain(0))[5, 4, :3], around.mean(axis=1), rtol=1e-5)
    np.testing.assert_allclose(parts_of(NETWORK, plain(0))[5, 4, 3:], around.std(axis=1), rtol=1e-2)


def slow_part_distance(memory, part):
    def nearest(vector, others):
        vector = vector / np.linalg.norm(vector)
        return min(np.linalg.norm(vector - other.astype(float)) for other in others)

    channels = len(memory.centre)
    np.testing.assert_array_equal(memory.axes, np.eye(2 * channels))  # few dimensions all stay
    difference = nearest(part[:channels].astype(float) - memory.centre, memory.differences[:, :channels])
    return nearest(part.astype(float), memory.looks) * difference**2


def test_of_many_channels_distances_are_projected_and_nearly_the_same():
    rng = np.random.default_rng(0)
    pictures = [rng.normal(size=(6, 8, 160)).astype(np.float32) for _ in range(10)]
    memory = GoodPictures.fit(NETWORK, pictures, range(10), limit=200)
    assert memory.looks.shape == memory.differences.shape == (200, PROJECTED)
    apart = rng.normal(size=(400, 160))
    for axes, vectors in ((memory.axes, apart), (memory.axes[:80], apart[:, :80])):
        ratios = np.linalg.norm(vectors @ axes, axis=1) / np.linalg.norm(vectors, axis=1)
        assert ratios.mean() == pytest.approx(1, abs=0.03)
        assert ratios.std() == pytest.approx(1 / np.sqrt(2 * PROJECTED), rel=0.2)
    seen = rng.normal(size=(6, 8, 160)).astype(np.float32)
    np.testing.assert_allclose(memory.map(seen) / memory.map(seen).mean(), 1, atol=0.5)
    assert memory.map(pictures[0]).min() < 0.1 * memory.map(seen).min()


def test_a_distance_is_that_of_two_directions(memory):
    parts = parts_of(NETWORK, with_spot(40))
    found = memory.map(parts)
    for row, column in ((0, 0), (8, 7), (15, 11)):
        expected = slow_part_distance(memory, parts[row, column])
        assert found[row, column] == pytest.approx(expected, rel=1e-2, abs=1e-5)


def test_a_spot_is_found_and_good_pictures_are_nearer(memory):
    good = [unlike(memory, plain(number)).distance for number in range(50, 60)]
    spot = unlike(memory, with_spot(70))
    assert spot.distance > 2 * max(good)
    x1, y1, x2, y2 = spot.box
    assert x1 < 30 < x2 <= 48
    assert y1 < 36 < y2 <= 64
    assert (x2 - x1) * (y2 - y1) < 0.5 * 48 * 64
    assert spot.values.shape == (64, 48)


def test_a_place_is_the_middle_of_the_parts_that_hold_a_small_defect():
    """Neighbourhoods of 5 x 5 cells hold the defect at cell (7, 9); those of the upper row are the most distant."""
    distances = np.random.default_rng(0).uniform(0.1, 0.12, (15, 20)).astype(np.float32)
    distances[5:10, 7:12] += [[0.9], [0.6], [0.6], [0.6], [0.6]]
    x1, y1, x2, y2 = Unlike(distances, (150, 200)).box
    assert x1 < 95 < x2
    assert y1 < 75 < y2
    assert (x2 - x1) * (y2 - y1) < 0.1 * 150 * 200


def test_new_good_pictures_alarm_as_seldom_as_promised():
    rng, shares = np.random.default_rng(0), []
    for _ in range(30):
        pictures = [parts_of(NETWORK, plain(int(number))) for number in rng.integers(10**6, size=39)]
        fit, new = pictures[:19], pictures[19:]
        memory = GoodPictures.fit(NETWORK, fit, range(19), limit=600)
        held_out = [distance_of(memory.map(parts, number)) for number, parts in enumerate(fit)]
        least = choose_threshold(held_out, 0.2)
        shares.append(np.mean([distance_of(memory.map(parts)) >= least for parts in new]))
        assert max(distance_of(memory.map(parts)) for parts in fit) < max(held_out)
    error = np.std(shares) / np.sqrt(len(shares))
    assert 0.1 < np.mean(shares) < 0.2 + 2.5 * error


def test_more_memory_never_makes_a_distance_larger(memory):
    """On this rests the promise: held-out distances lack a group, those of new pictures lack none."""
    parts = parts_of(NETWORK, with_spot(3))
    assert (memory.map(parts) <= memory.map(parts, 3)).all()


def test_a_file_keeps_it(memory, tmp_path):
    memory.save(path := tmp_path / "good.memory")
    stored = GoodPictures.load(path, NETWORK)
    assert stored.digest == memory.digest
    np.testing.assert_array_equal(stored.map(GOOD[0]), memory.map(GOOD[0]))
    with pytest.raises(SettingsError, match=r"was fitted with .*sides"):
        GoodPictures.load(path, Means(sides=(8,)))
    for damaged in ({"looks": memory.looks[1:]}, {"looks": np.float16(1)}, {"axes": memory.axes[1:]}):
        replace(memory, **damaged).save(path)
        with pytest.raises(ModelFileError, match="its arrays must fit each other"):
            GoodPictures.load(path, NETWORK)
    replace(memory, centre=np.full_like(memory.centre, np.nan)).save(path)
    with pytest.raises(ModelFileError, match="must be finite"):
        GoodPictures.load(path, NETWORK)


def test_features_without_a_network_have_no_memory():
    assert good_network(HOG()) is None
