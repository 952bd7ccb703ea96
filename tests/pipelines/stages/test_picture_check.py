"""Before a feature is computed, every picture is opened and what the data lack is told."""

import json
import re
import shutil
import signal
import threading

import numpy as np
import pytest
from lapsvm.pipelines.run.dataset import open_run_data
from lapsvm.pipelines.settings.settings import DataSettings
from lapsvm.pipelines.shards import extraction
from lapsvm.pipelines.stages.data_checks import pictures as picture_check
from lapsvm.pipelines.stages.data_checks.summary import summary_sentences
from PIL import Image

from lapsvm.catalog import CheckedPicture, open_dataset
from lapsvm.features import open_shards
from lapsvm.names import kinds

QUICK = ["--extractor", "hog", "--windows", "grid", "--max-windows", "5", "--classes", "cat,dog"]


def fill(root, classes=("cat", "dog"), count=4, size=(48, 36)):
    """Write pictures of noise into a folder per class."""
    rng = np.random.default_rng(1)
    for name in classes:
        (root / name).mkdir(parents=True, exist_ok=True)
        for number in range(count):
            pixels = rng.integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
            Image.fromarray(pixels).save(root / name / f"{number:02d}.jpg")
    return root


def spoil(root, *names):
    """Cut pictures short."""
    for name in names:
        content = (root / name).read_bytes()
        (root / name).write_bytes(content[: len(content) // 2])


@pytest.fixture
def root(tmp_path):
    return fill(tmp_path / "data")


@pytest.fixture
def line(root, tmp_path):
    return ["extract", "--data", "folder", "--root", root, "--out", tmp_path / "RUN", *QUICK]


@pytest.fixture
def opened(monkeypatch):
    """The names of the pictures that the check opens."""
    names = []

    def check(path):
        names.append(path.name)
        return found(path)

    found = picture_check.check_image
    monkeypatch.setattr(picture_check, "check_image", check)
    return names


def forbid_features(monkeypatch):
    """Let the test fail if features of a picture are computed."""

    def measure(*_):
        raise AssertionError("features were computed")

    monkeypatch.setattr(extraction.SetExtraction, "measure", measure)


def test_all_bad_pictures_are_named_at_once_before_a_feature_is_computed(root, line, tmp_path, refused, monkeypatch):
    spoil(root, "cat/01.jpg", "dog/03.jpg")
    (root / "dog" / "gone.jpg").symlink_to("nowhere")
    forbid_features(monkeypatch)
    told = refused(*line)
    assert "3 of 9 pictures cannot be used: " in told
    for name in ("cat/01.jpg", "dog/03.jpg", "dog/gone.jpg"):
        assert name in told
    assert "--skip-bad leaves them out." in told
    assert not (tmp_path / "RUN").exists()


def test_a_long_list_has_ten_pictures_and_a_count(tmp_path, line, refused):
    fill(tmp_path / "data", count=9)
    spoil(tmp_path / "data", *(f"{name}/{number:02d}.jpg" for name in ("cat", "dog") for number in range(7)))
    told = refused(*line)
    assert f"14 of 18 pictures cannot be used: picture {tmp_path / 'data' / 'cat' / '00.jpg'} cannot be" in told
    assert "; and 4 more; --skip-bad leaves them out." in told
    assert told.count("cannot be read whole") == 10


@pytest.mark.parametrize("quiet", [[], ["--quiet"]])
def test_left_out_pictures_are_counted_on_the_terminal(root, line, command, quiet):
    spoil(root, "cat/01.jpg")
    for _ in range(2):  # also where there is nothing left to do
        done = command(*line, "--skip-bad", *quiet)
        assert done.status == 0
        assert "set trainval: 1 of 8 pictures are left out, because they cannot be read whole" in done.err
        assert ("picture cat/01 is left out" in done.err) != bool(quiet)
    if not quiet:
        assert "set trainval: 7 pictures without 1 left out; positive: cat 3, dog 4" in done.err


def test_left_out_pictures_are_listed_for_programs(root, line, command):
    spoil(root, "cat/01.jpg", "dog/03.jpg")
    for _ in range(2):
        told = json.loads(command(*line, "--skip-bad", "--json", "--quiet").out)["figures"]
        assert told["left_out"] == {"trainval": ["cat/01", "dog/03"]}
        assert told["features"]["trainval"]["pictures"] == 6
        assert told["skipped"] == {}


def test_pictures_in_shards_are_not_opened_again(tmp_path, root, line, opened, command, refused):
    assert command(*line).status == 0
    assert len(opened) == 8
    del opened[:]
    assert command(*line).status == 0
    assert opened == []
    other = [*line[:5], "--out", tmp_path / "OTHER", *QUICK, "--shards-from", tmp_path / "RUN"]
    assert command(*other).status == 0
    assert opened == []
    spoil(root, "dog/00.jpg")
    assert "dog/00.jpg" in refused(*line, "--redo")
    assert len(opened) == 8


def test_pictures_that_were_left_out_are_not_opened_again_while_they_may_be(root, line, opened, command):
    spoil(root, "cat/01.jpg")
    assert command(*line, "--skip-bad").status == 0
    del opened[:]
    assert command(*line, "--skip-bad").status == 0
    assert opened == []


def test_the_threads_of_jobs_open_the_pictures(line, monkeypatch, command):
    threads = set()

    def check(path):
        threads.add(threading.current_thread().name)
        barrier.wait(timeout=20)
        return CheckedPicture("a hash")

    barrier = threading.Barrier(2)
    monkeypatch.setattr(picture_check, "check_image", check)
    assert command(*line, "--jobs", "2").status == 0
    assert len(threads) == 2


def test_ctrl_c_during_the_check_is_one_line(line, monkeypatch, command, tmp_path):
    def check(path):
        if path.name == "02.jpg":
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(picture_check, "check_image", check)
    done = command(*line, "--jobs", "1")
    assert done.status == 130
    assert done.err.count("\n") == 1
    assert not (tmp_path / "RUN").exists()


def test_counts_and_ignored_files_are_told(root, line, command, monkeypatch):
    Image.new("RGB", (4, 4)).save(root / "cat" / "moving.gif")
    (root / "cat" / "telephone.heic").write_bytes(b"")
    without = tuple(suffix for suffix in kinds.PICTURE_SUFFIXES if suffix not in kinds.HEIC)
    monkeypatch.setattr(kinds, "PICTURE_SUFFIXES", without)
    (root / "cat" / "new.AVIF").write_bytes(b"")
    (root / "dog" / "notes.txt").write_text("")
    (root / ".DS_Store").write_text("")
    fill(root, ("none",), 2)
    said = " ".join(command(*line).err.split())
    assert "set trainval: 10 pictures; positive: cat 4, dog 4; of no class: 2 (folder none)" in said
    assert "ignored files: 1 .avif, 1 .gif, 1 .heic, 1 .txt, 1 hidden; convert .avif and .gif and .heic" in said
    assert 'to JPEG or PNG to use them; pip install ".[heic]" in the folder of the source reads HEIC' in said


def test_sets_that_are_not_used_are_told(root, line, command):
    for number, name in enumerate(("trainval", "test", "val")):
        fill(root / name, count=3 + number, size=(40, 30 + number))
    shutil.rmtree(root / "cat")
    shutil.rmtree(root / "dog")
    note = "sets that are not used: val 10 pictures; --train-set and --test-set choose them"
    done = command(*line)
    assert done.status == 0
    assert note in " ".join(done.err.split())
    other = command(*line, "--train-set", "val", "--out", root.parent / "OTHER")
    assert "not used: trainval 6 pictures;" in " ".join(other.err.split())


def test_a_set_of_a_table_that_is_misspelled_is_told(root, line, command):
    rows = [f"{name}/{n:02d}.jpg,{name},{'tset' if n > 2 else 'trainval'}" for name in ("cat", "dog") for n in range(4)]
    (root / "labels.csv").write_text("\n".join(["image,label,set", *rows]))
    done = command(*line, "--data", "csv")
    assert done.status == 0
    assert "sets that are not used: tset 2 pictures; --train-set" in " ".join(done.err.split())


def test_halves_of_a_set_that_is_used_are_no_unused_sets(digits, tmp_path, command):
    done = command("extract", "--data", "voc", "--root", digits, "--out", tmp_path / "RUN", *QUICK[:-2])
    assert done.status == 0
    assert "not used" not in done.err


def test_a_label_that_looks_like_a_misspelling_is_told(root, line, command):
    fill(root, ("dgo",), 1)
    told = " ".join(command(*line[:-2]).err.split())
    assert "class 'dgo' is learned as one of its own; is it a misspelling of 'dog'?" in told


@pytest.mark.parametrize(
    ("folders", "question"),
    [
        (("backgroud",), "is it a misspelling of 'background'?"),
        (("Backgroundd",), "is it a misspelling of 'background'?"),
        (("scratches", "scratchs"), "class 'scratchs' is learned as one of its own; is it a misspelling of"),
        (("fire truck", "Fire_Truck"), "is it a misspelling of 'Fire_Truck'?"),
        (("class1", "Class 1"), "is it a misspelling of 'Class 1'?"),
        (("crack", "good_parts"), "class 'good_parts' is learned as one of its own; does it mean 'good', no class?"),
        (("val", "train"), "labels: classes 'train', 'val' have names of sets; are they sets?"),
        (("crack", "OK", "train"), None),
        (
            ("cart", "boar", "bear", "not ok", "no-good", "notebook", "class1", "class11", "class10", "woman", "women"),
            None,
        ),
    ],
)
def test_names_of_classes_that_are_nearly_equal_are_told(root, folders, question):
    for number, name in enumerate(folders):
        fill(root, (name,), 2, (40 + number, 30))
    data = open_run_data(DataSettings("folder", str(root), test_set="none"), seed=0)
    said = " ".join(summary_sentences(data, {}))
    assert question in said if question else not re.search("learned as one of its own|names of sets", said)


@pytest.mark.parametrize("suffix", ["jpg", "png"])
def test_equal_pictures_of_two_classes_are_told_also_when_one_is_added_later(root, line, command, suffix):
    for name in ("cat/00", "dog/03"):
        with Image.open(root / f"{name}.jpg") as picture:
            picture.load()
        (root / f"{name}.jpg").unlink()
        picture.save(root / f"{name}.{suffix}")
    shutil.copy(root / "cat" / f"00.{suffix}", root / "dog" / f"00_again.{suffix}")
    shutil.copy(root / "cat" / f"00.{suffix}", root / "cat" / f"00_again.{suffix}")
    told = "labels: pictures with the same pixels have different labels: "
    said = " ".join(command(*line).err.split())
    assert said.count(told) == 1
    assert (
        "cat/00 (cat) and dog/00_again (dog). Training takes each as a picture of its own; delete all but one" in said
    )
    (root / "none").mkdir()
    shutil.copy(root / "dog" / f"03.{suffix}", root / "none")
    said = " ".join(command(*line).err.split())
    assert "dog/00_again (dog); dog/03 (dog) and none/03 (no class). Training" in said
    copies = "'cat/00_again', 'dog/00_again', 'none/03'"
    assert f"3 are copies of others, by their pixels or by Roboflow's names of versions: {copies}." in said


def test_versions_that_roboflow_made_of_one_picture_are_told(root, line, command):
    for number, name in enumerate(("a_jpg.rf.0b1c", "a_jpg.rf.77ef", "b_png.rf.0b1c", "b")):
        (root / "cat" / f"{number:02d}.jpg").rename(root / "cat" / f"{name}.jpg")
    said = " ".join(command(*line).err.split())
    assert "pictures: 1 are copies of others, by their pixels or by Roboflow's names of versions: " in said
    assert "'cat/a_jpg.rf.77ef'. Held-out figures keep copies in one fold." in said
    assert "Figures of the test set" not in said


@pytest.mark.parametrize(
    ("expression", "seen", "objects"),
    [([], ["cat/copy"], ""), (["--group", "[a-z]+/0[2-3]"], ["cat/02", "cat/copy"], ", or show their objects")],
)
def test_test_pictures_that_training_has_seen_are_told(tmp_path, command, expression, seen, objects):
    root = tmp_path / "data"
    fill(root / "trainval", count=5)
    fill(root / "test", count=1)
    for name, original in (("copy", "01"), ("02", "04")):
        shutil.copy(root / "trainval" / "cat" / f"{original}.jpg", root / "test" / "cat" / f"{name}.jpg")
    with Image.open(root / "test" / "cat" / "02.jpg") as picture:
        picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT).save(root / "test" / "cat" / "02.jpg")
    for name in ("cat", "dog"):  # the same as in training, by the same seed
        (root / "test" / name / "00.jpg").unlink()
    done = command("extract", "--data", "folder", "--root", root, "--out", tmp_path / "RUN", *QUICK, *expression)
    names = ", ".join(map(repr, seen))
    told = f"pictures: {len(seen)} of other sets are copies of training pictures{objects}: {names}. Figures of the test"
    assert f"{told} set are too high with them; keep them in one set." in " ".join(done.err.split())


def test_pictures_that_only_look_equal_to_the_check_are_not_told(root, line, command):
    pixels = np.zeros((36, 48, 3), dtype=np.uint8)
    for name in ("cat/a", "dog/b"):  # less than the check computes of a JPEG file
        pixels[0, 0] += 9
        Image.fromarray(pixels).save(root / f"{name}.jpg", quality=100, subsampling=0)
    assert picture_check.check_image(root / "cat" / "a.jpg") == picture_check.check_image(root / "dog" / "b.jpg")
    assert "same pixels" not in " ".join(command(*line).err.split())


def test_positives_without_any_negative_are_refused_with_the_way_to_add_some(root, line, refused):
    shutil.rmtree(root / "dog")
    told = refused(*line[:-2])
    assert "cat has no negative picture in the training set; add pictures without the class: in a folder called" in told
    assert "background, or with an empty label in a table." in told


def test_all_classes_with_too_few_pictures_are_refused_before_pictures_are_opened(root, tmp_path, opened, refused):
    fill(root, ("dgo",), 1)
    fill(root, ("bird",), 2)
    told = refused("run", *["--data", "folder", "--root", root, "--out", tmp_path / "RUN", *QUICK[:-2], "--folds", "3"])
    assert "must have 3 positive and 3 negative pictures for 3 folds, got 'bird' 2 and 9, 'dgo' 1 and 10" in told
    assert "lower --folds or give one value of every constant" in told
    assert "is it a misspelling of 'dog'" in told
    assert opened == []
    assert not (tmp_path / "RUN").exists()


@pytest.mark.parametrize(
    ("options", "is_enough"),
    [
        (["--learner", "latent_svm", "--C", "1", "--J", "1"], True),
        (["--C", "1,10"], False),
        (["--learner", "latent_svm", "--C", "1", "--J", "1,3"], False),
    ],
)
def test_folds_are_asked_for_where_the_learner_trains_them(root, tmp_path, refused, monkeypatch, options, is_enough):
    forbid_features(monkeypatch)
    fill(root, ("bird",), 2)
    spoil(root, "dog/00.jpg")
    line = ["--data", "folder", "--root", root, "--out", tmp_path / "RUN", *QUICK[:-1], "bird", "--folds", "3"]
    told = refused("run", *line, *options)
    assert ("cannot be read" in told) is is_enough
    assert ("got 'bird' 2 and 8; lower --folds" in told) is not is_enough


def test_classes_whose_readable_pictures_are_too_few_are_refused_before_extraction(
    root, tmp_path, refused, monkeypatch
):
    fill(root, ("none",))
    spoil(root, "cat/00.jpg", "cat/01.jpg")
    forbid_features(monkeypatch)
    line = ["run", "--data", "folder", "--root", root, "--out", tmp_path / "RUN", *QUICK, "--skip-bad"]
    assert "every class must have 3 positive and 3 negative pictures for 3 folds, got 'cat' 2 and 8" in refused(*line)
    spoil(root, "cat/02.jpg", "cat/03.jpg")
    told = refused(*line, "--C", "1")
    assert "every class must have 1 positive and 1 negative pictures, got 'cat' 0 and 8" in told


def test_a_whole_shard_of_bad_pictures_is_left_out(root, line, tmp_path, command, opened):
    fill(root, count=19)
    bad = [f"cat/{number:02d}" for number in range(17)]
    spoil(root, *(f"{name}.jpg" for name in bad))
    for _ in range(2):
        done = command(*line, "--skip-bad")
        assert done.status == 0, done.err
        assert "set trainval: 17 of 38 pictures are left out" in done.err
    assert open_shards(tmp_path / "RUN" / "shards" / "trainval").n_images == 21
    assert command("train", "--out", tmp_path / "RUN", "--C", "1").status == 0
    assert command("detect", "--out", tmp_path / "RUN").status == 0


def test_a_set_without_a_picture_that_can_be_read_is_refused(root, line, refused, monkeypatch):
    spoil(root, *(f"{name}/{number:02d}.jpg" for name in ("cat", "dog") for number in range(4)))
    forbid_features(monkeypatch)
    assert f"no picture of set 'trainval' can be read; look at --root {root}." in refused(*line, "--skip-bad")


def test_left_out_pictures_are_counted_as_left_out_in_figures_and_on_the_page(tmp_path, digits, fast, command):
    root = shutil.copytree(digits, tmp_path / "data")
    truth = open_dataset("voc", root).ground_truth("test")["six"]
    bad = next(image_id for image_id, objects in truth.items() if not objects.difficult.all())
    spoil(root / "JPEGImages", f"{bad}.jpg")
    line = ["--data", "voc", "--root", root, "--out", tmp_path / "RUN", *fast, "--skip-bad", "--quiet"]
    done = command("run", *line)
    assert done.status == 0
    assert "set test: 1 of 20 pictures are left out, because they cannot be read whole" in done.err
    assert "set test: 1 of 20 pictures are left out of all figures" in done.err
    figures = json.loads((tmp_path / "RUN" / "evaluation.json").read_text())["sets"]["test"]
    assert (figures["pictures"], figures["left_out"], figures["with_boxes"]) == (20, 1, 19)
    assert figures["classes"]["six"]["npos"] == sum(
        int((~objects.difficult).sum()) for image_id, objects in truth.items() if image_id != bad
    )
    assert "1 of 20 pictures are left out of all figures" in (tmp_path / "RUN" / "page" / "index.html").read_text()


def test_annotations_that_evaluation_cannot_take_are_counted(root, tmp_path, command):
    names = sorted(path.relative_to(root).as_posix() for path in root.rglob("*.jpg"))
    content = {
        "images": [{"id": number, "file_name": name} for number, name in enumerate(names)],
        "categories": [{"id": 0, "name": "cat"}, {"id": 1, "name": "dog"}],
        "annotations": [
            {"image_id": number, "category_id": int(name.startswith("dog")), "bbox": [1, 1, 9, 9 * (number > 0)]}
            for number, name in enumerate(names)
        ],
    }
    (root / "annotations.json").write_text(json.dumps(content))
    result = command("extract", "--data", "coco", "--root", root, "--out", tmp_path / "coco", *QUICK)
    assert result.status == 0
    said = " ".join(result.err.split())
    assert "set trainval: 8 pictures; positive: cat 4, dog 4" in said
    assert "boxes of set trainval: 1 of 8 annotations are left out of evaluation (1 with an empty box)" in said
