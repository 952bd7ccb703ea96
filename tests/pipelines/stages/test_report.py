"""The page of a run: unseen pictures, where the detectors fail without boxes, score maps, and what stands out."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from lapsvm.pipelines.figures import page_examples
from lapsvm.pipelines.figures.page_examples import ShownSet, class_examples, disagreements
from lapsvm.pipelines.products.held_out import HeldOut
from lapsvm.pipelines.products.models import weights_hash
from lapsvm.pipelines.run.dataset import has_good_pictures, open_run_data
from lapsvm.pipelines.run.folder import RunFolder
from lapsvm.pipelines.settings.settings import DataSettings
from PIL import Image

from lapsvm.catalog import GroundTruth, ImageRecord
from lapsvm.detection import Detector, model_sources
from lapsvm.evaluation import Detections, evaluate_voc
from lapsvm.features.extractors import extractor
from lapsvm.inspection.calibration import Calibration

LABELS = {"a": 1, "b": 1, "c": -1, "d": -1, "e": 0}
ROWS = [("a", 3.0), ("b", 1.0), ("b", 0.5), ("c", 2.0), ("c", 1.5), ("d", 0.1), ("e", 2.5), ("a", 2.9)]


@pytest.fixture
def shown():
    records = {image: ImageRecord(id=image, path=None, labels={"cat": label}) for image, label in LABELS.items()}
    boxes = [[0, 0, 10 * (row + 1), 100] for row in range(len(ROWS))]
    detections = Detections([image for image, _ in ROWS], [score for _, score in ROWS], boxes)
    return ShownSet(Detector("cat", [0.0]), "on test", detections, records, None)


def ids(examples):
    return [example.id for example in examples]


def test_without_boxes_labels_say_which_boxes_are_wrong(shown):
    galleries = class_examples(shown, ["cat"])
    assert ids(galleries["best"]) == ["a", "e", "b"]
    assert ids(galleries["false_alarms"]) == ["c", "d"]
    assert [example.score for example in galleries["false_alarms"]] == [2.0, 0.1]
    assert [(example.id, example.score) for example in galleries["weak_positives"]] == [("b", 1.0)]
    assert "false_positives" not in galleries


def test_galleries_hold_the_first_pictures_alone(shown):
    names = [f"p{number:02d}" for number in range(30)]
    records = {name: ImageRecord(id=name, path=None, labels={"cat": 1}) for name in names}
    many = Detections(names, -np.arange(30.0), np.tile([0.0, 0, 9, 9], (30, 1)))
    galleries = class_examples(replace(shown, detections=many, records=records), ["cat"])
    assert ids(galleries["best"]) == names[: page_examples.EXAMPLES]
    assert ids(galleries["weak_positives"]) == names[::-1][: min(page_examples.EXAMPLES, 15)]
    assert ids(galleries["sample"]) == names[::-1]


def test_a_sample_has_even_steps_from_the_most_doubtful_to_the_surest(shown):
    names = [f"p{number:03d}" for number in range(95)]
    records = {name: ImageRecord(id=name, path=None, labels={"cat": 1}) for name in names}
    many = Detections(names, np.arange(95.0), np.tile([0.0, 0, 9, 9], (95, 1)))
    sample = class_examples(replace(shown, detections=many, records=records), ["cat"])["sample"]
    assert ids(sample) == names[::2]


def test_boxes_that_nobody_draws_are_not_shown_as_wrong(shown):
    """The probability is that of a sigmoid: .88 of a score of 2, .52 of .1."""
    found = replace(shown, detector=Detector("cat", [0.0], calibration=Calibration(1.0, 0.0)))
    for least, wrong in ((0.5, ["c", "d"]), (0.8, ["c"]), (0.9, [])):
        assert ids(class_examples(found, ["cat"], least)["false_alarms"]) == wrong
    assert ids(class_examples(shown, ["cat"], 0.9)["false_alarms"]) == ["c", "d"]  # without probabilities all


def test_beside_the_surest_defects_stand_the_surest_good_pictures(shown):
    records = {name: replace(record, path=Path(name)) for name, record in shown.records.items()}
    galleries = class_examples(replace(shown, records=records), ["cat"], has_good=True)
    assert [example.id for example in galleries["best"]] == ["a", "e", "b"]
    assert [None if of.good is None else of.good.__self__.id for of in galleries["best"]] == ["d", "c", None]
    assert all(example.good is None for example in class_examples(shown, ["cat"])["best"])


@pytest.mark.parametrize(
    ("folders", "expected"), [(("good", "crack"), True), (("OK", "crack"), True), (("background", "cat"), False)]
)
def test_pictures_are_products_where_a_folder_says_good(tmp_path, folders, expected):
    for folder in folders:
        (tmp_path / folder).mkdir()
        Image.new("RGB", (8, 8)).save(tmp_path / folder / "a.png")
    data = open_run_data(DataSettings("folder", str(tmp_path), test_set="none"), seed=0)
    assert has_good_pictures(data) == expected


def test_with_boxes_of_some_pictures_both_kinds_of_wrong_boxes_are_shown(shown):
    known = {"cat": {name: GroundTruth(np.empty((0, 4)), np.empty(0, bool)) for name in ("a", "b", "c")}}
    found = {"cat": Detections(("a", "c"), [3.0, 2.0], [[0, 0, 10, 100], [0, 0, 40, 100]])}
    result = replace(evaluate_voc(found, known).classes["cat"], order=np.array([0, 3]))  # rows of all detections
    galleries = class_examples(replace(shown, truth=known, voc=result), ["cat"])
    assert ids(galleries["false_positives"]) == ["a", "c"]
    assert galleries["best"] == ()
    assert ids(galleries["false_alarms"]) == ["c", "d"]
    assert [example.truth is None for example in galleries["false_alarms"]] == [False, True]
    everywhere = {"cat": dict.fromkeys(LABELS, known["cat"]["a"])}
    assert "false_alarms" not in class_examples(replace(shown, truth=everywhere, voc=result), ["cat"])


def held_out(**more):
    values = {
        "ids": ("a", "b", "c", "d"),
        "y": np.array([1, 1, -1, -1], dtype=np.int8),
        "fold": np.array([1, 2, 1, 2]),
        "score": np.array([0.5, -1.0, 0.7, -2.0]),
        "boxes": np.array([[0, 0, 10, 10], [0, 0, 20, 20], [0, 0, 30, 30], [0, 0, 40, 40]], dtype=float),
        "agreement": np.array([0.4, 0.1, 0.0, 0.9]),
    }
    return HeldOut(**(values | more))


def test_disagreements_show_both_windows_of_positives_the_worst_first(shown):
    found = disagreements(shown, held_out())
    assert ids(found) == ["b", "a"]
    assert found[0].box.tolist() == [0, 0, 20, 20]
    assert found[0].second.tolist() == [0, 0, 20, 100]
    assert found[0].note == "IoU 0.10 between the two windows"
    assert disagreements(shown, held_out(agreement=np.full(4, 0.5))) == ()
    assert disagreements(shown, None) == ()


def without_boxes(run, digits, folder, *, test=True):
    """Let a finished run's data lose their annotations, and the test set if asked."""
    shutil.copytree(digits, folder, ignore=shutil.ignore_patterns("Annotations", *([] if test else ["*test.txt"])))
    settings = run / "run.toml"
    settings.write_text(settings.read_text().replace(str(digits), str(folder)))


