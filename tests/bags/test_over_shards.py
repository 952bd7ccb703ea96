"""Bags over shards of which some, or all, stay in their files."""

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock

import numpy as np
import pytest

from lapsvm.bags import Bags
from lapsvm.bags.opening import _opening_threads, prefetched_blocks
from lapsvm.bags.passes import ChunkQueue, _Prefetcher
from lapsvm.bags.requests import Means
from lapsvm.bags.scoring import Block
from lapsvm.bags.selection import Chunk
from lapsvm.bags.stores.memory import as_bytes
from lapsvm.bags.stores.parts import Buffer, FilePart
from lapsvm.bfloat16 import BFLOAT16, narrowed, type_name
from lapsvm.errors import NotFiniteError, OptionError, ShardError
from lapsvm.features import read_shard, write_shard
from lapsvm.latent import LatentProblem, fit_many
from lapsvm.testing.bags import BagsLaws

from .windows import answers, drawn, write_run

TYPES = (np.float16, BFLOAT16, np.float32)


@pytest.fixture(autouse=True)
def _no_room(monkeypatch):
    """Let a budget hold what it says, without the room for prefetched blocks."""
    monkeypatch.setattr("lapsvm.bags.opening.prefetched_blocks", lambda _, __, threads: (threads + 2, 0))
    monkeypatch.setattr("lapsvm.bags.opening.INDEX_BYTES", 0)


class Watcher:
    """Keeps the features that it sees."""

    def __init__(self):
        self.seen = []

    def add(self, features):
        self.seen.append(features.copy())

    def join(self, other):
        self.seen += other.seen


class OverShards(BagsLaws):
    """A store that is too large for its budget."""

    dtype, per_shard, memory = np.float16, 2, 0

    def make(self, arrays):
        self._folder = TemporaryDirectory()
        run = write_run(Path(self._folder.name), arrays, self.dtype, self.per_shard)
        return Bags.open(run, "trainval", memory=self.memory, threads=2)


class TestHalvesInFiles(OverShards):
    pass


class TestUpperHalvesInFiles(OverShards):
    dtype, per_shard = BFLOAT16, 1


class TestFloatsHalfInMemory(OverShards):
    dtype, memory = np.float32, 37 * 4 * 170


class TestAllInMemory(OverShards):
    memory = "1M"


