"""Training never sees a box of an object: with annotations that are broken, or lie, the same bytes come out."""

import json
import re
import shutil
from pathlib import Path

import lapsvm.pipelines
import numpy as np
import pytest

from lapsvm.features import open_shards

EXTRACTION = ["--windows", "grid", "--max-windows", "60", "--classes", "six,three", "--extractor", "hog"]
SO_FAR = ("shards/*/*.safetensors", "first/*", "models/*", "heldout/*", "detections/*/*", "tuning.*")
WITHOUT_BOXES = {
    "tune": [["tune", "--C", "1,10", "--folds", "2"]],
    "tune a hinge": [
        ["tune", "--learner", "latent_svm", "--C", "0.1,1", "--J", "1", "--trim", "0,0.5", "--folds", "2"]
    ],
    "refine": [["train", "--C", "10"], ["refine", "--refine", "2", "--set=refine.candidates=30"]],
}
# what may open annotations: evaluation, and the count of imported boxes that are objects
OPENERS = {"commands/result_files", "annotations/known_boxes", "shards/annotated"}


def break_annotations(root):
    """Write content that no reader takes."""
    for path in (root / "Annotations").iterdir():
        path.write_text("<annotation><object>")


def move_boxes(root):
    """Put every object somewhere else, and call each difficult that was not."""
    for path in (root / "Annotations").iterdir():
        text = re.sub(r"<(x|y)min>\d+<", r"<\1min>1<", path.read_text())
        text = re.sub(r"<(x|y)max>\d+<", r"<\1max>7<", text)
        path.write_text(text.replace("<difficult>0<", "<difficult>1<"))


@pytest.fixture(scope="module")
def roots(digits, tmp_path_factory):
    """The data with annotations that cannot be read, and with others that lie."""
    found = []
    for spoil in (break_annotations, move_boxes):
        found.append(shutil.copytree(digits, tmp_path_factory.mktemp("spoilt") / "data"))
        spoil(found[-1])
        assert annotations(found[-1]) != annotations(digits)
    return found


def annotations(root):
    """Return the contents of the annotation files."""
    return {path.name: path.read_bytes() for path in (root / "Annotations").iterdir()}


@pytest.fixture
def proposals(finished, tmp_path):
    """A file with the windows of every picture of a run."""
    windows = {}
    for set_name in ("trainval", "test"):
        for shard in open_shards(finished / "shards" / set_name):
            for name, first, last in zip(shard.image_ids, shard.offsets[:-1], shard.offsets[1:], strict=True):
                windows[name] = shard.boxes[first:last].tolist()
    path = tmp_path / "boxes.json"
    path.write_text(json.dumps(windows))
    return path


@pytest.fixture
def check_same_bytes(roots, tmp_path, command, made):
    """Return a function that runs some verbs, detection last, and checks that nothing depends on annotations."""

    def check(*verbs):
        runs = [tmp_path / f"RUN{number}" for number in range(len(roots))]
        for root, out in zip(roots, runs, strict=True):
            for verb, *more in (*verbs, ["detect"]):
                data = ["--data", "voc", "--root", root] if verb in ("extract", "import") else []
                result = command(verb, *more, *data, "--out", out)
                assert result.status == 0, result.err
        first, other = (made(run, *SO_FAR) for run in runs)
        assert first == other
        assert any(name.startswith("models") for name in first)

    return check


@pytest.mark.parametrize("name", list(WITHOUT_BOXES))
def test_models_do_not_depend_on_boxes(name, finished, check_same_bytes, fast_extraction):
    check_same_bytes(["extract", *fast_extraction, "--shards-from", finished], *WITHOUT_BOXES[name])


def test_windows_from_files_do_not_depend_on_boxes(check_same_bytes, proposals):
    check_same_bytes(
        ["extract", "--classes", "six,three", "--extractor", "hog", "--proposals", proposals], ["train", "--C", "1"]
    )


