"""What no class knows and no good picture has is called unknown: by command, prediction in Python, JSON and page."""

import importlib
import json
import re
import shlex
import shutil
from dataclasses import replace

import numpy as np
import pytest
from lapsvm.pipelines.commands.exporting import onnx_detector, onnx_precision
from lapsvm.pipelines.review.new_pictures import NewPictures
from lapsvm.pipelines.run.folder import RunFolder
from PIL import Image

from lapsvm.catalog import read_image
from lapsvm.detection import AlarmThreshold, Predictor
from lapsvm.detection.onnx_file import OnnxDetector
from lapsvm.detection.onnx_file.deciding import decision_number
from lapsvm.inspection.decision import UNKNOWN

from ...twins.networks import cells, onnx_network
from ..calls import done
from ..conftest import BENCHMARKS, write_product

FEW = ("--recipe", "plain", "--windows", "grid", "--max-windows", "100", "--C", "10", "--folds", "3")
SHARE = 0.1
RAMP = slice(24, 56), slice(48, 80)
"""Where the pictures of a new kind are as bright as good ones, and change."""


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    """The text of an extractor whose map of stride 16 has means of squares, and means of changes along both sides."""
    pytest.importorskip("onnxruntime")
    plain, ramp = np.ones((1, 3)) / 3, np.linspace(-1, 1, 16)
    kernels = [np.ones((16, 16)), np.tile(ramp, (16, 1)), np.tile(ramp[:, None], (1, 16))]
    kernel = np.concatenate([cells(plain, 16) * one.astype(np.float32) for one in kernels])
    path = tmp_path_factory.mktemp("networks") / "changes.onnx"
    nodes = [("Conv", "x kernel", "map", {"strides": [16, 16]})]
    path.write_bytes(onnx_network(nodes, {"x": [1, 3, "h", "w"]}, {"map": [1, 3, "r", "c"]}, {"kernel": kernel}))
    return f"onnx:{path}?size=96&norm=none"


@pytest.fixture(scope="module")
def product(tmp_path_factory):
    root = tmp_path_factory.mktemp("data") / "product"
    for folder, count in (("train/good", 40), ("test/good", 12), ("test/spot", 12), ("new/spot", 3)):
        for number in range(count):
            write_product(root, folder, number)
    (root / "new/ramp").mkdir()
    for number in range(3):
        pixels = np.asarray(Image.open(root / f"test/good/{number:03}.png")).astype(float)
        pixels[RAMP] += np.tile(np.linspace(-90, 90, 16), (32, 2))
        Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)).save(root / f"new/ramp/{number:03}.png")
    return root


@pytest.fixture(scope="module")
def made(product, network, tmp_path_factory):
    """The folder of a run that knows spots, and has a threshold."""
    run = tmp_path_factory.mktemp("runs") / "RUN"
    for arguments in (
        ("run", "--data", "mvtec", "--root", product, "--out", run, "--extractor", network, *FEW, "--quiet"),
        ("threshold", "--out", run, "--max-false-alarms", SHARE, "--quiet"),
    ):
        done(*arguments)
    return run


@pytest.fixture
def run(made, tmp_path):
    return shutil.copytree(made, tmp_path / "RUN")


def test_new_kinds_are_unknown_and_known_ones_keep_their_name(made, product, command, tmp_path):
    drawn = tmp_path / "drawn"
    found = command("predict", "--model", made, product / "new", "--draw", drawn, "--heatmap")
    entries = {entry["image"][len(str(product)) + 5 :]: entry for entry in json.loads(found.out)}
    predictor = Predictor.open(made)
    for name, entry in entries.items():
        decision = predictor.decision(product / "new" / name)
        assert decision.as_json() == {key: entry[key] for key in ("verdict", "probability", UNKNOWN) if key in entry}
        assert entry["verdict"] == ("spot" if name.startswith("spot") else UNKNOWN), name
    x1, y1, x2, y2 = entries["ramp/000.png"][UNKNOWN]["box"]
    assert x1 < 80 and x2 > 48 and y1 < 56 and y2 > 24  # noqa: PT018
    values = predictor.scored(product / "new/ramp/000.png").score_map(UNKNOWN).values
    assert values.shape == (80, 96)
    assert values[RAMP].mean() > 1.2 * values[:, :32].mean()
    assert values.max() > 0.5
    judged = NewPictures(RunFolder(made), predictor, [product / "new/ramp/000.png"], copies=False)
    assert judged.item(0, 0)["candidates"][0] == entries["ramp/000.png"][UNKNOWN]["box"]
    assert "unknown at" in found.err
    assert (drawn / "ramp/000.heatmap.png").is_file()
    shown = "NAME.heatmap.png: where the most probable class scores, or what is unlike good pictures"
    assert shown in " ".join(found.err.split())


