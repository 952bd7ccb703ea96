"""Fine-tuning of a block under a latent head: the exact gradient, and trainings that are killed."""

import copy
import re
import signal
import subprocess
import sys
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest

from lapsvm.errors import (
    InputError,
    MissingError,
    ModelFileError,
    NotFiniteError,
    OneClassError,
    SettingsError,
    ShapeError,
)
from lapsvm.model_files import read_model, write_model
from lapsvm.ranking import APLoss

torch = pytest.importorskip("torch", reason="torch is not installed")

from lapsvm.nn import train_latent_head  # noqa: E402

from .tuned import EPOCHS, killable, make_block, make_head, make_pictures, make_tuning  # noqa: E402

SCRIPT = Path(__file__).with_name("tuned.py")


def whole_objective(block, head, pooling, pictures, labels, anchor, first):
    """Return the objective of all pictures in one graph."""
    parts = [pooling(block(values[None])[0], windows) for values, windows in pictures]
    offsets = torch.tensor([0, *(len(part) for part in parts)]).cumsum(0)
    distance = sum(((now - then) ** 2).sum() for now, then in zip(block.parameters(), first, strict=True))
    return head.objective(torch.cat(parts), offsets, torch.tensor(labels)) + anchor / 2 * distance


def parameters(tuning):
    return [*tuning.block.parameters(), tuning.head.weight]


@pytest.mark.parametrize("chunk", [5, 100])
def test_a_step_is_along_the_gradient_of_the_whole_set(chunk):
    pictures, labels = make_pictures()
    tuning = make_tuning(anchor=0.7, chunk=chunk, optimiser=lambda groups: torch.optim.SGD(groups, lr=0.01))
    first = [parameter.detach().clone() for parameter in tuning.block.parameters()]
    tuning.fit(pictures, labels, 1)  # the second epoch's anchor has a gradient
    block, head = copy.deepcopy(tuning.block), copy.deepcopy(tuning.head)
    before = [parameter.detach().clone() for parameter in parameters(tuning)]
    objective = whole_objective(block, head, tuning.pooling, pictures, labels, 0.7, first)
    gradients = torch.autograd.grad(objective, [*block.parameters(), head.weight])
    tuning.fit(pictures, labels, 2)
    assert tuning.history[-1]["objective"] == pytest.approx(objective.item(), rel=1e-10)
    for now, then, gradient in zip(parameters(tuning), before, gradients, strict=True):
        assert torch.allclose(now.detach(), then - 0.01 * gradient, rtol=1e-9, atol=1e-12)


def test_the_objective_falls_below_that_of_the_head_alone():
    pictures, labels = make_pictures(15)
    tuning = make_tuning(optimiser=lambda groups: torch.optim.Adam(groups, lr=0.02))
    features = list(tuning.features(pictures))
    offsets = torch.tensor([0, *(len(part) for part in features)]).cumsum(0)
    train_latent_head(tuning.head, [(torch.cat(features), offsets, torch.tensor(labels))])
    tuning.fit(pictures, labels, 20)
    assert [record["epoch"] for record in tuning.history] == list(range(1, 21))
    assert tuning.history[-1]["objective"] < 0.8 * tuning.history[0]["objective"]
    assert tuning.history[0]["changed"] == (labels > 0).sum()
    scores = list(tuning.score_windows(pictures))
    for own, part in zip(scores, tuning.features(pictures), strict=True):
        assert torch.allclose(own, tuning.head.score_windows(part), rtol=1e-10)


def test_windows_are_imputed_as_often_as_chosen():
    pictures, labels = make_pictures()
    tuning = make_tuning(impute_every=3, optimiser=lambda groups: torch.optim.Adam(groups, lr=0.5))
    tuning.fit(pictures, labels, 7)
    changed = [record["changed"] for record in tuning.history]
    assert all((count > 0) == (epoch % 3 == 0) for epoch, count in enumerate(changed))


