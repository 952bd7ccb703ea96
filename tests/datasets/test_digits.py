"""Digits: the same bytes from the same seed, honest boxes and labels, and a folder that is whole or not there."""

import hashlib
import itertools

import numpy as np
import pytest
from lapsvm.datasets import digits
from lapsvm.datasets.digits import CLASSES, open_digits, write_digits
from lapsvm.datasets.voc import VocDataset

from lapsvm.boxes import iou
from lapsvm.catalog import Dataset, open_dataset
from lapsvm.errors import InputError, OptionError, SettingsError

SMALL = {"n_train": 24, "n_test": 16}


def tree_hash(root):
    digest = hashlib.sha256()
    for path in sorted(path for path in root.rglob("*") if path.is_file()):
        digest.update(f"{path.relative_to(root)}:{path.stat().st_size}\n".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    root = tmp_path_factory.mktemp("digits") / "small"
    write_digits(root, seed=3, **SMALL)
    return root


@pytest.fixture(scope="module")
def dataset(small):
    return open_digits(small, seed=3, **SMALL)


@pytest.fixture(scope="module")
def medium(tmp_path_factory):
    return open_digits(tmp_path_factory.mktemp("digits") / "medium", n_train=60, n_test=30)


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others(small, tmp_path):
    for seed in (3, 4):
        write_digits(tmp_path / str(seed), seed=seed, **SMALL)
    assert tree_hash(tmp_path / "3") == tree_hash(small)
    assert tree_hash(tmp_path / "4") != tree_hash(small)


def test_it_is_a_voc_data_set(dataset):
    assert isinstance(dataset, Dataset)
    assert isinstance(dataset, VocDataset)
    assert dataset.name == "digits"
    assert dataset.classes == tuple(sorted(CLASSES))
    assert dataset.sets == ("trainval", "train", "val", "test")
    assert [len(dataset.records(name)) for name in dataset.sets] == [24, 12, 12, 16]


def test_train_and_val_are_the_halves_of_trainval_and_test_is_apart(dataset):
    ids = {name: [record.id for record in dataset.records(name)] for name in dataset.sets}
    assert ids["train"] + ids["val"] == ids["trainval"]
    assert not set(ids["test"]) & set(ids["trainval"])


def test_the_digits_of_trainval_and_test_are_different_samples():
    train, test = digits._samples(0)
    for first, second in ((train[name], test[name]) for name in (*CLASSES, None)):
        assert abs(len(first) - len(second)) <= 1
        assert not {sample.tobytes() for sample in first} & {sample.tobytes() for sample in second}


def test_labels_are_what_the_boxes_say(dataset):
    for set_name in dataset.sets:
        truth = dataset.ground_truth(set_name)
        for record in dataset.records(set_name):
            for name, label in record.labels.items():
                difficult = truth[name][record.id].difficult
                assert label == (-1 if len(difficult) == 0 else 0 if difficult.all() else 1)


def test_boxes_lie_in_their_pictures_and_small_ones_are_difficult(dataset):
    truth = dataset.ground_truth("trainval")
    for record in dataset.records("trainval"):
        height, width = record.pixels().shape[:2]
        for images in truth.values():
            found = images[record.id]
            assert (found.boxes[:, :2] >= 0).all()
            assert (found.boxes[:, 2:] <= (width, height)).all()
            sides = found.boxes[:, 2:] - found.boxes[:, :2]
            assert found.difficult[sides.max(axis=1) < digits.DIFFICULT_SIZE].all()


def test_every_class_has_positives_and_negatives_in_every_set(medium):
    for set_name in medium.sets:
        records = medium.records(set_name)
        for name in medium.classes:
            assert {-1, 1} <= {record.labels[name] for record in records}


def test_pictures_are_varied_in_size_colour_and_texture(dataset):
    pictures = [record.pixels() for record in dataset.records("trainval")]
    assert len({picture.shape for picture in pictures}) > 12
    assert all(120 <= p.shape[0] <= 160 and 120 <= p.shape[1] <= 200 for p in pictures)
    assert np.std([picture.mean() for picture in pictures]) > 20
    assert all(picture.std() > 5 for picture in pictures)


def test_the_box_of_a_digit_is_the_box_of_its_ink():
    canvas = digits.scene.Canvas(np.zeros((50, 40, 3), np.float32))
    glyph = np.zeros((20, 12), np.float32)
    glyph[3:17, 2:9] = 1
    placed = canvas.paint(glyph, (5, 8), np.full(3, 200, np.float32))
    rows, columns = np.nonzero(canvas.pixels[:, :, 0])
    assert placed.box == (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1) == (7, 11, 14, 25)
    found = digits._object(canvas, "six", placed)
    assert found.corners == (7 + 1, 11 + 1, 14, 25)  # VOC: 1-based, both edges inside


def test_a_digit_that_is_mostly_hidden_is_difficult():
    canvas = digits.scene.Canvas(np.zeros((60, 60, 3), np.float32))
    ink = np.full(3, 200, np.float32)
    first = canvas.paint(np.ones((40, 40), np.float32), (0, 0), ink)
    assert not digits._object(canvas, "six", first).difficult
    canvas.paint(np.ones((40, 18), np.float32), (0, 0), ink)
    assert canvas.visible_share(first.number) == 1 - 18 / 40
    assert digits._object(canvas, "six", first).difficult


def test_a_glyph_needs_a_free_position():
    canvas = digits.scene.Canvas(np.zeros((50, 50, 3), np.float32))
    rng = np.random.default_rng(0)
    assert canvas.free_corner(rng, (51, 10), 0.0) is None
    assert canvas.free_corner(rng, (50, 50), 0.0) == (0, 0)
    canvas.paint(np.ones((50, 25), np.float32), (0, 0), np.ones(3, np.float32))
    assert canvas.free_corner(rng, (50, 26), 0.0) is None
    assert canvas.free_corner(rng, (50, 26), 1.0) is not None


def test_objects_overlap_here_and_there_but_do_not_coincide(medium):
    truth = medium.ground_truth("trainval")
    overlaps = []
    for record in medium.records("trainval"):
        boxes = np.concatenate([images[record.id].boxes for images in truth.values()])
        overlaps += [iou(boxes[[i]], boxes[[j]])[0, 0] for i, j in itertools.combinations(range(len(boxes)), 2)]
    assert 0 < max(overlaps) < 0.7


def test_it_is_generated_once_and_opened_again(tmp_path):
    root = tmp_path / "new" / "digits"
    first = open_dataset("digits", root, n_train=12, n_test=12)
    before = tree_hash(root)
    stamps = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
    second = open_dataset("digits", root, n_train=12, n_test=12, classes=["six"])
    assert second.classes == ("six",)
    assert first.records("test")[0].id == second.records("test")[0].id
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} == stamps
    assert tree_hash(root) == before


