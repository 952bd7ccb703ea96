"""Comparing finished runs: figures, differences and tests that others can recompute, and refusals."""

import json
import re
import shutil
from xml.parsers import expat

import numpy as np
import pytest
from PIL import Image
from scipy import stats
from sklearn.metrics import average_precision_score

from lapsvm.bags import Bags
from lapsvm.catalog import open_dataset
from lapsvm.detection import Detector
from lapsvm.evaluation import draw_pictures, holm, read_results
from lapsvm.features import open_shards
from lapsvm.latent import LatentProblem, RankRisk, fit_many

from ..calls import done

CLASSES = ["six", "three"]


@pytest.fixture(scope="module")
def other(finished, digits, tmp_path_factory):
    """A finished run of another learner on the shards of the first; not to be changed."""
    out = tmp_path_factory.mktemp("other") / "SVM"
    arguments = ["run", "--data", "voc", "--root", digits, "--out", out, "--shards-from", finished, "--quiet"]
    arguments += ["--windows", "grid", "--max-windows", "60", "--classes", "six,three", "--extractor", "hog"]
    done(*arguments, "--learner", "latent_svm", "--C", "0.01", "--J", "5")
    return out


@pytest.fixture(scope="module")
def compared(finished, other, tmp_path_factory):
    """Return the folder of a comparison of both, folds included."""
    out = tmp_path_factory.mktemp("compared")
    line = ["compare", "--out", out, finished, other, "--draws", 300, "--seed", 5, "--folds", 3, "--seeds", 2]
    done(*line, "--quiet")
    return out


@pytest.fixture
def table(compared):
    return json.loads((compared / "comparison.json").read_text())


def test_values_are_those_of_the_evaluations(table, finished, other):
    assert [run["name"] for run in table["runs"]] == ["RUN", "SVM"]
    sets = [json.loads((run / "evaluation.json").read_text())["sets"] for run in (finished, other)]
    for measure, set_name in (
        ("ap_11point", "test"),
        ("ap_area", "test"),
        ("corloc", "trainval"),
        ("pointing", "trainval"),
        ("image_ap", "test"),
    ):
        entry = table["measures"][measure]
        for name in CLASSES:
            expected = [one[set_name]["classes"][name][measure] for one in sets]
            assert entry["classes"][name]["values"] == expected
            assert entry["classes"][name]["differences"][0]["difference"] == expected[1] - expected[0]
        assert entry["mean"]["values"] == pytest.approx([one[set_name]["mean"][measure] for one in sets])


def test_an_interval_is_that_of_evaluating_the_drawn_pictures(table, finished, other, digits):
    records = open_dataset("voc", digits).records("test")
    changes = {name: [] for name in CLASSES}
    for row in draw_pictures(len(records), 300, 5):
        drawn = [record for record, count in zip(records, row, strict=True) for _ in range(count)]
        for name in CLASSES:
            values = [drawn_ap(run, name, drawn) for run in (finished, other)]
            changes[name].append(np.nan if None in values else values[1] - values[0])
    for name in CLASSES:
        found = table["measures"]["image_ap"]["classes"][name]["differences"][0]
        known = np.array(changes[name])[~np.isnan(changes[name])]
        half = stats.t.ppf(0.975, len(records) - 1) * known.std() * np.sqrt(len(records) / (len(records) - 1))
        assert found["high"] - found["low"] >= 2 * half  # a pseudo-object is added to each run
        assert found["high"] - found["low"] <= 2 * half + 0.2
        assert (found["p_value"] < 0.05) == (found["low"] > 0 or found["high"] < 0)


BEST: dict = {}


def drawn_ap(run, name, drawn):
    """Return scikit-learn's AP over drawn pictures, by their best windows."""
    if (run, name) not in BEST:
        found = read_results(run / "detections" / "test", "test")[name]
        order = np.argsort(found.scores, kind="stable")
        BEST[run, name] = {found.image_ids[i]: found.scores[i] for i in order}
    ranked = [record for record in drawn if record.labels[name]]
    labels = [record.labels[name] > 0 for record in ranked]
    return average_precision_score(labels, [BEST[run, name][record.id] for record in ranked]) if any(labels) else None


def test_p_values_are_corrected_over_the_classes(table):
    for entry in table["measures"].values():
        found = [entry["classes"][name]["differences"][0] for name in CLASSES]
        assert [one["p_holm"] for one in found] == holm([one["p_value"] for one in found]).tolist()
        assert "p_holm" not in entry["mean"]["differences"][0]


