"""Windows that do not fit into a device's memory, and several devices: a pass has the same bits whoever computes."""

import numpy as np
import pytest

from lapsvm.bags import Bags
from lapsvm.bags.passes import split_into_chunks
from lapsvm.bfloat16 import BFLOAT16, type_name
from lapsvm.errors import DataError, NotFiniteError
from lapsvm.testing.bags import BagsLaws

from ..windows import answers, drawn, write_run

torch = pytest.importorskip("torch", reason="torch is not installed")

from lapsvm.bags.stores import gpu as on_gpu  # noqa: E402

CARDS = torch.cuda.device_count()
NO_GPU = pytest.mark.skipif(not CARDS, reason="torch sees no GPU here")
DEVICES = ["cpu", pytest.param("cuda:0", marks=NO_GPU)]
TYPES = [np.float16, BFLOAT16, np.float32, np.float64]


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    """Let chunks and what travels at once be small, so that there are many."""
    monkeypatch.setattr("lapsvm.bags.passes.CHUNK_ROWS", 60)
    monkeypatch.setattr("lapsvm.bags.stores.gpu_queue.STREAM_BYTES", 200 * 21 * 4)
    monkeypatch.setattr("lapsvm.bags.stores.local.WORTH_DEVICE", 0)


def placed(bags, device, *rows):
    """Return bags on as many devices as there are numbers of windows for these."""
    size = on_gpu.row_bytes(bags._store)
    bags._store.device = on_gpu.GpuStore(bags._store, [(device, n_rows * size) for n_rows in rows])
    return bags


