"""A class that training has learned nothing of starts from windows like the objects of other classes."""

import numpy as np
import pytest
from lapsvm.pipelines.fitting.refining import refinement
from lapsvm.pipelines.fitting.refining.chains import TrainedModels
from lapsvm.pipelines.fitting.refining.shared_starts import SIGNIFICANCE, SharedStarts, is_separable, shared_starts

from lapsvm.bags import Bags
from lapsvm.detection import Detector

FOLDS = 3


def folds_of(n):
    return np.arange(n) % FOLDS + 1


def ranks_by_hand(y, fold, scores):
    """Return the share of permutations of the labels inside folds whose positives rank at least as high together."""
    rng, draws = np.random.default_rng(0), 4000

    def rank_sum(labels):
        own = [scores[fold == number, number].argsort().argsort()[labels[fold == number] > 0] for number in (1, 2, 3)]
        return np.concatenate(own).sum()

    def permuted():
        drawn = y.copy()
        for number in range(1, FOLDS + 1):
            drawn[fold == number] = rng.permutation(y[fold == number])
        return drawn

    reached = rank_sum(y)
    return np.mean([rank_sum(permuted()) >= reached for _ in range(draws)])


@pytest.mark.parametrize("shift", [0.0, 0.2, 0.4, 0.6, 1.5])
def test_a_class_is_separable_where_permutations_of_the_labels_say_so(shift):
    rng = np.random.default_rng(int(shift * 10))
    y = np.where(rng.random(90) < 0.3, 1, -1)
    scores = rng.normal(size=(90, 1 + FOLDS)) + shift * (y > 0)[:, None]
    chance = ranks_by_hand(y, folds_of(90), scores)
    assert not abs(chance - SIGNIFICANCE) < 0.01  # else the draw decides
    assert is_separable(y, folds_of(90), scores) == (chance <= SIGNIFICANCE)


def test_random_scores_are_rarely_separable():
    rng, y = np.random.default_rng(1), np.repeat([1, -1], [20, 70])
    said = [is_separable(y, folds_of(90), rng.normal(size=(90, 1 + FOLDS))) for _ in range(1000)]
    assert 0.03 < np.mean(said) < 0.07


def test_scores_of_a_fold_s_own_pictures_alone_count():
    y, fold = np.tile([1, 1, -1, -1], 9), np.repeat([1, 2, 3], 12)
    scores = np.repeat((y > 0).astype(float)[:, None], 1 + FOLDS, axis=1)
    scores[np.arange(36), fold] = 0.0  # a model knows the pictures that it was trained with
    assert not is_separable(y, fold, scores)


@pytest.mark.parametrize("fold", [0, 1])
def test_a_class_without_folds_or_with_one_label_is_not_separable(fold):
    assert not is_separable(np.ones(8), np.full(8, fold), np.arange(16.0).reshape(8, 2))


def picture_models(kinds):
    """Return bags with one object each, and models of classes: "good" ones know their objects, "none" their lack."""
    rng = np.random.default_rng(2)
    n = 60
    of_class = np.arange(n) % len(kinds)
    features = rng.normal(scale=0.1, size=(n, 4, 1 + len(kinds)))
    features[:, 1, 0] += 1.0  # window 1 is an object, of the picture's class
    features[np.arange(n), 1, 1 + of_class] += 1.0
    models = {}
    for number, kind in enumerate(kinds):
        y = np.where(of_class == number, 1, -1).astype(np.int8)
        known = np.eye(1 + len(kinds))[1 + number] if kind == "good" else np.zeros(1 + len(kinds))
        known[0] = 1 if kind == "good" else -1
        weights = np.repeat(known[:, None], 1 + FOLDS, axis=1)
        models[f"{kind}{number}"] = TrainedModels(y, rng.permutation(folds_of(n)), weights)
    return Bags(features.reshape(-1, 1 + len(kinds)), np.arange(0, 4 * n + 1, 4)), models


def test_a_class_at_chance_starts_from_the_objects_of_the_others():
    bags, models = picture_models(["good", "none", "good"])
    starts, donors = shared_starts(models, bags)
    assert (list(starts), donors) == (["none1"], ["good0", "good2"])
    shown = models["none1"].y > 0
    assert (bags.best(starts["none1"]).index.ravel()[shown] == 1).all()
    assert not (bags.best(models["none1"].weights).index[shown] == 1).all(axis=0).any()


@pytest.mark.parametrize("kinds", [["good"], ["none"], ["good", "good"], ["none", "none"]])
def test_nothing_is_shared_where_all_or_none_are_separable(kinds):
    bags, models = picture_models(kinds)
    assert shared_starts(models, bags).weights == {}


def test_a_refined_class_records_whose_objects_it_starts_from(run_copy, command, monkeypatch):
    def of_classes():
        return {path.stem: Detector.load(path) for path in (run_copy / "models").glob("*.safetensors")}

    monkeypatch.setattr(refinement, "shared_starts", lambda models, bags: SharedStarts({}, []))
    assert "not told apart" not in command("refine", "--out", run_copy, "--refine", "1").err
    found = of_classes()

    def shared(models, bags):
        return SharedStarts({"six": models["three"].weights[:, 0]}, ["three"])

    monkeypatch.setattr(refinement, "shared_starts", shared)
    said = command("refine", "--out", run_copy, "--redo")
    assert "with and without six are not told apart, so refinement starts from windows that look like" in said.err
    again = of_classes()
    assert again["six"].provenance["result"]["starts_like"] == ["three"]
    assert not np.array_equal(again["six"].coef, found["six"].coef)
    np.testing.assert_array_equal(again["three"].coef, found["three"].coef)
