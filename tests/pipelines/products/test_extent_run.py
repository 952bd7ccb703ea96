"""A run on even ground: the same boxes, with the extent of what stands out, wherever boxes are shown."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from lapsvm.pipelines.context import RunContext
from lapsvm.pipelines.products.held_out import read_held_out
from lapsvm.pipelines.review.session import ReviewSession
from lapsvm.pipelines.run.folder import RunFolder
from PIL import Image

from lapsvm.boxes import paired_iou
from lapsvm.detection import Detector, Predictor
from lapsvm.evaluation import read_results

COUNT = 24
WORDS = ["--data", "folder", "--test-set", "none", "--extractor", "hog", "--objectness", "none", "--recipe", "plain"]
WORDS += ["--set", "refine.rounds=1", "--set", "windows.max_windows=150"]


def draw(root, slope):
    """Write pictures of plain ground, of which every second has a dark part, and return name -> its box."""
    rng, truth = np.random.default_rng(0), {}
    for number in range(COUNT):
        scene = rng.normal(150, 3, (120, 160)) + slope * rng.uniform(-1, 1) * np.linspace(-1, 1, 160)
        if number % 2:
            top, left = rng.integers(30, [60, 100])
            scene[top : top + 24, left : left + 30] -= 70
            truth[f"fault/{number}"] = [left, top, left + 30, top + 24]
        path = root / ("good", "fault")[number % 2] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.repeat(np.clip(scene, 0, 255).astype(np.uint8)[:, :, None], 3, axis=2)).save(path)
    return truth


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The pictures of even ground, and their boxes."""
    root = tmp_path_factory.mktemp("even") / "pictures"
    return root, draw(root, 0)


@pytest.fixture
def run_of(command, tmp_path):
    def run(root, windows="mixed"):
        result = command("run", *WORDS, "--root", root, "--windows", windows, "--out", tmp_path / "RUN")
        assert result.status == 0, result.err
        return RunFolder(tmp_path / "RUN"), result.err

    return run


def takes_extent(run):
    return "extent" in Detector.load(run.model("fault")).provenance["result"]


def first_boxes(run):
    """Return picture -> its best box in the result files."""
    found = read_results(run.detections("trainval"), "trainval")["fault"]
    worst_first = np.argsort(found.scores, kind="stable").tolist()
    return {found.image_ids[row]: found.boxes[row].tolist() for row in worst_first}


def test_all_that_shows_boxes_shows_the_same_ones(run_of, made):
    root, truth = made
    run, said = run_of(root)
    assert takes_extent(run)
    assert "refine: fault: boxes take the extent of what stands out of the even ground, as " in said
    found, predictor = first_boxes(run), Predictor.open(run.path)
    for name in truth:
        assert predictor(root / f"{name}.png")["fault"].boxes[0].tolist() == found[name]
    held_out = read_held_out(run, "fault")
    rows = [held_out.ids.index(name) for name in truth]
    assert paired_iou(held_out.boxes[rows], np.array(list(truth.values()))).min() >= 0.5
    session = ReviewSession(RunContext.opened(run.path, "review", quiet=True).stored)
    (review,) = session.classes
    for row in review.rows:
        first = held_out.boxes[held_out.ids.index(session.ids[row])]
        np.testing.assert_allclose(session.candidates(review, row)[0][0], first, atol=0.01)


@pytest.mark.parametrize("windows", ["mixed", "selective_search"])
def test_nothing_changes_on_other_ground_and_with_other_windows(run_of, made, tmp_path, windows):
    root = made[0]
    if windows == "mixed":
        root = tmp_path / "uneven"
        draw(root, 70)
    run, said = run_of(root, windows)
    assert not takes_extent(run)
    assert "stands out of the even ground" not in said


def test_boxes_of_pictures_that_are_gone_keep_the_extent_of_windows(run_of, made, command, tmp_path):
    root = Path(shutil.copytree(made[0], tmp_path / "pictures"))
    run, _ = run_of(root)
    whole = first_boxes(run)
    (root / "fault" / "1.png").write_bytes((root / "fault" / "3.png").read_bytes())
    result = command("detect", "--out", run.path, "--redo")
    assert result.status == 0, result.err
    assert "detect: boxes keep the extent of windows in 1 pictures, such as fault/1 (picture fault/1 has" in result.err
    differ = [name for name, box in first_boxes(run).items() if box != whole[name] and name.startswith("fault")]
    assert differ == ["fault/1"]
