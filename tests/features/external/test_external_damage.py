"""Files of windows that claim what they do not hold: a sentence before memory is asked for."""

import sys
import tracemalloc
import zipfile
import zlib
from contextlib import suppress

import numpy as np
import pytest
from scipy.io import savemat

from lapsvm.errors import ExternalFileError, LapsvmError
from lapsvm.features import open_external
from lapsvm.features.external.mat_files import read_mat_variables
from lapsvm.features.external.numpy_files import load_npy, opened_npz, unfolded_limit

BOXES = np.array([[0.0, 0.0, 10.0, 20.0], [2.0, 3.0, 5.0, 7.0]])


@pytest.fixture
def little():
    """Fail if much memory is taken."""
    tracemalloc.start()
    yield
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**27


def read_all(path, kind=""):
    source = open_external(path, kind)
    return [source.read(key) for key in source.keys]


def npy(path, header, data=b""):
    """Write an .npy file with a header of one's own."""
    text = header.encode("latin-1").ljust(117) + b"\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + data)
    return path


@pytest.mark.parametrize(
    ("header", "sentence"),
    [
        ("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000, 4), }", "the file is too short"),
        ("{'descr': '<f8', 'fortran_order': False, 'shape': (-1, 4), }", "claims the shape"),
        ("{'descr': '<f8', 'fortran_order': False, 'shape': " + str((1,) * 33) + ", }", "claims the shape"),
        ("{'descr': '|S0', 'fortran_order': False, 'shape': (4,), }", "claims the shape"),
        ("{'descr': '|O', 'fortran_order': False, 'shape': (4,), }", "holds pickled objects"),
        ("{'descr': '<f8', 'fortran_order': False, 'shape': (2, 4), ", "truncated or damaged"),
        ("{'descr': '<f8', 'fortran_order': 7, 'shape': [2], }", "truncated or damaged"),
        ("((((((((((((((((", "truncated or damaged"),
        ("-" * 90, "truncated or damaged"),
    ],
)
@pytest.mark.parametrize("mapped", [False, True])
def test_a_header_is_believed_as_far_as_the_file_holds_it(tmp_path, little, header, sentence, mapped):
    with pytest.raises(ExternalFileError, match=sentence):
        load_npy(npy(tmp_path / "a.npy", header, bytes(64)), mapped)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("mapped", [False, True])
def test_arrays_are_what_numpy_reads(tmp_path, order, mapped):
    for array in (np.arange(12.0).reshape(3, 4), np.zeros((0, 4)), np.float32(3), np.arange(3, dtype=">i2")):
        np.save(tmp_path / "a.npy", np.asarray(array, order=order))
        np.testing.assert_array_equal(load_npy(tmp_path / "a.npy", mapped), np.load(tmp_path / "a.npy"))


def test_flipped_bits_of_a_header_are_a_sentence_or_an_array(tmp_path, little):
    np.save(tmp_path / "a.npy", BOXES)
    whole = (tmp_path / "a.npy").read_bytes()
    for place in range(128):
        for bit in range(8):
            content = bytearray(whole)
            content[place] ^= 1 << bit
            (tmp_path / "a.npy").write_bytes(content)
            with suppress(ExternalFileError):
                assert isinstance(load_npy(tmp_path / "a.npy"), np.ndarray)


def test_an_archive_that_unfolds_to_gigabytes_is_refused(tmp_path, little):
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("boxes.npy", "w") as entry:
        header = b"{'descr': '|u1', 'fortran_order': False, 'shape': (100000000, 4), }".ljust(117) + b"\n"
        entry.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
        for _ in range(400):
            entry.write(bytes(1_000_000))
    with pytest.raises(ExternalFileError, match=r"unfolds from \d+ bytes to 400000128"):
        read_all(path)


def test_an_entry_of_an_archive_that_claims_more_than_it_holds_is_refused(tmp_path, little):
    npy(tmp_path / "a.npy", "{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000, 4), }", bytes(64))
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.write(tmp_path / "a.npy", "boxes.npy")
    with opened_npz(tmp_path / "a.npz") as archive:
        assert list(archive) == ["boxes"]
        assert archive.get("gt") is None
    with pytest.raises(ExternalFileError, match="the file is too short"):
        read_all(tmp_path / "a.npz")


