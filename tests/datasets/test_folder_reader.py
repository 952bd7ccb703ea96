"""One folder per class: how sets, classes and ids are told from names."""

import pytest
from lapsvm.datasets.folder import open_folder

from lapsvm.catalog import Dataset, open_dataset
from lapsvm.errors import LabelsError, MissingError, OptionError


def make(root, *names):
    for name in names:
        path = root / name
        if name.endswith("/"):
            path.mkdir(parents=True, exist_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
    return root


def positives(dataset, set_name):
    return {
        record.id: [name for name, label in record.labels.items() if label == 1] for record in dataset.records(set_name)
    }


def test_folders_of_classes_are_one_set(tmp_path):
    make(tmp_path, "dog/2.png", "cat/1.jpg", "cat/0.jpg")
    dataset = open_dataset("folder", tmp_path)
    assert isinstance(dataset, Dataset)
    assert (dataset.name, dataset.classes, dataset.sets) == ("folder", ("cat", "dog"), ("trainval",))
    assert positives(dataset, "trainval") == {"cat/0": ["cat"], "cat/1": ["cat"], "dog/2": ["dog"]}
    assert dataset.records("trainval")[0].labels == {"cat": 1, "dog": -1}
    assert dataset.records("trainval")[0].path == tmp_path / "cat/0.jpg"
    assert dataset.ground_truth("trainval") is None


def test_folders_of_sets_hold_folders_of_classes(tmp_path):
    make(tmp_path, "test/cat/1.jpg", "trainval/cat/1.jpg", "trainval/dog/1.jpg", "val/cow/1.jpg")
    dataset = open_folder(tmp_path)
    assert (dataset.classes, dataset.sets) == (("cat", "cow", "dog"), ("trainval", "val", "test"))
    assert positives(dataset, "trainval") == {"cat/1": ["cat"], "dog/1": ["dog"]}
    assert positives(dataset, "test") == {"cat/1": ["cat"]}
    assert dataset.records("test")[0].labels == {"cat": 1, "cow": -1, "dog": -1}


def test_the_options_name_unusual_sets(tmp_path):
    make(tmp_path, "learning/cat/1.jpg", "exam/cat/2.jpg")
    assert open_folder(tmp_path, train_set="learning", test_set="exam").sets == ("exam", "learning")
    with pytest.raises(LabelsError, match=r"folder .*exam must hold the pictures of a class, got the folder 'cat'"):
        open_folder(tmp_path)


def test_a_set_of_another_name_is_refused_with_the_flag_that_names_it(tmp_path):
    make(tmp_path, "train/cat/1.jpg", "dev/cat/2.jpg", "test/cat/3.jpg")
    with pytest.raises(
        LabelsError, match=r"folder .*dev must be .*: give the parameter test_set dev, or rename it to val"
    ):
        open_folder(tmp_path)
    assert open_folder(tmp_path, test_set="dev").sets == ("train", "test", "dev")
    make(tmp_path / "own", "cat/1.jpg", "cat/@eaDir/1.jpg")
    assert open_folder(tmp_path / "own").classes == ("cat",)
    make(tmp_path / "own", "cat/more/1.jpg")
    with pytest.raises(
        LabelsError, match=r"got the folder 'more' in it; move it away, or .* train_set or the parameter test_"
    ):
        open_folder(tmp_path / "own")


def test_the_one_set_is_called_as_train_set_says(tmp_path):
    make(tmp_path, "cat/1.jpg", "dog/1.jpg")
    assert open_folder(tmp_path, train_set="train").sets == ("train",)


def test_a_folder_called_train_that_holds_pictures_is_a_class(tmp_path):
    make(tmp_path, "train/1.jpg", "bus/1.jpg")
    assert open_folder(tmp_path).classes == ("bus", "train")


@pytest.mark.parametrize("name", ["background", "Negative", "negatives", "NONE", "good", "OK", "Normal"])
def test_some_folders_hold_pictures_of_no_class(tmp_path, name):
    make(tmp_path, "cat/1.jpg", f"{name}/1.jpg")
    dataset = open_folder(tmp_path)
    assert dataset.classes == ("cat",)
    assert positives(dataset, "trainval") == {f"{name}/1": [], "cat/1": ["cat"]}


def test_a_folder_of_no_class_is_a_class_if_it_is_asked_for(tmp_path):
    make(tmp_path, "sick/1.jpg", "normal/1.jpg", "good/1.jpg")
    dataset = open_folder(tmp_path, classes=("normal", "sick"))
    assert positives(dataset, "trainval") == {"good/1": [], "normal/1": ["normal"], "sick/1": ["sick"]}


def test_pictures_of_classes_not_asked_for_stay_as_negatives(tmp_path):
    make(tmp_path, "cat/1.jpg", "dog/1.jpg", "cow/1.jpg")
    dataset = open_folder(tmp_path, classes=("dog", "cat"))
    assert dataset.classes == ("dog", "cat")
    assert positives(dataset, "trainval") == {"cat/1": ["cat"], "cow/1": [], "dog/1": ["dog"]}


@pytest.mark.parametrize("suffix", ["jpg", "JPEG", "png", "Bmp", "tif", "tiff", "webp"])
def test_pictures_are_known_by_their_suffix_in_either_case(tmp_path, suffix):
    make(tmp_path, f"cat/1.{suffix}")
    assert positives(open_folder(tmp_path), "trainval") == {"cat/1": ["cat"]}


def test_other_and_hidden_files_are_passed_over(tmp_path):
    make(tmp_path, "cat/1.jpg", "cat/notes.txt", "cat/.2.jpg", "cat/.hidden/3.jpg", ".git/4.jpg", "README.md", "cat/5")
    dataset = open_folder(tmp_path)
    assert dataset.classes == ("cat",)
    assert list(positives(dataset, "trainval")) == ["cat/1"]


def test_an_empty_folder_is_a_class_without_positives(tmp_path):
    make(tmp_path, "cat/1.jpg", "dog/")
    assert open_folder(tmp_path).records("trainval")[0].labels == {"cat": 1, "dog": -1}


def test_good_pictures_need_no_class(tmp_path):
    make(tmp_path, "Good/1.jpg", "background/2.jpg")
    dataset = open_folder(tmp_path)
    assert (dataset.classes, [dict(record.labels) for record in dataset.records("trainval")]) == ((), [{}, {}])


def test_an_id_is_one_word_whatever_the_file_is_called(tmp_path):
    make(tmp_path, "big cat/a photo (1).jpg", "big cat/100%.v2.jpg", "big cat/é\t.jpg")
    ids = [record.id for record in open_folder(tmp_path).records("trainval")]
    assert ids == ["big%20cat/100%25.v2", "big%20cat/a%20photo%20(1)", "big%20cat/é%09"]
    assert all(len(image_id.split()) == 1 for image_id in ids)


def test_pictures_that_would_share_an_id_are_refused(tmp_path):
    make(tmp_path, "cat/1.jpg", "cat/1.png")
    with pytest.raises(LabelsError, match=r"picture .*1\.png must differ from 1\.jpg in more than its suffix"):
        open_folder(tmp_path)


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        ([], "holds no folder of a class"),
        (["none/1.jpg"], "holds no folder of a class"),
        (["cat/"], "set 'trainval' in .* has no picture"),
        (["test/cat/", "trainval/cat/1.jpg"], "set 'test' in .*test has no picture"),
        (["1.jpg", "cat/1.jpg"], r"picture .*1\.jpg must lie in the folder of its class"),
        (["trainval/cat/1.jpg", "1.jpg"], r"picture .*1\.jpg must lie in the folder of its class"),
        (["trainval/cat/1.jpg", "trainval/1.jpg"], r"picture .*trainval/1\.jpg must lie in the folder of its class"),
        (["trainval/cat/1.jpg", "dog/1.jpg"], "folder .*dog must be a set that holds classes, as trainval do"),
        (["trainval/cat/1.jpg", "test/1.jpg"], "folder .*test must be a set that holds classes"),
        (["cat/more/1.jpg", "cat/1.jpg"], "folder .*cat must hold the pictures of a class, got the folder 'more'"),
        (["a\\b/1.jpg"], "a class name must be printable"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_sentence(tmp_path, names, sentence):
    make(tmp_path, *names)
    with pytest.raises(LabelsError, match=sentence):
        open_folder(tmp_path)


def test_what_is_not_there_is_refused_with_what_there_is(tmp_path):
    make(tmp_path, "cat/1.jpg", "none/1.jpg")
    with pytest.raises(MissingError, match=r"data folder .*nowhere is not there"):
        open_folder(tmp_path / "nowhere")
    (tmp_path / "a_file").touch()
    with pytest.raises(MissingError, match=r"data folder .*a_file must be a folder, but is a file"):
        open_folder(tmp_path / "a_file")
    (tmp_path / "a_file").unlink()
    with pytest.raises(OptionError, match="class 'background' does not exist; choose from cat"):
        open_folder(tmp_path, classes=["background"])
    for ask in (open_folder(tmp_path).records, open_folder(tmp_path).ground_truth):
        with pytest.raises(OptionError, match="set 'test' does not exist; choose from trainval"):
            ask("test")


def test_real_folders(real_data):
    dataset = open_folder(real_data / "cifar10_jpg_subset", train_set="train")
    assert dataset.sets == ("train", "test")
    assert (len(dataset.classes), len(dataset.records("train")), len(dataset.records("test"))) == (10, 1000, 500)
    for record in dataset.records("test")[::50]:
        assert record.pixels().shape == (32, 32, 3)
        assert sum(label == 1 for label in record.labels.values()) == 1


FOLDERS_OF_SETS = [
    ("train", "val"),
    ("Train", "Test", "background"),
    ("train", "valid", "test"),
    ("train2017", "val2017"),
    ("train",),
    ("val", "good"),
    ("images", "labels"),
    ("JPEGImages", "Annotations", "ImageSets"),
]


@pytest.mark.parametrize("names", FOLDERS_OF_SETS, ids=" ".join)
def test_folders_with_names_of_sets_are_no_classes_unless_they_are_asked_for(tmp_path, names):
    for name in names:
        make(tmp_path, f"{name}/1.jpg")
    with pytest.raises(LabelsError, match="names of sets or of parts of a data set, not of classes"):
        open_folder(tmp_path)
    assert open_folder(tmp_path, classes=[names[0]]).classes == (names[0],)


@pytest.mark.parametrize(
    "names", [("train", "bus"), ("train", "background"), ("labels", "caps"), ("val", "cat")], ids=" ".join
)
def test_other_classes_may_have_such_names(tmp_path, names):
    for name in names:
        make(tmp_path, f"{name}/1.jpg")
    assert names[0] in open_folder(tmp_path).classes
