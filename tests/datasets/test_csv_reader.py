"""A table of labels: what it may say, and the line of what it may not."""

import pytest
from lapsvm.datasets.imagefolder import open_imagefolder
from lapsvm.datasets.labels_csv import open_csv

from lapsvm.catalog import Dataset, open_dataset
from lapsvm.errors import LabelsError, MissingError, OptionError


def write(root, text):
    (root / "labels.csv").write_bytes(text.encode() if isinstance(text, str) else text)
    return root


def labels(dataset, set_name="trainval"):
    return {record.id: dict(record.labels) for record in dataset.records(set_name)}


def test_one_row_per_picture_and_class(tmp_path):
    write(tmp_path, "image,label,set\nb.jpg,dog,trainval\nx/a.jpg,cat,trainval\nb.jpg,cat,trainval\nc.png,,test\n")
    dataset = open_dataset("csv", tmp_path)
    assert isinstance(dataset, Dataset)
    assert (dataset.name, dataset.classes, dataset.sets) == ("csv", ("cat", "dog"), ("trainval", "test"))
    assert labels(dataset) == {"b": {"cat": 1, "dog": 1}, "x/a": {"cat": 1, "dog": -1}}
    assert [record.id for record in dataset.records("trainval")] == ["b", "x/a"]
    assert labels(dataset, "test") == {"c": {"cat": -1, "dog": -1}}
    assert dataset.records("trainval")[1].path == tmp_path / "x/a.jpg"
    assert dataset.ground_truth("test") is None


def test_without_the_column_set_there_is_one_set(tmp_path):
    write(tmp_path, "image,label\na.jpg,cat\n")
    assert open_csv(tmp_path).sets == ("trainval",)
    assert open_csv(tmp_path, train_set="all").sets == ("all",)


def test_a_table_with_semicolons_is_read(tmp_path):
    write(tmp_path, b'\xef\xbb\xbfimage;label;set\r\n"a, b.jpg";big cat;trainval\r\nc.jpg;;trainval\r\n')
    assert labels(open_csv(tmp_path)) == {"a,%20b": {"big cat": 1}, "c": {"big cat": -1}}
    write(tmp_path, "image;name\na.jpg;cat\n")
    with pytest.raises(
        LabelsError, match="line 1: the header must be image,label or image,label,set, got 'image,name'"
    ):
        open_csv(tmp_path)


def test_a_table_from_a_spreadsheet_is_read(tmp_path):
    write(tmp_path, b'\xef\xbb\xbfimage , label\r\n\r\n"a, b.jpg","the ""best"" cat"\r\n , \r\n./c.jpg, cat \r\n')
    assert labels(open_csv(tmp_path)) == {
        "a,%20b": {'the "best" cat': 1, "cat": -1},
        "c": {'the "best" cat': -1, "cat": 1},
    }


