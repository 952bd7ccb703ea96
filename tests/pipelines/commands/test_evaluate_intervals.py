"""Result files of any program: every figure, and every difference of two files, has an interval over the pictures."""

import json
from dataclasses import replace

import numpy as np
import pytest
from lapsvm.pipelines.commands.result_files import SEED

from lapsvm.annotations.coco import read_coco, read_coco_results
from lapsvm.evaluation import (
    Detections,
    Draws,
    coco_evaluation,
    coco_figures,
    coco_rows,
    detection_figures,
    evaluate_voc,
)
from lapsvm.evaluation.coco import GROUPS
from lapsvm.evaluation.intervals import draws_variance


@pytest.fixture
def files(tmp_path):
    """Write a ground truth of 60 pictures and two classes, and results that find all, most and few objects."""
    rng, images, objects = np.random.default_rng(0), [], []
    results = {"all": [], "most": [], "few": []}
    for number in range(60):
        images.append({"id": number, "file_name": f"{number}.jpg", "width": 300, "height": 200})
        for category in (1, 2) if number % 3 else ():
            box = [*rng.integers(0, 90, 2).tolist(), 60, 50]
            objects.append({"image_id": number, "category_id": category, "bbox": box, "area": 3000, "iscrowd": 0})
            for name, share in (("all", 1), ("most", 0.8), ("few", 0.3)):
                moved = box if rng.random() < share else [200, 120, 40, 40]
                one = {"image_id": number, "category_id": category, "bbox": moved, "score": rng.random()}
                results[name].append(one)
    names = [{"id": 1, "name": "cat"}, {"id": 2, "name": "dog"}]
    truth = {"images": images, "annotations": objects, "categories": names}
    for name, content in {"truth": truth, **results}.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    return tmp_path


@pytest.fixture
def evaluate(command, files):
    """Evaluate result files by their names; return the JSON and what was printed."""

    def run(*names, words=()):
        given = [word for name in names for word in ("--results", files / f"{name}.json")]
        result = command("evaluate", "--coco", files / "truth.json", *given, "--json", files / "out.json", *words)
        assert result.status == 0, result.err
        return json.loads((files / "out.json").read_text()), result.out

    return run


@pytest.mark.parametrize("name", ["all", "most", "few"])
def test_every_figure_has_an_interval_with_a_width(evaluate, name):
    table, printed = evaluate(name)
    for row, limits in zip(
        (*table["classes"].values(), table["mean"]),
        (*table["intervals"]["classes"].values(), table["intervals"]["mean"]),
        strict=True,
    ):
        assert set(limits) == {"ap_11point", "ap_area"}
        for measure, known in limits.items():
            assert 0 <= known["low"] < known["high"] <= 1
            assert known["low"] - 1e-12 <= row[measure] <= known["high"] + 1e-12
            assert f"{row[measure]:.3f} [{known['low']:.3f}, {known['high']:.3f}]" in printed
    assert table["intervals"]["level"] == 0.95
    assert "95% intervals over pictures" in printed


def test_the_intervals_are_those_of_the_library(evaluate, files):
    limits = evaluate("most")[0]["intervals"]["classes"]["dog"]
    file = read_coco(files / "truth.json", boxes=True)
    detections, truth = coco_evaluation(file, read_coco_results(files / "most.json", file))
    result = evaluate_voc(detections, truth).classes["dog"]
    figures = detection_figures(result, detections["dog"], truth["dog"], Draws.of(sorted(truth["dog"]), SEED))
    assert {name: (of["low"], of["high"]) for name, of in limits.items()} == {
        name: figure.interval for name, figure in figures.items()
    }
    assert isinstance(detections["dog"], Detections)


def test_two_result_files_are_compared_with_intervals(evaluate):
    table, printed = evaluate("few", "most")
    assert [one["name"].rsplit("/")[-1] for one in table["runs"]] == ["few.json", "most.json"]
    assert table["results"][1] == evaluate("most")[0]
    for measure, entry in table["measures"].items():
        for name, row in (*entry["classes"].items(), ("mean", entry["mean"])):
            (difference,) = row["differences"]
            assert difference["difference"] == pytest.approx(row["values"][1] - row["values"][0])
            assert 0 < difference["low"] < difference["difference"] < difference["high"]
            assert difference["p_value"] < 0.01
            assert (name == "mean") != ("p_holm" in difference)
        assert measure in ("ap_11point", "ap_area")
    assert "most.json - " in printed


def test_a_result_file_does_not_differ_from_itself_and_little_is_known_of_perfect_ones(evaluate):
    same = evaluate("most", "most")[0]["measures"]["ap_area"]["mean"]["differences"][0]
    assert (same["difference"], same["low"], same["high"], same["p_value"]) == (0, 0, 0, 1)
    perfect = evaluate("all", "all")[0]["measures"]["ap_area"]["mean"]["differences"][0]
    assert (perfect["difference"], perfect["p_value"]) == (0, 1)
    assert perfect["low"] < 0 < perfect["high"]


def test_result_files_without_a_class_in_common_are_refused(files, refused):
    for folder, name in (("a", "cat"), ("b", "dog")):
        (files / folder).mkdir()
        (files / folder / f"comp4_det_test_{name}.txt").write_text("")
    root = files / "VOC"
    (root / "ImageSets/Main").mkdir(parents=True)
    (root / "Annotations").mkdir()
    (root / "ImageSets/Main/test.txt").write_text("1\n")
    (root / "Annotations/1.xml").write_text("<annotation><filename>1.jpg</filename></annotation>")
    line = refused("evaluate", "--root", root, "--results", files / "a", "--results", files / "b")
    assert "a class in common, got none" in line


def test_coco_figures_have_intervals_by_leaving_out_groups_of_pictures(evaluate, files):
    pytest.importorskip("faster_coco_eval", reason="faster-coco-eval is not installed")
    table, printed = evaluate("most", words=("--metrics", "voc,coco"))
    limits = table["intervals"]["classes"]["cat"]["coco_ap50"]
    value = table["classes"]["cat"]["coco_ap50"]
    assert 0 < limits["low"] < value < limits["high"] < 1
    assert f"{value:.3f} [{limits['low']:.3f}, {limits['high']:.3f}]" in printed
    assert table["intervals"]["classes"]["cat"]["coco_ap_large"] is None  # no object is large
    file = read_coco(files / "truth.json", boxes=True)
    results = read_coco_results(files / "most.json", file)
    without = []
    for group in range(GROUPS):
        kept = {key for position, key in enumerate(file.file_names) if position % GROUPS != group}
        some = replace(
            file,
            file_names={key: name for key, name in file.file_names.items() if key in kept},
            annotations=tuple(one for one in file.annotations if one.image_id in kept),
        )
        rows = coco_rows(some, [one for one in results if one.image_id in kept])
        without.append(rows["cat"]["coco_ap50"])
    figure = coco_figures(file, results)["cat"]["coco_ap50"]
    assert figure.value == coco_rows(file, results)["cat"]["coco_ap50"]
    jackknife = (GROUPS - 1) * np.var(without)
    assert draws_variance(figure.draws, figure.n_groups) == pytest.approx(jackknife)


def test_coco_figures_of_two_files_are_compared(evaluate):
    pytest.importorskip("faster_coco_eval", reason="faster-coco-eval is not installed")
    table, printed = evaluate("few", "most", words=("--metrics", "coco"))
    difference = table["measures"]["coco_ap"]["mean"]["differences"][0]
    assert 0 < difference["low"] < difference["difference"] < difference["high"]
    assert "COCO AP" in printed
    assert "AP 11-point" not in printed
