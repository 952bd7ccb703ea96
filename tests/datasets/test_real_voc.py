"""Real data sets in VOC layout."""

from pathlib import Path

import numpy as np
import pytest
from lapsvm.datasets.voc import find_lists, open_voc

from lapsvm.catalog import open_dataset
from lapsvm.errors import LabelsError

CLASSES = ("bus", "car", "cat", "train", "person")


@pytest.mark.parametrize(("set_name", "count"), [("trainval", 651), ("test", 655), ("train", 332), ("val", 319)])
def test_real_lists_and_labels(real_data, set_name, count):
    root = real_data / "voc2007_vehicles_cat"
    records = open_dataset("voc", root, classes=CLASSES).records(set_name)
    assert len(records) == count
    assert [record.id for record in records] == (root / f"ImageSets/Main/{set_name}.txt").read_text().split()
    assert all(record.path.is_file() for record in records)
    for name in CLASSES:
        words = (root / f"ImageSets/Main/{name}_{set_name}.txt").read_text().split()
        flags = np.array(words[1::2], dtype=int)
        labels = np.array([record.labels[name] for record in records])
        assert {flag: int((labels == flag).sum()) for flag in (-1, 0, 1)} == {
            flag: int((flags == flag).sum()) for flag in (-1, 0, 1)
        }


@pytest.mark.parametrize("set_name", ["trainval", "test"])
def test_real_boxes_agree_with_the_labels(real_data, set_name):
    dataset = open_dataset("voc", real_data / "voc2007_vehicles_cat", classes=CLASSES)
    truth = dataset.ground_truth(set_name)
    for record in dataset.records(set_name):
        for name, label in record.labels.items():
            difficult = truth[name][record.id].difficult
            assert label == (-1 if len(difficult) == 0 else 0 if difficult.all() else 1)


def test_the_full_lists_of_2007_have_twenty_classes(real_data):
    lists = find_lists(real_data / "voc2007_text")
    assert len(lists.class_names) == 20
    assert "train" in lists.class_names
    assert lists.set_names == ("trainval", "train", "val", "test")


@pytest.mark.parametrize("name", ["bccd", "raccoon"])
def test_real_sets_without_class_lists_are_for_evaluation_only(real_data, name):
    with pytest.raises(LabelsError, match="holds no class list"):
        open_voc(real_data / name)
    dataset = open_voc(real_data / name, classes=["RBC", "raccoon"], test_set="test", boxes_only=True)
    truth = dataset.ground_truth("test")
    ids = Path(real_data / name / "ImageSets/Main/test.txt").read_text().split()
    assert [list(images) for images in truth.values()] == [ids, ids]
    assert sum(len(found.boxes) for images in truth.values() for found in images.values()) > 0
