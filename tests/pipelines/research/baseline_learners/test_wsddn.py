"""WSDDN: torch's forward pass and gradient against plain NumPy, what is learned, seeds, and what is refused."""

import re
import sys

import numpy as np
import pytest
from baseline_learners import wsddn as room
from baseline_learners.wsddn import WSDDN

from lapsvm.bags import Bags
from lapsvm.errors import InputError, LapsvmError

from .planted import FEATURES as BAGS
from .planted import PLACES, Y, softmax

rng = np.random.default_rng(0)


def numpy_scores(features, class_coef, class_intercept, window_coef):
    """The paper's section 3 as it stands there."""
    values = features @ class_coef + class_intercept
    if values.shape[1] == 1:  # beside a background of value 0
        return softmax(np.hstack([values, 0 * values]), 1)[:, :1] * softmax(features @ window_coef, 0)
    return softmax(values, 1) * softmax(features @ window_coef, 0)


def numpy_loss(features, labels, *parameters):
    present = numpy_scores(features, *parameters).sum(axis=0)
    return -np.log(present[labels > 0]).sum() - np.log(1 - present[labels < 0]).sum()


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch", reason="torch is not installed")


@pytest.fixture(scope="module")
def trained(torch):
    return WSDDN().fit(BAGS, Y)


def parts(model):
    return model.class_coef_, model.class_intercept_, model.window_coef_


def drawn(seed, k):
    draw = np.random.default_rng(seed)
    return draw.normal(size=(9, 5)), [draw.normal(size=shape) for shape in ((5, k), (k,), (5, k))]


@pytest.mark.parametrize("k", [1, 2, 3, 7])
@pytest.mark.parametrize("seed", range(3))
def test_loss_and_gradient_are_those_of_the_formula(torch, seed, k):
    features, given = drawn(seed, k)
    labels = np.random.default_rng(seed).choice([-1, 0, 1], k)
    parameters = [torch.tensor(part, requires_grad=True) for part in given]
    windows, (class_coef, intercept, window_coef) = torch.tensor(features), parameters
    loss = room.log_loss(windows @ class_coef + intercept, windows @ window_coef, torch.tensor(labels))
    assert loss.item() == pytest.approx(numpy_loss(features, labels, *given), rel=1e-9)
    if not labels.any():
        return
    loss.backward()
    for part, parameter in zip(given, parameters, strict=True):
        for place in [(0,) * part.ndim, (-1,) * part.ndim]:
            ends = []
            for shift in (1e-5, -1e-5):
                kept, part[place] = part[place], part[place] + shift
                ends.append(numpy_loss(features, labels, *given))
                part[place] = kept
            assert parameter.grad[place].item() == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-5, abs=1e-8)


def plain_other_shares(torch, classes):
    """The logarithm of the other classes' sum, class by class."""
    parts = [classes[..., np.arange(classes.shape[-1]) != own].logsumexp(-1) for own in range(classes.shape[-1])]
    return torch.stack(parts, -1) - classes.logsumexp(-1, keepdim=True)


@pytest.mark.parametrize("k", [2, 3, 5, 80])
@pytest.mark.parametrize("spread", [0, 1, 30, 300])
def test_the_other_classes_share_is_that_of_their_sum(torch, k, spread):
    drawn = torch.tensor(spread * np.random.default_rng(k).normal(size=(20, 3, k)))
    upstream = torch.tensor(np.random.default_rng(1).normal(size=drawn.shape))
    found = []
    for function in (room._log_other_shares, lambda classes: plain_other_shares(torch, classes)):
        classes = drawn.clone().requires_grad_()
        values = function(classes)
        (values * upstream).sum().backward()
        found.append((values.detach(), classes.grad))
    for own, plain in zip(*found, strict=True):
        np.testing.assert_allclose(own, plain, rtol=1e-12, atol=1e-12)


def test_the_loss_keeps_no_array_of_pairs_of_classes(torch):
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: kept.append(tensor.numel()) or tensor, lambda t: t):
        classes = torch.zeros(11, 2, 30, requires_grad=True)
        room.log_loss(classes, torch.zeros(11, 2, 30), -torch.ones(2, 30))
    assert max(kept) == classes.numel()


def test_a_class_that_is_certainly_wrong_still_learns(torch):
    classes = torch.tensor([[200.0, 0.0], [200.0, 0.0]], requires_grad=True)
    loss = room.log_loss(classes, torch.zeros(2, 2), torch.tensor([-1, 0]))
    loss.backward()
    assert loss.item() == pytest.approx(200.0)
    assert classes.grad[:, 0].sum().item() == pytest.approx(1.0, abs=1e-4)
    assert np.isfinite(classes.grad.numpy()).all()