@pytest.mark.parametrize("name", ["boxes", "features", "gt", "offsets"])
def test_numbers_without_a_dimension_are_refused(tmp_path, name):
    arrays = {"boxes": BOXES, "features": BOXES, "gt": np.zeros(2), "offsets": np.array([0, 1, 2])}
    for key, value in arrays.items():
        np.save(tmp_path / f"{key}.npy", np.asarray(value if key != name else np.asarray(value).ravel()[0]))
    (tmp_path / "ids.txt").write_text("a\nb\n")
    with pytest.raises(ExternalFileError):
        read_all(tmp_path)


@pytest.mark.parametrize("name", ["boxes", "features"])
def test_numbers_without_a_dimension_in_an_archive_are_refused(tmp_path, name):
    np.savez(tmp_path / "a.npz", **({"boxes": BOXES, "features": BOXES} | {name: np.float64(3)}))
    with pytest.raises(ExternalFileError, match=f"{name} must have shape"):
        read_all(tmp_path / "a.npz")


def test_ids_that_are_no_text_are_refused(tmp_path):
    np.save(tmp_path / "boxes.npy", BOXES)
    np.save(tmp_path / "offsets.npy", np.array([0, 1, 2]))
    (tmp_path / "ids.txt").write_bytes(b"a\n\xff\xfe\n")
    with pytest.raises(ExternalFileError, match=r"ids\.txt must be text in UTF-8"):
        read_all(tmp_path)


DEEP = sys.getrecursionlimit() * 3


@pytest.mark.parametrize(
    "text",
    [
        "[" * DEEP + "]" * DEEP,
        '{"a":' * DEEP + "1" + "}" * DEEP,
        '{"a": ' + "[" * 200 + "1" + "]" * 200 + "}",
        '{"a": [[0, 0, 5, 5], [1, 2]]}',
        '{"a": {"boxes": [[0, 0, 5, 5]], "gt": [[1], [1, 2]]}}',
        '{"a": {"boxes": [[0, 0, 5, 5]], "features": [[[1]], 2]}}',
        '{"a": [[0, 0, 5, 1' + "0" * 400 + "]]}",
        '{"a": [[0, 0, 5, 1' + "0" * 5000 + "]]}",
        '{"a": [[0, 0, 5, 1e999]]}',
        '{"a": [{"x": 1}, 2, 3, 4]}',
        '[{"image_id": 1, "bbox": [0, 0, 5, 5], "score": NaN}, {"image_id": 1, "bbox": [0, 0, 5, 5], "score": 1}]',
        '[{"image_id": 1, "bbox": null}]',
        "[" + "[" * 300 + "1" + "]" * 300 + "]",
    ],
)
def test_json_that_is_no_table_is_a_sentence(tmp_path, text):
    np.save(tmp_path / "boxes.npy", BOXES)
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(LapsvmError) as caught:
        read_all(tmp_path / "a.json")
    assert len(str(caught.value)) < 1000


def element(kind, data):
    return np.array([kind, len(data)], dtype="<u4").tobytes() + data + b"\0" * (-len(data) % 8)


def matrix(shape, kind, data, stored):
    """Return a variable x of a .mat file."""
    head = element(6, np.array([kind, 0], dtype="<u4").tobytes()) + element(5, np.array(shape, dtype="<i4").tobytes())
    return head + element(1, b"x") + element(stored, data)


def mat(path, content, compressed=b""):
    path.write_bytes(b"MATLAB 5.0 MAT-file".ljust(124) + b"\x00\x01IM" + content + compressed)
    return path


@pytest.mark.parametrize("count", [33, 65, 1000])
def test_an_array_of_too_many_dimensions_is_refused(tmp_path, count):
    path = mat(tmp_path / "a.mat", element(14, matrix([1] * count, 6, bytes(8), 9)))
    with pytest.raises(ExternalFileError, match="truncated or damaged"):
        read_mat_variables(path)


