"""Passes on a device of torch's: the same laws, on a GPU where there is one, and on the processor's device anywhere."""

import numpy as np
import pytest

from lapsvm.bags import Bags
from lapsvm.bfloat16 import BFLOAT16, narrowed, type_name
from lapsvm.errors import OptionError
from lapsvm.latent import LatentProblem, fit_many
from lapsvm.testing.bags import BagsLaws

from .windows import write_run

torch = pytest.importorskip("torch", reason="torch is not installed")

from lapsvm.bags.stores import gpu as on_gpu  # noqa: E402

NO_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU here")
DEVICES = ["cpu", pytest.param("cuda", marks=NO_GPU)]


def placed(bags, device="cpu", limit=1 << 30):
    """Return bags whose windows, as many as the limit allows, lie on a device."""
    bags._store.device = on_gpu.GpuStore(bags._store, device, limit)
    return bags


class TestOnTheProcessorsDevice(BagsLaws):
    def make(self, arrays):
        return placed(Bags.from_arrays([array.astype(np.float16) for array in arrays]))


class TestInUpperHalves(BagsLaws):
    def make(self, arrays):
        return placed(Bags.from_arrays([narrowed(array, BFLOAT16) for array in arrays]))


class TestHalfOnTheDevice(BagsLaws):
    def make(self, arrays):
        return placed(Bags.from_arrays([array.astype(np.float32) for array in arrays]), limit=37 * 4 * 20)


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
    monkeypatch.setattr(on_gpu, "TILE_BYTES", tile)
    monkeypatch.setattr("lapsvm.bags.passes.CHUNK_ROWS", 60)
    arrays, scale = drawn(dtype), np.random.default_rng(2).random(21)
    expected = asked(Bags.from_arrays(arrays, scale))
    bags = placed(Bags.from_arrays(arrays, scale), device, rows * 21 * np.dtype(dtype).itemsize)
    assert sum(map(len, bags._store.device._held)) == min(rows, bags.n_windows)
    for found, wanted in zip(asked(bags), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("device", DEVICES)
def test_training_on_a_device_ends_where_it_ends_elsewhere(device):
    arrays, y = drawn(np.float16), np.where(np.arange(40) % 3 == 0, 1, -1)
    (there,) = fit_many([LatentProblem(y, C=1.0)], placed(Bags.from_arrays(arrays), device))
    (here,) = fit_many([LatentProblem(y, C=1.0)], Bags.from_arrays(arrays))
    assert abs(there.objective - here.objective) <= 1e-6 * here.objective


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [np.float16, BFLOAT16], ids=type_name)
@pytest.mark.parametrize("rows", [300, 10_000])
def test_windows_that_stay_in_files_may_lie_on_a_device(device, dtype, rows, tmp_path, monkeypatch):
    arrays = drawn(dtype)
    expected = asked(Bags.from_arrays(arrays))
    bags = placed(Bags.open(write_run(tmp_path, arrays, dtype, 7), "trainval", memory=0), device, rows * 42)
    for found, wanted in zip(asked(bags), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)
    for path in (tmp_path / "shards" / "trainval").iterdir():
        path.unlink()
    if rows > bags.n_windows:
        np.testing.assert_array_equal(bags.best(np.ones(21)).score, Bags.from_arrays(arrays).best(np.ones(21)).score)


@pytest.mark.parametrize(
    ("device", "share", "placed_rows"), [("auto", 1.3, 1), ("auto", 1.2, None), ("cuda", 0.625, 0.5)]
)
def test_as_many_windows_as_fit_are_placed(device, share, placed_rows, monkeypatch):
    bags = Bags.from_arrays([np.ones((50, 8), dtype=np.float16)] * 40)
    monkeypatch.setattr(on_gpu, "may_have_gpu", lambda: True)
    monkeypatch.setattr(on_gpu, "choose_device", lambda _: "cuda")
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (int(share * bags.n_windows * 16), 1 << 40))
    whole = on_gpu.GpuStore
    monkeypatch.setattr(on_gpu, "GpuStore", lambda store, _, limit: whole(store, "cpu", limit))
    on_gpu.use_device(bags._store, device)
    if placed_rows is None:
        assert bags._store.device is None
    else:
        assert sum(map(len, bags._store.device._held)) == placed_rows * bags.n_windows


def test_the_device_answers_and_the_processor_does_not(monkeypatch):
    bags = placed(Bags.from_arrays(drawn(np.float16)))
    monkeypatch.setattr("lapsvm.bags.requests.best_in", None)
    assert np.isfinite(bags.best(np.ones(21)).score).all()


def test_memory_that_runs_out_makes_tiles_smaller(monkeypatch):
    arrays = drawn(np.float16)
    bags, expected = placed(Bags.from_arrays(arrays)), asked(Bags.from_arrays(arrays))
    whole = on_gpu.GpuStore._first_maxima

    def small(self, selection, before, chunk, columns):
        if chunk.last - chunk.first > 3:
            raise torch.OutOfMemoryError("too much")
        return whole(self, selection, before, chunk, columns)

    monkeypatch.setattr(on_gpu.GpuStore, "_first_maxima", small)
    for found, wanted in zip(asked(bags), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_weights_beyond_float32_have_winners_too():
    bags = placed(Bags.from_arrays(drawn(np.float16)))
    best = bags.best(np.full((21, 2), 1e300))
    assert ((best.index >= 0) & (best.index < np.diff(bags.offsets)[:, None])).all()


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is there")
def test_a_gpu_that_is_not_there(tmp_path):
    run = write_run(tmp_path, drawn(np.float16), np.float16, 10)
    assert Bags.open(run, "trainval", device="auto")._store.device is None
    with pytest.raises(OptionError, match="device cuda needs a GPU that torch can use, and there is none"):
        Bags.open(run, "trainval", device="cuda")