def test_window_scores_are_logarithms_of_the_product_of_softmaxes(trained):
    scores = np.split(trained.score_windows(list(BAGS)), len(BAGS))
    for own, features in zip(scores, BAGS, strict=True):
        np.testing.assert_allclose(np.exp(own), numpy_scores(features, *parts(trained)), rtol=1e-4)


def test_a_pictures_score_is_the_sum_over_its_windows_and_below_1(trained):
    images = trained.decision_function(list(BAGS))
    sums = np.exp(trained.score_windows(list(BAGS))).reshape(40, 12, 3).sum(axis=1)
    np.testing.assert_allclose(np.exp(images), sums, rtol=1e-9)
    assert (images <= 1e-6).all()


def test_the_planted_windows_of_every_class_are_found(trained):
    best = trained.score_windows(list(BAGS)).reshape(40, 12, 3).argmax(axis=1)
    assert (best == PLACES)[Y > 0].mean() > 0.9
    losses = [record["loss"] for record in trained.history_]
    assert [record["epoch"] for record in trained.history_] == list(range(1, 21))
    assert losses[-1] < losses[0] / 2


def test_a_single_class_is_found(torch):
    model = WSDDN().fit(BAGS, Y[:, :1])
    best = model.score_windows(list(BAGS)).reshape(40, 12).argmax(axis=1)
    assert (best == PLACES[:, 0])[Y[:, 0] > 0].mean() > 0.9
    scores = np.exp(model.decision_function(list(BAGS))[:, 0])
    assert scores[Y[:, 0] > 0].min() > scores[Y[:, 0] < 0].max()


def test_the_seed_decides_and_nothing_else(torch, trained):
    before = torch.get_rng_state(), torch.get_num_threads()
    again, other = WSDDN().fit(BAGS, Y), WSDDN(random_state=1).fit(BAGS, Y)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert torch.get_num_threads() == before[1]
    for own, same, different in zip(parts(trained), parts(again), parts(other), strict=True):
        np.testing.assert_array_equal(own, same)
        assert not np.array_equal(own, different)


def test_a_label_0_of_one_class_is_ignored_and_a_picture_without_labels_is_passed_over(torch):
    Y_with = np.vstack([Y, [[0, 0, 0]]])
    bags = [*BAGS, rng.normal(size=(4, 8))]
    ignored = WSDDN(epochs=1).fit(bags, Y_with)
    np.testing.assert_array_equal(ignored.class_coef_, WSDDN(epochs=1).fit(BAGS, Y).class_coef_)
    classes, windows = torch.tensor(BAGS[0, :, :3], requires_grad=True), torch.zeros(12, 3, dtype=torch.float64)
    losses = [room.log_loss(classes, windows, torch.tensor(labels)).item() for labels in ([1, 0, 0], [0, -1, 0])]
    assert room.log_loss(classes, windows, torch.tensor([1, -1, 0])).item() == pytest.approx(sum(losses))


def test_every_epoch_is_told(torch):
    told = []
    model = WSDDN(epochs=3, callback=told.append).fit(BAGS, Y)
    assert told == model.history_
    assert len(told) == 3


@pytest.mark.parametrize(
    ("options", "labels", "message"),
    [
        ({"epochs": 0}, Y, "epochs must be a whole number of 1 or more, got 0."),
        ({"lr": 0}, Y, "lr must be a finite number greater than 0, got 0."),
        ({"weight_decay": -1}, Y, "weight_decay must be a finite number greater than 0, got -1."),
        ({"random_state": None}, Y, "random_state must be a whole number of 0 or more, got None."),
        ({"callback": 3}, Y, "callback must be callable or None, got 3."),
        ({}, Y[:, :0], "Y must have a class, got 0."),
        ({}, Y[:, 0], "Y must have 2 dimension(s), got shape (40,)."),
        ({}, Y[:7], "Y and bags must have the same length, got 7 and 40."),
        ({}, Y * 2, "Y must hold +1, -1 and 0, got "),
        ({}, Y * 0, "Y must hold a label other than 0, got only 0."),
    ],
)
def test_what_breaks_a_rule_is_named(torch, options, labels, message):
    with pytest.raises(InputError, match=f"^{re.escape(message)}"):
        WSDDN(**options).fit(BAGS, labels)


def test_bags_of_another_size_or_with_excluded_windows_are_refused(trained):
    with pytest.raises(InputError, match=r"windows must have 8 features, got 5\."):
        trained.score_windows([np.zeros((3, 5))])
    bags = Bags(np.zeros((3, 8)), [0, 3]).excluding(np.array([True, False, False]))
    with pytest.raises(InputError, match=r"bags must be without excluded windows, got 1 excluded\."):
        trained.score_windows(bags)


def test_without_torch_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(LapsvmError, match=r'WSDDN needs torch, which is not installed; pip install "\.\[torch\]"'):
        WSDDN().fit(BAGS, Y)