@pytest.mark.parametrize("dtype", TYPES, ids=type_name)
def test_shards_budgets_and_threads_change_not_a_bit_of_any_answer(dtype, tmp_path, monkeypatch):
    arrays = drawn(dtype)
    scale = np.random.default_rng(2).random(21)
    expected = answers(Bags.from_arrays(arrays, scale))
    monkeypatch.setattr("lapsvm.bags.passes.WORTH_THREADS", 0)
    size = sum(len(array) for array in arrays) * 21 * np.dtype(dtype).itemsize
    for per_shard in (1, 7, 30):
        run = write_run(tmp_path / str(per_shard), arrays, dtype, per_shard)
        for chunk, memory, threads in ((4096, 0, 1), (20, size // 2, 3), (1, size - 1, 2), (100, None, 2)):
            monkeypatch.setattr("lapsvm.bags.passes.CHUNK_ROWS", chunk)
            bags = Bags.open(run, "trainval", scale, memory=memory, threads=threads)
            assert bags.dtype == dtype
            for found, wanted in zip(answers(bags), expected, strict=True):
                np.testing.assert_array_equal(found, wanted)


def test_training_is_the_same_bit_for_bit(tmp_path):
    arrays = drawn(np.float16)
    y = np.where(np.arange(30) % 3 == 0, 1, -1)
    problems = [LatentProblem(y, C=C) for C in (0.1, 1.0)]
    run = write_run(tmp_path / "run", arrays, np.float16, 4)
    there = fit_many(problems, Bags.open(run, "trainval", memory=4000))
    for found, wanted in zip(there, fit_many(problems, Bags.from_arrays(arrays)), strict=True):
        np.testing.assert_array_equal(found.coef, wanted.coef)


def test_classes_that_begin_at_the_same_time_read_means_once(monkeypatch):
    arrays, seen = [np.ones((256, 3), np.float16) * bag for bag in range(9)], []
    bags = Bags.from_arrays(arrays, threads=4)
    one = Means.answer
    monkeypatch.setattr(Means, "answer", lambda *given: (seen.append(len(given[1].starts)), one(*given))[1])
    with bags.keeping_means(), ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: bags.means(), range(8)):
            np.testing.assert_array_equal(found[:, 0], np.arange(9))
    assert sum(seen) == 9
    bags._store.array[:] = 5  # an array of a user, who may change it afterwards
    assert (bags.means() == 5).all()
    problem = LatentProblem(np.where(np.arange(9) % 2, 1, -1))
    seen.clear()
    fit_many([problem, problem], bags)
    assert sum(seen) == 9


def test_the_means_of_bags_are_read_once(tmp_path, monkeypatch):
    arrays = [np.full((size, 3), size, dtype=np.float16) for size in (20, 50, 30)]
    bags = Bags.open(write_run(tmp_path, arrays, np.float16, 1), "trainval", memory=0)
    first = bags.means()
    monkeypatch.setattr("lapsvm.bags.stores.parts.FilePart.block", None)
    np.testing.assert_array_equal(bags.scaled(2.0).means([2, 0]), 2 * first[[2, 0]])
    np.testing.assert_array_equal(first, [[20.0] * 3, [50.0] * 3, [30.0] * 3])


def parts_in_memory(bags):
    return [part.resident for part in bags._store.parts]


def test_a_budget_decides_which_shards_stay(tmp_path):
    arrays = [np.ones((10, 8), dtype=np.float16)] * 6
    run = write_run(tmp_path / "run", arrays, np.float16, 1)
    assert parts_in_memory(Bags.open(run, "trainval", memory=6 * 160)) == [True]
    assert parts_in_memory(Bags.open(run, "trainval", memory=6 * 160 - 1)) == [True, False]  # an eighth is for rows
    assert parts_in_memory(Bags.open(run, "trainval", memory=400)) == [True] + 4 * [False]
    assert parts_in_memory(Bags.open(run, "trainval", memory=0)) == 6 * [False]


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("memory", [10_000, "1G"])
def test_every_shard_is_visited_once_in_order_and_as_it_is_transformed(memory, threads, tmp_path):
    arrays = drawn(np.float32)
    run, watcher = write_run(tmp_path / "run", arrays, np.float32, 4), Watcher()

    def halved(features):
        return features[:, :10] - features[:, 10:20]

    bags = Bags.open(run, "trainval", threads=threads, memory=memory, transform=halved, visit=watcher)
    expected = Bags.from_arrays([halved(array) for array in arrays])
    np.testing.assert_array_equal(np.concatenate(watcher.seen), np.concatenate([halved(array) for array in arrays]))
    w = np.arange(10.0)
    np.testing.assert_array_equal(bags.best(w).score, expected.best(w).score)
    np.testing.assert_array_equal(bags.rows([29, 0], [0, 0]), expected.rows([29, 0], [0, 0]))
    assert bags.dim == 10


def test_rows_that_gave_way_are_read_again(tmp_path, monkeypatch):
    arrays = drawn(np.float16)
    bags = Bags.open(write_run(tmp_path / "run", arrays, np.float16, 4), "trainval", memory=8 * 42 * 3)
    for bag in (0, 5, 29, 0, 11, 5):
        index = np.arange(len(arrays[bag]))
        np.testing.assert_array_equal(bags.rows(np.full(len(index), bag), index), arrays[bag].astype(float))


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("harm", ["removed", "cut short"])
def test_a_shard_that_goes_while_it_is_in_use_is_told(threads, harm, tmp_path, monkeypatch):
    monkeypatch.setattr("lapsvm.bags.passes.WORTH_THREADS", 0)
    monkeypatch.setattr("lapsvm.bags.passes.CHUNK_ROWS", 10)
    bags = Bags.open(write_run(tmp_path, drawn(np.float16), np.float16, 4), "trainval", memory=8000, threads=threads)
    path = tmp_path / "shards" / "trainval" / "0000024.safetensors"
    if harm == "removed":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:900])
    sentence = "could not be read again" if harm == "removed" else "was cut short while it was in use"
    with pytest.raises(ShardError, match=f"^shard .*0000024.safetensors {sentence}"):
        bags.best(np.ones(21))


@pytest.mark.parametrize("harm", ["replaced", "written to"])
def test_a_shard_that_is_another_one_by_now_is_refused_and_named(harm, tmp_path):
    bags = Bags.open(write_run(tmp_path, drawn(np.float16), np.float16, 12), "trainval", memory=0)
    other = write_run(tmp_path / "other", [2 * array for array in drawn(np.float16)], np.float16, 12)
    before = bags.best(np.ones(21)).score
    path = tmp_path / "shards" / "trainval" / "0000024.safetensors"
    content = (other / "shards" / "trainval" / path.name).read_bytes()
    if harm == "replaced":
        (tmp_path / "new").write_bytes(content)
        (tmp_path / "new").replace(path)
    else:
        path.write_bytes(content)
    assert np.isfinite(before).all()
    for ask in (lambda: bags.best(np.ones(21)), lambda: bags.rows([29], [0]), bags.means):
        with pytest.raises(ShardError, match=r"^shard .*0000024.safetensors was replaced or changed while it was in"):
            ask()