def page_text(run):
    source = (run / "page" / "index.html").read_text()
    return " ".join(re.sub(r"<style>.*</style>|<[^>]*>", " ", source, flags=re.DOTALL).split())


def test_the_page_without_boxes_shows_the_test_sets_failures(run_copy, digits, tmp_path, command):
    without_boxes(run_copy, digits, tmp_path / "data")
    assert command("evaluate", "--out", run_copy, "--quiet").status == 0
    assert command("report", "--out", run_copy).status == 0
    text = page_text(run_copy)
    order = ("Surest boxes on test", "Doubtful boxes on test", "More pictures, the most doubtful first on test",
             "What is known", "Class by class", "Mistakes",
             "Wrong boxes on test Highest-scored boxes in pictures without the class", "Results")  # fmt: skip
    below = text[text.index("Settings and data") :]  # the last link of the contents
    places = [below.index(title) for title in order]
    assert places == sorted(places)
    assert "Highest-scored false positives" not in text
    assert "Kinds of errors" not in text
    assert "Intervals on test" in text


def write_held_out(run, name):
    """Write a file of held-out scores with one window per labelled picture, a different one from the model's."""
    from lapsvm.catalog import open_dataset

    folder = RunFolder(run)
    records = [r for r in open_dataset("voc", folder.settings().data.root).records("trainval") if r.labels[name]]
    n = len(records)
    y = np.array([record.labels[name] for record in records], dtype=np.int8)
    scores = np.where(y > 0, 0.25, -0.5) + np.arange(n) / 1000
    boxes = np.tile([0.0, 0, 7, 7], (n, 1))
    model = weights_hash(Detector.load(folder.model(name)))
    path = folder.held_out(name)
    path.parent.mkdir(exist_ok=True)
    ids = tuple(record.id for record in records)
    HeldOut(ids, y, np.ones(n, dtype=np.intp), scores, boxes, np.full(n, 0.05), model).save(path)


def test_without_a_test_set_the_page_shows_held_out_windows(run_copy, digits, tmp_path, command):
    without_boxes(run_copy, digits, tmp_path / "data", test=False)
    write_held_out(run_copy, "six")
    RunFolder(run_copy).held_out("three").unlink()
    (run_copy / "evaluation.json").unlink()
    result = command("report", "--out", run_copy)
    assert result.status == 0, result.err
    text = page_text(run_copy)
    assert "Surest boxes on trainval, by models that did not see the picture" in text
    assert "Models disagree on trainval, by models that did not see the picture" in text
    assert "IoU 0.05 between the two windows" in text
    assert "box of the model of all pictures" in text
    assert "Surest boxes on trainval, which the model has seen" in text


def test_the_page_with_boxes_shows_errors_intervals_and_windows(finished):
    text = page_text(finished)
    for title in ("Kinds of errors on test", "How well boxes fit on trainval", "Intervals on test"):
        assert title in text
    interval = json.loads((finished / "evaluation.json").read_text())["sets"]["test"]["intervals"]["mean"]["ap_area"]
    assert f"{interval['low']:.3f} to {interval['high']:.3f}" in text
    assert "Too few pictures" in text  # forty pictures in all


# score maps, and what stands out


def test_every_picture_of_a_finished_run_has_its_map_and_no_network_is_opened(run_copy, command, monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("an extractor was opened")

    monkeypatch.setattr(extractor, "open_sized_extractor", refuse)
    monkeypatch.setattr(model_sources, "open_sized_extractor", refuse)
    assert command("report", "--out", run_copy).status == 0
    source = (run_copy / "page" / "index.html").read_text()
    small = sum(part.count('<figure class="picture') for part in source.split('class="pictures small">')[1:])
    assert source.count('class="picture mapped') > 10
    assert 0 < source.count('<figure class="picture') - source.count('class="picture mapped') <= small
    text = page_text(run_copy)
    for name in ("six", "three"):
        assert f"Show where {name} scores probability 0 1" in text
    assert "stands out" not in text
