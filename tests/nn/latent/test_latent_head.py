"""The latent head: scores, imputation, the objective of LatentRankSVM, and weights that move between the two."""

import copy

import numpy as np
import pytest

from lapsvm.detection import Detector
from lapsvm.errors import InputError, NotFiniteError, OneClassError, OptionError, ShapeError
from lapsvm.models import LatentRankSVM
from lapsvm.ranking import NDCGLoss

from .generated import latent_objective, make_bags, top_count

torch = pytest.importorskip("torch", reason="torch is not installed")

from lapsvm.nn import LatentRankHead, train_latent_head, two_pass_backward  # noqa: E402


def as_tensors(bags, labels):
    offsets = np.cumsum([0] + [len(bag) for bag in bags])
    return torch.tensor(np.concatenate(bags)), torch.tensor(offsets), torch.tensor(labels)


def made_head(seed=0, dim=5, **options):
    head = LatentRankHead(dim, **{"loss": "ap", "C": 10.0, "top": 2} | options).double()
    with torch.no_grad():
        head.weight.copy_(torch.tensor(np.random.default_rng(seed).normal(size=head.weight.shape)))
    return head


def test_a_bags_score_is_its_best_windows():
    bags, labels = make_bags(0)
    features, offsets, _ = as_tensors(bags, labels)
    head = made_head(scale=0.5)
    found = head(features, offsets)
    assert found.shape == (len(bags),)
    expected = [0.5 * (bag @ head.weight.detach().numpy()[0]).max() for bag in bags]
    assert found.tolist() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("top", [1, 3, 100, 0.3])
def test_positives_are_the_means_of_their_best_windows(top):
    bags, labels = make_bags(1)
    labels[2] = labels[-1] = 0
    features, offsets, targets = as_tensors(bags, labels)
    head = made_head(top=top)
    windows = head.impute(features, offsets, targets)
    scores = head(features, offsets, windows)
    for bag, label, own, score in zip(bags, labels, windows, scores, strict=True):
        values = bag @ head.weight.detach().numpy()[0]
        order = np.argsort(-values)[: top_count(top, len(bag))]
        assert sorted(own[own >= 0].tolist()) == (sorted(order) if label > 0 else [])
        assert score.item() == pytest.approx(values[order].mean() if label > 0 else values.max(), rel=1e-12)


def test_classes_are_heads_side_by_side():
    bags, labels = make_bags(2)
    other = np.roll(labels, 5)
    other[3] = 0
    features, offsets, targets = as_tensors(bags, np.stack([labels, other], axis=1))
    head = made_head(n_classes=2)
    scores, windows = head(features, offsets), head.impute(features, offsets, targets)
    total = 0.0
    for column in range(2):
        alone = made_head()
        alone.set_coef(head.coef_[column])
        assert torch.allclose(scores[:, column], alone(features, offsets), rtol=1e-12, atol=1e-15)
        assert torch.equal(windows[:, column], alone.impute(features, offsets, targets[:, column]))
        total += alone.objective(features, offsets, targets[:, column]).item()
    assert head.objective(features, offsets, targets).item() == pytest.approx(total, rel=1e-12)


@pytest.mark.parametrize("loss", ["ap", "ndcg", "auc", "mrr", "pos_at_top", "zero_one", NDCGLoss(k=3)])
@pytest.mark.parametrize("top", [1, 0.3])
def test_the_objective_is_that_of_the_definition(loss, top):
    bags, labels = make_bags(3)
    labels[1] = labels[-2] = 0
    head = made_head(loss=loss, C=7.0, top=top, scale=0.3)
    found = head.objective(*as_tensors(bags, labels)).item()
    w = head.weight.detach().numpy()[0]
    assert found == pytest.approx(latent_objective(w, bags, labels, 7.0, loss, top, 0.3), rel=1e-10)


def test_the_gradient_is_that_of_the_objective():
    bags, labels = make_bags(4, n_bags=6)
    features, offsets, targets = as_tensors(bags, labels)
    head = made_head()
    windows = head.impute(features, offsets, targets)
    parameters = (features.requires_grad_(), head.weight)
    assert torch.autograd.gradcheck(
        lambda values, weight: torch.func.functional_call(
            _Objective(head, offsets, targets, windows), {"head.weight": weight}, (values,)
        ),
        parameters,
    )


class _Objective(torch.nn.Module):
    def __init__(self, head, offsets, targets, windows):
        super().__init__()
        self.head, self.fixed = head, (offsets, targets, windows)

    def forward(self, features):
        return self.head.objective(features, *self.fixed)