def test_imported_features_do_not_depend_on_boxes(finished, check_same_bytes, tmp_path):
    (tmp_path / "npz").mkdir()
    for set_name in ("trainval", "test"):
        for shard in open_shards(finished / "shards" / set_name):
            for name, first, last in zip(shard.image_ids, shard.offsets[:-1], shard.offsets[1:], strict=True):
                rows = slice(first, last)
                np.savez(tmp_path / "npz" / f"{name}.npz", boxes=shard.boxes[rows], features=shard.features[rows])
    check_same_bytes(["import", tmp_path / "npz", "--classes", "six,three"], ["train", "--C", "1"])


def test_broken_annotations_are_told_where_windows_come_from_files(roots, proposals, tmp_path, command):
    more = ["--data", "voc", "--root", roots[0], "--classes", "six,three", "--proposals", proposals, *EXTRACTION[-2:]]
    result = command("extract", *more, "--out", tmp_path / "RUN")
    assert result.status == 0
    assert "annotations cannot be compared with the windows: annotation" in " ".join(result.err.split())


def test_attached_boxes_are_opened_by_evaluation_alone(finished, digits, tmp_path, command, refused, made):
    broken, runs = tmp_path / "boxes.json", [tmp_path / "RUN0", tmp_path / "RUN1"]
    broken.write_text("{ no annotations")
    for out, more in zip(runs, ([], ["--boxes", broken]), strict=True):
        data = ["--data", "voc", "--root", digits, "--shards-from", finished, *EXTRACTION, *more]
        for verb, *options in (["extract", *data], ["train", "--C", "10"], ["refine", "--refine", "1"], ["detect"]):
            assert command(verb, *options, "--out", out, "--quiet").status == 0
    assert made(runs[0], *SO_FAR) == made(runs[1], *SO_FAR)
    for verb in ("evaluate", "report"):
        told = refused(verb, "--out", runs[1])
        assert "cannot be read as JSON" in told
        assert "give other --boxes, or '' for none." in told


@pytest.mark.parametrize("broken", ["the set's own", "boxes.json", "boxes/000001.xml"])
def test_boxes_that_evaluation_cannot_read_are_refused_before_the_first_stage(broken, roots, digits, tmp_path, refused):
    data = ["--data", "voc", "--root", roots[0] if broken == "the set's own" else digits, *EXTRACTION, "--C", "1"]
    if broken != "the set's own":
        path = tmp_path / broken
        path.parent.mkdir(exist_ok=True)
        path.write_text("<annotation><object>")
        data += ["--boxes", path if path.suffix == ".json" else path.parent]
    assert ".json" in (told := refused("run", *data, "--out", tmp_path / "RUN")) or ".xml" in told
    assert not (tmp_path / "RUN").exists()


def test_a_run_that_has_checked_the_boxes_trains_without_them(roots, finished, fast, tmp_path, command, made):
    assert command("run", "--data", "voc", "--root", roots[1], *fast, "--out", tmp_path / "RUN").status == 0
    assert made(tmp_path / "RUN", *SO_FAR) == made(finished, *SO_FAR)
    assert made(tmp_path / "RUN", "evaluation.json") != made(finished, "evaluation.json")


def test_only_evaluation_opens_attached_boxes():
    folder = Path(lapsvm.pipelines.__path__[0])
    texts = {str(path.relative_to(folder).with_suffix("")): path.read_text() for path in folder.rglob("*.py")}
    asking = {
        word: {name for name, text in texts.items() if word in text} for word in ("known_boxes(", "attach_boxes(")
    }
    assert asking["known_boxes("] == {
        "annotations/known_boxes",
        "figures/evaluation",
        "compare/runs",
        "commands/exporting/onnx_detector",
    }
    assert asking["attach_boxes("] == {"annotations/known_boxes"}
    words = "annotations.voc", "annotations.formats", ".load()", "boxes=True"
    readers = {name for name, text in texts.items() if any(word in text for word in words)}
    assert readers == {"annotations/known_boxes", "commands/result_files", "review/mended_files"}


def test_only_what_evaluates_asks_for_boxes():
    folder = Path(lapsvm.pipelines.__path__[0])
    asking = {
        str(path.relative_to(folder).with_suffix(""))
        for path in folder.rglob("*.py")
        if "ground_truth(" in path.read_text()
    }
    assert asking == OPENERS