def test_the_default_optimiser_moves_block_and_head():
    pictures, labels = make_pictures()
    tuning = make_tuning()
    before = [parameter.detach().clone() for parameter in parameters(tuning)]
    tuning.fit(pictures, labels, 2)
    assert not any(torch.equal(now, then) for now, then in zip(parameters(tuning), before, strict=True))


def test_a_head_that_is_kept_stays():
    pictures, labels = make_pictures()
    head = make_head()
    head.weight.requires_grad_(False)
    before = head.weight.clone()
    make_tuning(head=head, optimiser=lambda groups: torch.optim.SGD(groups[:1], lr=0.1)).fit(pictures, labels, 2)
    assert torch.equal(head.weight, before)


@pytest.fixture
def _one_thread():
    """Sums in one order, as in the script."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.usefixtures("_one_thread")
def test_a_killed_training_ends_with_the_same_numbers(tmp_path):
    pictures, labels = make_pictures()
    in_third_epoch = 2 * (12 + 12) + 15
    command = [sys.executable, "-P", SCRIPT, tmp_path / "state", str(in_third_epoch)]
    assert subprocess.run(command, timeout=240, check=False).returncode == -signal.SIGKILL
    whole = killable(None).fit(pictures, labels, EPOCHS)
    lines = []
    again = killable(tmp_path / "state")
    again._report = lines.append
    again.fit(pictures, labels, EPOCHS)
    assert len(lines) == EPOCHS - 2
    assert again.history == whole.history
    for now, then in zip(parameters(again), parameters(whole), strict=True):
        assert torch.equal(now, then)
    assert [path.name for path in tmp_path.iterdir()] == ["state"]


def test_more_epochs_continue_a_finished_training(tmp_path):
    pictures, labels = make_pictures()
    killable(tmp_path / "state").fit(pictures, labels, 2)
    longer = killable(tmp_path / "state").fit(pictures, labels, 4)
    assert longer.history == killable(None).fit(pictures, labels, 4).history


class _OwnLoss:
    """A loss of a user's own, whose description has an address."""

    def derivative(self, j, i, n_pos, n_neg):
        return APLoss().derivative(j, i, n_pos, n_neg)


def test_a_loss_of_ones_own_continues_in_another_process(tmp_path):
    pictures, labels = make_pictures()
    for epochs in (1, 2):
        tuning = make_tuning(head=make_head(loss=_OwnLoss()), checkpoint=tmp_path / "state")
        assert len(tuning.fit(pictures, labels, epochs).history) == epochs


def test_each_epoch_is_reported():
    pictures, labels = make_pictures()
    lines = []
    make_tuning(report=lines.append).fit(pictures, labels, 2)
    assert re.fullmatch(r"fine-tuning: epoch 1 of 2, objective [\d.]+, 0:00:0\d so far, about 0:00:0\d left", lines[0])
    assert re.fullmatch(r"fine-tuning: epoch 2 of 2, objective [\d.]+, 0:00:0\d so far", lines[1])


def other(name):
    """Return a training that differs from `killable` in one setting, and its data."""
    pictures, labels = make_pictures()
    tuning = killable(None)
    if name == "labels":
        labels[0] = 0
    elif name == "pictures":
        pictures[3][0][0, 2, 1] += 1e-6
    elif name == "windows":
        pictures[3][1][2, 0] /= 2
    elif name == "head":
        tuning.head.C = 3.0
    elif name == "first parameters":
        tuning._start = "0"
    elif name == "optimiser":
        tuning = killable(None, lr=1.0)
    else:
        setattr(tuning, name, 2 * getattr(tuning, name) + 1)
    return tuning, pictures, labels


@pytest.mark.parametrize(
    "name",
    ["labels", "pictures", "windows", "head", "first parameters", "optimiser", "anchor", "impute_every", "chunk"],
)
def test_a_checkpoint_of_another_training_is_refused(tmp_path, name):
    saved = killable(tmp_path / "state").fit(*make_pictures(), 1)
    tuning, pictures, labels = other(name)
    tuning._checkpoint = saved._checkpoint
    with pytest.raises(SettingsError, match=f"state must be of the same {name if name != 'windows' else 'pictures'}, "):
        tuning.fit(pictures, labels, 2)