def queue_of(chunks, in_memory):
    """Return a queue whose first chunks are in memory."""
    queue = ChunkQueue(None, [])
    queue.in_memory.extend(chunks[:in_memory])
    queue.in_files.extend(chunks[in_memory:])
    return queue


@pytest.mark.parametrize("in_files", [False, True])
def test_an_error_leaves_no_chunk_to_the_other_threads(in_files):
    chunks = [Chunk(0, first, first + 1) for first in range(20)]
    block = Block(np.zeros((1, 1)), np.array([0]), np.array([1]))
    seen = []

    def fail(chunk, _):
        seen.append(chunk)
        raise RuntimeError("no more")

    with ThreadPoolExecutor(1) as reader:
        ahead = _Prefetcher(
            queue_of(chunks, 0 if in_files else len(chunks)), lambda *_: block, reader, [Buffer() for _ in range(5)]
        )
        with pytest.raises(RuntimeError, match="no more"):
            ahead.consume(fail)
        ahead.consume(fail)
    assert seen == chunks[:1]


def test_every_chunk_is_seen_once_by_several_threads():
    chunks = [Chunk(0, first, first + 1) for first in range(300)]
    block = Block(np.zeros((1, 1)), np.array([0]), np.array([1]))
    seen = []
    with ThreadPoolExecutor(1) as reader, ThreadPoolExecutor(4) as pool:
        ahead = _Prefetcher(queue_of(chunks, 100), lambda *_: block, reader, [Buffer() for _ in range(6)])
        list(pool.map(lambda _: ahead.consume(lambda chunk, _: seen.append(chunk)), range(4)))
    assert sorted(seen) == chunks


@pytest.mark.parametrize("blocks", [1, 3, 5])
def test_passes_over_files_take_turns_in_few_blocks(blocks, tmp_path, monkeypatch):
    """Eight passes of four threads at the same time read one block at a time, into as many as may be."""
    monkeypatch.setattr("lapsvm.bags.passes.WORTH_THREADS", 0)
    monkeypatch.setattr("lapsvm.bags.passes.CHUNK_ROWS", 10)
    monkeypatch.setattr("lapsvm.bags.opening.prefetched_blocks", lambda *_: (blocks, 0))
    arrays, reading, most = drawn(np.float16), Lock(), set()
    bags = Bags.open(write_run(tmp_path, arrays, np.float16, 4), "trainval", memory=0, threads=4)
    block = FilePart.block

    def alone(part, starts, stops, buffer):
        assert reading.acquire(blocking=False)
        try:
            most.add(id(buffer))
            return block(part, starts, stops, buffer)
        finally:
            reading.release()

    monkeypatch.setattr(FilePart, "block", alone)
    vectors = np.random.default_rng(0).normal(size=(8, 21))
    expected = Bags.from_arrays(arrays)
    with ThreadPoolExecutor(8) as pool:
        for weights, found in zip(vectors, pool.map(bags.best, vectors), strict=True):
            np.testing.assert_array_equal(found.score, expected.best(weights).score)
    assert len(most) == blocks


def part_of(rows, dim, combined=None):
    """Return the part of a shard of float16 features, of which bags see as many as are combined."""
    transform = None if combined is None else lambda features: features[:, :combined]
    return FilePart(Path("none"), 0, (rows, dim), np.dtype(np.float16), transform)


def test_blocks_take_a_quarter_of_the_memory_or_are_three():
    """A chunk of 512 features is 8,192 windows, 8 MiB; where bags see half of them, it is read beside what they see."""
    files, MB = [part_of(50_000, 512)], 1 << 20
    assert prefetched_blocks(files, None, 16) == (18, 8 * MB)
    assert prefetched_blocks(files, 4 * 8 * 7 * MB, 16) == (7, 8 * MB)
    assert prefetched_blocks(files, 4 * 8 * 70 * MB, 16) == (18, 8 * MB)
    assert prefetched_blocks(files, 0, 16) == (3, 8 * MB)
    assert prefetched_blocks([part_of(50_000, 512, 256)], 0, 1) == (3, 12 * MB)
    assert prefetched_blocks([part_of(100, 512)], 0, 1) == (3, 100 * 1024)


