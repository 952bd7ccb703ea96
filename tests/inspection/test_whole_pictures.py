"""What whole pictures add to best windows: scikit-learn says the same, noise adds nothing, few pictures teach none."""

import numpy as np
import pytest
from scipy.special import logit
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from lapsvm.detection import Calibration
from lapsvm.errors import InputError, NotFiniteError, ShapeError
from lapsvm.evaluation import image_auroc
from lapsvm.inspection import whole_pictures
from lapsvm.inspection.threshold import choose_threshold
from lapsvm.inspection.whole_pictures import LEAST, PictureModel, fit_picture_model


def pictures(seed=0, n=120, shown=40, window=0.7, surface=0.6):
    """Return means, best scores, labels and folds; the class raises all features a little, and the best score."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.where(np.arange(n) < shown, 1, -1))
    means = 5 + 3 * rng.normal(size=(n, 12)) @ np.diag(np.linspace(0.1, 2, 12)) + surface * (y > 0)[:, None]
    fold = np.empty(n, int)
    for sign in (1, -1):
        fold[y == sign] = np.arange((y == sign).sum()) % 4 + 1
    return means, rng.normal(size=n) + window * y, y, fold


def test_pictures_of_one_group_count_once():
    """Copies add nothing: neither to whether there are enough of them, nor to whether they say more than chance."""
    means, best, y, fold = pictures()
    groups = np.arange(len(y))
    assert (
        fit_picture_model(means, best, y, fold, groups[::-1]).model.slope
        == fit_picture_model(means, best, y, fold).model.slope
    )
    few = [part[np.r_[np.flatnonzero(y > 0)[:12], np.flatnonzero(y < 0)[:40]]] for part in (means, best, y, fold)]
    copied = [np.concatenate([part] * 8) for part in few]
    assert fit_picture_model(*few) is None
    assert fit_picture_model(*copied, np.tile(np.arange(52), 8)) is None
    assert fit_picture_model(*copied) is not None
    weak = 0
    for seed in range(30):
        rows = [np.concatenate([part] * 8) for part in pictures(seed, window=1, surface=0)]
        weak += fit_picture_model(*rows, np.tile(np.arange(120), 8)) is not None
    assert weak <= 6
    with pytest.raises(ShapeError, match="groups"):
        fit_picture_model(means, best, y, fold, groups[1:])


def platt(scores, y):
    """Return scikit-learn's logistic regression of columns of scores on Platt's targets."""
    positives, negatives = (y > 0).sum(), (y < 0).sum()
    target = np.where(y > 0, (positives + 1) / (positives + 2), 1 / (negatives + 2))
    model = make_pipeline(StandardScaler(), LogisticRegression(C=1e6, tol=1e-9, max_iter=5000))
    twice, labels = np.concatenate([scores, scores]), np.repeat([1, 0], len(scores))
    return model.fit(twice, labels, logisticregression__sample_weight=np.append(target, 1 - target))


def classifier(means, y):
    model = LogisticRegression(C=0.01, class_weight="balanced", tol=1e-9, max_iter=5000)
    return make_pipeline(StandardScaler(), model).fit(means, y)


def slow_scores(means, y, fold):
    """Return the score of each picture by a classifier without its fold."""
    scores = np.empty(len(y))
    for own in np.unique(fold):
        scores[fold == own] = classifier(means[fold != own], y[fold != own]).decision_function(means[fold == own])
    return scores


def test_probabilities_are_those_of_scikit_learn_on_the_joined_columns():
    means, best, y, fold = pictures()
    fitted = fit_picture_model(means, best, y, fold)
    columns = np.column_stack([best, slow_scores(means, y, fold)])
    expected = np.empty(len(y))
    for own in np.unique(fold):
        expected[fold == own] = platt(columns[fold != own], y[fold != own]).predict_proba(columns[fold == own])[:, 1]
    np.testing.assert_allclose(fitted.held_out, expected, atol=2e-4)


def test_a_new_picture_has_the_mean_of_the_logits_of_the_folds_rules():
    means, best, y, fold = pictures()
    model, columns = fit_picture_model(means, best, y, fold).model, np.column_stack([best, slow_scores(means, y, fold)])
    new, scores, *_ = pictures(seed=1)
    rules = []
    for own in np.unique(fold):
        rows = fold != own
        whole = classifier(means[rows], y[rows]).decision_function(new)
        rules.append(platt(columns[rows], y[rows]).decision_function(np.column_stack([scores, whole])))
    found = model.slope * scores + new @ model.coef + model.offset
    np.testing.assert_allclose(found, np.mean(rules, axis=0), atol=5e-3)


def test_new_good_pictures_alarm_as_seldom_as_promised_where_little_is_to_see():
    """The logits of a classifier of all pictures would be 1.2 times as wide in new pictures, and .14 would alarm."""
    shares, spreads = [], []
    for seed in range(80):
        rng = np.random.default_rng(seed)
        y, fold = np.repeat([-1, 1], 30), np.tile([1, 2, 3], 20)
        means, best, new = rng.normal(size=(60, 100)), rng.normal(size=60) + 0.3 * (y > 0), rng.normal(size=(600, 100))
        means[y > 0, :5] += 0.4
        fitted = fit_picture_model(means, best, y, fold)
        if fitted is not None:
            found, held_out = fitted.model.probability(rng.normal(size=600), new @ fitted.model.coef), fitted.held_out
            shares.append(np.mean(found >= choose_threshold(held_out[y < 0], 0.1)))
            spreads.append(logit(found).std() / logit(held_out[y < 0]).std())
    assert len(shares) > 12
    assert np.mean(shares) < 0.1 + 2 * np.std(shares) / np.sqrt(len(shares))
    assert 0.7 < np.mean(spreads) < 1


def test_a_whole_picture_counts_only_where_pairs_of_the_other_folds_gain(monkeypatch):
    rows = pictures(surface=0.35)
    counted = fit_picture_model(*rows)
    monkeypatch.setattr(whole_pictures, "orders_better", lambda _: False)
    assert counted is not None
    assert fit_picture_model(*rows) is None


def test_two_folds_decide_by_the_gain_alone():
    means, best, y, fold = pictures()
    assert fit_picture_model(means, best, y, fold % 2) is not None


def test_what_all_windows_show_a_little_is_told_better_than_by_the_best_one():
    means, best, y, fold = pictures(n=300, shown=100, window=0.4)
    fitted = fit_picture_model(means, best, y, fold)
    assert image_auroc(fitted.held_out, y) > image_auroc(best, y) + 0.1


def test_a_probability_never_decreases_with_either_score():
    model = fit_picture_model(*pictures()).model
    rising = np.linspace(-1e6, 1e6, 101)
    for best, whole in ((rising, np.zeros(101)), (np.zeros(101), rising), (rising, rising)):
        probabilities = model.probability(best, whole)
        assert (np.diff(probabilities) >= 0).all()
        assert probabilities[0] == 0
        assert probabilities[-1] == 1


def test_the_order_of_pictures_does_not_matter():
    rows = pictures()
    order = np.random.default_rng(5).permutation(len(rows[0]))
    one, other = fit_picture_model(*rows), fit_picture_model(*(part[order] for part in rows))
    np.testing.assert_allclose(other.held_out, one.held_out[order], atol=1e-5)
    np.testing.assert_allclose(other.model.coef, one.model.coef, rtol=1e-3, atol=1e-6)


def test_units_of_features_and_scores_change_no_probability():
    means, best, y, fold = pictures()
    factors, shift = np.logspace(-2, 2, means.shape[1]), np.linspace(-40, 40, means.shape[1])
    expected = fit_picture_model(means, best, y, fold)
    found = fit_picture_model(means * factors + shift, 7 * best - 3, y, fold)
    np.testing.assert_allclose(found.held_out, expected.held_out, atol=1e-4)
    new = found.model.probability(7 * best - 3, (means * factors + shift) @ found.model.coef)
    np.testing.assert_allclose(new, expected.model.probability(best, means @ expected.model.coef), atol=1e-4)


def test_features_that_never_change_say_nothing():
    means, best, y, fold = pictures()
    wide = np.column_stack([means, np.full(len(means), 3.0), np.zeros(len(means))])
    expected, found = fit_picture_model(means, best, y, fold), fit_picture_model(wide, best, y, fold)
    np.testing.assert_allclose(found.held_out, expected.held_out, atol=1e-5)
    assert found.model.coef[-2:] == pytest.approx([0, 0], abs=1e-9)
    assert fit_picture_model(np.ones((120, 5)), best, y, fold) is None


def test_labels_at_random_are_told_at_chance():
    """Pictures of labels that features know nothing of: few draws seem to gain by the whole picture, and none does."""
    found, added = [], []
    for seed in range(60):
        means, best, y, fold = pictures(seed, window=0, surface=0)
        fitted = fit_picture_model(means, best, y, fold)
        alone = np.empty(len(y))
        for own in np.unique(fold):
            out = fold == own
            alone[out] = Calibration.fit(best[~out], y[~out]).probability(best[out])
        found.append(image_auroc(alone if fitted is None else fitted.held_out, y))
        added.append(fitted is not None)
    assert 0.4 < np.mean(found) < 0.53
    assert np.mean(added) < 0.2


def test_surfaces_at_random_leave_the_best_window_alone():
    added = [fit_picture_model(*pictures(seed, window=1, surface=0)) is not None for seed in range(60)]
    assert np.mean(added) < 0.2


@pytest.mark.parametrize("shown", [LEAST, LEAST + 3, LEAST + 4])
def test_fewer_pictures_than_ten_beside_a_fold_teach_no_model(shown):
    means, best, y, fold = pictures(shown=shown, surface=2)
    least = min((y[fold != own] > 0).sum() for own in np.unique(fold))
    fitted, opposite = fit_picture_model(means, best, y, fold), fit_picture_model(-means, -best, -y, fold)
    assert (fitted is not None) == (opposite is not None) == (least >= LEAST)
    if fitted is not None:
        assert np.isfinite(fitted.held_out).all()
        assert np.isfinite(fitted.model.coef).all()


def test_one_fold_or_one_kind_teaches_none():
    means, best, y, fold = pictures()
    assert fit_picture_model(means, best, y, np.ones_like(fold)) is None
    assert fit_picture_model(means, best, np.ones_like(y), fold) is None


def test_a_whole_picture_that_tells_the_opposite_is_left_out():
    """Its held-out score is below chance: the class is in what the other folds lack."""
    means, best, y, fold = pictures(surface=0)
    means[:, -1] += 40 * y * np.where(fold == 1, -3, 1)
    assert fit_picture_model(means, best, y, fold) is None


def test_scores_that_separate_perfectly_stay_below_certainty():
    means, best, y, fold = pictures(surface=50)
    assert fit_picture_model(means, 3.0 * y, y, fold) is None  # nothing is left to add
    found = fit_picture_model(means, best, y, fold).held_out
    assert 0.9 < found[y > 0].min() <= found.max() < 1
    assert 0 < found.min() <= found[y < 0].max() < 0.1


def test_numbers_that_are_none_and_lengths_that_differ_are_refused():
    means, best, y, fold = pictures()
    with pytest.raises(NotFiniteError, match="means"):
        fit_picture_model(np.where(means == means[3, 2], np.nan, means), best, y, fold)
    for wrong in ((means, best[1:], y, fold), (means, best, y[1:], fold), (means, best, y, fold[1:]),
                  (means[0], best, y, fold)):  # fmt: skip
        with pytest.raises(ShapeError):
            fit_picture_model(*wrong)
    with pytest.raises(InputError, match="slope of a picture model must be at least 0"):
        PictureModel(-1.0, 0.0, [1.0])
    with pytest.raises(NotFiniteError):
        PictureModel(1.0, np.inf, [1.0])


def test_json_keeps_the_model():
    model = fit_picture_model(*pictures()).model
    read = PictureModel.from_json(model.as_json())
    assert (read.slope, read.offset) == (model.slope, model.offset)
    np.testing.assert_array_equal(read.coef, model.coef.astype(np.float32))
    assert PictureModel.from_json(read.as_json()).as_json() == read.as_json()