@pytest.mark.parametrize("mark", [",", ";", "\t"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("table", [("labels.csv", "image", open_csv), ("metadata.csv", "file_name", open_imagefolder)])
def test_tables_of_pictures_are_read_as_spreadsheets_write_them(tmp_path, mark, end, table):
    name, column, read = table
    rows = ["", f"{column}{mark}label", f'"a.jpg"{mark} cat', mark, f"b.jpg{mark}", ""]
    (tmp_path / name).write_bytes(b"\xef\xbb\xbf" + end.join(rows).encode())
    assert labels(read(tmp_path)) == {"a": {"cat": 1}, "b": {"cat": -1}}


def test_pictures_of_classes_not_asked_for_stay_as_negatives(tmp_path):
    write(tmp_path, "image,label\na.jpg,cat\nb.jpg,dog\n")
    assert labels(open_csv(tmp_path, classes=["dog"])) == {"a": {"dog": -1}, "b": {"dog": 1}}


def test_a_missing_picture_is_named_when_it_is_read(tmp_path):
    write(tmp_path, "image,label\na.jpg,cat\n")
    with pytest.raises(MissingError, match=r"picture .*a\.jpg is not there"):
        open_csv(tmp_path).records("trainval")[0].pixels()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", r"labels\.csv is empty: its header must be image,label or image,label,set"),
        ("\n\n", "is empty: its header"),
        ("a.jpg,cat\n", "line 1: the header must be image,label or image,label,set, got 'a.jpg,cat'"),
        ("image,label,label\n", "line 1: columns must differ, got 'label' twice"),
        ("image,label,set,box\n", "the header must be .*, got 'image,label,set,box'"),
        ("image,label\n", "gives no picture a label"),
        ("image,label\na.jpg,\n", "gives no picture a label"),
        ("image,label\na.jpg,cat\n\nb.jpg\n", "line 4: a row must have 2 values, got 1"),
        ("image,label\na.jpg,cat,dog\n", "line 2: a row must have 2 values, got 3"),
        ("image,label,set\na.jpg,cat\n", "line 2: a row must have 3 values, got 2"),
        ("image,label\n,cat\n", "line 2: image must be a path below the data folder, with '/', got ''"),
        ("image,label\n/etc/a.jpg,cat\n", "line 2: image must be a path below .*, got '/etc/a.jpg'"),
        ("image,label\nx/../../a.jpg,cat\n", "line 2: image must be a path below"),
        ("image,label\nC:\\a.jpg,cat\n", "line 2: image must be a path below"),
        ("image,label\na.jpg,x/y\n", "line 2: a class name must be printable, without '/'"),
        ("image,label\na.jpg,..\n", "line 2: a class name must be printable, without .* leading dot"),
        ("image,label,set\na.jpg,cat,\n", "line 2: set must be a name, got ''"),
        ("image,label,set\na.jpg,cat,../x\n", r"line 2: a set name must be printable, .*got '\.\./x'"),
        (
            "image,label\na.jpg,cat\na.jpg,\n",
            "line 3: 'a.jpg' must have an empty label in its only row, got '' after 'cat'",
        ),
        (
            "image,label\na.jpg,\na.jpg,cat\n",
            "line 3: 'a.jpg' must have an empty label in its only row, got 'cat' after ''",
        ),
        (
            "image,label,set\na.jpg,cat,test\na.jpg,dog,val\n",
            "line 3: 'a.jpg' must be in one set, got 'val' after 'test'",
        ),
        ("image,label\na.jpg,cat\na.png,cat\n", r"a\.png must differ from a\.jpg in more than its suffix"),
        ('image,label\n"a.jpg,cat\n', "line 2: a row must be CSV: unexpected end of data"),
        (b"image,label\n\xff.jpg,cat\n", "must be text in UTF-8, got the byte 0xff in line 2"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_line(tmp_path, text, sentence):
    with pytest.raises(LabelsError, match=sentence) as caught:
        open_csv(write(tmp_path, text))
    assert "\n" not in str(caught.value)


def test_what_is_not_there_is_refused_with_what_there_is(tmp_path):
    with pytest.raises(MissingError, match=r"data folder .*nowhere is not there"):
        open_csv(tmp_path / "nowhere")
    (tmp_path / "a_file").touch()
    with pytest.raises(MissingError, match=r"data folder .*a_file must be a folder, but is a file"):
        open_csv(tmp_path / "a_file")
    (tmp_path / "a_file").unlink()
    with pytest.raises(MissingError, match=r"table of labels .*labels\.csv is not there"):
        open_csv(tmp_path)
    write(tmp_path, "image,label\na.jpg,cat\n")
    with pytest.raises(OptionError, match="class 'dog' does not exist; choose from cat"):
        open_csv(tmp_path, classes=["dog"])
    with pytest.raises(OptionError, match="set 'test' does not exist; choose from trainval"):
        open_csv(tmp_path).records("test")


def test_a_row_that_is_given_twice_is_one(tmp_path):
    once, twice = tmp_path / "once", tmp_path / "twice"
    for folder, rows in ((once, "a.jpg,cat\na.jpg,dog\nb.jpg,\n"), (twice, "a.jpg,cat\nb.jpg,none\n./a.jpg,cat\n")):
        folder.mkdir()
        (folder / "labels.csv").write_text(f"image,label\n{rows}")
    (twice / "labels.csv").write_text((twice / "labels.csv").read_text() + "a.jpg,dog\nb.jpg,\na.jpg,dog\n")
    found, wanted = (open_csv(folder).records("trainval") for folder in (twice, once))
    assert [(one.id, one.labels) for one in found] == [(one.id, one.labels) for one in wanted]
