"""The command that shows how far a run goes on defects, on tiny pictures and a stand-in for the network."""

import json
import sys

import numpy as np
import pytest

from ..calls import done

FOLDER = "defects"
MODULES = ("judged", "normal_memory", "picture_classifier", "how_far")


@pytest.fixture
def defects(siblings):
    return siblings


class Colours:
    """A network of two maps: colours of the picture in cells of 4 and of 8 pixels."""

    def feature_maps(self, pixels):
        return [self.cells(pixels, size) for size in (8, 4)]

    @staticmethod
    def cells(pixels, size):
        rows, columns = (length // size for length in pixels.shape[:2])
        parts = pixels[: rows * size, : columns * size].reshape(rows, size, columns, size, 3)
        return np.ascontiguousarray(parts.mean(axis=(1, 3)).transpose(2, 0, 1), np.float32)


def plate(rng, spot=None):
    """A noisy grey picture of 64 x 48 pixels, bright around (x, y) of a spot."""
    pixels = rng.integers(100, 130, (64, 48, 3)).astype(np.uint8)
    if spot:
        x, y = spot
        pixels[y - 4 : y + 4, x - 4 : x + 4] = 250
    return pixels


def test_wilsons_interval_is_the_published_one(defects):
    np.testing.assert_allclose(defects["judged"].wilson(8, 10), [0.4902, 0.9433], atol=1e-4)
    np.testing.assert_allclose(defects["judged"].wilson(0, 10), [0, 0.2775], atol=1e-4)


def test_figures_of_a_method_that_is_right_and_of_one_that_knows_no_classes(defects):
    judged = defects["judged"]
    labels = np.array([[1, -1], [-1, 1], [-1, -1], [1, -1]])
    box, none = np.array([[2.0, 2, 6, 6]]), np.empty((0, 4))
    pictures = judged.Pictures(("a", "b"), labels, {"a": [box, none, none, box + 10], "b": [none, box, none, none]})
    points = np.full((4, 2, 2), 4.0)
    right = judged.Judgement("right", np.array([0.9, 0.8, 0.1, 0.7]), labels * 1.0, {"peak": points})
    blind = judged.Judgement("blind", np.array([0.1, 0.8, 0.7, 0.9]), None, {"peak": points})
    found = judged.figures_of(pictures, right, 20)
    assert {name: one.value for name, one in found["pointing, peak"].items()} == {
        "a": 0.5, "b": 1.0, "mean": 0.75, "any class": pytest.approx(2 / 3),
    }  # fmt: skip
    assert found["AUROC"]["mean"].value == found["AP"]["mean"].value == found["detected"]["any class"].value == 1
    found = judged.figures_of(pictures, blind, 20)
    assert {name: one.value for name, one in found["detected"].items()} == {
        "a": 0.5, "b": 1.0, "any class": pytest.approx(2 / 3),
    }  # fmt: skip
    assert "AP" not in found
    assert judged.pointing_entries(pictures, blind)["peak"]["a"]["hits"] == 1


def test_a_point_on_the_far_edge_of_a_box_is_outside(defects):
    pictures = defects["judged"].Pictures(("a",), np.array([[1]]), {"a": [np.array([[2.0, 2, 6, 6]])]})
    assert [bool(pictures.hits("a", np.array([[x, 3.0]]))[1][0]) for x in (1.9, 2, 5.9, 6)] == [
        False,
        True,
        True,
        False,
    ]


def test_the_memory_points_at_what_good_pictures_lack(defects):
    rng, memory = np.random.default_rng(0), defects["normal_memory"]
    fitted = memory.NormalMemory.fit(Colours(), [plate(rng) for _ in range(12)], 200, 50)
    assert fitted.patches.shape == (50, 6)
    for spot in ((10, 50), (24, 12)):
        distances = fitted.map(plate(rng, spot))
        np.testing.assert_allclose(memory.peak(distances, (64, 48)), spot, atol=4)
        assert distances.max() > 2 * fitted.map(plate(rng)).max()


def test_a_greedy_cover_has_a_vector_of_every_cluster(defects):
    rng = np.random.default_rng(0)
    vectors = np.repeat(10 * rng.standard_normal((6, 20)), 30, axis=0) + 0.1 * rng.standard_normal((180, 20))
    chosen = defects["normal_memory"].greedy_cover(vectors.astype(np.float32), 6, rng)
    assert sorted(chosen // 30) == list(range(6))


def test_activation_maps_have_the_classifiers_score_as_their_mean(defects):
    rng = np.random.default_rng(0)
    spots = [None, (12, 12), (30, 40), None] * 5
    pictures, labels = [plate(rng, spot) for spot in spots], np.array([[1 if spot else -1] for spot in spots])
    classifier = defects["picture_classifier"].PictureClassifier.fit(Colours(), pictures, labels)
    pixels = plate(rng, (30, 40))
    (probability,), (activations,) = classifier.judge(pixels)
    logit = np.log(probability / (1 - probability))
    assert activations.mean() + classifier.biases[0] == pytest.approx(logit, abs=1e-3)
    assert probability > 0.5 > classifier.judge(plate(rng))[0][0]
    np.testing.assert_allclose(defects["normal_memory"].peak(activations, pixels.shape[:2]), (30, 40), atol=6)


def test_the_command_writes_figures_of_all_methods(defects, finished, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(defects["how_far"], "network", lambda *_: Colours())
    before = {path: path.stat().st_mtime_ns for path in finished.rglob("*")}
    to = tmp_path / "figures.json"
    monkeypatch.setattr(sys, "path", [*sys.path])
    done(finished, "--sizes", "8", "--supervised", "--to", to, command=defects["how_far"].main)
    assert {path: path.stat().st_mtime_ns for path in finished.rglob("*")} == before
    found, stored = json.loads(to.read_text()), json.loads((finished / "evaluation.json").read_text())["sets"]["test"]
    assert set(found["figures"]) == {"lapsvm", "memory of good pictures, 8", "picture classifier, 8", "true boxes"}
    ours = found["figures"]["lapsvm"]
    assert ours["AP"]["mean"]["value"] == pytest.approx(stored["mean"]["image_ap"])
    assert all(row["low"] <= row["value"] <= row["high"] for row in ours["pointing, box centre"].values())
    printed = capsys.readouterr().out
    assert "lapsvm less" in printed