CASES = [("ap", 1.0, 1, None), ("ap", 100.0, 3, 0.5), ("auc", 10.0, 0.3, None)]


@pytest.mark.parametrize(("loss", "C", "top", "scale"), CASES)
def test_training_ends_at_the_objective_of_the_estimator(loss, C, top, scale):
    bags, labels = make_bags(5, n_bags=30, gap=3.0)
    start = 0.5 + np.random.default_rng(5).normal(size=5)
    model = LatentRankSVM(loss, C=C, top=top, scale=scale, tol=1e-4, init=start).fit(bags, labels)
    head = LatentRankHead(5, loss, C=C, top=top, scale=scale or 1.0).double()
    head.set_coef(start)
    history = train_latent_head(head, [as_tensors(bags, labels)], init="weights", tol=1e-4)
    own = latent_objective(head.weight.detach().numpy()[0], bags, labels, C, loss, top, scale or 1.0)
    other = latent_objective(model.coef_ / (scale or 1.0), bags, labels, C, loss, top, scale or 1.0)
    assert own == pytest.approx(other, rel=1e-2)
    assert history[-1]["gap"] <= 1e-4
    assert history[-1]["objective"] >= own * (1 - 1e-9)  # the windows of the end are the best ones


def test_a_plain_loop_with_an_optimiser_of_torch_ends_there_too():
    bags, labels = make_bags(5, n_bags=30, gap=3.0)
    start = 0.5 + np.random.default_rng(5).normal(size=5)
    model = LatentRankSVM("ap", C=10.0, top=3, scale=None, tol=1e-4, init=start).fit(bags, labels)
    head = LatentRankHead(5, "ap", C=10.0, top=3).double()
    head.set_coef(start)
    batch = as_tensors(bags, labels)
    adam = torch.optim.Adam([head.weight], lr=1.0)
    decay = torch.optim.lr_scheduler.LambdaLR(adam, lambda step: max(0.0, 1 - step % 50 / 50))
    for step in range(150):
        if step % 50 == 0:
            windows = head.impute(*batch)
        adam.zero_grad()
        head.objective(*batch, windows).backward()
        adam.step()
        decay.step()
    own = latent_objective(head.weight.detach().numpy()[0], bags, labels, 10.0, "ap", 3)
    other = latent_objective(model.coef_, bags, labels, 10.0, "ap", 3)
    assert own == pytest.approx(other, rel=1e-2)


def test_training_starts_from_the_bags_means_as_the_estimator_does():
    bags, labels = make_bags(6, n_bags=30, gap=3.0)
    model = LatentRankSVM("ap", C=10.0, top=1, scale=None, tol=1e-4).fit(bags, labels)
    head = LatentRankHead(5, "ap", C=10.0, top=1).double()
    train_latent_head(head, [as_tensors(bags, labels)])
    found = latent_objective(head.weight.detach().numpy()[0], bags, labels, 10.0, "ap", 1)
    assert found == pytest.approx(latent_objective(model.coef_, bags, labels, 10.0, "ap", 1), rel=1e-2)


@pytest.mark.parametrize("init", ["mean", "weights"])
def test_features_may_be_part_of_a_graph(init):
    features, offsets, labels = as_tensors(*make_bags(9))
    layer = torch.nn.Linear(features.shape[1], 5).double()
    own, plain = made_head(), made_head()
    history = train_latent_head(own, [(layer(features), offsets, labels)], init=init)
    assert history == train_latent_head(plain, [(layer(features).detach(), offsets, labels)], init=init)
    assert torch.equal(own.weight, plain.weight)
    assert layer.weight.grad is None


def test_batches_that_do_not_fit_at_once_are_one_batch():
    bags, labels = make_bags(7, n_bags=30, gap=3.0)
    whole, halves = made_head(), made_head()
    train_latent_head(whole, [as_tensors(bags, labels)], tol=1e-6)
    parts = [as_tensors(bags[first : first + 7], labels[first : first + 7]) for first in range(0, 30, 7)]
    train_latent_head(halves, parts, tol=1e-6)
    assert halves.coef_ == pytest.approx(whole.coef_, rel=1e-2)


def test_training_classes_together_is_training_each():
    bags, labels = make_bags(8, n_bags=30, gap=3.0)
    both = np.stack([labels, np.roll(labels, 10)], axis=1)
    head = LatentRankHead(5, C=10.0, top=1, n_classes=2).double()
    train_latent_head(head, [as_tensors(bags, both)], tol=1e-4)
    for column in range(2):
        alone = LatentRankHead(5, C=10.0, top=1).double()
        train_latent_head(alone, [as_tensors(bags, both[:, column])], tol=1e-4)
        objectives = [
            latent_objective(w, bags, both[:, column], 10.0, "ap", 1) for w in (head.coef_[column], alone.coef_)
        ]
        assert objectives[0] == pytest.approx(objectives[1], rel=1e-2)


