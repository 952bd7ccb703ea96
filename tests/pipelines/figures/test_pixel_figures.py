"""Pixel figures of a run with masks, against the maps of the predictor and a library's areas."""

import json
import re
import shutil

import numpy as np
import pytest
from lapsvm.pipelines.inspection.probabilities import PictureProbabilities
from PIL import Image
from sklearn.metrics import average_precision_score, roc_auc_score

from lapsvm.catalog import open_dataset
from lapsvm.detection import Predictor
from lapsvm.evaluation import Draws, Figures, PixelCounts, image_auroc_draws, map_peak, read_results
from lapsvm.evaluation.intervals import clopper_pearson
from lapsvm.evaluation.measures import Pictures

MEASURES = ("pixel_auroc", "pro", "map_pointing")


def entry_of(run, set_name="test"):
    return json.loads((run / "evaluation.json").read_text())["sets"][set_name]


def mask_of(product, record, name):
    """Return the mask of a class in a picture, by the names of files alone."""
    kind, number = record.path.parent.name, record.path.stem
    if kind != name:
        return np.zeros((80, 96), bool)
    return np.asarray(Image.open(product / f"ground_truth/{kind}/{number}_mask.png")) > 0


@pytest.fixture(scope="module")
def maps(inspected, product):
    """Return picture -> (record, logits of every class at every pixel), by the predictor."""
    predictor = Predictor.open(inspected)
    found = {}
    for record in open_dataset("mvtec", product).records("test"):
        values = {name: one.values.astype(np.float64) for name, one in predictor.score_maps(record.path).items()}
        found[record.id] = record, {name: np.log(own / (1 - own)) for name, own in values.items()}
    return found


@pytest.mark.parametrize("name", ["bar", "spot"])
def test_a_class_has_the_figures_of_its_maps(inspected, product, maps, name):
    row = entry_of(inspected)["classes"][name]
    pictures = [(values[name], mask_of(product, record, name)) for record, values in maps.values()]
    values, inside = (np.concatenate([one[part].ravel() for one in pictures]) for part in (0, 1))
    assert row["pixel_auroc"] == pytest.approx(roc_auc_score(inside, values), abs=2e-3)
    counts = PixelCounts()
    for own, mask in pictures:
        counts.add(own, mask)
    assert row["pro"] == pytest.approx(counts.pro, abs=2e-3)
    assert counts.n_regions == 6
    shown = np.array([mask.any() for _, mask in pictures])
    hits = np.array([mask[map_peak(own)] for own, mask in pictures])
    assert row["map_pointing"] == pytest.approx(np.mean(hits[shown]))
    found = entry_of(inspected)["intervals"]["classes"][name]["map_pointing"]
    assert (found["low"], found["high"]) == clopper_pearson(hits[shown].sum(), shown.sum())


def test_all_classes_as_one_have_the_highest_logit_of_each_pixel(inspected, product, maps):
    row = entry_of(inspected)["any_class"]
    values = np.concatenate([np.maximum(own["bar"], own["spot"]).ravel() for _, own in maps.values()])
    masks = [mask_of(product, record, "bar") | mask_of(product, record, "spot") for record, _ in maps.values()]
    inside = np.concatenate([one.ravel() for one in masks])
    assert row["pixel_auroc"] == pytest.approx(roc_auc_score(inside, values), abs=2e-3)


def test_whole_pictures_have_ap_and_auroc_of_each_class_and_of_any(inspected, product):
    records = open_dataset("mvtec", product).records("test")
    entry, found = entry_of(inspected), read_results(inspected / "detections/test", "test")
    best = {}
    for name in ("bar", "spot"):
        scores = found[name].best_scores()
        y, values = [one.labels[name] > 0 for one in records], [scores[one.id] for one in records]
        assert entry["classes"][name]["image_auroc"] == pytest.approx(roc_auc_score(y, values))
        calibration = next(one for one in Predictor.open(inspected).detectors if one.class_name == name).calibration
        best[name] = calibration.probability(values)
    shown = ["/good/" not in one.id for one in records]
    highest = np.maximum(best["bar"], best["spot"])
    assert entry["any_class"]["image_auroc"] == pytest.approx(roc_auc_score(shown, highest))
    assert entry["any_class"]["image_ap"] == pytest.approx(average_precision_score(shown, highest))
    held_out = entry_of(inspected, "trainval")["held_out"]
    assert set(held_out["any_class"]) == {"image_ap", "image_auroc"}
    for known in (entry, held_out):
        rows = [(row, known["intervals"]["classes"][name]) for name, row in known["classes"].items()]
        for row, intervals in [*rows, (known["any_class"], known["intervals"]["any_class"])]:
            pointed = [measure for measure in ("pointing", "map_pointing") if row.get(measure) is not None]
            assert "map_pointing" in pointed or known is held_out
            for measure in ("image_ap", "image_auroc", *pointed):
                assert intervals[measure]["low"] <= row[measure] <= intervals[measure]["high"]