def test_as_many_shards_are_opened_at_the_same_time_as_memory_admits():
    files = [part_of(1000, 512, 256), part_of(2000, 512, 256)]  # the larger one takes 3,072,000 bytes while it is read
    assert _opening_threads(files, None, 0, 16) == 16
    assert _opening_threads(files, 3_072_000 * 8 * 5, 3_072_000 * 8 * 5, 16) == 5
    assert _opening_threads(files, 3_072_000 * 7, 0, 16) == 7
    assert _opening_threads(files, 0, 0, 16) == 1


@pytest.mark.parametrize("threads", [1, 3])
def test_an_error_in_the_work_ends_the_pass(threads, tmp_path, monkeypatch):
    monkeypatch.setattr("lapsvm.bags.passes.WORTH_THREADS", 0)
    monkeypatch.setattr("lapsvm.bags.passes.CHUNK_ROWS", 10)
    bags = Bags.open(write_run(tmp_path, drawn(np.float16), np.float16, 4), "trainval", memory=0, threads=threads)

    def fail(*_):
        raise RuntimeError("no more")

    with monkeypatch.context() as patch:
        patch.setattr("lapsvm.bags.requests.best_in", fail)
        with pytest.raises(RuntimeError, match="no more"):
            bags.best(np.ones(21))
    assert np.isfinite(bags.best(np.ones(21)).score).all()


def test_a_flipped_byte_is_found_where_shards_are_verified(tmp_path):
    run = write_run(tmp_path, drawn(np.float16), np.float16, 10)
    path = tmp_path / "shards" / "trainval" / "0000010.safetensors"
    content = bytearray(path.read_bytes())
    content[-2000] ^= 1
    path.write_bytes(content)
    for memory in (0, None):
        with pytest.raises(ShardError, match=r"0000010\.safetensors is damaged"):
            Bags.open(run, "trainval", memory=memory, verify=True)


def test_what_is_not_finite_is_told_when_it_is_read(tmp_path):
    run = write_run(tmp_path, [np.ones((5, 4), dtype=np.float16)] * 2, np.float16, 1)
    path = tmp_path / "shards" / "trainval" / "0000001.safetensors"
    with path.open("r+b") as file:
        content = file.read()
        file.seek(content.rindex(np.float16(1).tobytes() * 20))
        file.write(np.float16(np.inf).tobytes() * 2)
    with pytest.raises(NotFiniteError, match=r"got NaN or infinity in window 0 of shard .*0000001.safetensors"):
        Bags.open(run, "trainval")


def test_bfloat16_shards_come_back_as_they_were(tmp_path):
    numbers = np.random.default_rng(0).normal(size=(7, 5)) * 10.0 ** np.arange(-20, 30, 10)
    run = write_run(tmp_path, [numbers], BFLOAT16, 1)
    path = run / "shards" / "trainval" / "0000000.safetensors"
    shard = read_shard(path)
    np.testing.assert_array_equal(shard.features, narrowed(numbers, BFLOAT16))
    again = tmp_path / "again.safetensors"
    write_shard(again, shard)
    assert again.read_bytes() == path.read_bytes()
    assert b'"dtype":"BF16"' in path.read_bytes()[:2000]


def test_bfloat16_shards_are_what_others_read(tmp_path):
    torch = pytest.importorskip("torch")
    from safetensors.torch import load_file

    numbers = np.random.default_rng(0).normal(size=(7, 5))
    run = write_run(tmp_path, [numbers], BFLOAT16, 1)
    read = load_file(run / "shards" / "trainval" / "0000000.safetensors")["features"]
    assert read.dtype == torch.bfloat16
    expected = torch.from_numpy(numbers.astype(np.float32)).to(torch.bfloat16)
    assert torch.equal(read, expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("8G", 8 << 30), ("500M", 500 << 20), ("1.5g", 3 << 29), ("2GiB", 2 << 30), ("64kB", 1 << 16), ("7", 7), (9, 9)],
)
def test_memory_is_read_as_people_write_it(text, expected):
    assert as_bytes(text) == expected


def test_memory_by_default_is_less_than_what_is_left():
    left = as_bytes(None)
    assert left is None or 0 < left < 1 << 50


@pytest.mark.parametrize("value", ["", "0", "0.5", "0G", "G", "8X", "-1G", "8 gigs", -1, 1.5, True, "1e9"])
def test_memory_that_is_none_is_refused(value, tmp_path):
    with pytest.raises(OptionError, match=re.escape(f"memory must be a size such as 8G or 500M, got {value!r}.")):
        Bags.open(tmp_path, "trainval", memory=value)