def test_fold_values_have_the_tests_of_scipy(table):
    folds = table["folds"]
    for row in [*folds["classes"].values(), folds["mean"]]:
        first, second = row["values"]
        assert len(first) == 3 * 2
        plain, corrected = row["differences"][0]["plain"], row["differences"][0]["corrected"]
        expected = stats.ttest_rel(second, first)
        assert (plain["statistic"], plain["p_value"]) == pytest.approx((expected.statistic, expected.pvalue))
        assert corrected["statistic"] == pytest.approx(plain["statistic"] * np.sqrt((1 / 6) / (1 / 6 + 1 / 2)))
    found = [folds["classes"][name]["differences"][0]["plain"] for name in CLASSES]
    assert [one["p_holm"] for one in found] == holm([one["p_value"] for one in found]).tolist()
    assert folds["mean"]["values"][0] == pytest.approx(
        np.mean([folds["classes"][name]["values"][0] for name in CLASSES], axis=0).tolist()
    )


@pytest.mark.parametrize("kind", ["plain", "corrected"])
def test_the_interval_of_the_folds_is_what_the_test_does_not_reject(table, kind):
    for name in CLASSES:
        row = table["folds"]["classes"][name]
        values = np.diff(row["values"], axis=0)[0]
        overlap = {"plain": 0.0, "corrected": 1 / (table["folds"]["folds"] - 1)}[kind]
        error = np.sqrt((1 / len(values) + overlap) * values.var(ddof=1))
        expected = stats.t.interval(0.95, len(values) - 1, values.mean(), error) if error else [values.mean()] * 2
        found = row["differences"][0][kind]
        assert [found["low"], found["high"]] == pytest.approx(np.clip(expected, -1, 1).tolist())


def test_a_fold_value_is_the_runs_learner_on_the_other_folds(table, finished, digits):
    from sklearn.model_selection import StratifiedKFold

    detector = Detector.load(finished / "models" / "six.safetensors")
    records = {record.id: record for record in open_dataset("voc", digits).records("trainval")}
    y = np.array([records[i].labels["six"] for i in open_shards(finished / "shards" / "trainval").image_ids])
    known = np.flatnonzero(y)
    splitter = StratifiedKFold(3, shuffle=True, random_state=5 + 1)  # the second seed's first fold
    held_out = known[next(splitter.split(known, y[known]))[1]]
    seen = y.copy()
    seen[held_out] = 0
    bags = Bags.open(finished, "trainval", detector.scale)
    (solution,) = fit_many([LatentProblem(seen, RankRisk("ap"), C=detector.provenance["result"]["C"])], bags)
    best = bags.best(solution.coef).score
    expected = average_precision_score(y[held_out] > 0, best[held_out])
    assert table["folds"]["classes"]["six"]["values"][0][3] == pytest.approx(expected, abs=1e-6)


def test_the_same_command_writes_the_same_bytes_and_prints_what_it_writes(compared, finished, other, tmp_path, command):
    line = ["compare", "--out", tmp_path / "again", finished, other, "--draws", 300, "--seed", 5]
    result = command(*line, "--folds", 3, "--seeds", 2, "--jobs", 1)
    assert result.status == 0, result.err
    for name in ("comparison.json", "comparison.md", "comparison.svg"):
        assert (tmp_path / "again" / name).read_bytes() == (compared / name).read_bytes()
    for line in (compared / "comparison.md").read_text().splitlines():
        if line.startswith(("| six", "| three", "| mean")):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            assert any(all(cell in printed for cell in cells) for printed in result.out.splitlines())


def test_the_plot_has_a_mark_for_every_difference(compared, table):
    drawing: dict[str, list[dict[str, str]]] = {}
    parser = expat.ParserCreate()
    parser.StartElementHandler = lambda tag, attributes: drawing.setdefault(tag, []).append(attributes)
    parser.Parse((compared / "comparison.svg").read_bytes(), True)
    circles = drawing["circle"]
    panels = len(table["measures"]) + 1  # the folds are one more
    assert len(circles) == 1 + panels * (len(CLASSES) + 1)  # and the legend's
    width, height = map(float, drawing["svg"][0]["viewBox"].split()[2:])
    assert all(0 <= float(one["cx"]) <= width and 0 <= float(one["cy"]) <= height for one in circles)


def test_three_runs_and_a_copy_that_does_not_differ(finished, other, run_copy, tmp_path, command):
    copy = run_copy.rename(run_copy.parent / "COPY")
    result = command("compare", "--out", tmp_path / "C", finished, other, copy, "--draws", 50)
    assert result.status == 0, result.err
    table = json.loads((tmp_path / "C" / "comparison.json").read_text())
    assert "folds" not in table
    for entry in table["measures"].values():
        for row in [*entry["classes"].values(), entry["mean"]]:
            same = row["differences"][1]
            assert (same["difference"], same["p_value"]) == (0, 1)
            assert same["low"] == -same["high"]
            assert (same["high"] == 0) == (0 < row["values"][0] < 1)  # of a perfect figure little is known


