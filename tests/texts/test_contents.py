"""A reader that gets another kind of file says which, and what to do; a file of its own kind is never named another."""

import gzip
import json
import sqlite3
import tarfile
import zipfile
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from safetensors.numpy import save

from lapsvm.annotations.coco import read_coco
from lapsvm.annotations.voc import read_voc_file
from lapsvm.catalog import read_picture
from lapsvm.errors import AnnotationError, LapsvmError, ModelFileError, ResultsError, SettingsError
from lapsvm.evaluation.results import read_result_file
from lapsvm.features.external.mat_files import read_mat_variables
from lapsvm.features.external.numpy_files import load_npy, opened_npz
from lapsvm.features.extractors.networks import check_self_contained
from lapsvm.model_files import read_model
from lapsvm.texts.contents import described, described_json
from lapsvm.texts.reading import read_text, read_toml, read_yaml


def zipped(name, content=b"{}" * 99):
    file = BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
    return file.getvalue()


def tarred():
    file = BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("annotations.json"))
    return file.getvalue()


def pictured(format_name):
    file = BytesIO()
    Image.new("RGB", (9, 8)).save(file, format_name)
    return file.getvalue()


def database():
    connection = sqlite3.connect(":memory:")
    connection.execute("create table t (a)")
    return connection.serialize()


def arrays(**values):
    file = BytesIO()
    np.savez(file, **values)
    return file.getvalue()


KINDS = {
    "zip": (zipped("annotations.json"), "a ZIP archive; unpack it"),
    "xlsx": (zipped("xl/workbook.xml"), "an Office document"),
    "npz": (arrays(boxes=np.zeros((1, 4))), "a file of NumPy arrays"),
    "gzip": (gzip.compress(b"{}" * 99), "a gzip archive; unpack it"),
    "7z": (b"7z\xbc\xaf\x27\x1c\0\4" + bytes(30), "a 7z archive; unpack it"),
    "rar": (b"Rar!\x1a\x07\0" + bytes(30), "a RAR archive; unpack it"),
    "tar": (tarred(), "a tar archive; unpack it"),
    "pdf": (b"%PDF-1.4\n%\xe2\xe3\n", "a PDF document"),
    "png": (pictured("PNG"), "a picture"),
    "jpeg": (pictured("JPEG"), "a picture"),
    "webp": (pictured("WEBP"), "a picture"),
    "sqlite": (database(), "an SQLite database"),
    "pickle": (b"\x80\x04\x95\x0b\0\0\0\0\0\0\0}\x94.", "a Python pickle"),
    "hdf5": (b"\x89HDF\r\n\x1a\n" + bytes(30), "an HDF5 file"),
    "parquet": (b"PAR1\x15\x04" + bytes(30), "a Parquet table"),
    "html": (b"\n<!DOCTYPE html><html></html>", "a page of HTML"),
    "lfs": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "a pointer of Git LFS"),
    "utf-16": ('{"a": 1}'.encode("utf-16"), "UTF-16; save it as UTF-8"),
}


def read_safetensors(path):
    return read_model(path, "detector", 1)


def read_onnx(path):
    check_self_contained(str(path), path.read_bytes())


def read_npz(path):
    with opened_npz(path) as archive:
        return dict(archive)


READERS = {
    "text": lambda path: read_text(path, "table", AnnotationError),
    "json": read_coco,
    "toml": lambda path: read_toml(path, "settings", SettingsError),
    "yaml": lambda path: read_yaml(path, "settings", AnnotationError),
    "xml": read_voc_file,
    "results": read_result_file,
    "npy": load_npy,
    "npz": read_npz,
    "mat": read_mat_variables,
    "safetensors": read_safetensors,
    "onnx": read_onnx,
    "picture": read_picture,
}
TAKEN = {("picture", kind) for kind in ("png", "jpeg", "webp")} | {
    ("npz", "npz"),
    ("npz", "zip"),
    ("npz", "xlsx"),
    ("picture", "hdf5"),
}
OWN = {("xml", "utf-16")}  # the reader of XML takes every encoding


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reader", READERS)
def test_a_reader_names_another_kind_and_what_to_do(tmp_path, reader, kind):
    content, sentence = KINDS[kind]
    (tmp_path / "file").write_bytes(content)
    if (reader, kind) in TAKEN | OWN:
        return
    with pytest.raises(LapsvmError, match=f"must be .*, got {sentence}") as caught:
        READERS[reader](tmp_path / "file")
    assert str(caught.value).count("\n") == 0
    assert "; " in str(caught.value)
    assert str(tmp_path / "file") in str(caught.value)


@pytest.mark.parametrize("reader", ["json", "xml", "safetensors", "onnx", "npy", "npz", "mat", "picture"])
def test_an_empty_file_is_named(tmp_path, reader):
    (tmp_path / "file").touch()
    with pytest.raises(LapsvmError, match="got an empty file; write or copy it again"):
        READERS[reader](tmp_path / "file")


def test_an_empty_text_is_a_text(tmp_path):
    (tmp_path / "file").touch()
    assert read_text(tmp_path / "file", "labels", AnnotationError) == ""


@pytest.mark.parametrize(
    ("reader", "content", "error", "sentence"),
    [
        ("json", b"<?xml version='1.0'?><annotations/>", AnnotationError, "must be plain text, got XML; export it"),
        ("json", b'{"a": 1}\n{"a": 2}\n', AnnotationError, "must be JSON, got JSON Lines"),
        ("xml", b'{"images": []}', AnnotationError, "must be XML, got JSON; export it"),
        ("xml", b"<annotation><a></annotation>", AnnotationError, "is no XML that can be read"),
        ("safetensors", b'{"a": 1}', ModelFileError, "must be a safetensors file, got JSON"),
        ("results", b"<html><body>404</body></html>", ResultsError, "got a page of HTML"),
    ],
)
def test_texts_of_another_form_are_named(tmp_path, reader, content, error, sentence):
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(error, match=sentence):
        READERS[reader](tmp_path / "file")


@pytest.mark.parametrize(
    "text",
    ["PAR1_001.jpg\n", "BZh_1\n", "MM_1\n", "GIF89a é\n", "7z\n", "MATLAB 5.0\n", "RIFFxxxxWEBP\n",
     "Rar! \n", "é", "\t\n\f", "{", "[", "<a>"],
)  # fmt: skip
def test_plain_texts_are_nothing_else(tmp_path, text):
    assert described(text.encode()) == ""
    (tmp_path / "file").write_text(text)
    assert read_text(tmp_path / "file", "list", AnnotationError) == text


def test_files_of_our_own_are_nothing_else():
    assert described(save({"a": np.zeros(3, np.float32)})) == ""
    assert described_json(json.dumps({"a": 1}, indent=1)) == ""
    sources = [path.read_bytes() for path in Path(__file__).parents[1].rglob("*.py")]
    assert {described(content) for content in sources if content} == {""}
