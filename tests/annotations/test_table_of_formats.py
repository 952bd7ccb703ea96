"""One row and one module add a format: its writer, its way back, its name in help; pages name every format."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from lapsvm.pipelines.commands import verbs  # noqa: F401 - adds the options of export
from lapsvm.pipelines.review.mended_files import read_mended
from lapsvm.pipelines.settings.options import OPTIONS

from lapsvm.annotations.export import write_export
from lapsvm.annotations.exported import AnnotatedPicture, Annotations
from lapsvm.annotations.pictures import AnnotatedFile, FileBox, FilePicture
from lapsvm.annotations.table import FORMATS, Format
from lapsvm.errors import InputError, OptionError


def annotations(name):
    """Return one picture with one box."""
    picture = AnnotatedPicture(name, Path(name), 60, 40, ("cat",), [[1.0, 2.0, 30.0, 40.0]], [0.5], id="1")
    return Annotations("test", ("cat",), (picture,))


def test_a_row_and_a_module_add_a_format_with_its_way_back(tmp_path, monkeypatch):
    """One row of the table: the writer, the check of names, the message, the folder and the file that come back."""

    def write(given, folder):
        rows = [[one.name, one.width, one.height, list(one.classes), one.boxes.tolist()] for one in given.pictures]
        (folder / "boxes.rows").write_text(json.dumps(rows))

    def read(path):
        rows = json.loads(path.read_text())
        return AnnotatedFile([
            FilePicture((name,), (width, height), tuple(map(FileBox, classes, map(tuple, boxes))))
            for name, width, height, classes, boxes in rows
        ])  # fmt: skip

    module = SimpleNamespace(
        write=write, read=read, can_hold=lambda name: "|" not in name, owns=lambda path: path.suffix == ".rows"
    )
    monkeypatch.setitem(sys.modules, "lapsvm.annotations.formats.rows", module)
    monkeypatch.setitem(FORMATS, "rows", Format("rows", ("boxes.rows",)))
    boxes = annotations("a.png")
    write_export(boxes, tmp_path / "out", "rows")
    for path in (tmp_path / "out", tmp_path / "out" / "boxes.rows"):
        name, file = read_mended(path)
        (picture,) = file.pictures
        assert (name, picture.names, picture.size) == ("rows", ("a.png",), (60, 40))
        assert picture.boxes == (FileBox("cat", (1.0, 2.0, 30.0, 40.0)),)
    with pytest.raises(InputError, match="format rows cannot hold the picture name"):
        write_export(annotations("a|b.png"), tmp_path / "other", "rows")
    with pytest.raises(OptionError, match="must be one of coco, yolo, voc, label-studio, cvat, rows, got 'pascal'"):
        write_export(boxes, tmp_path / "other", "pascal")


def test_help_and_the_page_on_exports_name_every_format():
    (option,) = (one for one in OPTIONS if one.name == "format_name" and "export" in one.verbs.split())
    page = (Path(__file__).parents[2] / "docs" / "howto" / "export_boxes.md").read_text()
    assert option.help == f"{', '.join(FORMATS)} or onnx."
    assert [name for name in FORMATS if f"--format {name}" not in page and f"`{name}`" not in page] == []