def streamed(bags, weights):
    """Return the answer for the best windows that the device alone finds, of chunks that are copied to it."""
    selection, (share,) = bags._selection, bags._store.device.shares
    chunks = list(split_into_chunks(bags._store, selection))
    index, score = np.full((bags.n_bags, weights.shape[1]), -1), np.zeros((bags.n_bags, weights.shape[1]))
    times = []

    def take(n_rows):
        times.append(n_rows)
        return [chunks.pop() for _ in range(min(3, len(chunks)))]

    for chunk, block, found in share.streamed(selection, take, bags._pass.read, share.prepared(weights)):
        index[chunk.first : chunk.last], score[chunk.first : chunk.last] = found
        rows = np.arange(selection.starts[chunk.first], selection.stops[chunk.first])
        first = block.features[block.starts[0] : block.stops[0]]
        np.testing.assert_array_equal(first, bags._store.take(rows))
    assert len(times) > 4
    assert set(times) == {max(1, 200 * 21 * 4 // (21 * bags.dtype.itemsize))}
    return index, score


class TestNothingIsHeld(BagsLaws):
    def make(self, arrays):
        return placed(Bags.from_arrays([array.astype(np.float16) for array in arrays]), "cpu", 0)


class TestTwoDevicesHoldSome(BagsLaws):
    def make(self, arrays):
        return placed(Bags.from_arrays([array.astype(np.float32) for array in arrays]), "cpu", 150, 40)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", TYPES, ids=type_name)
@pytest.mark.parametrize("memory", [None, 0, 30 * 1024])
def test_the_device_alone_finds_the_winners_of_windows_that_travel(device, dtype, memory, tmp_path):
    arrays, weights = drawn(dtype), np.random.default_rng(1).normal(size=(21, 4))
    weights[:, 2] = 0
    bags = Bags.from_arrays(arrays)
    if dtype != np.float64:
        bags = Bags.open(write_run(tmp_path, arrays, dtype, 7), "trainval", memory=memory)
    mask = np.random.default_rng(2).random(bags.n_windows) < 0.5
    mask[bags.offsets[:-1]] = False
    here = Bags.from_arrays(arrays)
    for there, expected in (
        (placed(bags, device, 0), here),
        (bags.excluding(mask), here.excluding(mask)),
        (bags.subset([7, 3, 29, 3] * 8), here.subset([7, 3, 29, 3] * 8)),
    ):
        for found, wanted in zip(streamed(there, weights), expected.best(weights), strict=True):
            np.testing.assert_array_equal(found, wanted)


def test_shards_that_are_projected_when_they_are_read_travel_projected(tmp_path):
    arrays, weights = drawn(), np.random.default_rng(1).normal(size=(7, 3))
    run = write_run(tmp_path, arrays, np.float16, 7)
    bags = placed(Bags.open(run, "trainval", memory=0, transform=lambda rows: 2 * rows[:, ::3]), "cpu", 0)
    found = {}
    for chunk, _, (index, _) in bags._store.device.shares[0].streamed(
        bags._selection,
        lambda _, left=list(bags._chunks): [left.pop()] if left else [],
        bags._pass.read,
        bags._store.device.shares[0].prepared(weights),
    ):
        found[chunk.first] = index
    expected = Bags.from_arrays([2 * array[:, ::3] for array in arrays]).best(weights)
    np.testing.assert_array_equal(np.concatenate([found[first] for first in sorted(found)]), expected.index)


SPLITS = [(0,), (1,), (700,), (5000,), (0, 0), (400, 200), (5000, 5000), (100, 0, 300), (1, 5000, 5000)]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("rows", SPLITS, ids=str)
@pytest.mark.parametrize("in_files", [False, True])
@pytest.mark.parametrize("threads", [1, 3])
def test_every_split_has_the_bits_of_a_processor(device, rows, in_files, threads, tmp_path, monkeypatch):
    monkeypatch.setattr("lapsvm.bags.passes.WORTH_THREADS", 0)
    arrays = drawn()
    here, bags = Bags.from_arrays(arrays), Bags.from_arrays(arrays, threads=threads)
    if in_files:
        bags = Bags.open(write_run(tmp_path, arrays, np.float16, 7), "trainval", memory=20 * 1024, threads=threads)
    placed(bags, device, *rows)
    assert bags._store.device.n_rows == min(sum(rows), bags.n_windows)
    for _ in range(3):  # who computes what differs from time to time
        for found, wanted in zip(answers(bags), answers(here), strict=True):
            np.testing.assert_array_equal(found, wanted)


def test_devices_receive_windows_in_proportion_to_their_memory():
    bags = placed(Bags(np.ones((1000, 8), np.float16), np.arange(1001)), "cpu", 3000, 1000, 0, 1000)
    assert [(share.first, share.stop) for share in bags._store.device.shares] == [
        (0, 600),
        (600, 800),
        (800, 800),
        (800, 1000),
    ]


@pytest.mark.skipif(CARDS < 2, reason="torch sees fewer than two GPUs here")
def test_two_gpus_share_a_store():
    arrays = drawn()
    bags, here = Bags.from_arrays(arrays), Bags.from_arrays(arrays)
    size = on_gpu.row_bytes(bags._store)
    bags._store.device = on_gpu.GpuStore(bags._store, [("cuda:0", 600 * size), ("cuda:1", 600 * size)])
    for found, wanted in zip(answers(bags), answers(here), strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("rows", [(0,), (500, 0, 200), (5000, 5000)], ids=str)
@pytest.mark.parametrize("threads", [1, 3])
def test_an_error_of_a_device_ends_the_pass(rows, threads):
    features = np.ones((2000, 4))
    features[-1] = 1e308
    features[0] = 1e308
    bags = placed(Bags(features, np.append(np.arange(0, 2000, 40), 2000), threads=threads), "cpu", *rows)
    only = bags.subset([0, 49]).narrowed([0, 39])
    for _ in range(3):
        with pytest.raises(NotFiniteError, match="scores of windows must be finite, got inf"):
            only.best(np.ones(4) * 1e10)
    assert (bags.best(np.ones(4)).index[1:-1] == 0).all()


def test_memory_that_is_too_small_for_a_chunk_is_a_sentence(monkeypatch):
    bags = placed(Bags.from_arrays(drawn()), "cpu", 0)
    zeros = torch.zeros

    def small(shape, **options):
        if shape[0] > 20:
            raise torch.OutOfMemoryError("too much")
        return zeros(shape, **options)

    monkeypatch.setattr(torch, "zeros", small)
    rule = r"^device cpu must have memory for \d+ windows at once, got too little; set the parameter device to cpu\.$"
    with pytest.raises(DataError, match=rule):
        streamed(bags, np.ones((21, 1)))