def test_a_checkpoint_in_a_missing_folder_is_refused_before_the_first_epoch(tmp_path):
    tuning = killable(tmp_path / "missing" / "state")
    with pytest.raises(MissingError, match="missing is not there, so state cannot be written"):
        tuning.fit(*make_pictures(), 1)
    assert tuning.history == []


def test_what_a_kill_during_writing_leaves_is_removed(tmp_path):
    for name in (".state.deadbeef.partial", ".other.deadbeef.partial"):
        (tmp_path / name).write_bytes(b"half")
    killable(tmp_path / "state").fit(*make_pictures(), 1)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".other.deadbeef.partial", "state"]


@pytest.mark.parametrize("damage", [b"", b"x" * 100, None])
def test_a_damaged_checkpoint_is_refused(tmp_path, damage):
    path = tmp_path / "state"
    killable(path).fit(*make_pictures(), 1)
    content = bytearray(path.read_bytes())
    content[-30] ^= 1
    path.write_bytes(content if damage is None else damage)
    with pytest.raises(ModelFileError, match="state is damaged"):
        killable(path).fit(*make_pictures(), 2)


@pytest.mark.parametrize(
    "change",
    [{"settings": []}, {"settings": None}, {"history": 3}, {"history": {}}, {"state": {"block": 3}}, {"state": [1, 2]}],
)
def test_a_checkpoint_that_somebody_changed_is_refused(tmp_path, change):
    path = tmp_path / "state"
    killable(path).fit(*make_pictures(), 1)
    description, tensors = read_model(path, "lapsvm fine-tuning", 1)
    if "state" in change:
        content = BytesIO()
        torch.save(change["state"], content)
        tensors["state"] = np.frombuffer(content.getvalue(), dtype=np.uint8)
    write_model(path, description | {name: change[name] for name in change if name != "state"}, tensors, "x")
    with pytest.raises(ModelFileError, match="state is damaged"):
        killable(path).fit(*make_pictures(), 2)