def with_root(run, root):
    """Point a run at another data set."""
    text = (run / "run.toml").read_text()
    lines = [f'root = "{root}"' if line.startswith("root = ") else line for line in text.splitlines()]
    (run / "run.toml").write_text("\n".join(lines) + "\n")
    return run


def test_other_boxes_are_refused(finished, run_copy, digits, tmp_path, refused):
    root = shutil.copytree(digits, tmp_path / "data")
    path = next(path for path in sorted((root / "Annotations").iterdir()) if "<name>six</name>" in path.read_text())
    path.write_text(re.sub(r"<xmin>\d+</xmin>", "<xmin>1</xmin>", path.read_text()))
    line = refused("compare", "--out", tmp_path / "C", finished, with_root(run_copy, root))
    assert "differ in their boxes" in line
    assert not (tmp_path / "C").exists()


def test_other_labels_are_refused(finished, run_copy, digits, tmp_path, refused):
    root = shutil.copytree(digits, tmp_path / "data")
    path = root / "ImageSets" / "Main" / "six_test.txt"
    path.write_text(path.read_text().replace(" -1", "  1", 1))
    line = refused("compare", "--out", tmp_path / "C", finished, with_root(run_copy, root))
    assert "the test sets of" in line
    assert "differ in their labels" in line


def test_other_pictures_are_refused(finished, tmp_path, command, refused, fast):
    from lapsvm.datasets.digits import write_digits

    write_digits(tmp_path / "data", seed=4, n_train=40, n_test=20)
    more = ["--data", "voc", "--root", tmp_path / "data", "--out", tmp_path / "OTHER", "--quiet"]
    assert command("run", *more, *fast).status == 0
    assert "differ in their pictures" in refused("compare", "--out", tmp_path / "C", finished, tmp_path / "OTHER")


def test_without_a_test_set_and_boxes_only_folds_compare(tmp_path, command, refused):
    rng = np.random.default_rng(0)
    for name, value in (("red", 250), ("background", 90)):
        (tmp_path / "data" / name).mkdir(parents=True)
        for index in range(6):
            pixels = rng.integers(0, 90, (40, 48, 3), dtype=np.uint8)
            pixels[8:30, 10 : 20 + index] = value, 0, 0
            Image.fromarray(pixels).save(tmp_path / "data" / name / f"{name}{index}.png")
    more = ["--data", "folder", "--root", tmp_path / "data", "--windows", "grid", "--max-windows", "20", "--quiet"]
    more += ["--extractor", "hog"]
    runs = [tmp_path / "A", tmp_path / "B"]
    for run, C in zip(runs, (1, 10), strict=True):
        assert command("run", *more, "--out", run, "--C", C).status == 0
    assert "compare needs a test set" in refused("compare", "--out", tmp_path / "C", *runs)
    result = command("compare", "--out", tmp_path / "C", *runs, "--folds", 2)
    assert result.status == 0, result.err
    table = json.loads((tmp_path / "C" / "comparison.json").read_text())
    assert table["measures"] == {}
    assert len(table["folds"]["classes"]["red"]["values"][1]) == 2
    assert "Held-out image AP" in result.out


def test_detections_of_older_models_are_refused(finished, run_copy, tmp_path, command, refused):
    assert command("train", "--out", run_copy, "--C", "3", "--redo", "--quiet").status == 0
    assert "holds others; run lapsvm detect" in refused("compare", "--out", tmp_path / "C", finished, run_copy)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["{run}"], "two or more run folders"),
        (["{run}", "{run}"], "each named once, got {run}, {run}."),
        (["{run}", "{tmp}/none"], "compare needs a run folder, but {tmp}/none"),
        (["{run}", "{other}", "--folds", "1"], "--folds"),
        (["{run}", "{other}", "--folds", "40"], "for 40 folds"),
        (["{run}", "{other}", "--seeds", "2"], "--seeds needs --folds"),
        (["{run}", "{other}", "--draws", "0"], "--draws"),
        (["{run}", "{other}", "--device", "tpu"], "--device"),
    ],
)
def test_compare_refuses_in_one_line(finished, other, tmp_path, refused, arguments, words):
    values = {"run": finished, "other": other, "tmp": tmp_path}
    line = refused("compare", "--out", tmp_path / "C", *[one.format(**values) for one in arguments])
    assert words.format(**values) in line
    assert not (tmp_path / "C").exists()
