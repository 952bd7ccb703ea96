"""Maps that stay on a device: the device's way forced on torch's processor, and on a GPU where there is one.

Means of the same map may differ by the last digit of float32, so features by 1e-6 of their length at most: a thousandth
of what float16 rounds away.
"""

from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from threading import Event

import numpy as np
import pytest

from lapsvm.errors import DataError, NotFiniteError
from lapsvm.features import open_extractor
from lapsvm.features.extractors.extractor import Concatenation
from lapsvm.features.extractors.maps import pooling
from lapsvm.features.extractors.maps.on_device import DeviceMap
from lapsvm.features.extractors.pooled_network import PooledNetwork
from lapsvm.testing.extractors import ExtractorLaws

from ..twins import extractors as reference

torch = pytest.importorskip("torch", reason="torch is not installed")

from lapsvm.features.extractors.torch_running import TorchNetwork  # noqa: E402

NO_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU here")
DEVICES = ["cpu", pytest.param("cuda", marks=NO_GPU)]
LAST_DIGIT = 2.5e-7
FEATURES = {"cpu": 1e-6, "cuda": 1e-4}  # a GPU's sums inside the network are rounded otherwise, too
ROWS, COLUMNS = 13, 17
WINDOWS = {
    "whole map": [0, 0, 17, 13],
    "one cell": [3, 4, 4, 5],
    "inside a cell": [3.2, 4.1, 3.9, 4.3],
    "two cells": [3.5, 4.5, 4.5, 5.5],
    "a row": [0, 5, 17, 6],
    "a column": [16, 0, 17, 13],
    "left border": [0, 2.25, 3.75, 9],
    "far corner": [16.4, 12.3, 17, 13],
    "smallest": [0, 0, 5e-324, 5e-324],
    "beyond the map": [-3, -2.5, 2.5, 1e9],
    "outside": [18, 13, 19, 20],
    "no area": [2, 2, 2, 3],
}
BOXES = [[0, 0, 65, 47], [3, 4, 50, 40], [10.5, 1, 12, 47], [-5, 2, 20, 90], [5, 5, 6, 6], [5, 5, 5, 9], [70, 2, 80, 9]]
OPTIONS = {
    "plain": {},
    "not normalised": {"norm": "none"},
    "contrast": {"contrast": 0.5},
    "context": {"context": "appended"},
    "context, not normalised": {"context": "appended", "norm": "none"},
}


def drawn_windows(count, seed=0):
    """Return windows of the map, and those that have a name."""
    ends = np.random.default_rng(seed).uniform(0, [COLUMNS, ROWS], (2, count, 2))
    return np.vstack([np.hstack([ends.min(axis=0), ends.max(axis=0)]), list(WINDOWS.values())])


def drawn_map(channels=5, seed=1):
    return np.random.default_rng(seed).normal(size=(channels, ROWS, COLUMNS)).astype(np.float32)


def there(cells, device="cpu"):
    """Return a map on a device."""
    network = TorchNetwork("none", torch.nn.Identity(), device, keeps_maps=True)
    return network.kept_map(torch.from_numpy(cells).to(device))


class Strided(torch.nn.Module):
    """Two maps whose sums do not depend on other pictures; remembers how many come together."""

    def __init__(self, most=1000):
        super().__init__()
        self.most, self.passes = most, []
        self.mix = torch.nn.Conv2d(3, 7, 4, stride=4)

    def forward(self, batch):
        self.passes.append(len(batch))
        if len(batch) > self.most:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        fine = self.mix(batch)
        coarse = torch.nn.functional.avg_pool2d(fine, 2).abs()
        return {"fine": fine, "coarse": coarse, "signs": fine > 0, "none": fine[:, :0]}


class Tokens(torch.nn.Module):
    """A class token and those of patches of 16 pixels."""

    def forward(self, batch):
        cells = torch.nn.functional.avg_pool2d(batch, 16).flatten(2).transpose(1, 2)
        return torch.cat([cells.mean(dim=1, keepdim=True), cells], dim=1)


class Single(torch.nn.Module):
    """A network that takes one picture at a time."""

    def forward(self, batch):
        return torch.nn.functional.avg_pool2d(batch.reshape(1, 3, *batch.shape[2:]), 8)


class Merged(torch.nn.Module):
    """A network with one map of all pictures."""

    def forward(self, batch):
        return torch.nn.functional.avg_pool2d(batch.mean(dim=0, keepdim=True), 8)


