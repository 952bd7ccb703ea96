"""Shards: whole or absent, equal content gives equal bytes, and every damage is found."""

import errno
import json
import os
import subprocess
import sys
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save, save_file

from lapsvm.errors import InputError, MissingError, NotFiniteError, OptionError, ShapeError, ShardError, WriteError
from lapsvm.features import PictureWindows, Shard, assemble_shard, read_header, read_shard, write_shard
from lapsvm.files import remove_stale, write_atomically

PROVENANCE = {"proposals": {"method": "selective_search", "max": 2000}, "extractor": {"kind": "hog", "blocks": [3]}}


def picture(name="a", n=2, dim=3, seed=0):
    rng = np.random.default_rng(seed)
    return PictureWindows(name, rng.uniform(0, 50, (n, 4)), rng.normal(size=(n, dim)), name * 32, (40, 50))


def example(names="abc", dtype="float16", **changed):
    pictures = [picture(name, n, seed=n) for n, name in enumerate(names)]
    return assemble_shard(pictures, changed.pop("provenance", PROVENANCE), dtype, **changed)


def same(first, second):
    arrays = all(
        getattr(first, name).dtype == getattr(second, name).dtype
        and np.array_equal(getattr(first, name), getattr(second, name))
        for name in ("boxes", "features", "offsets", "sizes")
    )
    named = ("image_ids", "pixel_hashes", "provenance")
    return arrays and all(getattr(first, name) == getattr(second, name) for name in named)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "0000000.safetensors"


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("mapped", [False, True])
def test_a_shard_comes_back_as_it_was(path, dtype, mapped):
    shard = example(dtype=dtype)
    write_shard(path, shard)
    assert same(read_shard(path, mapped=mapped), shard)
    assert shard.offsets.tolist() == [0, 0, 1, 3]
    assert shard.features.dtype == dtype


@pytest.mark.parametrize("dtype", ["float16", "float32", "bfloat16"])
@pytest.mark.parametrize("names", ["abc", "a\u00e9", 'a"\\ \x7f'])
def test_a_file_has_the_bytes_that_safetensors_writes(path, dtype, names):
    shard = example(names, dtype)
    write_shard(path, shard)
    with safe_open(path, framework="numpy") as file:
        metadata = file.metadata()
    tensors = {name: array.view("uint16") if name == "features" else array for name, array in shard.tensors.items()}
    expected = save(shard.tensors if dtype != "bfloat16" else tensors, metadata=metadata)
    if dtype == "bfloat16":  # which their writer for NumPy lacks
        table = expected[8 : -sum(array.nbytes for array in tensors.values())].replace(b'"U16"', b'"BF16"').rstrip()
        table += b" " * (-len(table) % 8)
        tail = expected[-sum(array.nbytes for array in tensors.values()) :]
        expected = len(table).to_bytes(8, "little") + table + tail
    assert path.read_bytes() == expected


def test_arrays_of_another_byte_order_are_written_with_the_least_significant_byte_first(path):
    shard = example()
    swapped = {name: array.astype(array.dtype.newbyteorder(">")) for name, array in shard.tensors.items()}
    write_shard(path, replace(shard, **swapped))
    assert same(read_shard(path), shard)


def test_features_in_columns_first_order_are_written(path):
    shard = example()
    write_shard(path, replace(shard, features=np.asfortranarray(shard.features)))
    assert same(read_shard(path), shard)


def test_a_mapped_shard_is_read_only_and_a_loaded_one_is_not(path):
    write_shard(path, example())
    assert not read_shard(path, mapped=True).features.flags.writeable
    assert read_shard(path).features.flags.writeable


@pytest.mark.parametrize("pictures", [[picture(n=0)], [picture("a", 0), picture("b", 0)]], ids=["one", "two"])
def test_pictures_without_windows_are_kept(path, pictures):
    write_shard(path, assemble_shard(pictures, PROVENANCE))
    back = read_shard(path)
    assert back.features.shape == (0, 3)
    assert back.image_ids == tuple(p.image_id for p in pictures)