def test_the_promise_is_of_both_together(made, product):
    alarm = AlarmThreshold.load(made / "models/threshold.json")
    assert alarm.held_out["ok"].alarms <= SHARE * (alarm.held_out["ok"].of + 1) - 1
    assert alarm.unlike is not None
    predictor = Predictor.open(made)
    good = [predictor.decision(path) for path in sorted((product / "test/good").iterdir())]
    assert sum(not one.is_ok for one in good) == alarm.tested["ok"].alarms


def test_the_study_of_kinds_left_out_asks_for_them(network, tmp_path, monkeypatch, capsys):
    for folder, count in (("train/good", 50), ("test/good", 8), ("test/spot", 20), ("test/bar", 20)):
        for number in range(count):
            write_product(tmp_path / "data", folder, number)
    monkeypatch.syspath_prepend(BENCHMARKS / "defects")
    study = importlib.import_module("kinds_left_out")
    data = ("--root", str(tmp_path / "data"), "--data", "mvtec", "--known", "spot")
    done(tmp_path / "OUT", *data, "--options", shlex.join(["--extractor", network, *FEW]), command=study.main)
    lines = capsys.readouterr().out.splitlines()
    table = {line.split("|")[2].strip(): line.split("|")[3].strip() for line in lines if line.startswith("| spot")}
    assert {*table} == {"good", "spot", "bar", "all known", "all left out"}
    assert (table["bar"], table["spot"]) == (table["all left out"], table["all known"])
    assert " of 20 (" in table["bar"]


@pytest.fixture
def good_alone(product, network, tmp_path, command):
    """The folder of a run of good pictures alone, before its threshold."""
    shutil.copytree(product / "train/good", tmp_path / "good/good")
    run = tmp_path / "GOOD"
    found = command("run", "--data", "folder", "--root", tmp_path / "good", "--out", run, "--extractor", network, *FEW)
    assert found.status == 0, found.err
    assert "train: no class has pictures yet; by lapsvm threshold" in " ".join(found.err.split())
    return run


def test_good_pictures_alone_decide_until_a_defect_comes(good_alone, product, command, tmp_path):
    said = command("threshold", "--out", good_alone, "--max-false-alarms", SHARE)
    assert said.status == 0, said.err
    assert "a picture raises an alarm from a distance of" in " ".join(said.out.split())
    predictor = Predictor.open(good_alone)
    alarm = predictor.shown.alarm
    assert "of the memory of good pictures and of new pictures" in alarm.promise
    assert alarm.held_out["ok"].alarms == SHARE * 41 // 1 - 1  # the whole share is that of what is unknown
    new = command("predict", "--model", good_alone, product / "new", "--draw", tmp_path / "drawn", "--heatmap")
    assert [(one["verdict"], one["detections"]) for one in json.loads(new.out)] == [(UNKNOWN, [])] * 6
    assert (tmp_path / "drawn/spot/000.heatmap.png").is_file()
    assert new.err.endswith("in 6 of 6 pictures; NAME.heatmap.png: what is unlike good pictures\n")
    good = [predictor.decision(path).is_ok for path in sorted((product / "test/good").iterdir())]
    assert sum(good) >= 9
    page = (good_alone / "page/index.html").read_text()
    assert "No class yet: 40 good pictures alone" in page
    assert "from a distance of" in page
    words = tmp_path / "words.jsonl"
    spots = [{"picture": f"{number:03}.png", "said": "missed", "class": "spot"} for number in range(3)]
    words.write_text("".join(json.dumps(spot) + "\n" for spot in spots))
    judged = "--pictures", product / "new/spot", "--class", "spot", "--merge", words
    for verb, *more in (("review", *judged), ("run",), ("threshold",)):
        assert command(verb, "--out", good_alone, *more, "--quiet").status == 0
    assert {
        one["verdict"] for one in json.loads(command("predict", "--model", good_alone, product / "test/spot").out)
    } == {"spot"}


