"""Passes on a device of torch's: the same laws, on a GPU where there is one, and on the processor's device anywhere."""

import numpy as np
import pytest

from lapsvm.bags import Bags
from lapsvm.bfloat16 import BFLOAT16, narrowed, type_name
from lapsvm.errors import OptionError
from lapsvm.latent import LatentProblem, PassCounts, fit_many
from lapsvm.testing.bags import BagsLaws

from ..windows import answers, write_run

torch = pytest.importorskip("torch", reason="torch is not installed")

from lapsvm.bags.stores import gpu as on_gpu  # noqa: E402
from lapsvm.bags.stores import gpu_windows  # noqa: E402

NO_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU here")
DEVICES = ["cpu", pytest.param("cuda", marks=NO_GPU)]


def placed(bags, device="cpu", *limits):
    """Return bags whose windows, as many as the limits allow, lie on as many devices."""
    bags._store.device = on_gpu.GpuStore(bags._store, [(device, limit) for limit in limits or (1 << 30,)])
    return bags


class TestOnTheProcessorsDevice(BagsLaws):
    def make(self, arrays):
        return placed(Bags.from_arrays([array.astype(np.float16) for array in arrays]))


class TestInUpperHalves(BagsLaws):
    def make(self, arrays):
        return placed(Bags.from_arrays([narrowed(array, BFLOAT16) for array in arrays]))


class TestHalfOnTheDevice(BagsLaws):
    def make(self, arrays):
        return placed(Bags.from_arrays([array.astype(np.float32) for array in arrays]), "cpu", 164 * 20)


class TestOnThreeDevices(BagsLaws):
    def make(self, arrays):
        return placed(Bags.from_arrays([array.astype(np.float16) for array in arrays]), "cpu", 1 << 20, 80 * 9, 1 << 20)


@NO_GPU
class TestOnAGpu(BagsLaws):
    def make(self, arrays):
        return placed(Bags.from_arrays([array.astype(np.float16) for array in arrays]), "cuda")


def drawn(dtype, seed=0, n_bags=40):
    rng = np.random.default_rng(seed)
    return [narrowed(rng.normal(size=(rng.integers(1, 90), 21)), dtype) for _ in range(n_bags)]


def asked(bags):
    """Return the answers to passes of every kind."""
    rng = np.random.default_rng(1)
    weights, mask = rng.normal(size=(21, 6)), rng.random(bags.n_windows) < 0.5
    mask[bags.offsets[:-1]] = False
    parts = bags.excluding(mask).subdivided(5)
    found = parts.best(weights)
    return [
        *bags.best(weights),
        *bags.best(weights[:, 0]),
        *bags.excluding(mask).best(weights),
        *bags.subset([7, 3, 29, 3]).best(weights),
        *(answer[parts.n_competing > 0] for answer in found),
    ]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [np.float16, BFLOAT16, np.float32, np.float64], ids=type_name)
@pytest.mark.parametrize("rows", [0, 300, 10_000])
@pytest.mark.parametrize("tile", [1, 50_000, 1 << 28])
def test_a_device_finds_the_winners_that_the_processor_finds(device, dtype, rows, tile, monkeypatch):
    monkeypatch.setattr(gpu_windows, "TILE_BYTES", tile)
    monkeypatch.setattr("lapsvm.bags.passes.CHUNK_ROWS", 60)
    arrays, scale = drawn(dtype), np.random.default_rng(2).random(21)
    expected = asked(Bags.from_arrays(arrays, scale))
    bags = Bags.from_arrays(arrays, scale)
    placed(bags, device, rows * on_gpu.row_bytes(bags._store))
    assert bags._store.device.n_rows == min(rows, bags.n_windows)
    for found, wanted in zip(asked(bags), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("device", DEVICES)
def test_training_on_a_device_ends_where_it_ends_elsewhere(device):
    arrays, y = drawn(np.float16), np.where(np.arange(40) % 3 == 0, 1, -1)
    (there,) = fit_many([LatentProblem(y, C=1.0)], placed(Bags.from_arrays(arrays), device))
    (here,) = fit_many([LatentProblem(y, C=1.0)], Bags.from_arrays(arrays))
    assert (there.objective, there.dual) == (here.objective, here.dual)
    np.testing.assert_array_equal(there.coef, here.coef)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("rows", [1000, 10_000])
@pytest.mark.parametrize("in_files", [True, False])
def test_training_on_candidates_scores_them_on_the_device(device, rows, in_files, tmp_path, monkeypatch):
    """All have the same bits, and a device that has all windows needs no copies of the candidates."""
    monkeypatch.setattr("lapsvm.bags.stores.local.WORTH_DEVICE", 0)
    arrays = [np.random.default_rng(i).normal(size=(40, 21)).astype(np.float16) for i in range(40)]
    problems = [LatentProblem(np.where(np.arange(40) % 3 == part, 1, -1), C=10.0) for part in range(2)]
    expected = fit_many(problems, Bags.from_arrays(arrays), candidates=4)
    bags = Bags.from_arrays(arrays)
    if in_files:
        bags = Bags.open(write_run(tmp_path, arrays, np.float16, 7), "trainval", memory=0)
    placed(bags, device, rows * on_gpu.row_bytes(bags._store))
    counts = PassCounts()
    found = fit_many(problems, bags, candidates=4, pass_counts=counts)
    assert (counts.peak_candidate_bytes == 0) == (rows > bags.n_windows) == bags.on_device
    assert counts.candidate_calls > 0
    for there, here in zip(found, expected, strict=True):
        assert (there.objective, there.dual) == (here.objective, here.dual)
        np.testing.assert_array_equal(there.coef, here.coef)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [np.float16, BFLOAT16, np.float32, np.float64], ids=type_name)