def test_a_shape_whose_sides_overflow_is_refused(tmp_path):
    path = mat(tmp_path / "a.mat", element(14, matrix([0, 2**31 - 1, 2**31 - 1, 2**31 - 1], 6, b"", 9)))
    with pytest.raises(ExternalFileError, match="truncated or damaged"):
        read_mat_variables(path)


@pytest.mark.parametrize("kind", ["numbers", "cells"])
def test_a_small_mat_file_takes_little_memory(tmp_path, little, kind):
    packer, size = zlib.compressobj(1), 200 * 2**20
    if kind == "numbers":  # bytes that are stored for numbers of 8 bytes each
        head = matrix([size // 8, 8], 6, b"", 2)[:-8] + np.array([2, size], dtype="<u4").tobytes()
    else:  # empty cells of 8 bytes each, which take much more as objects
        head = matrix([size // 8, 1], 1, b"", 2)[:-8]
    parts = [packer.compress(np.array([14, len(head) + size], dtype="<u4").tobytes() + head)]
    unit = (np.array([14, 0], dtype="<u4").tobytes() * 2**17) if kind == "cells" else bytes(2**20)
    parts += [packer.compress(unit) for _ in range(size // 2**20)]
    data = b"".join([*parts, packer.flush()])
    path = mat(tmp_path / "a.mat", np.array([15, len(data)], dtype="<u4").tobytes() + data)
    with pytest.raises(ExternalFileError, match="far more memory than a file of its size can hold"):
        read_mat_variables(path)


def test_features_that_are_mostly_zero_are_read(tmp_path):
    features = np.maximum(np.random.default_rng(0).normal(size=(300, 4096)) - 1.5, 0)
    savemat(tmp_path / "a.mat", {"boxes": np.tile(BOXES + 1, (150, 1)), "feat": features}, do_compression=True)
    np.testing.assert_array_equal(read_all(tmp_path / "a.mat")[0].features, features)
    assert features.nbytes < unfolded_limit(0)
    assert features.nbytes < 25 * (tmp_path / "a.mat").stat().st_size


def test_many_names_are_compared_once(tmp_path):
    """A name is looked at a few times, however many there are."""

    class Name(str):
        compared = 0
        __hash__ = str.__hash__

        def __eq__(self, other):
            Name.compared += 1
            return str.__eq__(self, other)

    from lapsvm.arrays import check_distinct

    names = [Name(i) for i in range(2000)]
    check_distinct(names, "ids must differ")
    with pytest.raises(ExternalFileError, match="ids must differ, got '1999' twice"):
        check_distinct([*names, Name(1999)], "ids must differ", ExternalFileError)
    assert Name.compared < 200


@pytest.mark.parametrize("reader", ["read_array_header_1_0", "read_array"])
@pytest.mark.parametrize("times", [1, 3])
def test_a_race_of_the_interpreter_is_no_damage(tmp_path, monkeypatch, reader, times):
    """CPython 3.11 raises SystemError now and then where two threads evaluate headers at once."""
    np.savez(tmp_path / "a.npz", boxes=BOXES)
    np.save(tmp_path / "a.npy", BOXES)
    whole, calls = getattr(np.lib.format, reader), []

    def racing(*arguments, **named):
        calls.append(reader)
        if len(calls) <= times:
            arguments[0].read(3)
            raise SystemError("AST constructor recursion depth mismatch (before=54, after=64)")
        return whole(*arguments, **named)

    monkeypatch.setattr(np.lib.format, reader, racing)
    with opened_npz(tmp_path / "a.npz") as archive:
        np.testing.assert_array_equal(archive["boxes"], BOXES)
    assert len(calls) > times
    calls.clear()
    np.testing.assert_array_equal(load_npy(tmp_path / "a.npy"), BOXES)


def test_an_error_of_the_interpreter_that_stays_is_a_sentence(tmp_path, monkeypatch):
    np.save(tmp_path / "a.npy", BOXES)

    def broken(*_, **__):
        raise SystemError("unknown opcode")

    monkeypatch.setattr(np.lib.format, "read_array_header_1_0", broken)
    with pytest.raises(ExternalFileError, match="is truncated or damaged: unknown opcode"):
        load_npy(tmp_path / "a.npy")