def test_intervals_of_any_class_are_those_of_groups_of_pictures():
    random = np.random.default_rng(0)
    best, shown, groups = random.random(60), np.where(np.arange(60) < 30, 1, -1), np.arange(60) // 6
    pictures = PictureProbabilities(("a",), best[:, None], shown[:, None], tuple(map(str, range(60))))
    draws = Draws.of(["other", *pictures.ids], 3, np.append(99, groups))
    counts = draws.counts[:, 1:]
    values = [roc_auc_score(shown[drawn], best[drawn]) for drawn in drawn_pictures(counts) if len({*shown[drawn]}) > 1]
    figure = Figures.of("", Pictures.TEST, {}, draws, pictures.measured).any_class["image_auroc"]
    assert figure.value == pytest.approx(roc_auc_score(shown, best))
    assert sorted(figure.draws[~np.isnan(figure.draws)]) == pytest.approx(sorted(values))
    np.testing.assert_array_equal(figure.draws, image_auroc_draws(best, shown, counts))
    assert PictureProbabilities(("a",), best[:, None], np.ones((60, 1)), pictures.ids).measured is None


def drawn_pictures(counts):
    return [np.repeat(np.arange(len(row)), row) for row in counts]


def test_pointing_of_boxes_stands_beside_that_of_maps(inspected):
    for row in entry_of(inspected)["classes"].values():
        assert 0 <= row["pointing"] <= 1
        assert {*MEASURES, "image_auroc"} <= row.keys()
    assert set(MEASURES) <= entry_of(inspected)["mean"].keys()
    assert not {*MEASURES} & entry_of(inspected, "trainval")["classes"]["bar"].keys()


def test_evaluate_prints_them(inspected_copy, command):
    said = command("evaluate", "--out", inspected_copy).out
    for title in ("map pointing", "pixel AUROC", "PRO", "image AUROC"):
        assert title in said
    assert "any class" in said
    assert re.search(r"of any class: image AP \[[01]\.\d+, [01]\.\d+\], image AUROC \[", said)


def test_without_masks_there_are_none(inspected_copy, product, command, tmp_path):
    root = shutil.copytree(product, tmp_path / "product")
    shutil.rmtree(root / "ground_truth")
    assert command("evaluate", "--out", inspected_copy, "--root", root).status == 0
    entry = entry_of(inspected_copy)
    assert not {*MEASURES, "pointing"} & entry["classes"]["bar"].keys()
    assert set(entry["any_class"]) == {"image_ap", "image_auroc"}


def test_without_shards_there_are_none(inspected_copy, command):
    shutil.rmtree(inspected_copy / "shards")
    assert command("evaluate", "--out", inspected_copy).status == 0
    assert not {*MEASURES} & entry_of(inspected_copy)["classes"]["bar"].keys()


def test_a_mask_that_does_not_fit_leaves_its_picture_out(inspected_copy, product, command, tmp_path):
    root, before = shutil.copytree(product, tmp_path / "product"), entry_of(inspected_copy)
    dataset = open_dataset("mvtec", product)
    shown = [one.id for one in dataset.records("test") if one.labels["bar"] > 0]
    first, second = (dataset.mask_files[image_id].name for image_id in shown[:2])
    Image.new("L", (40, 40), 255).save(root / "ground_truth/bar" / first)
    Image.new("L", (96, 80)).save(root / "ground_truth/bar" / second)
    assert command("evaluate", "--out", inspected_copy, "--root", root).status == 0
    after = entry_of(inspected_copy)
    assert after["classes"]["bar"]["pixel_auroc"] != before["classes"]["bar"]["pixel_auroc"]
    assert after["with_boxes"] == 22
