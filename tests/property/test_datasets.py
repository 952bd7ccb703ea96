"""Readers against made-up files: what is written comes back, and broken bytes give a named error or a picture."""

import io
import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lapsvm.datasets.labels_csv import open_csv
from lapsvm.datasets.names import image_id_of
from lapsvm.datasets.voc import find_lists, open_voc
from lapsvm.datasets.voc_writer import VocPicture, write_lists, write_pictures
from PIL import Image

from lapsvm.annotations.voc import VocObject, read_objects
from lapsvm.catalog import read_image
from lapsvm.errors import AnnotationError, ImageError, LabelsError

FEW = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
NAMES = st.from_regex(r"[a-z0-9][a-z0-9_-]{0,6}", fullmatch=True)
SIDES = st.tuples(st.integers(1, 60), st.integers(1, 60)).map(sorted)
CORNERS = st.tuples(SIDES, SIDES).map(lambda sides: (sides[0][0], sides[1][0], sides[0][1], sides[1][1]))
OBJECTS = st.lists(st.builds(VocObject, st.sampled_from(["cat", "dog"]), CORNERS, st.booleans()), max_size=4)


def read_or_refused(read, path, refusal):
    """What is read; None after a refusal in one sentence that names the file."""
    try:
        return read(path)
    except refusal as error:
        sentence = str(error)
    assert path.name in sentence
    assert sentence.endswith(".")
    return None


@FEW
@given(st.dictionaries(NAMES, OBJECTS, min_size=1, max_size=5))
def test_what_the_writer_wrote_the_reader_reads(tmp_path_factory, pictures):
    root = tmp_path_factory.mktemp("voc")
    blank = np.zeros((60, 64, 3), np.uint8)
    written = write_pictures(root, [VocPicture(name, blank, found) for name, found in pictures.items()])
    write_lists(root, "test", written, ["cat", "dog"])
    dataset = open_voc(root)
    records, truth = dataset.records("test"), dataset.ground_truth("test")
    assert [record.id for record in records] == list(pictures)
    for record in records:
        assert record.pixels().shape == (60, 64, 3)
        for name, label in record.labels.items():
            wanted = [found for found in pictures[record.id] if found.name == name]
            flags = [found.difficult for found in wanted]
            assert truth[name][record.id].difficult.tolist() == flags
            corners = np.reshape([found.corners for found in wanted], (-1, 4))
            np.testing.assert_array_equal(truth[name][record.id].boxes, corners - [1, 1, 0, 0])
            assert label == (-1 if not flags else 0 if all(flags) else 1)


@given(
    st.lists(NAMES, min_size=1, unique=True),
    st.sets(st.sampled_from(["train", "val", "trainval", "test", "dev"]), min_size=1),
)
@FEW
def test_class_and_set_are_told_apart_whatever_the_class_is_called(tmp_path_factory, classes, sets):
    folder = tmp_path_factory.mktemp("voc") / "ImageSets/Main"
    folder.mkdir(parents=True)
    for set_name in sets:
        (folder / f"{set_name}.txt").touch()
        for name in classes:
            (folder / f"{name}_{set_name}.txt").touch()
    lists = find_lists(folder.parent.parent)
    assert set(lists.sets) == sets
    assert set(lists.labels) == {(name, set_name) for name in classes for set_name in sets}


@given(st.lists(st.text(st.characters(exclude_characters="/"), min_size=1), min_size=2, max_size=2, unique=True))
def test_an_id_is_one_word_and_different_names_keep_different_ids(names):
    ids = [image_id_of(f"{name}.jpg") for name in names]
    assert len(set(ids)) == 2
    for image_id in ids:
        assert len(image_id.split()) == 1
        image_id.encode()


@FEW
@given(st.text(max_size=80))
def test_any_table_is_read_or_refused_by_name(tmp_path, text):
    (tmp_path / "labels.csv").write_text("image,label\n" + text, encoding="utf-8", errors="replace")
    dataset = read_or_refused(open_csv, tmp_path, LabelsError)
    if dataset is not None:
        assert all(len(record.labels) == len(dataset.classes) for record in dataset.records("trainval"))


@FEW
@given(st.binary(max_size=40), st.integers(0, 200))
def test_any_annotation_is_read_or_refused_by_name(tmp_path, noise, place):
    whole = b"<annotation><object><name>cat</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>2</xmax><ymax>2</ymax>"
    whole += b"</bndbox></object></annotation>"
    path = tmp_path / "a.xml"
    path.write_bytes(whole[:place] + noise + whole[place + len(noise) :])
    for found in read_or_refused(read_objects, path, AnnotationError) or []:
        assert np.isfinite(found.corners).all()


def encoded(suffix):
    picture = Image.fromarray(np.random.default_rng(0).integers(0, 256, (12, 10, 3), dtype=np.uint8))
    if suffix == "gif":
        picture = picture.convert("P")
    buffer = io.BytesIO()
    exif = Image.Exif()
    exif[0x0112] = 3
    picture.save(
        buffer, "JPEG" if suffix == "jpg" else suffix.upper(), **({} if suffix in ("gif", "bmp") else {"exif": exif})
    )
    return buffer.getvalue()


@pytest.mark.parametrize("suffix", ["jpg", "png", "gif", "bmp", "tiff", "webp"])
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_damaged_picture_is_read_whole_or_refused_by_name(tmp_path, suffix, data):
    content = bytearray(encoded(suffix))
    for place in data.draw(st.lists(st.integers(0, len(content) - 1), max_size=6)):
        content[place] = data.draw(st.integers(0, 255))
    path = tmp_path / f"a.{suffix}"
    path.write_bytes(content[: data.draw(st.integers(0, len(content)))])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow warns of damage that it can pass over
        pixels = read_or_refused(read_image, path, ImageError)
    if pixels is not None:
        assert pixels.dtype == np.uint8
        assert pixels.shape[2:] == (3,)