@pytest.mark.parametrize("rows", [300, 10_000])
def test_every_query_has_the_bits_of_a_processors(device, dtype, rows, monkeypatch):
    monkeypatch.setattr("lapsvm.bags.stores.local.WORTH_DEVICE", 0)
    arrays, scale = drawn(dtype, n_bags=30), np.random.default_rng(2).random(21)
    bags = Bags.from_arrays(arrays, scale)
    placed(bags, device, rows * on_gpu.row_bytes(bags._store))
    for found, wanted in zip(answers(bags), answers(Bags.from_arrays(arrays, scale)), strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [np.float16, BFLOAT16], ids=type_name)
@pytest.mark.parametrize("rows", [300, 10_000])
def test_windows_that_stay_in_files_may_lie_on_a_device(device, dtype, rows, tmp_path, monkeypatch):
    arrays = drawn(dtype)
    expected = asked(Bags.from_arrays(arrays))
    bags = Bags.open(write_run(tmp_path, arrays, dtype, 7), "trainval", memory=0)
    placed(bags, device, rows * on_gpu.row_bytes(bags._store))
    for found, wanted in zip(asked(bags), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)
    for path in (tmp_path / "shards" / "trainval").iterdir():
        path.unlink()
    if rows > bags.n_windows:
        np.testing.assert_array_equal(bags.best(np.ones(21)).score, Bags.from_arrays(arrays).best(np.ones(21)).score)
        for bag in (0, 33):
            np.testing.assert_array_equal(bags[bag], Bags.from_arrays(arrays)[bag])


@pytest.mark.parametrize(
    ("device", "share", "worth", "placed_rows"),
    [("auto", 1.3, 1, 1), ("auto", 1.2, 1, None), ("auto", 1.3, 1 << 30, None), ("cuda", 0.625, 1 << 30, 0.5)],
)
@pytest.mark.parametrize("cards", [1, 4])
def test_as_many_windows_as_fit_are_placed(device, share, worth, placed_rows, cards, monkeypatch):
    """By "auto" if all fit and they are worth it."""
    bags = Bags.from_arrays([np.ones((50, 8), dtype=np.float16)] * 40)
    monkeypatch.setattr(on_gpu, "WORTH_BYTES", worth)
    monkeypatch.setattr(on_gpu, "may_have_gpu", lambda: True)
    monkeypatch.setattr(on_gpu, "choose_device", lambda _: "cuda")
    whole, free = on_gpu.GpuStore, int(share * bags.n_windows * on_gpu.row_bytes(bags._store))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: cards)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (free // cards, 1 << 40))
    monkeypatch.setattr(on_gpu, "has_kernels", lambda _: False)
    monkeypatch.setattr(on_gpu, "GpuStore", lambda store, found: whole(store, [("cpu", room) for _, room in found]))
    on_gpu.use_device(bags._store, device)
    if placed_rows is None:
        assert bags._store.device is None
    else:
        assert bags._store.device.n_rows == placed_rows * bags.n_windows


def test_the_device_answers_and_the_processor_does_not(monkeypatch):
    bags = placed(Bags.from_arrays(drawn(np.float16)))
    monkeypatch.setattr("lapsvm.bags.requests.best_in", None)
    assert np.isfinite(bags.best(np.ones(21)).score).all()


def test_memory_that_runs_out_makes_tiles_smaller(monkeypatch):
    arrays = drawn(np.float16)
    bags, expected = placed(Bags.from_arrays(arrays)), asked(Bags.from_arrays(arrays))
    whole = gpu_windows.DeviceWindows._first_maxima

    def small(self, selection, weights, bags):
        if len(bags) > 3:
            raise torch.OutOfMemoryError("too much")
        return whole(self, selection, weights, bags)

    monkeypatch.setattr(gpu_windows.DeviceWindows, "_first_maxima", small)
    for found, wanted in zip(asked(bags), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_weights_beyond_float32_have_winners_too():
    arrays, weights = drawn(np.float16), np.random.default_rng(1).normal(size=(21, 2)) * 1e300
    for found, wanted in zip(
        placed(Bags.from_arrays(arrays)).best(weights), Bags.from_arrays(arrays).best(weights), strict=True
    ):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is there")
def test_a_gpu_that_is_not_there(tmp_path):
    run = write_run(tmp_path, drawn(np.float16), np.float16, 10)
    assert Bags.open(run, "trainval", device="auto")._store.device is None
    with pytest.raises(OptionError, match="device cuda needs a GPU that torch can use, and there is none"):
        Bags.open(run, "trainval", device="cuda")