def test_the_header_is_read_without_the_tensors(path):
    shard = example()
    write_shard(path, shard)
    with path.open("r+b") as file:  # damage the last tensor's last byte
        file.seek(-1, os.SEEK_END)
        file.write(b"\x7f")
    header = read_header(path)
    assert (header.image_ids, header.pixel_hashes) == (shard.image_ids, shard.pixel_hashes)
    assert (header.provenance, header.path) == (PROVENANCE, path)
    assert (header.n_windows, header.dim, header.dtype) == (3, 3, "float16")


def test_a_file_has_one_metadata_key_with_sorted_json(path):
    write_shard(path, example())
    with safe_open(path, framework="numpy") as file:
        metadata = file.metadata()
    (text,) = metadata.values()
    assert text == json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"))


def test_ids_need_not_be_ascii(path):
    names = ("Köln", "東京", "with/slash", 'quote"', os.fsdecode(b"\xff"))
    write_shard(path, example(names))
    assert read_shard(path).image_ids == read_header(path).image_ids == names


WRITER = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from test_shards import example
from lapsvm.features import write_shard
settings = {key: sorted({"x", "y"}) for key in set(("extractor", "proposals", "seed", "windows", "a", "b"))}
write_shard(sys.argv[1], example(provenance=settings))
"""


def test_equal_content_gives_equal_bytes_in_every_process(tmp_path):
    digests = set()
    for seed in ("0", "1", "2"):
        path = tmp_path / f"{seed}.safetensors"
        environment = os.environ | {"PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", WRITER, str(path), str(Path(__file__).parent)]
        subprocess.run(command, env=environment, check=True)
        digests.add(blake2b(path.read_bytes()).hexdigest())
    assert len(digests) == 1


def test_the_provenance_may_come_in_any_order_and_as_tuples(tmp_path):
    write_shard(tmp_path / "1", example(provenance={"a": (1, 2), "b": {"c": 1, "d": None}}))
    write_shard(tmp_path / "2", example(provenance={"b": {"d": None, "c": 1}, "a": [1, 2]}))
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()


def test_every_truncation_is_found(path):
    write_shard(path, example())
    content = path.read_bytes()
    for length in range(len(content)):
        path.write_bytes(content[:length])
        with pytest.raises(ShardError, match=r"shard .*0000000\.safetensors is truncated or damaged"):
            read_header(path)
        with pytest.raises(ShardError, match=r"0000000\.safetensors"):
            read_shard(path, verify=False)


def test_every_flipped_byte_is_found_or_harmless(path):
    shard = example()
    write_shard(path, shard)
    content = path.read_bytes()
    for place in range(len(content)):
        damaged = bytearray(content)
        damaged[place] ^= 1 << (place % 8)
        path.write_bytes(damaged)
        try:
            assert same(read_shard(path), shard), place  # blanks between JSON's parts may change
        except ShardError as error:
            assert "0000000.safetensors" in str(error)  # noqa: PT017
        try:
            read_header(path)
        except ShardError as error:
            assert "0000000.safetensors" in str(error)  # noqa: PT017


def test_a_flipped_feature_is_found_by_the_checksum(path):
    write_shard(path, example())
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(ShardError, match="is damaged: its content does not match its checksum"):
        read_shard(path)
    read_shard(path, verify=False)


@pytest.mark.parametrize("content", [b"", b"hello", b"\x00" * 100, b"{}" * 500, b"\xff" * 64])
def test_a_file_of_another_kind_is_no_shard(path, content):
    path.write_bytes(content)
    with pytest.raises(ShardError, match=r"0000000\.safetensors is truncated or damaged"):
        read_shard(path)


@pytest.mark.parametrize(
    "metadata", [None, {"format": "pt"}, {"lapsvm": "{}"}, {"lapsvm": "[1]"}, {"lapsvm": '{"format":"lapsvm model 1"}'}]
)
def test_another_safetensors_file_is_no_shard(path, metadata):
    save_file({"weight": np.zeros(3)}, path, metadata=metadata)
    with pytest.raises(ShardError, match=r"is no shard of the format 'lapsvm shard 1'"):
        read_header(path)


def test_a_header_that_is_no_json_is_damage(path):
    save_file({"weight": np.zeros(3)}, path, metadata={"lapsvm": "{"})
    with pytest.raises(ShardError, match="its header is no JSON"):
        read_header(path)


def test_a_missing_shard_is_named(tmp_path):
    for reader in (read_shard, read_header):
        with pytest.raises(MissingError, match=r"shard .*nothing is not there"):
            reader(tmp_path / "nothing")
        with pytest.raises(MissingError, match="must be a regular file, got a folder"):
            reader(tmp_path)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_a_feature_that_is_not_finite_is_refused_with_its_picture(path, bad, dtype):
    shard = example()
    features = shard.features.astype(dtype)
    features[2, 1] = bad
    broken = Shard(**(vars(shard) | {"features": features}))
    with pytest.raises(NotFiniteError, match=rf"features of picture c must be finite, got {bad} at index \(1, 1\)"):
        write_shard(path, broken)
    assert not any(path.parent.iterdir())


def test_a_box_that_is_not_finite_is_refused_with_its_picture(path):
    shard = example()
    shard.boxes[0, 3] = np.nan
    with pytest.raises(NotFiniteError, match="boxes of picture b must be finite"):
        write_shard(path, shard)


def test_a_feature_that_does_not_fit_float16_is_refused_and_float32_takes_it():
    high = PictureWindows("a", np.zeros((1, 4)), np.array([[65504.0, -70000.0]]), "0", (4, 4))
    with pytest.raises(NotFiniteError, match="features of picture a must be at most 65504 to fit float16, got 70000"):
        assemble_shard([high], {})
    assert assemble_shard([high], {}, "float32").features.tolist() == [[65504.0, -70000.0]]


def test_a_feature_just_above_the_largest_float16_is_refused_too():
    above = PictureWindows("a", np.zeros((1, 4)), np.array([[65519.0]]), "0", (4, 4))
    with pytest.raises(NotFiniteError, match="65504"):
        assemble_shard([above], {})


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_assembling_names_the_picture_of_a_feature_that_is_not_finite(bad):
    broken = PictureWindows("b", np.zeros((1, 4)), np.array([[0.0, bad]]), "0", (4, 4))
    with pytest.raises(NotFiniteError, match="features of picture b must be finite"):
        assemble_shard([picture("a", dim=2), broken], {})


@pytest.mark.parametrize(
    ("pictures", "dtype", "error", "sentence"),
    [
        ([], "float16", InputError, "a shard needs at least one picture, got none"),
        ([picture()], "float64", OptionError, "must be one of float16, float32, bfloat16, got 'float64'"),
        ([picture("a"), picture("a")], "float16", InputError, "image ids of a shard must differ, got 'a' twice"),
        ([picture("a"), picture("b", dim=4)], "float16", ShapeError, r"picture b must have features of shape \(2, 3\)"),
        ([PictureWindows("a", np.zeros((3, 4)), np.zeros((2, 5)), "", (1, 1))], "float16", ShapeError, r"\(3, 5\)"),
        ([PictureWindows("a", np.zeros((3, 5)), np.zeros((3, 5)), "", (1, 1))], "float16", ShapeError, "boxes"),
        ([PictureWindows("a", np.zeros((3, 4)), np.zeros(3), "", (1, 1))], "float16", ShapeError, "2 dimensions"),
        ([PictureWindows(7, np.zeros((1, 4)), np.zeros((1, 1)), "", (1, 1))], "float16", InputError, "must be str"),
    ],
)
def test_what_does_not_fit_is_refused(pictures, dtype, error, sentence):
    with pytest.raises(error, match=sentence):
        assemble_shard(pictures, {}, dtype)


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("features", np.zeros((3, 3)), "features of a shard must be float16 or float32 or bfloat16, got float64"),
        ("features", np.zeros(3, np.float16), "features of a shard must have 2 dimensions"),
        ("boxes", np.zeros((2, 4), np.float32), r"boxes of a shard must have shape \(3, 4\)"),
        ("offsets", np.array([0, 2, 1, 3]), "offsets must rise from 0 to the number of windows 3"),
        ("offsets", np.array([1, 1, 1, 3]), "offsets must rise"),
        ("offsets", np.array([0, 1, 1, 2]), "offsets must rise"),
        ("offsets", np.array([0, 3]), r"offsets of a shard must have shape \(4,\)"),
        ("sizes", np.zeros((3, 2)), "sizes of a shard must be int32"),
        ("pixel_hashes", ("x",), "one pixel hash per picture, got 1 for 3"),
        ("provenance", {"a": float("nan")}, "provenance must be plain JSON without NaN"),
        ("provenance", {"a": Path("x")}, "provenance must be plain JSON"),
    ],
)
def test_a_shard_checks_its_parts(name, value, sentence):
    with pytest.raises(InputError, match=sentence):
        Shard(**(vars(example()) | {name: value}))


class Killed(BaseException):
    """Stands for a signal in mid-write."""


@pytest.mark.parametrize("failure", [Killed, KeyboardInterrupt, OSError(errno.ENOSPC, "No space left on device")])
@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(path, monkeypatch, failure, step):
    write_shard(path, example("ab"))
    before = path.read_bytes()

    def fail(*args):
        raise failure

    with monkeypatch.context() as patch:
        patch.setattr(os, step, fail)
        with pytest.raises((Killed, KeyboardInterrupt, WriteError)):
            write_shard(path, example("xyz"))
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_a_full_disk_is_one_sentence(path, monkeypatch):
    def full(*args):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(WriteError, match=r"^file .*0000000\.s.* could not be written: No space left on device\.$"):
        write_shard(path, example())


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
def test_a_disk_that_is_really_full_is_reported(path, monkeypatch):
    monkeypatch.setattr(Path, "open", lambda self, mode: open("/dev/full", "wb"))  # noqa: SIM115
    with pytest.raises(WriteError, match="No space left on device"):
        write_atomically(path, b"x" * 100_000)


def test_a_folder_that_is_missing_is_named(tmp_path):
    with pytest.raises(MissingError, match=r"folder .*absent is not there, so 1 cannot be written"):
        write_shard(tmp_path / "absent" / "1", example())


KILLED = """
import os, signal, sys
sys.path.insert(0, sys.argv[2])
from test_shards import example
from lapsvm.features import write_shard
real = getattr(os, sys.argv[3])
def kill(*args):
    if sys.argv[4] == "after":
        real(*args)
    os.kill(os.getpid(), signal.SIGKILL)
setattr(os, sys.argv[3], kill)
write_shard(sys.argv[1], example())
"""


@pytest.mark.parametrize(("step", "when"), [("fsync", "before"), ("replace", "before"), ("replace", "after")])
def test_a_killed_process_leaves_none_or_a_whole_shard(path, step, when):
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(path), str(Path(__file__).parent), step, when], check=False
    )
    assert done.returncode == -9
    left = remove_stale(path.parent)
    if when == "after":
        assert same(read_shard(path), example())
        assert left == []
    else:
        assert not path.exists()
        assert [name.suffix for name in left] == [".partial"]
    assert list(path.parent.iterdir()) == ([path] if when == "after" else [])


def test_only_temporary_files_are_removed(tmp_path):
    write_shard(tmp_path / "0.safetensors", example())
    for name in (".0.safetensors.1234abcd.partial", "mine.partial", ".hidden"):
        (tmp_path / name).touch()
    assert [path.name for path in remove_stale(tmp_path)] == [".0.safetensors.1234abcd.partial"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [".hidden", "0.safetensors", "mine.partial"]
    assert remove_stale(tmp_path / "absent") == []
