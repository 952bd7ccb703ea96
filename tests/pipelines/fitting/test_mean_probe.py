"""Mean probe: a warning if the mean windows separate the pictures, and only then."""

import numpy as np
import pytest
from lapsvm.pipelines.cli.parsing import assigned_values
from lapsvm.pipelines.fitting.mean_probe import data_warnings, mean_probe_image_aps
from lapsvm.pipelines.run.options import settings_of
from PIL import Image

from lapsvm.bags import Bags
from lapsvm.detection import Detector
from lapsvm.evaluation import image_average_precision

PROBE = "separates pictures with and without it (held-out image AP 1.000)"
PICTURES, WINDOWS, DIM = 60, 20, 30
Y = np.where(np.arange(PICTURES) % 3 == 0, 1, -1).astype(np.int8)


def made(seed, shift_of_windows):
    """Return bags of noise in which the first so many windows of positives are moved along one feature."""
    features = np.random.default_rng(seed).normal(size=(PICTURES, WINDOWS, DIM))
    features[Y > 0, :shift_of_windows, 0] += 4
    return Bags(features.reshape(-1, DIM), np.arange(PICTURES + 1) * WINDOWS)


@pytest.mark.parametrize("seed", range(5))
def test_pictures_of_two_worlds_are_told_apart_by_their_means(seed):
    assert mean_probe_image_aps(made(seed, WINDOWS), {"a": Y}, seed) == {"a": 1.0}


@pytest.mark.parametrize("seed", range(5))
def test_one_window_in_twenty_is_not_seen_in_the_means(seed):
    assert mean_probe_image_aps(made(seed, 1), {"a": Y}, seed)["a"] < 0.9


def test_pictures_without_any_difference_are_ranked_as_by_chance():
    values = [mean_probe_image_aps(made(seed, 0), {"a": Y}, seed)["a"] for seed in range(10)]
    rng = np.random.default_rng(0)
    chance = np.mean([image_average_precision(rng.normal(size=20), Y[:20]) for _ in range(500)])
    assert np.mean(values) == pytest.approx(chance, abs=0.1)


def test_classes_are_judged_one_by_one_and_small_ones_not_at_all():
    few, rest = np.full(PICTURES, -1, dtype=np.int8), np.random.default_rng(1).permutation(Y)
    few[:2] = 1
    bags = made(3, WINDOWS)
    found = mean_probe_image_aps(bags, {"a": Y, "few": few, "other": rest}, 0)
    assert found.keys() == {"a", "other"}
    assert found["a"] == 1.0
    assert found["other"] < 0.9
    assert mean_probe_image_aps(bags, {"few": few}, 0) == {}


def test_the_unit_of_the_features_does_not_matter():
    bags, small = made(4, 5), made(4, 5).scaled(1e-6)
    assert mean_probe_image_aps(small, {"a": Y}, 0) == pytest.approx(mean_probe_image_aps(bags, {"a": Y}, 0), abs=1e-6)


@pytest.mark.parametrize("verb", ["run", "train", "tune"])
def test_a_choice_without_differences_names_a_setting_that_every_verb_takes(verb):
    perfect = [{"C": C, "folds": [1.0, 1.0]} for C in (1.0, 10.0)]
    (sentence,) = data_warnings("cat", {"held_out_image_ap": perfect})
    assignment = sentence.split("--set ")[1].split()[0]
    assert assigned_values([assignment], settings_of(verb)) == {"train.margin": 0.05}


def test_features_that_are_all_zero_tell_nothing_apart():
    bags = Bags(np.zeros((PICTURES, DIM)), np.arange(PICTURES + 1))
    assert mean_probe_image_aps(bags, {"a": Y}, 0)["a"] == pytest.approx((Y > 0).mean())


def entry(*folds):
    return {"C": 1.0, "folds": list(folds)}


@pytest.mark.parametrize(
    ("result", "words"),
    [
        ({}, []),
        ({"mean_probe_image_ap": None, "held_out_image_ap": []}, []),
        ({"mean_probe_image_ap": 0.998, "held_out_image_ap": [entry(1.0, 0.998), entry(1.0, 1.0)]}, ["2 of 2"]),
        ({"mean_probe_image_ap": 0.998, "held_out_image_ap": [entry(0.9, 1.0), entry(1.0, 1.0)]}, []),
        ({"mean_probe_image_ap": 0.9996}, [PROBE]),
        (
            {"mean_probe_image_ap": 1.0, "held_out_image_ap": [entry(1.0), entry(1.0), entry(0.5)]},
            [PROBE, "2 of 3"],
        ),
    ],
)
def test_what_is_perfect_is_told_in_a_sentence_each(result, words):
    sentences = data_warnings("cat", result)
    assert len(sentences) == len(words)
    for sentence, part in zip(sentences, words, strict=True):
        assert part in sentence
        assert sentence.startswith("cat: ")
        assert sentence.endswith(".")


def two_worlds(folder):
    """Write pictures of a class that are striped across, and others that are striped down."""
    rng = np.random.default_rng(0)
    rows = ["image,label"]
    for i in range(20):
        stripes = np.where(np.arange(48) // 4 % 2, 200, 60)[:, None].repeat(64, axis=1)
        pixels = stripes if i % 2 else np.where(np.arange(64) // 4 % 2, 200, 60)[None].repeat(48, axis=0)
        noisy = np.clip(pixels + rng.normal(0, 10, (48, 64)), 0, 255).astype(np.uint8)
        Image.fromarray(noisy).save(folder / f"{i}.png")
        rows.append(f"{i}.png,{'across' if i % 2 else ''}")
    (folder / "labels.csv").write_text("\n".join(rows) + "\n")


def test_separable_sets_are_reported_on_the_command_line_and_on_the_page(tmp_path, command):
    root, out = tmp_path / "pictures", tmp_path / "RUN"
    root.mkdir()
    two_worlds(root)
    line = ["run", "--data", "csv", "--root", root, "--out", out, "--windows", "grid", "--max-windows", "20"]
    line += ["--extractor", "hog"]
    result = command(*line, "--C", "1,10", "--folds", "2")
    assert result.status == 0, result.err
    said = result.err.splitlines()
    assert any(
        sentence.startswith("train: across: the mean of a picture's windows alone separates") for sentence in said
    )
    assert any("2 of 2 candidates" in sentence for sentence in said)
    assert Detector.load(out / "models" / "across.safetensors").provenance["result"]["mean_probe_image_ap"] == 1.0
    page = (out / "page" / "index.html").read_text()
    assert PROBE in page
    assert "2 of 2 candidates" in page


def test_digits_with_the_same_background_cause_no_warning(finished):
    for name in ("six", "three"):
        result = Detector.load(finished / "models" / f"{name}.safetensors").provenance["result"]
        assert 0 < result["mean_probe_image_ap"] < 0.95
    assert 'class="warnings"' not in (finished / "page" / "index.html").read_text()