def test_weights_move_to_detectors_and_estimators_and_back():
    bags, labels = make_bags(9)
    features, offsets, _ = as_tensors(bags, labels)
    head = made_head(scale=0.25)
    detector = Detector("cat", head.coef_)
    assert detector.score(features.numpy()) == pytest.approx(head.score_windows(features).detach().numpy(), rel=1e-12)
    model = LatentRankSVM("ap", C=10.0).fit(bags, labels)
    head = LatentRankHead(5, C=10.0, scale=model.feature_scale_).double()
    head.set_coef(model.coef_)
    assert head.coef_ == pytest.approx(model.coef_, rel=1e-14)
    assert head(features, offsets).tolist() == pytest.approx(
        (model.decision_function(bags) - model.intercept_).tolist()
    )
    copied = copy.deepcopy(head)
    copied.load_state_dict(made_head(scale=0.25).state_dict())
    assert copied.coef_.tolist() == made_head(scale=0.25).coef_.tolist()  # the scale is part of the state


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_the_scale_survives_other_types(dtype):
    head = made_head(scale=0.1).to(dtype)
    assert head.scale == 0.1
    head.double()
    assert head.coef_.tolist() == (head.weight[0] * 0.1).tolist()


def test_two_passes_through_a_network_are_one():
    bags, labels = make_bags(10)
    features, offsets, targets = as_tensors(bags, labels)
    torch.manual_seed(0)
    below, head = torch.nn.Sequential(torch.nn.Linear(5, 5), torch.nn.Tanh()).double(), made_head()
    windows = head.impute(below(features), offsets, targets)
    head.objective(below(features), offsets, targets, windows).backward()
    parameters = [*below.parameters(), head.weight]
    expected = [parameter.grad.clone() for parameter in parameters]
    for parameter in parameters:
        parameter.grad = None
    chunks = [
        ((features[offsets[a] : offsets[b]], offsets[a : b + 1] - offsets[a], windows[a:b]), targets[a:b])
        for a, b in ((0, 9), (9, 20), (20, 24))
    ]
    value = two_pass_backward(
        lambda chunk: head(below(chunk[0]), *chunk[1:]), chunks, lambda scores, own: head.C * head.risk(scores, own)
    )
    head.penalty().backward()
    assert (value + head.penalty()).item() == pytest.approx(head.objective(below(features), offsets, targets).item())
    for parameter, gradient in zip(parameters, expected, strict=True):
        assert torch.allclose(parameter.grad, gradient, rtol=1e-10, atol=1e-14)