def test_an_empty_folder_is_filled(tmp_path):
    assert len(open_digits(tmp_path, n_train=10, n_test=10).records("test")) == 10


@pytest.mark.parametrize("changed", [{"seed": 4}, {"n_train": 25}, {"n_test": 17}])
def test_digits_made_with_other_parameters_are_refused(small, changed):
    before = tree_hash(small)
    (key, value) = next(iter(changed.items()))
    was = {"seed": 3, **SMALL}[key]
    with pytest.raises(SettingsError, match=f"holds digits made with {key} {was}, not {value}"):
        open_digits(small, **{"seed": 3, **SMALL, **changed})
    assert tree_hash(small) == before


def test_digits_of_another_version_are_refused(small, monkeypatch):
    monkeypatch.setattr(digits, "VERSION", digits.VERSION + 1)
    with pytest.raises(SettingsError, match="made with version"):
        open_digits(small, seed=3, **SMALL)


def test_a_folder_of_other_things_is_refused_and_left_alone(tmp_path):
    (tmp_path / "thesis.txt").write_text("precious")
    with pytest.raises(SettingsError, match=r"must be absent, empty or hold generated digits, but has no digits\.toml"):
        open_digits(tmp_path)
    with pytest.raises(SettingsError, match="must be absent or empty"):
        write_digits(tmp_path)
    with pytest.raises(SettingsError, match="must be absent"):
        open_digits(tmp_path / "thesis.txt")
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_settings_that_cannot_be_read_are_named(tmp_path):
    (tmp_path / "digits.toml").write_text("seed = = 3")
    with pytest.raises(SettingsError, match=r"settings .*digits\.toml is not valid TOML"):
        open_digits(tmp_path)


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, OSError])
def test_an_interrupted_generation_leaves_nothing(tmp_path, monkeypatch, interruption):
    def interrupt(*args):
        raise interruption

    monkeypatch.setattr(digits, "write_lists", interrupt)
    with pytest.raises(interruption):
        open_digits(tmp_path / "digits", n_train=10, n_test=10)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"seed": -1}, "seed must be a whole number of 0 or more, got -1"),
        ({"seed": 0.5}, "seed must be a whole number of 0 or more, got 0.5"),
        ({"n_train": 9}, "n_train must be a whole number of 10 or more, got 9"),
        ({"n_test": "many"}, "n_test must be a whole number of 10 or more, got 'many'"),
    ],
)
def test_a_parameter_that_breaks_its_rule_is_named(tmp_path, parameters, sentence):
    for make in (open_digits, write_digits):
        with pytest.raises(InputError, match=sentence):
            make(tmp_path / "digits", **parameters)
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_class_is_refused_with_those_there_are(small):
    with pytest.raises(OptionError, match="class 'seven' does not exist; choose from eight, six, three, zero"):
        open_digits(small, classes=["seven"], seed=3, **SMALL)
