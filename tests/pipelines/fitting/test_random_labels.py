"""The law of held-out figures: with random labels nothing can be learned, and nothing held out may say otherwise.

Pictures of noise have 24 positives and 36 negatives at random, drawn anew for every class, so that each class is a
seed. Whatever a run calls held out must then be at chance: the image AP, the probabilities, the agreement of windows.
"""

import json
import shutil

import numpy as np
import pytest
from lapsvm.datasets.voc_writer import VocPicture, write_lists, write_pictures
from lapsvm.pipelines.products.held_out import read_held_out
from lapsvm.pipelines.run.folder import RunFolder

from lapsvm.annotations.voc import VocObject
from lapsvm.detection import Detector
from lapsvm.evaluation import image_average_precision, read_results
from lapsvm.features.extractors.efficientnet import photos_installed

from ..calls import done

CLASSES = [f"noise{number}" for number in range(4)]
N_TRAIN, N_TEST, POSITIVES = 60, 40, 24
BASE = POSITIVES / N_TRAIN
QUICK = ["--set=train.tol=.01"]
WINDOWS = ["--windows", "grid", "--max-windows", "40", "--set=windows.max_area=.25"]
EXTRACTION = ["--extractor", "hog", *WINDOWS, "--classes", ",".join(CLASSES)]
CHOSEN = ["--recipe", "plain", "--C"]
REFINED = ["--refine", "2", "--set=refine.C=60", "--set=refine.top=5", "--set=refine.neg_iou=.4"]
REFINED += ["--set=refine.candidates=20"]
RUNS = {
    "refined": [*CHOSEN, ".1,1,10,100", *REFINED, "--set=refine.box_voting=true"],
    "hinge": ["--recipe", "plain", "--learner", "latent_svm", "--C", ".01,1", "--J", "1", "--refine", "1"],
}


@pytest.fixture(scope="module")
def noise(tmp_path_factory):
    """A data set of noise with random labels."""
    root, rng = tmp_path_factory.mktemp("noise") / "DATA", np.random.default_rng(5)
    for set_name, count in (("trainval", N_TRAIN), ("test", N_TEST)):
        shown = np.zeros((count, len(CLASSES)), dtype=bool)
        for column in range(len(CLASSES)):
            shown[rng.permutation(count)[: round(BASE * count)], column] = True
        pictures = (
            VocPicture(f"{set_name}{number:03d}", _noise(rng), [_object(name) for name in np.array(CLASSES)[own]])
            for number, own in enumerate(shown)
        )
        write_lists(root, set_name, write_pictures(root, pictures), CLASSES)
    return root


def _noise(rng):
    coarse = rng.integers(0, 256, (6, 6, 3)).repeat(10, axis=0).repeat(10, axis=1)
    return np.clip(coarse / 2 + rng.integers(0, 128, (60, 60, 3)), 0, 255).astype(np.uint8)


def _object(name):
    return VocObject(str(name), (11, 11, 40, 40), False)


@pytest.fixture(scope="module")
def extracted(noise, tmp_path_factory):
    out = tmp_path_factory.mktemp("extracted") / "RUN"
    done("extract", "--data", "voc", "--root", noise, "--out", out, "--recipe", "plain", *EXTRACTION, "--quiet")
    return out


def by_chance(labels, count=500):
    """Return the interval that holds the mean image AP of random rankings of these classes, but once in 1,000."""
    rng = np.random.default_rng(0)
    means = [np.mean([_of_ranking(rng.permutation(y)) for y in labels]) for _ in range(count)]
    return np.mean(means) + np.array([-3.3, 3.3]) * np.std(means)


def _of_ranking(y):
    """Return the AP of labels in the order of their ranking: the mean of the precision at each positive."""
    ranks = np.flatnonzero(y > 0) + 1
    return np.mean(np.arange(1, len(ranks) + 1) / ranks)


def test_the_average_precision_of_a_ranking():
    y, scores = np.where(np.arange(20) % 3, -1, 1), np.random.default_rng(0).normal(size=20)
    assert _of_ranking(y[np.argsort(-scores)]) == pytest.approx(image_average_precision(scores, y))


@pytest.mark.slow
@pytest.mark.parametrize("options", RUNS.values(), ids=RUNS.keys())
def test_held_out_figures_of_random_labels_are_at_chance(noise, extracted, tmp_path, options):
    out = shutil.copytree(extracted, tmp_path / "RUN")
    done("run", "--data", "voc", "--root", noise, "--out", out, *EXTRACTION, *QUICK, *options, "--quiet")
    assert_at_chance(out)


@pytest.mark.slow
@pytest.mark.skipif(not photos_installed(), reason="the extra photos is not installed")
def test_held_out_figures_of_random_labels_are_at_chance_with_a_network(noise, tmp_path):
    small = ["--windows", "grid", "--max-windows", 40, "--sizes", "160", "--objectness", "none"]
    done("run", "--data", "voc", "--root", noise, "--out", tmp_path / "RUN", *small, "--quiet")
    assert_at_chance(tmp_path / "RUN")


@pytest.mark.slow
@pytest.mark.skipif(not photos_installed(), reason="the extra photos is not installed")
def test_held_out_figures_of_random_labels_on_photographs_are_at_chance(real_data, tmp_path):
    source, root, rng = real_data / "voc2007_vehicles_cat", tmp_path / "DATA", np.random.default_rng(2)
    ids = (source / "ImageSets" / "Main" / "trainval.txt").read_text().split()[::11][:N_TRAIN]
    for folder in ("JPEGImages", "Annotations"):
        (root / folder).mkdir(parents=True)
        for path in (source / folder).iterdir():
            if path.stem in ids:
                (root / folder / path.name).symlink_to(path)
    (root / "ImageSets" / "Main").mkdir(parents=True)
    positive = {name: set(rng.permutation(ids)[:POSITIVES]) for name in CLASSES}
    objects = {image: [_object(name) for name in CLASSES if image in positive[name]] for image in ids}
    write_lists(root, "trainval", objects, CLASSES)
    small = ["--max-windows", 60, "--sizes", 160, "--quiet"]
    done("run", "--data", "voc", "--root", root, "--out", tmp_path / "RUN", *small)
    assert_at_chance(tmp_path / "RUN", has_test=False)


def assert_at_chance(out, has_test=True):
    found = [read_held_out(RunFolder(out), name) for name in CLASSES]
    low, high = by_chance([one.y for one in found])
    table = json.loads((out / "evaluation.json").read_text())["sets"]["trainval"]["held_out"]["mean"]
    assert table["image_ap"] == pytest.approx(np.mean([one.image_ap for one in found]))
    assert low <= table["image_ap"] <= high
    agreement = np.mean([one.agreement[one.y > 0].mean() for one in found])
    assert agreement < 0.96  # windows of one kind agree by themselves
    if not has_test:
        return
    probabilities = np.concatenate([_test_probabilities(out, name) for name in CLASSES])
    assert abs(probabilities.mean() - BASE) < 0.1
    assert (probabilities > 0.7).mean() < 0.05


def _test_probabilities(out, name):
    """Return the probability of each test picture."""
    detections = read_results(out / "detections" / "test", "test")[name]
    best = {}
    for image_id, score in zip(detections.image_ids, detections.scores.tolist(), strict=True):
        best[image_id] = max(score, best.get(image_id, -np.inf))
    assert len(best) == N_TEST
    return Detector.load(out / "models" / f"{name}.safetensors").calibration.probability(np.array(list(best.values())))