def test_verbs_of_classes_say_that_good_pictures_alone_decide(good_alone, product, command, refused, tmp_path):
    for verb in ("train", "detect", "evaluate"):
        found = command(verb, "--out", good_alone)
        assert (found.status, found.err.startswith(f"{verb}: no class has pictures yet")) == (0, True)
    assert command("report", "--out", good_alone).status == 0
    assert command("verify", "--out", good_alone).status == 0
    assert "lapsvm threshold --out" in (good_alone / "page/index.html").read_text()
    assert "review needs a class" in refused("review", "--out", good_alone)
    for name in ("onnx", "coco"):
        assert "export needs a class" in refused(
            "export", "--out", good_alone, "--format", name, "--to", tmp_path / "a.onnx"
        )
    assert "has no models yet" in refused("predict", "--model", good_alone, product / "new")
    assert "which promise 0.0244 at best" in refused("threshold", "--out", good_alone, "--max-false-alarms", 0.01)
    assert command("threshold", "--out", good_alone, "--quiet").status == 0
    (good_alone / "models/good-pictures.memory").unlink()
    assert "by good pictures alone needs their memory" in refused("predict", "--model", good_alone, product / "new")


def test_few_good_pictures_alone_are_refused(network, tmp_path, command, refused):
    for number in range(9):
        write_product(tmp_path, "few/good", number)
    words = "--data", "folder", "--root", tmp_path / "few", "--out", tmp_path / "RUN", "--extractor", network
    assert command("run", *words, *FEW).status == 0
    said = refused("threshold", "--out", tmp_path / "RUN", "--max-false-alarms", 0.2)
    assert "as no class has pictures: that needs 10 good pictures, got 9" in said


def test_few_good_pictures_know_nothing_unknown(run, command):
    result = command("threshold", "--out", run, "--max-false-alarms", 0.03)
    assert result.status == 0
    said = " ".join(result.err.split())
    assert "never unknown: " in said
    assert "two thresholds need 66 good pictures, or groups of them, got 46" in said
    assert not (run / "models/good-pictures.memory").exists()
    assert AlarmThreshold.load(run / "models/threshold.json").unlike is None


def test_a_false_alarm_that_is_taught_is_in_the_memory_and_counts_in_no_promise(run, product, command, tmp_path):
    ramps, before = sorted((product / "new/ramp").iterdir()), Predictor.open(run)
    words = tmp_path / "words.jsonl"
    words.write_text("".join(json.dumps({"picture": one.name, "said": "false alarm"}) + "\n" for one in ramps[1:]))
    said = command("review", "--out", run, "--pictures", product / "new/ramp", "--merge", words)
    assert said.status == 0, said.err
    assert command("run", "--out", run, "--quiet").status == 0
    assert command("threshold", "--out", run, "--max-false-alarms", SHARE, "--quiet").status == 0
    taught = Predictor.open(run)
    assert taught.shown.alarm.held_out["ok"].of == before.shown.alarm.held_out["ok"].of
    assert taught.scored(ramps[0]).unlike.distance < 0.5 * before.scored(ramps[0]).unlike.distance


@pytest.mark.parametrize("change", ["gone", "other"])
def test_without_its_memory_nothing_is_unknown_and_a_line_says_so(run, product, command, change):
    path = run / "models/good-pictures.memory"
    if change == "gone":
        path.unlink()
    else:
        memory = Predictor.open(run).good
        replace(memory, looks=memory.looks[1:], differences=memory.differences[1:]).save(path)
    found = command("predict", "--model", run, product / "new/ramp")
    assert {entry["verdict"] for entry in json.loads(found.out)} <= {"ok", "spot"}
    assert "finds nothing unknown, as" in " ".join(found.err.split())


