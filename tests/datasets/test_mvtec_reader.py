"""The layout of MVTec AD: labels from folders, a split of its own, masks for evaluation alone."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lapsvm.datasets.masks import TOO_MANY_REGIONS
from lapsvm.datasets.mvtec import SPLIT, open_mvtec, split_folders
from PIL import Image

from lapsvm.box_faults import OTHER_SIZE
from lapsvm.catalog import Dataset, open_dataset
from lapsvm.errors import ImageError, LabelsError, MissingError, OptionError


def make(root, *names):
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return root


def product(root, *more):
    test = [f"test/{kind}/{number:03}.png" for kind in ("good", "crack", "cut") for number in range(4)]
    return make(root, "train/good/000.png", "train/good/001.png", *test, *more)


def write_mask(path, *boxes, size=(20, 10)):
    mask = np.zeros(size[::-1], np.uint8)
    for x1, y1, x2, y2 in boxes:
        mask[y1:y2, x1:x2] = 255
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(mask).save(path)


def shown(dataset, set_name):
    return {one.id: [name for name, label in one.labels.items() if label == 1] for one in dataset.records(set_name)}


def test_labels_are_folders_and_each_folder_of_test_is_halved(tmp_path):
    dataset = open_dataset("mvtec", product(tmp_path))
    assert isinstance(dataset, Dataset)
    assert (dataset.name, dataset.classes, dataset.sets) == ("mvtec", ("crack", "cut"), ("trainval", "test"))
    assert dataset.split_note.startswith(SPLIT)
    train, test = shown(dataset, "trainval"), shown(dataset, "test")
    for kind, label in (("good", []), ("crack", ["crack"]), ("cut", ["cut"])):
        for of_set in (train, test):
            own = [labels for name, labels in of_set.items() if name.startswith(f"test/{kind}/")]
            assert own == [label, label]
    assert train["train/good/000"] == []
    assert {"train/good/000", "train/good/001"} <= train.keys()
    assert len(train.keys() | test.keys()) == 14
    assert not train.keys() & test.keys()


def test_the_same_pictures_join_training_in_every_run(tmp_path):
    first, second = (open_mvtec(product(tmp_path / name)) for name in ("one", "two"))
    assert shown(first, "test") == shown(second, "test") == shown(open_mvtec(tmp_path / "one"), "test")
    expected = ["test/crack/000", "test/crack/003", "test/cut/000", "test/cut/001", "test/good/000", "test/good/002"]
    assert sorted(shown(first, "test")) == expected  # a change would make runs incomparable


@given(st.dictionaries(st.sampled_from(["good", "crack", "cut"]), st.integers(1, 9), min_size=1))
def test_every_folder_is_halved_and_none_is_lost(counts):
    rows = [(f"test/{kind}/{number}.png", None, set()) for kind, count in counts.items() for number in range(count)]
    joining, rest = split_folders(rows)
    assert sorted(row[0] for row in [*joining, *rest]) == sorted(row[0] for row in rows)
    for kind, count in counts.items():
        assert sum(row[0].startswith(f"test/{kind}/") for row in joining) == (count + 1) // 2
    assert [row for row in rows if row in joining] == joining


def test_one_more_picture_moves_at_most_one_other():
    rows = [(f"test/crack/{number}.png", None, set()) for number in range(40)]
    before, after = (({row[0] for row in split_folders(of)[0]}) for of in (rows[:39], rows))
    assert len(before ^ after) <= 2


def test_a_layout_whose_train_shows_defects_keeps_its_split(tmp_path):
    dataset = open_mvtec(product(tmp_path, "train/crack/000.png"))
    assert sorted(shown(dataset, "trainval")) == ["train/crack/000", "train/good/000", "train/good/001"]
    assert len(shown(dataset, "test")) == 12
    assert "train shows defects" in dataset.split_note


def test_masks_are_found_by_either_name_and_good_pictures_have_none(tmp_path):
    product(tmp_path)
    for number, name in enumerate(["000_mask.png", "001.png", "002.TIF", "003_mask.jpg"]):
        write_mask(tmp_path / "ground_truth/crack" / name, (number, 0, number + 3, 2))
    dataset = open_mvtec(tmp_path)
    known = {**dataset.masks("trainval"), **dataset.masks("test")}
    found = {name: path and path.name for name, path in known.items()}
    assert {name: path for name, path in found.items() if "/crack/" in name} == {
        "test/crack/000": "000_mask.png", "test/crack/001": "001.png", "test/crack/002": "002.TIF",
        "test/crack/003": "003_mask.jpg",
    }  # fmt: skip
    assert found["train/good/000"] is None
    assert not any("/cut/" in name for name in found)


def test_the_first_lines_say_how_many_pictures_with_a_defect_have_a_mask(tmp_path):
    make(product(tmp_path), "Ground_Truth/crack/000_mask.png", "ground_truth/crack/000_GT.png")
    nowhere = "no picture with a defect has a mask, as ground_truth/crack/NAME_mask.png would be"
    assert open_mvtec(tmp_path).split_note == f"{SPLIT}; {nowhere}"
    make(tmp_path, "ground_truth/crack/001_mask.png", "ground_truth/crack/002_mask.png")
    assert "; of 8 pictures with a defect 2 have a mask, for evaluation alone" in open_mvtec(tmp_path).split_note
    make(tmp_path, "train/crack/000.png")
    assert "; of 9 pictures with a defect 2 have a mask," in open_mvtec(tmp_path).split_note


def test_boxes_are_those_around_the_regions_of_masks(tmp_path):
    product(tmp_path)
    for number in range(4):
        write_mask(tmp_path / f"ground_truth/crack/00{number}_mask.png", (1, 2, 4, 5), (8, 0, 20, 1 + number))
        write_mask(tmp_path / f"ground_truth/cut/00{number}.png", *([(0, 0, 2, 2)] if number else []))
    dataset = open_mvtec(tmp_path)
    for set_name in dataset.sets:
        truth, records = dataset.ground_truth(set_name), dataset.records(set_name)
        assert all(list(truth[name]) == [one.id for one in records] for name in dataset.classes)
        for record in records:
            number, boxes = int(record.id[-1]), {name: truth[name][record.id].boxes.tolist() for name in truth}
            cracks = [[8.0, 0.0, 20.0, 1.0 + number], [1.0, 2.0, 4.0, 5.0]] if "/crack/" in record.id else []
            assert boxes["crack"] == cracks
            assert boxes["cut"] == ([[0.0, 0.0, 2.0, 2.0]] if "/cut/" in record.id and number else [])
        assert truth.unknown == {one.id for one in records if one.id == "test/cut/000"}


def test_of_two_masks_of_a_picture_equal_ones_are_one_and_others_are_named_and_not_taken(tmp_path):
    product(tmp_path)
    folder = tmp_path / "ground_truth" / "crack"
    for number, (first, second) in enumerate((((0, 0, 3, 2), (0, 0, 3, 2)), ((0, 0, 3, 2), (0, 0, 3, 3)))):
        write_mask(folder / f"00{number}_mask.png", first)
        write_mask(folder / f"00{number}.bmp", second)
    write_mask(folder / "009.png", (0, 0, 3, 2))
    dataset = open_mvtec(tmp_path)
    assert [*dataset.mask_files] == ["test/crack/000"]
    assert dataset.ignored_files() == {
        "masks of no picture with a defect (crack/009.png)": 1,
        "masks that differ from another one of their picture (crack/001.bmp, crack/001_mask.png)": 2,
    }
    assert "of 8 pictures with a defect 1 have a mask" in dataset.split_note


def test_improbable_masks_are_named_once_for_each_kind(tmp_path):
    product(tmp_path)
    for number in range(4):
        write_mask(tmp_path / f"ground_truth/crack/00{number}.png", (0, 0, 20, 6))
        write_mask(tmp_path / f"ground_truth/cut/00{number}.png", *([(0, 0, 2, 2)] if number % 2 else []))
    dataset = open_mvtec(tmp_path)
    said = [dataset.unusable_boxes(name) for name in dataset.sets]
    for sentence in said:
        assert "2 of 4 masks cover more than half of their picture; are they inverted" in sentence
        assert "test/crack/000 60%, test/crack/003 60%" in sentence or "test/crack/001 60%" in sentence
        assert "1 of 4 masks are black: what their pictures show is not known: test/cut/00" in sentence
    write_mask(tmp_path / "ground_truth/cut/000.png", (0, 0, 2, 2), (9, 0, 20, 5))
    only_cuts = open_mvtec(tmp_path, classes=["cut"])
    assert all("cover" not in only_cuts.unusable_boxes(name) for name in only_cuts.sets)


def test_a_mask_of_dots_is_no_mask_of_objects(tmp_path):
    product(tmp_path)
    for number in range(4):
        write_mask(tmp_path / f"ground_truth/crack/00{number}.png", (1, 2, 4, 5), size=(80, 80))
    dots = np.zeros((80, 80), np.uint8)
    dots[::2, ::2] = 255
    for number in (0, 1):
        Image.fromarray(dots).save(tmp_path / f"ground_truth/crack/00{number}.png")
    dataset = open_mvtec(tmp_path)
    truths = [dataset.ground_truth(name) for name in dataset.sets]
    bad = {name for truth in truths for name in truth.unknown if "crack" in name}
    assert bad == {"test/crack/000", "test/crack/001"}
    assert sum(truth.faults[TOO_MANY_REGIONS] for truth in truths) == 2
    assert any("masks have more than 1,000 regions" in dataset.unusable_boxes(name) for name in dataset.sets)


def test_where_a_defect_has_no_mask_what_the_picture_shows_is_not_known(tmp_path):
    product(tmp_path)
    assert open_mvtec(tmp_path).ground_truth("test") is None
    assert open_mvtec(tmp_path).masks("test") is None
    for number in range(4):
        write_mask(tmp_path / f"ground_truth/crack/00{number}_mask.png", (1, 2, 4, 5))
    truth = open_mvtec(tmp_path).ground_truth("test")
    assert truth.unknown == {name for name in shown(open_mvtec(tmp_path), "test") if "/cut/" in name}


def test_a_mask_of_another_size_than_its_picture_is_left_out(tmp_path):
    product(tmp_path)
    for number in range(4):
        write_mask(tmp_path / f"ground_truth/crack/00{number}.png", (1, 2, 4, 5))
    truth = open_mvtec(tmp_path).ground_truth("test")
    checked = truth.checked(dict.fromkeys(truth["crack"], (40, 10)))
    assert checked.faults == {OTHER_SIZE: 2}


def test_training_reads_no_mask(tmp_path):
    product(tmp_path, "ground_truth/crack/000_mask.png")
    dataset = open_mvtec(tmp_path)
    assert len(dataset.records("trainval")) == 8
    broken = next(name for name in dataset.sets if "test/crack/000" in shown(dataset, name))
    with pytest.raises(ImageError, match="000_mask"):
        dataset.ground_truth(broken)


def test_classes_may_be_chosen_and_a_word_of_no_class_be_one(tmp_path):
    assert shown(open_mvtec(product(tmp_path), classes=["cut"]), "test")["test/crack/000"] == []
    dataset = open_mvtec(tmp_path, classes=["good", "cut"])
    good = [labels for name, labels in shown(dataset, "test").items() if "/good/" in name]
    assert good == [["good"]] * 2
    assert dataset.split_note.startswith(SPLIT)
    with pytest.raises(OptionError, match="class 'bent' does not exist; choose from crack, cut"):
        open_mvtec(tmp_path, classes=["bent"])


def test_sets_are_called_as_the_options_say(tmp_path):
    assert open_mvtec(product(tmp_path), train_set="learn", test_set="exam").sets == ("exam", "learn")
    with pytest.raises(OptionError, match="set 'val' does not exist"):
        open_mvtec(tmp_path).masks("val")


def test_folders_of_several_products_are_told_from_one(tmp_path):
    product(tmp_path / "bottle")
    product(tmp_path / "cable", "license.txt")
    with pytest.raises(
        MissingError, match=r"train and test; 2 folders in it do, such as bottle: name one by the parameter root"
    ):
        open_mvtec(tmp_path)
    assert open_mvtec(tmp_path / "cable").ignored_files() == {".txt": 1}
    with pytest.raises(MissingError, match=r"must hold the folders train and test\.$"):
        open_mvtec(make(tmp_path / "other", "good/1.png"))


def test_what_cannot_be_learned_is_refused(tmp_path):
    with pytest.raises(LabelsError, match=r"pictures of a defect in test/<defect>, got good ones alone"):
        open_mvtec(make(tmp_path / "good", "train/good/1.png", "test/good/1.png"))
    with pytest.raises(LabelsError, match=r"set 'test' of .* has no picture"):
        open_mvtec(make(tmp_path / "one", "train/good/1.png", "test/crack/1.png"))
    with pytest.raises(LabelsError, match=r"picture .*2\.png must lie in the folder of its class"):
        open_mvtec(make(tmp_path / "loose", "train/good/1.png", "test/crack/1.png", "test/2.png"))