class _Pair(torch.nn.Module):
    """A block that returns a map without the axis of pictures."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(1))

    def forward(self, values):
        return self.weight * values[0]


def test_a_block_that_works_in_place_leaves_the_pictures():
    pictures, labels = make_pictures()
    before = copy.deepcopy(pictures)
    tuning = make_tuning(torch.nn.Sequential(torch.nn.LeakyReLU(0.5, inplace=True), make_block()))
    tuning.fit(pictures, labels, 1)
    list(tuning.features(pictures))
    assert all(torch.equal(now, then) for (now, _), (then, _) in zip(pictures, before, strict=True))


def test_features_and_scores_are_without_dropout_and_modes_stay():
    pictures, _ = make_pictures()
    block = make_block(dropout=0.5)
    block[1].eval()
    modes = [module.training for module in block.modules()]
    tuning, plain = make_tuning(block), make_tuning()
    for call in ("features", "score_windows"):
        for found, expected in zip(getattr(tuning, call)(pictures), getattr(plain, call)(pictures), strict=True):
            assert [module.training for module in block.modules()] == modes
            assert torch.equal(found, expected)


@pytest.mark.parametrize("call", ["features", "score_windows"])
def test_batch_norms_in_training_mode_stay_as_they_are(call):
    block = with_norm()
    block.eval()
    tuning = make_tuning(block)
    block.train()
    before = copy.deepcopy(block.state_dict())
    with pytest.raises(InputError, match="batch normalisation must be frozen"):
        list(getattr(tuning, call)(make_pictures()[0]))
    assert all(torch.equal(block.state_dict()[name], value) for name, value in before.items())


def fitted(pictures=None, labels=None, epochs=1, **options):
    made, own = make_pictures()
    return make_tuning(**options).fit(made if pictures is None else pictures, own if labels is None else labels, epochs)


def broken(values=None, windows=None):
    """Return pictures of which the third is another one."""
    pictures, _ = make_pictures()
    kept = pictures[2]
    pictures[2] = (kept[0] if values is None else values, kept[1] if windows is None else windows)
    return pictures


def test_other_pictures_are_as_many_as_before():
    pictures, labels = make_pictures()
    tuning = make_tuning().fit(pictures, labels, 1)
    before = parameters(tuning)
    with pytest.raises(ShapeError, match=r"pictures must be as many as before, 12, got 9\."):
        tuning.fit(pictures[:9], labels[:9], 2)
    assert len(tuning.history) == 1
    assert all(torch.equal(old, new) for old, new in zip(before, parameters(tuning), strict=True))


def test_other_pictures_may_have_more_windows():
    pictures, labels = make_pictures()
    few = [(values, windows[:4]) for values, windows in pictures]
    tuning = make_tuning(head=make_head(top=0.4)).fit(few, labels, 1)
    tuning.fit(pictures, labels, 2)
    assert tuning.history[1]["changed"] == (labels > 0).sum()


def test_a_failed_epoch_changes_nothing():
    pictures, labels = make_pictures()
    whole, tuning = make_tuning().fit(pictures, labels, 2), make_tuning().fit(pictures, labels, 1)
    with pytest.raises(InputError, match="windows must lie in the unit square"):
        tuning.fit([*pictures[:11], broken(windows=np.full((1, 4), 7))[2]], labels, 2)
    tuning.fit(pictures, labels, 2)
    assert tuning.history == whole.history


def with_norm():
    return torch.nn.Sequential(torch.nn.Conv2d(4, 5, 1), torch.nn.BatchNorm2d(5)).double()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: make_tuning(anchor=-1), InputError, "anchor must be 0 or more, got -1"),
        (lambda: make_tuning(chunk=0), InputError, "chunk must be a whole number of 1 or more, got 0"),
        (lambda: make_tuning(impute_every=1.5), InputError, "impute_every must be"),
        (lambda: make_tuning(torch.nn.Identity()), InputError, "block must have a parameter that requires a gradient"),
        (lambda: fitted(epochs=0), InputError, "epochs must be"),
        (lambda: fitted(labels=np.ones((3, 2))), ShapeError, "labels must have one row per picture, got 3 for 12"),
        (lambda: fitted(labels=np.ones(12)), ShapeError, "labels must have 2 dimension"),
        (lambda: fitted(labels=np.ones((12, 2))), OneClassError, "at least one positive and one negative"),
        (lambda: fitted(block=_Pair().double()), ShapeError, r"block must return shape \(1, channels, h, w\), got"),
        (lambda: fitted(block=torch.nn.Conv2d(4, 3, 1).double()), ShapeError, "as the pooled block gives, 3, got 5"),
        (lambda: make_tuning(with_norm()), InputError, "batch normalisation must be frozen"),
        (lambda: fitted(broken(torch.full((4, 5, 6), torch.nan).double())), NotFiniteError, "scores of column 0 must"),
        (lambda: fitted(broken(np.zeros((4, 5, 6)))), InputError, "activations must be tensors, got ndarray"),
        (lambda: fitted(broken(torch.zeros(4, 5))), ShapeError, r"activations must have shape \(c, h, w\), got \(4, 5"),
        (lambda: fitted(broken(windows=np.zeros((0, 4)))), InputError, "offsets must rise"),
        (lambda: fitted(broken(windows=np.full((1, 4), 7))), InputError, "windows must lie in the unit square, got 7"),
        (lambda: fitted(checkpoint="/nowhere/state"), MissingError, "folder /nowhere is not there"),
    ],
)  # fmt: skip
def test_bad_input_is_one_sentence(call, error, message):
    with pytest.raises(error, match=message):
        call()