FEATURES, OFFSETS, LABELS = torch.zeros(6, 5), torch.tensor([0, 2, 6]), torch.tensor([1, -1])


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: LatentRankHead(0), InputError, "n_features must be a whole number of 1 or more, got 0"),
        (lambda: LatentRankHead(5, "map"), OptionError, "loss must be"),
        (lambda: LatentRankHead(5, C=0), InputError, "C must be"),
        (lambda: LatentRankHead(5, top=2.5), InputError, "top must be a share below 1 or a whole number, got 2.5"),
        (lambda: LatentRankHead(5, scale=float("nan")), InputError, "scale must be"),
        (lambda: LatentRankHead(5, n_classes=0), InputError, "n_classes must be"),
        (lambda: LatentRankHead(4)(FEATURES, OFFSETS), ShapeError, r"features must have shape \(n, 4\), got \(6, 5\)"),
        (lambda: LatentRankHead(5)(FEATURES.long(), OFFSETS), InputError, "features must be floating-point"),
        (lambda: LatentRankHead(5)(FEATURES, OFFSETS[:2]), InputError, "offsets must rise from 0 to 6, got"),
        (lambda: LatentRankHead(5)(FEATURES, torch.tensor([0, 0, 6])), InputError, "offsets must rise from 0 to 6"),
        (lambda: LatentRankHead(5)(FEATURES, OFFSETS.double()), InputError, "offsets must be whole numbers"),
        (lambda: LatentRankHead(5)(FEATURES.numpy(), OFFSETS), InputError, "features must be a tensor, got ndarray"),
        (lambda: LatentRankHead(5)(FEATURES, [0, 2, 6]), InputError, "offsets must be a tensor, got list"),
        (lambda: LatentRankHead(5)(FEATURES.double(), OFFSETS), InputError, "features must be torch.float32 like the"),
        (lambda: LatentRankHead(5).bag_scores(FEATURES, OFFSETS), ShapeError, r"window_scores must have shape \(n,\)"),
        (
            lambda: LatentRankHead(5, n_classes=3).bag_scores(FEATURES[:, 0], OFFSETS),
            ShapeError,
            r"window_scores must have shape \(n, 3\), got \(6,\)",
        ),
        (lambda: LatentRankHead(5).bag_scores(OFFSETS, OFFSETS), InputError, "window_scores must be floating-point"),
        (lambda: LatentRankHead(5)(FEATURES, OFFSETS, [[0], [0]]), InputError, "windows must be a tensor, got list"),
        (lambda: LatentRankHead(5)(FEATURES, OFFSETS, torch.zeros(2, 1)), InputError, "windows must be whole numbers"),
        (lambda: LatentRankHead(5).impute(FEATURES, OFFSETS, [1, -1]), InputError, "labels must be a tensor, got list"),
        (lambda: LatentRankHead(5).risk([0.0, 1.0], LABELS), InputError, "scores must be a tensor, got list"),
        (lambda: LatentRankHead(5).risk(FEATURES[:2], LABELS), ShapeError, "scores must have the shape of labels, got"),
        (
            lambda: LatentRankHead(5, n_classes=2).risk(FEATURES[:2], torch.ones(2, 2)),
            ShapeError,
            r"scores must have shape \(2, 2\), got \(2, 5\)",
        ),
        (
            lambda: LatentRankHead(5)(FEATURES, OFFSETS, torch.zeros(3, 1, dtype=torch.long)),
            ShapeError,
            r"windows must have shape \(2, \.\.\.\), got \(3, 1\)",
        ),
        (
            lambda: LatentRankHead(5)(FEATURES, OFFSETS, torch.tensor([[2], [-1]])),
            InputError,
            "windows must lie in their bags, got 2 in a bag of 2",
        ),
        (
            lambda: LatentRankHead(5).objective(FEATURES, OFFSETS, LABELS[:1]),
            ShapeError,
            r"labels must have shape \(2,\), got \(1,\)",
        ),
        (
            lambda: LatentRankHead(5).objective(FEATURES, OFFSETS, 2 * LABELS),
            InputError,
            r"labels must be \+1, -1 or 0, got 2",
        ),
        (
            lambda: LatentRankHead(5).objective(FEATURES, OFFSETS, LABELS.abs()),
            OneClassError,
            "at least one positive and one negative",
        ),
        (lambda: LatentRankHead(5).set_coef(np.zeros(4)), ShapeError, r"coef must have shape \(5,\), got \(4,\)"),
        (lambda: LatentRankHead(5).set_coef([np.nan] * 5), NotFiniteError, "coef must be finite"),
        (lambda: train_latent_head(LatentRankHead(5), []), InputError, "batches must hold at least one batch"),
        (lambda: train_latent_head(LatentRankHead(5), iter([])), InputError, "batches must be iterable"),
        (
            lambda: train_latent_head(LatentRankHead(5), [(FEATURES, OFFSETS)]),
            InputError,
            "each batch must be a tuple of features, offsets and labels",
        ),
        (
            lambda: train_latent_head(LatentRankHead(5), [(FEATURES, OFFSETS, LABELS)], init="first"),
            OptionError,
            "init must be one of mean, weights, got 'first'",
        ),
        (
            lambda: train_latent_head(LatentRankHead(5), [(FEATURES + np.nan, OFFSETS, LABELS)]),
            NotFiniteError,
            "scores must be finite",
        ),
    ],
)  # fmt: skip
def test_bad_input_is_one_sentence(make, error, message):
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize("seed", range(3))
def test_training_goes_on_while_falls_are_large_beside_what_was_learned(seed):
    bags, labels = make_bags(seed, n_bags=60, dim=20, gap=0.6)
    C, tol = 0.1, 0.05
    head = made_head(seed, dim=20, C=C, top=1)
    history = train_latent_head(head, [as_tensors(bags, labels)], init="weights", tol=tol)
    ranks = np.arange(1, (labels > 0).sum() + 1)
    at_zero = C * (1 - np.mean(ranks / (ranks + (labels < 0).sum())))
    before, last = (record["objective"] for record in history[-2:])
    assert 0.05 * (at_zero - last) < tol * last  # otherwise this would test nothing
    assert history[-1]["changed"] == 0 or before - last <= 0.05 * (at_zero - last)