class Mixing(torch.nn.Module):
    """A network whose map of a picture depends on the others."""

    def forward(self, batch):
        return torch.nn.functional.avg_pool2d(batch + batch.mean(dim=0, keepdim=True), 8)


class Negligible(torch.nn.Module):
    """A network that mixes pictures by no more than rounding would."""

    def forward(self, batch):
        return torch.nn.functional.avg_pool2d(batch + 1e-6 * batch.mean(dim=0, keepdim=True), 8)


def both(module, device="cpu", size=96, **options):
    """Return the extractor of a module as the processor runs it, and as a device does."""
    torch.manual_seed(0)
    networks = TorchNetwork("here", deepcopy(module)), TorchNetwork("there", module, device, keeps_maps=True)
    return [PooledNetwork(network, "hash", size=size, **options) for network in networks]


def picture(height=47, width=65, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def lengths_near(found, expected, device="cpu"):
    """Assert that rows differ by no more than a share of the longest one."""
    scale = np.linalg.norm(expected, axis=1).max(initial=0) or 1
    np.testing.assert_allclose(found / scale, expected / scale, rtol=0, atol=FEATURES[device])


@pytest.mark.parametrize("device", DEVICES)
class TestPooling:
    @pytest.mark.parametrize("name", WINDOWS)
    def test_a_mean_is_that_of_the_twin(self, device, name):
        cells, window = drawn_map(), np.array([WINDOWS[name]], float)
        found = pooling.pool_windows(there(cells, device), window)
        if name in {"smallest", "beyond the map", "outside", "no area"}:  # of which the kernel's tests know the means
            expected = pooling.pool_windows(cells, window)
        else:
            expected = [reference.pool(cells, window[0])]
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)

    @pytest.mark.parametrize("channels", [1, 255, 256, 257, 600])
    def test_means_and_lengths_are_the_kernels(self, device, channels):
        cells, windows = drawn_map(channels), np.clip(drawn_windows(30), 0, [COLUMNS, ROWS] * 2)
        kept = there(cells, device)
        largest = np.abs(cells).max()
        inside, around = np.random.default_rng(2).uniform(0.1, 2, (2, len(windows)))
        for pooled in (pooling.pool_windows, pooling.window_lengths):
            found, expected = pooled(kept, windows), pooled(cells, windows)
            assert found.dtype == expected.dtype
            np.testing.assert_allclose(found, expected, rtol=LAST_DIGIT, atol=LAST_DIGIT * 1e-3)
        for pooled in (
            pooling.pool_rings,
            pooling.window_and_ring_lengths,
            lambda one, two: [pooling.pool_windows_and_rings(one, two, inside, around)],
        ):
            for found, expected in zip(pooled(kept, windows), pooled(cells, windows), strict=True):
                np.testing.assert_allclose(found, expected, rtol=LAST_DIGIT, atol=LAST_DIGIT * largest)

    @pytest.mark.parametrize("name", WINDOWS)
    def test_a_window_has_the_same_bits_in_any_company(self, device, name):
        kept, alone = there(drawn_map(70), device), np.array([WINDOWS[name]], float)
        company = np.vstack([drawn_windows(50), alone])
        np.testing.assert_array_equal(pooling.pool_windows(kept, company)[-1:], pooling.pool_windows(kept, alone))

    def test_where_a_map_is_zero_means_and_lengths_are_exactly_zero(self, device):
        cells = np.zeros((64, 20, 30), np.float32)
        cells[:, :10, :15] = np.random.default_rng(3).random((64, 10, 15)).astype(np.float32) * 1e3
        kept, windows = there(cells, device), np.array([[16.3, 11.7, 21.2, 15.1], [20, 3, 29.5, 19.9]])
        assert not pooling.pool_windows(kept, windows).any()
        assert not pooling.window_lengths(kept, windows).any()
        assert not pooling.pool_rings(kept, np.array([[0, 0, 15, 10.0]]))[0].any()

    def test_no_windows_give_no_rows(self, device):
        kept, none = there(drawn_map(), device), np.empty((0, 4))
        assert pooling.pool_windows(kept, none).shape == (0, 5)
        assert pooling.pool_rings(kept, none)[0].shape == (0, 5)
        assert pooling.window_lengths(kept, none).shape == (0,)

    def test_a_projected_map_is_the_product(self, device):
        cells, components = drawn_map(), np.random.default_rng(4).normal(size=(5, 3)).astype(np.float32)
        found = pooling.projected_map(there(cells, device), components)
        assert found.shape == (3, ROWS, COLUMNS)
        windows, narrow = drawn_windows(20), np.tensordot(components.T.astype(float), cells, 1)
        expected = [reference.pool(narrow, window) for window in windows[:20]]
        np.testing.assert_allclose(pooling.pool_windows(found, windows)[:20], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
class TestFeatures:
    @pytest.mark.parametrize("shape", [(47, 65), (64, 64), (1, 1), (3, 90)], ids=str)
    def test_features_are_the_processors(self, device, options, shape):
        here, kept = both(Strided(), device, output=("fine", "coarse"), **options)
        pixels = picture(*shape)
        assert isinstance(kept.prepare(pixels).maps[0], DeviceMap)
        found, expected = kept(pixels, BOXES), here(pixels, BOXES)
        assert (found.dtype, found.shape) == (np.float32, (7, here.dim))
        lengths_near(found, expected, device)
        assert kept(pixels, []).shape == (0, here.dim)
        assert kept.prepare(pixels).nbytes == here.prepare(pixels).nbytes

    def test_projected_features_are_the_processors(self, device, options):
        here, kept = both(Strided(), device, output=("fine", "coarse"), **options)
        rng, pixels = np.random.default_rng(1), picture()
        components = [np.linalg.qr(rng.normal(size=(7, 4)))[0].astype(np.float32) for _ in range(2)]
        found, expected = (one.prepare(pixels).project(BOXES, components) for one in (kept, here))
        assert found.dtype == np.float32
        lengths_near(found, expected, device)
        assert kept.prepare(pixels).project([], components).shape == (0, expected.shape[1])


class TestLaws(ExtractorLaws):
    """With a network whose sums do not depend on its batch: nothing else does."""

    def make(self):
        network = TorchNetwork("there", torch.nn.AvgPool2d(8), keeps_maps=True)
        return PooledNetwork(network, "hash", size=64, context="appended")


def test_tokens_of_a_transformer_stay_there_too():
    here, kept = both(Tokens(), patch=16, prefix=1)
    lengths_near(kept(picture(), BOXES), here(picture(), BOXES))


def test_extractors_stand_side_by_side():
    pairs = [both(Strided(), output=name, contrast=0.25) for name in ("fine", "coarse")]
    here, kept = (Concatenation(parts) for parts in zip(*pairs, strict=True))
    lengths_near(kept(picture(), BOXES), here(picture(), BOXES))


def test_a_map_that_is_not_finite_is_refused():
    _, kept = both(Strided(), output="fine")
    with torch.no_grad():
        kept._network._module.mix.bias.fill_(np.nan)
    with pytest.raises(NotFiniteError, match="output 'fine' of the network must be finite, got NaN or infinity"):
        kept(picture(), BOXES)


def test_memory_that_is_too_small_for_windows_is_a_sentence(monkeypatch):
    def starving(*_, **__):
        raise torch.OutOfMemoryError("CUDA out of memory.")

    _, kept = both(Strided(), output="fine")
    seen = kept.prepare(picture())
    monkeypatch.setattr(torch.nn.functional, "embedding_bag", starving)
    with pytest.raises(DataError, match="network there needs more memory than device cpu has for 7 windows; give a s"):
        seen(BOXES)


def test_networks_of_a_gpu_alone_keep_their_maps():
    assert not TorchNetwork("here", torch.nn.Identity()).keeps_maps


@NO_GPU
def test_an_extractor_on_a_gpu_keeps_its_maps(nets):
    kept = open_extractor("torch:tiny_nets:colours?size=128", device="cuda").prepare(picture())
    assert isinstance(kept.maps[0], DeviceMap)


# pictures that pass together


def batches(count, height=64, width=96):
    rng = np.random.default_rng(5)
    return [rng.normal(size=(1, 3, height, width)).astype(np.float32) for _ in range(count)]


def rows(results):
    """Return the values of one output of several pictures."""
    return np.concatenate([result["fine"].cpu().numpy() for result in results])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("together", [1, 2, 3, 7])
@pytest.mark.parametrize("order", [slice(None), slice(None, None, -1)], ids=["forwards", "backwards"])
def test_any_number_of_pictures_together_gives_what_each_gives_alone(device, together, order):
    network, pictures = TorchNetwork("there", Strided(), device, keeps_maps=True), batches(7)
    expected = rows([network.run_kept(one) for one in pictures])
    asked = pictures[order]
    found = [
        result for begin in range(0, 7, together) for result in network.run_pictures(asked[begin : begin + together])
    ]
    np.testing.assert_allclose(rows(found), expected[order], rtol=0, atol=1e-5)


@pytest.mark.parametrize(("most", "passes"), [(3, [8, 4, 2, 1, 2, 4, 2, 2]), (1, None), (1000, [8, 1])])
def test_when_memory_runs_out_fewer_pass_together(most, passes):
    module = Strided(most)
    network, pictures = TorchNetwork("there", module, keeps_maps=True), batches(8)
    found = rows(network.run_pictures(pictures))
    assert passes is None or module.passes == passes  # one more picture alone: the first is checked once
    expected = rows([network.run_kept(one) for one in pictures])
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
    assert network._most(pictures[0]) <= max(most, network._pixels // (64 * 96))
    assert network._most(batches(1, 512, 768)[0]) >= 1


def test_memory_that_is_too_small_for_one_is_a_sentence():
    network = TorchNetwork("there", Strided(0), keeps_maps=True)
    (error, other) = network.run_pictures(batches(2))
    needs = "network there needs more memory than device cpu has for a picture of 64 x 96"
    assert str(error) == f"{needs}; give a smaller size, or another device."
    assert isinstance(other, DataError)


@pytest.mark.parametrize("module", [Single, Merged, Mixing])
def test_a_network_of_one_picture_at_a_time_gets_one(module):
    network, pictures = TorchNetwork("there", module(), keeps_maps=True), batches(3)
    found = network.run_pictures(pictures)
    for result, one in zip(found, pictures, strict=True):
        np.testing.assert_array_equal(result["output"], network.run(one)["output"])
    assert network._most(pictures[0]) == 1


def test_that_rounding_depends_on_the_company_is_no_mixing():
    network, pictures = TorchNetwork("there", Negligible(), keeps_maps=True), batches(3)
    assert len(network.run_pictures(pictures)) == 3
    assert network._most(pictures[0]) > 3


class Held(Strided):
    """Holds the first pass until it is told to go on."""

    def __init__(self):
        super().__init__()
        self.begun, self.go_on = Event(), Event()

    def forward(self, batch):
        self.begun.set()
        self.go_on.wait(60)
        return super().forward(batch)


def test_callers_that_wait_pass_together_by_size():
    module, pictures = Held(), [*batches(4), *batches(2, 32, 32)]
    network = TorchNetwork("there", module, keeps_maps=True)
    with ThreadPoolExecutor(6) as pool:
        first = pool.submit(network.run_kept, pictures[0])
        assert module.begun.wait(60)
        others = [pool.submit(network.run_kept, one) for one in pictures[1:]]
        while len(network._together._waiting) < 5:
            assert not first.done()
        module.go_on.set()
        found = [future.result()["fine"].numpy() for future in (first, *others)]
    assert sorted(module.passes) == [1, 1, 2, 3]  # and the check of the first ones
    for one, result in zip(pictures, found, strict=True):
        np.testing.assert_allclose(result, network.run(one)["fine"], rtol=0, atol=1e-5)


def test_a_picture_that_fails_is_refused_alone():
    class Choosy(Held):
        def forward(self, batch):
            if batch.abs().max() > 100:
                raise ValueError("too bright")
            return super().forward(batch)

    module, pictures = Choosy(), batches(4)
    pictures[2] *= 1000
    network = TorchNetwork("there", module, keeps_maps=True)
    with ThreadPoolExecutor(4) as pool:
        futures = [pool.submit(network.run_kept, pictures[0])]
        assert module.begun.wait(60)
        futures += [pool.submit(network.run_kept, one) for one in pictures[1:]]
        while len(network._together._waiting) < 3:
            assert not futures[0].done()
        module.go_on.set()
        errors = [future.exception() for future in futures]
    assert [error is None for error in errors] == [True, True, False, True]
    assert "network there cannot take a picture of 64 x 96: too bright" in str(errors[2])


def test_many_threads_get_what_one_gets():
    _, kept = both(Strided(), output=("fine", "coarse"), contrast=0.25)
    pictures = [picture(40 + number % 3 * 20, 60, number) for number in range(24)]
    expected = [kept(pixels, BOXES) for pixels in pictures]
    with ThreadPoolExecutor(6) as pool:
        for found, one in zip(pool.map(lambda pixels: kept(pixels, BOXES), pictures), expected, strict=True):
            lengths_near(found, one)