def test_the_exported_file_decides_as_the_run_and_says_by_which_rule(made, product, command, tmp_path, monkeypatch):
    for module, name in ((onnx_detector, "COMPARED"), (onnx_detector, "EQUAL"), (onnx_precision, "COMPARED")):
        monkeypatch.setattr(module, name, 2)
    to = tmp_path / "detector.onnx"
    words = "export", "--out", made, "--format", "onnx", "--to", to, "--inputs", "all"
    exported = command(*words, "--precision", "int8")
    assert exported.status == 0, exported.err
    said = " ".join(exported.err.split())
    assert re.search(r"own windows: the file decides otherwise than predict on [0-2] of 2 pictures", said)
    assert "int8: decides otherwise than float32 on" in said
    assert onnx_detector.PROMISED in said
    to.unlink()
    assert command(*words, "--no-comparison").status == 0
    file, predictor = OnnxDetector(to.read_bytes()), Predictor.open(made)
    alarm, stored, numbers = predictor.shown.alarm, file.metadata, set()
    assert (float(stored["threshold"]), float(stored["max_false_alarms"])) == (alarm.probability, SHARE)
    assert float(stored["unknown_distance"]) == alarm.unlike.distance
    assert alarm.promise in stored["promise"]
    for path in [*sorted((product / "test").rglob("*.png"))[::3], *sorted((product / "new").rglob("*.png"))[::3]]:
        scored = predictor.scored(path)
        expected = scored.decision()
        decision, probability = file.run(["decision", "probability"], read_image(path), windows=scored.boxes)
        np.testing.assert_allclose(probability, [expected.probability], atol=1e-5)
        assert decision == decision_number(expected, json.loads(stored["classes"]))
        numbers.add(int(decision[0]))
    assert numbers == {-1, 0, 1}


def test_a_file_has_a_threshold_of_its_own_by_its_own_windows(made, product, command, refused, tmp_path):
    to, good = tmp_path / "detector.onnx", tmp_path / "new/good"
    for number in range(12):
        write_product(tmp_path, "new/good", 100 + number)
    assert command("export", "--out", made, "--format", "onnx", "--to", to, "--no-comparison").status == 0
    exported, before = to.read_bytes(), OnnxDetector(to.read_bytes()).metadata
    choose = "threshold", "--out", made, "--onnx", to
    assert "need 19 good pictures, or groups of them, got 6" in refused(*choose)  # those of the test set
    assert "pictures must be ones that training did not see" in refused(*choose, "--good", product / "train/good")
    assert "--good is for good pictures that a file" in refused("threshold", "--out", made, "--good", good)
    assert "--plot draws the pictures of the run" in refused(*choose, "--plot", tmp_path / "plot.svg")
    assert to.read_bytes() == exported
    said = command(*choose, "--good", good, "--max-false-alarms", 0.3)
    assert said.status == 0, said.err
    file = OnnxDetector(to.read_bytes())
    alarms = sum(file.decision(read_image(path)) != 0 for path in sorted(good.iterdir()))
    assert alarms <= 0.3 * 13 - 1
    assert f"alarm by {to} now: {alarms} of 12" in " ".join(said.err.split())
    changed = {name for name, value in file.metadata.items() if before[name] != value}
    assert changed == {"threshold", "unknown_distance", "max_false_alarms", "promise"}
    assert "of this file and of new pictures like these: at most 30 % of good ones" in file.metadata["promise"]
    assert command(*choose, "--max-false-alarms", 0.4).status == 0
    assert to.read_bytes() != exported
    (tmp_path / "other.onnx").write_bytes(b"onnx")
    assert "cannot be read by ONNX Runtime" in refused(*choose[:-1], tmp_path / "other.onnx")


def test_a_file_is_of_the_run_in_any_order_of_classes(made):
    """A class that was taught is the last of the run, and stands among the others by its name in the file."""
    spot = Predictor.open(made).detectors[0]
    bar = replace(spot, class_name="bar", coef=2 * spot.coef)
    assert onnx_detector.weights_digest([spot, bar]) == onnx_detector.weights_digest([bar, spot])
    assert onnx_detector.weights_digest([spot, bar]) != onnx_detector.weights_digest([spot, spot])


def test_the_page_and_the_file_say_it(run, command):
    command("report", "--out", run)
    page = (run / "page/index.html").read_text()
    assert "is unknown if it is that unlike good pictures" in page
    content = json.loads((run / "models/threshold.json").read_text())
    assert set(content[UNKNOWN]) == {"distance", "memory"}
    assert command("verify", "--out", run).status == 0


def test_a_damaged_memory_is_removed_and_made_again_by_the_threshold(run, command):
    memory = run / "models/good-pictures.memory"
    sound = memory.read_bytes()
    memory.write_bytes(sound[:-1] + bytes([sound[-1] ^ 255]))
    said = " ".join(command("verify", "--out", run, "--repair").err.split())
    assert "its content is not what was written. It is removed." in said
    assert "lapsvm threshold --out" in said
    assert not memory.exists()
    assert command("threshold", "--out", run, "--quiet").status == 0
    assert memory.read_bytes() == sound
