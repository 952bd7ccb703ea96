"""MATLAB's files: read as SciPy reads them, and damage is a sentence, never a crash."""

import os
import zlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy.io import loadmat, savemat
from scipy.sparse import csr_matrix

from lapsvm.errors import ExternalFileError, LapsvmError, MissingError
from lapsvm.features.external.mat_files import read_mat_variables

TYPES = ("f8", "f4", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "?")


def cell(*values):
    found = np.empty((1, len(values)), dtype=object)
    for place, value in enumerate(values):
        found[0, place] = value
    return found


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("shape", [(1, 1), (3, 4), (0, 4), (2, 3, 2)])
@pytest.mark.parametrize("dtype", TYPES)
def test_arrays_are_what_scipy_reads(tmp_path, dtype, shape, compressed):
    array = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    savemat(tmp_path / "a.mat", {"first": array, "second": array[:1]}, do_compression=compressed)
    found, expected = read_mat_variables(tmp_path / "a.mat"), loadmat(tmp_path / "a.mat")
    for name in ("first", "second"):
        np.testing.assert_array_equal(found[name], expected[name])
    assert found["first"].dtype == np.dtype(dtype)


def test_texts_cells_and_structs(tmp_path):
    content = {"text": "000012", "cells": cell("a", np.eye(2), cell("b")), "struct": {"one": 1.0, "two": "zwei"}}
    savemat(tmp_path / "a.mat", content)
    found = read_mat_variables(tmp_path / "a.mat")
    assert found["text"] == "000012"
    assert found["cells"][0] == "a"
    np.testing.assert_array_equal(found["cells"][1], np.eye(2))
    assert found["cells"][2] == ["b"]
    assert found["struct"]["two"] == "zwei"
    np.testing.assert_array_equal(found["struct"]["one"], [[1.0]])


def test_files_of_the_other_byte_order_are_read(tmp_path):
    def element(kind, data):
        return np.array([kind, len(data)], dtype=">u4").tobytes() + data + b"\0" * (-len(data) % 8)

    numbers = np.array([1.5, -2.0], dtype=">f8").tobytes()
    flags, shape = np.array([6, 0], dtype=">u4").tobytes(), np.array([1, 2], dtype=">i4").tobytes()
    small_name = np.array([(1 << 16) | 1], dtype=">u4").tobytes() + b"x\0\0\0"
    matrix = element(14, element(6, flags) + element(5, shape) + small_name + element(9, numbers))
    (tmp_path / "a.mat").write_bytes(b"MATLAB 5.0 MAT-file".ljust(124) + b"\x01\x00MI" + matrix)
    np.testing.assert_array_equal(read_mat_variables(tmp_path / "a.mat")["x"], [[1.5, -2.0]])
    np.testing.assert_array_equal(loadmat(tmp_path / "a.mat")["x"], [[1.5, -2.0]])


@pytest.mark.parametrize("compressed", [False, True])
def test_what_is_not_wanted_is_there_without_its_value(tmp_path, compressed):
    savemat(tmp_path / "a.mat", {"large": np.zeros((500, 500)), "small": np.eye(2)}, do_compression=compressed)
    found = read_mat_variables(tmp_path / "a.mat", {"large"})
    assert found["large"] is None
    np.testing.assert_array_equal(found["small"], np.eye(2))


def test_what_is_no_array_of_real_numbers_is_none_or_refused(tmp_path):
    savemat(tmp_path / "a.mat", {"x": csr_matrix(np.eye(3)), "y": np.eye(2)})
    assert read_mat_variables(tmp_path / "a.mat")["x"] is None
    savemat(tmp_path / "a.mat", {"x": np.array([[1 + 2j]])})
    with pytest.raises(ExternalFileError, match="discards the imaginary part"):
        read_mat_variables(tmp_path / "a.mat")


@pytest.mark.parametrize("compressed", [False, True])
def test_damage_anywhere_is_told_or_changes_a_value_but_never_crashes(tmp_path, compressed):
    path, rng = tmp_path / "a.mat", np.random.default_rng(0)
    savemat(path, {"boxes": np.eye(4), "d": {"gt": [1]}, "images": cell("a", "b")}, do_compression=compressed)
    content = path.read_bytes()
    told = 0
    for _ in range(300):
        damaged = bytearray(content)
        damaged[rng.integers(128, len(content))] ^= 1 << rng.integers(8)
        path.write_bytes(damaged)
        try:
            read_mat_variables(path)
        except LapsvmError as error:
            told += str(path) in str(error)
    assert told > 60


def test_a_flipped_bit_in_compressed_numbers_is_found(tmp_path):
    path = tmp_path / "a.mat"
    savemat(path, {"x": np.random.default_rng(0).standard_normal((50, 50))}, do_compression=True)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)
    with pytest.raises(ExternalFileError, match="is truncated or damaged"):
        read_mat_variables(path)


def test_what_is_no_such_file_is_refused(tmp_path):
    savemat(tmp_path / "old.mat", {"x": np.eye(2)}, format="4")
    with pytest.raises(ExternalFileError, match="versions 5 to 7"):
        read_mat_variables(tmp_path / "old.mat")
    with pytest.raises(MissingError, match="is not there"):
        read_mat_variables(tmp_path / "none.mat")


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("compressed", [False, True])
def test_thirty_thousand_empty_cells_are_read(tmp_path, order, compressed):
    """They are pictures without windows."""

    def element(kind, data):
        return (
            np.array([kind, len(data)], dtype=f"{order}u4").tobytes()
            + data
            + bytes(-len(data) % 8 if kind != 15 else 0)
        )

    def cells(count):
        flags, shape = np.array([1, 0], dtype=f"{order}u4"), np.array([1, count], dtype=f"{order}i4")
        parts = (element(6, flags.tobytes()), element(5, shape.tobytes()), element(1, b"boxes"))
        content = element(14, b"".join(parts) + count * element(14, b""))
        content = element(15, zlib.compress(content)) if compressed else content
        return b"MATLAB 5.0 MAT-file".ljust(124) + np.array([0x0100, 0x4D49], dtype=f"{order}u2").tobytes() + content

    (tmp_path / "a.mat").write_bytes(cells(3))
    assert [one.size for one in read_mat_variables(tmp_path / "a.mat")["boxes"]] == [0] * 3
    (tmp_path / "a.mat").write_bytes(cells(30_000))
    assert len(read_mat_variables(tmp_path / "a.mat")["boxes"]) == 30_000


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # a fork beside threads
def test_threads_and_forked_processes_get_their_own_answers(tmp_path):
    names = [chr(97 + number) for number in range(20)]
    for name in names:
        savemat(tmp_path / f"{name}.mat", {name: np.eye(2)})

    def read(name):
        return list(read_mat_variables(tmp_path / f"{name}.mat"))

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(read, names)) == [[name] for name in names]
    child = os.fork()
    if not child:
        os._exit(0 if all(read(name) == [name] for name in names) else 1)
    assert all(read(name) == [name] for name in names)
    assert os.waitpid(child, 0)[1] == 0
