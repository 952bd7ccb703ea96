"""`lapsvm threshold`, and what `predict` and `Predictor` make of it."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from defusedxml import ElementTree
from lapsvm.pipelines.products.held_out import HeldOut
from PIL import Image

from lapsvm.detection import AlarmThreshold, Detector, Predictor
from lapsvm.inspection.alarm_rate import AlarmRate
from lapsvm.inspection.threshold_file import signed
from lapsvm.inspection.whole_pictures import PictureModel

from ..calls import done
from ..conftest import HOG, OF_PRODUCT


@pytest.fixture(scope="module")
def chosen(inspected, tmp_path_factory):
    """A finished run on the product with a threshold; not to be changed."""
    out = shutil.copytree(inspected, tmp_path_factory.mktemp("chosen") / "CHOSEN")
    done("threshold", "--out", out, "--quiet")
    return out


@pytest.fixture
def run(chosen, tmp_path):
    """The same that a test may change."""
    return shutil.copytree(chosen, tmp_path / "CHOSEN")


@pytest.fixture
def mixed_up(inspected_copy):
    """The same with held-out scores that good and defective pictures share."""
    return mix_up(inspected_copy)


def mix_up(run):
    random = np.random.default_rng(0)
    for path in sorted((run / "heldout").iterdir()):
        held_out = HeldOut.load(path)
        replace(held_out, score=random.normal(0, 0.2, len(held_out.ids)) + 0.1 * held_out.y).save(path)
    return run


def stored(run):
    return AlarmThreshold.load(run / "models" / "threshold.json")


def held_out_best(run, names=("bar", "spot")):
    """Return the highest held-out probability of each good picture, and of the others, by plain loops."""
    best, shown = {}, {}
    for name in names:
        held_out = HeldOut.load(run / "heldout" / f"{name}.safetensors")
        calibration = Detector.load(run / "models" / f"{name}.safetensors").calibration
        for image_id, score, y in zip(held_out.ids, held_out.score, held_out.y, strict=True):
            best[image_id] = max(best.get(image_id, 0), float(calibration.probability([score])[0]))
            shown.setdefault(image_id, []).append(y > 0)
    good = [value for image_id, value in best.items() if not any(shown[image_id])]
    return sorted(good), [value for image_id, value in best.items() if any(shown[image_id])]


@pytest.mark.parametrize(("share", "beyond"), [(0.05, 1), (0.1, 2), (0.5, 12)])
def test_the_threshold_is_a_rank_among_held_out_pictures_of_no_class(mixed_up, command, share, beyond):
    result = command("threshold", "--out", mixed_up, "--max-false-alarms", share)
    assert result.status == 0, result.err
    good, defective = held_out_best(mixed_up)
    assert len(good) == 24
    alarm = stored(mixed_up)
    assert good[-beyond] < alarm.probability == np.nextafter(good[-beyond], 1)
    assert alarm.held_out["ok"] == AlarmRate(beyond - 1, 24)
    found = sum(alarm.held_out[name].alarms for name in ("bar", "spot"))
    assert found == sum(value >= alarm.probability for value in defective)
    assert alarm.tested["ok"].of == 12


def test_it_says_what_alarms_and_what_the_pictures_can_promise(mixed_up, command):
    result = command("threshold", "--out", mixed_up)
    assert "of no class" in result.out
    assert "0 of 24 (0.0 to 14.2 %)" in result.out
    promised = (
        "holds on average over training sets, of the models of folds and of new pictures like these: at most 5 % of"
    )
    assert f"{promised} good ones raise an alarm. (24 can promise 4 % or more)" in " ".join(result.out.split())
    assert f"stored in {mixed_up}/models/threshold.json" in result.err
    assert f"page: {mixed_up}/page/index.html" in result.err
    assert command("threshold", "--out", mixed_up, "--quiet").out == ""


def test_pictures_of_one_product_count_as_one(product, command, refused, tmp_path):
    """Names of good pictures that differ in the last digit are of one product: rule and intervals are of products."""
    run, name_of_product = tmp_path / "RUN", r"good/\d+(?=\d)"
    data = ("--data", "mvtec", "--root", product, "--group", name_of_product)
    result = command("run", *data, "--out", run, *HOG, *OF_PRODUCT)
    assert result.status == 0
    evaluated = json.loads((run / "evaluation.json").read_text())["sets"]
    n_groups = evaluated["trainval"]["held_out"]["intervals"]["groups"]
    said = " ".join(result.err.split())
    assert (
        f"puts the 36 training pictures into {n_groups} groups, 12 of them match nothing and are on their own." in said
    )
    assert f"intervals of the means over {n_groups} groups of pictures: " in " ".join(result.out.split())
    assert f"95% intervals over {n_groups} groups of pictures" in (run / "page/index.html").read_text()
    assert f"lapsvm threshold --out {run} --max-false-alarms 0.25" in (run / "page/index.html").read_text()
    mix_up(run)
    good = [name for name, y in zip(*ids_and_labels(run), strict=True) if y < 0]
    n_products = len({name.split("good/")[1][:-1] for name in good})
    result = command("threshold", "--out", run, "--max-false-alarms", 0.5)
    assert result.status == 0, result.err
    said, alarm = " ".join(result.out.split()), stored(run)
    assert f"{alarm.promise} ({n_products} groups can promise 25 % or more)" in said
    assert "new groups like these, where each group counts the same: at most 50 % of good ones" in alarm.promise
    values, _ = held_out_best(run)
    assert sum(value >= alarm.probability for value in values) == alarm.held_out["ok"].alarms > 0
    assert alarm.held_out["ok"].independent == n_products
    assert alarm.tested["ok"].independent < 12
    assert str(alarm.held_out["ok"]) in result.out
    command("report", "--out", run)
    assert alarm.promise in (run / "page/index.html").read_text()
    line = refused("threshold", "--out", run, "--max-false-alarms", "0.05")
    assert f"0.05 needs 19 groups of held-out pictures of no class, got {n_products}" in line


def test_histograms_show_good_and_defective_pictures_beside_the_threshold(mixed_up, command, tmp_path, refused):
    plot = tmp_path / "scores.svg"
    assert command("threshold", "--out", mixed_up, "--plot", plot).status == 0
    (histogram,), (good, defective) = stored(mixed_up).histograms, held_out_best(mixed_up)
    assert histogram.threshold == stored(mixed_up).probability
    for counts, values in ((histogram.good, good), (histogram.defective, defective)):
        assert list(counts) == [sum(int(min(value * 25, 24)) == place for value in values) for place in range(25)]
    drawn = ElementTree.parse(plot).getroot()
    assert len(drawn.findall("{*}rect")) == 50
    texts = [text.text for text in drawn.findall("{*}text")]
    assert {"good: 24 pictures", f"{histogram.threshold:.3g}", "highest probability of a class"} <= {*texts}
    command("report", "--out", mixed_up)
    assert plot.read_text().strip() in (mixed_up / "page/index.html").read_text()
    assert "nowhere" in refused("threshold", "--out", mixed_up, "--plot", tmp_path / "nowhere/scores.svg", "--quiet")
    assert "must name an SVG file" in refused("threshold", "--out", mixed_up, "--plot", tmp_path / "h.png", "--quiet")


def ids_and_labels(run, names=("bar", "spot")):
    """Return the training pictures, and 1 for those that show a class."""
    of_class = [HeldOut.load(run / "heldout" / f"{name}.safetensors") for name in names]
    assert of_class[0].ids == of_class[1].ids
    return of_class[0].ids, np.maximum(of_class[0].y, of_class[1].y)


def test_what_few_pictures_cannot_promise_is_refused(inspected_copy, refused):
    line = refused("threshold", "--out", inspected_copy, "--max-false-alarms", "0.01")
    assert "0.01 needs 99 held-out pictures of no class, got 24, which promise 0.04 at best" in line
    assert not (inspected_copy / "models/threshold.json").exists()
    for share in ("0", "1", "nan"):
        line = refused("threshold", "--out", inspected_copy, "--max-false-alarms", share)
        assert "--max-false-alarms must be above 0 and below 1" in line


def test_a_promise_of_this_threshold_is_said_everywhere(mixed_up, command):
    result = command("threshold", "--out", mixed_up, "--max-false-alarms", 0.2, "--confidence", 0.9)
    assert result.status == 0, result.err
    alarm, (good, _) = stored(mixed_up), held_out_best(mixed_up)
    assert alarm.probability == np.nextafter(good[-2], 1)  # of 24 at most one: with two .885 would be kept
    assert alarm.confidence == 0.9
    assert "with confidence 90 % of this threshold" in alarm.promise
    assert f"{alarm.promise} (24 can promise 9.15 % or more)" in " ".join(result.out.split())
    figures = json.loads(
        command("threshold", "--out", mixed_up, "--max-false-alarms", 0.2, "--confidence", 0.9, "--json").out
    )["figures"]
    assert (figures["promise"], figures["confidence"]) == (alarm.promise, 0.9)
    command("report", "--out", mixed_up)
    assert alarm.promise in (mixed_up / "page/index.html").read_text()


def test_too_few_pictures_for_a_confidence_are_refused_with_the_number_needed(inspected_copy, refused):
    line = refused("threshold", "--out", inspected_copy, "--max-false-alarms", "0.05", "--confidence", "0.9")
    assert (
        "0.05 with confidence 0.9 needs 45 held-out pictures of no class, got 24, which promise 0.0915 at best" in line
    )
    assert not (inspected_copy / "models/threshold.json").exists()
    line = refused("threshold", "--out", inspected_copy, "--confidence", "1")
    assert "--confidence must be above 0 and below 1" in line


OTHERWISE = {
    "windows.method": ["--windows", "contrast"],
    "detection.score_smoothing": ["--set", "detect.score_smoothing=0.25"],
    "detection.demotion": ["--set", "detect.demotion=0.5"],
    "windows.seed": ["--seed", "7"],
}


@pytest.mark.parametrize("what", OTHERWISE)
def test_what_changes_a_score_leaves_no_decision_and_says_why(run, product, command, what):
    result = command("predict", "--model", run, product / "test/good/003.png", *OTHERWISE[what])
    assert result.status == 0, result.err
    (entry,) = json.loads(result.out)
    assert "verdict" not in entry
    said = " ".join(result.err.split())
    assert f"threshold.json was chosen with {what}" in said
    assert "is not used: pictures get no decision" in said


@pytest.mark.parametrize(
    "given", [["--windows", "grid"], ["--set", "detect.nms_threshold=0.5"], ["--extractor", "hog"]]
)
def test_what_changes_no_score_leaves_the_decision(run, product, command, given):
    ask = ("predict", "--model", run, product / "test/spot/000.png")
    (own,), (entry,) = (json.loads(command(*ask, *more).out) for more in ((), given))
    assert (entry["verdict"], entry["probability"]) == (own["verdict"], own["probability"])


def test_the_predictor_and_the_page_leave_a_threshold_of_other_scores(run, command):
    with pytest.warns(UserWarning, match=r"windows\.method 'grid' instead of 'contrast' and is not used"):
        assert Predictor.open(run, windows="contrast").shown.alarm is None
    with pytest.warns(UserWarning, match=r"score_smoothing 0\.0 instead of 0\.25"):
        assert Predictor.open(run, score_smoothing=0.25).shown.alarm is None
    assert Predictor.open(run, box_voting=0.5).shown.alarm is not None
    path = run / "models/threshold.json"
    content = json.loads(path.read_text())
    content["scoring"]["windows"]["max_windows"] += 1
    path.write_text(signed(content))
    said = " ".join(command("report", "--out", run).err.split())
    assert "threshold.json was chosen with windows.max_windows 201 instead of 200: the page shows none" in said
    assert "raises an alarm from a probability" not in (run / "page/index.html").read_text()


def test_a_threshold_of_an_earlier_version_is_of_what_the_models_record(run, command):
    path = run / "models/threshold.json"
    later = ("digest", "confidence", "promise", "scoring")
    old = {key: value for key, value in json.loads(path.read_text()).items() if key not in later} | {"version": 2}
    path.write_text(json.dumps(old))
    assert Predictor.open(run).shown.alarm is not None
    with pytest.warns(UserWarning, match=r"windows\.method 'grid' instead of 'contrast' and is not used"):
        assert Predictor.open(run, windows="contrast").shown.alarm is None
    name = next(iter(old["models"]))
    whole = PictureModel(1.0, 0.0, np.zeros(len(Detector.load(run / f"models/{name}.safetensors").whole.coef)))
    path.write_text(json.dumps(old | {"pictures": {name: whole.as_json()}}))
    with pytest.warns(UserWarning, match="of an earlier version, by which more good pictures may alarm"):
        assert Predictor.open(run).shown.alarm is not None


@pytest.mark.parametrize("damage", ["digit", "half"])
def test_a_damaged_threshold_is_found_and_the_command_that_makes_it_is_named(run, product, command, refused, damage):
    path = run / "models/threshold.json"
    text = path.read_text()
    broken = text.replace('"of": 24', '"of": 25', 1) if damage == "digit" else text[: len(text) // 2]
    assert broken != text
    path.write_text(broken)
    line = refused("predict", "--model", run, product / "test/good/003.png")
    assert "lapsvm threshold makes it again, and without the file pictures get no decision" in line
    found = command("verify", "--out", run)
    assert found.status == 2
    assert "the first is" in found.err
    assert str(path) in found.err
    assert "then threshold again" in " ".join(found.err.split())
    repaired = command("verify", "--out", run, "--repair")
    assert repaired.status == 0
    said = " ".join(repaired.err.split())
    assert f"lapsvm threshold --out {run} makes {path} again" in said
    assert "lapsvm run" not in said
    assert not path.exists()
    command("threshold", "--out", run)
    assert path.read_text() == text
    assert command("verify", "--out", run).status == 0


def test_without_any_picture_of_no_class_the_folder_for_them_is_named(inspected_copy, refused):
    for path in (inspected_copy / "heldout").iterdir():
        held_out = HeldOut.load(path)
        replace(held_out, y=np.ones_like(held_out.y)).save(path)
    line = refused("threshold", "--out", inspected_copy)
    assert "threshold needs training pictures of no class, got none; they lie in a folder called good, ok," in line


def test_a_run_without_held_out_scores_is_refused(inspected_copy, refused):
    (inspected_copy / "heldout/spot.safetensors").unlink()
    assert "threshold needs held-out scores of 'spot'" in refused("threshold", "--out", inspected_copy)
    path = inspected_copy / "models/spot.safetensors"
    replace(Detector.load(path), calibration=None).save(path)
    assert "threshold needs probabilities, but the model of 'spot' has none" in refused(
        "threshold", "--out", inspected_copy
    )
    assert "threshold needs a run folder" in refused("threshold", "--out", inspected_copy / "models")


def test_a_class_called_ok_is_refused(product, command, refused, tmp_path):
    root = shutil.copytree(product, tmp_path / "product")
    (root / "test/spot").rename(root / "test/ok")
    result = command(
        "run", "--data", "mvtec", "--root", root, "--classes", "ok,bar", "--out", tmp_path / "R", *HOG, *OF_PRODUCT
    )
    assert result.status == 0, result.err
    assert "not called 'ok'" in refused("threshold", "--out", tmp_path / "R")


def test_predict_says_ok_or_the_defect(run, product, command):
    pictures = [product / "test/good/003.png", product / "test/spot/000.png"]
    result = command("predict", "--model", run, *pictures)
    good, defect = json.loads(result.out)
    assert (good["image"], good["verdict"], good["detections"]) == (str(pictures[0]), "ok", [])
    assert 0 <= good["probability"] < stored(run).probability
    assert (defect["image"], defect["verdict"]) == (str(pictures[1]), "spot")
    best = defect["detections"][0]
    assert (best["class"], best["probability"]) == ("spot", defect["probability"])
    for name in ("bar", "spot"):
        first, *further = [one["probability"] for one in defect["detections"] if one["class"] == name] or [1.0]
        assert first >= stored(run).probability
        assert all(one >= 0.5 for one in further)
    assert f"{pictures[0]}: ok" in result.err.splitlines()
    assert any(line.startswith(f"{pictures[1]}: spot (") for line in result.err.splitlines())
    assert "1 of 2 pictures are ok" in result.err
    assert command("predict", "--model", run, *pictures, "--quiet").err == ""


def test_a_picture_of_one_colour_is_ok_with_a_warning(run, command, tmp_path):
    Image.new("RGB", (64, 48)).save(tmp_path / "lamp.png")
    result = command("predict", "--model", run, tmp_path / "lamp.png", "--quiet")
    reason = "of one colour, so that there is nothing to see; no class is found in it, whatever it is of"
    entry = json.loads(result.out)[0]
    assert (entry["verdict"], entry["warning"].endswith(reason)) == ("ok", True)
    assert f"picture {tmp_path}/lamp.png: {reason}" in " ".join(result.err.split())


def test_the_predictor_says_what_the_command_says(run, product, command):
    pictures = sorted(product.glob("test/*/00[0-3].png"))
    entries = json.loads(command("predict", "--model", run, *pictures).out)
    predictor = Predictor.open(run)
    for path, entry in zip(pictures, entries, strict=True):
        decision = predictor.decision(path)
        assert (decision.name, decision.probability) == (entry["verdict"], entry["probability"])
        assert decision.is_ok == (sum(len(found.boxes) for found in predictor(path).values()) == 0)
        assert sum(len(found.boxes) for found in predictor(path).values()) == len(entry["detections"])


def test_a_threshold_of_boxes_changes_the_boxes_and_no_decision(run, product, command):
    picture = product / "test/good/003.png"
    (entry,) = json.loads(command("predict", "--model", run, picture, "--threshold", "0").out)
    assert entry["verdict"] == "ok"
    assert len(entry["detections"]) > 2


def test_without_a_threshold_an_improbable_picture_has_the_best_box_of_each_class(inspected, product, command):
    good, spot = product / "test/good/003.png", product / "test/spot/000.png"
    entries = json.loads(command("predict", "--model", inspected, good, spot).out)
    assert all("verdict" not in entry for entry in entries)
    assert sorted(one["class"] for one in entries[0]["detections"]) == ["bar", "spot"]
    assert all(one["probability"] < 0.5 for one in entries[0]["detections"])
    every = json.loads(command("predict", "--model", inspected, good, spot, "--threshold", "0").out)
    assert len(every[0]["detections"]) > 2
    assert entries[1] == every[1]
    for one in entries[0]["detections"]:
        same = [other for other in every[0]["detections"] if other["class"] == one["class"]]
        assert one == max(same, key=lambda other: other["score"])
    assert Predictor.open(inspected).decision(good) is None


def test_a_threshold_of_other_models_is_named_and_not_used(run, product, command):
    path = run / "models/spot.safetensors"
    detector = Detector.load(path)
    replace(detector, coef=detector.coef * 0.5).save(path)
    result = command("predict", "--model", run, product / "test/good/003.png")
    assert "was chosen for other models and is not used; run lapsvm threshold again" in result.err
    assert "verdict" not in json.loads(result.out)[0]
    with pytest.warns(UserWarning, match="chosen for other models"):
        assert Predictor.open(run).shown.alarm is None


def test_one_model_of_several_keeps_the_promise(run, product, command):
    predictor = Predictor.open(run / "models/bar.safetensors")
    assert predictor.decision(product / "test/good/003.png").is_ok
    assert predictor.decision(product / "test/bar/001.png").name == "bar"


def test_the_same_command_writes_the_same_bytes(mixed_up, command):
    command("threshold", "--out", mixed_up)
    first = (mixed_up / "models/threshold.json").read_bytes()
    command("threshold", "--out", mixed_up)
    assert (mixed_up / "models/threshold.json").read_bytes() == first


def test_folders_without_masks_and_without_a_test_set_are_enough(product, command, tmp_path):
    root = shutil.copytree(product / "test", tmp_path / "pictures")
    assert command("run", "--data", "folder", "--root", root, "--out", tmp_path / "RUN", *HOG, *OF_PRODUCT).status == 0
    result = command("threshold", "--out", tmp_path / "RUN")
    assert result.status == 0, result.err
    assert "test set" not in result.out
    alarm = stored(tmp_path / "RUN")
    assert (alarm.held_out["ok"].of, alarm.tested) == (24, {})
    said = command("predict", "--model", tmp_path / "RUN", root, "--quiet")
    decisions = {entry["image"]: entry["verdict"] for entry in json.loads(said.out)}
    assert {name for path, name in decisions.items() if "/good/" in path} == {"ok"}
