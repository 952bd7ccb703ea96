"""What knows the name of a rank loss: one entry of `NAMED` is enough for all that takes losses."""

import re
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from lapsvm.pipelines.settings.settings import TrainSettings

from lapsvm.errors import OptionError
from lapsvm.models import RankSVM
from lapsvm.ranking import PartialAUCLoss, RankLoss, most_violated_ranking, predicted_ranking
from lapsvm.ranking.losses import NAMED, as_loss

ROOT = Path(__file__).parents[2]
ALWAYS = {"lapsvm/ranking/losses.py", "lapsvm/ranking/__init__.py", "pipelines/settings/settings.py"}
ON_A_GPU = {"lapsvm/nn/device/losses.py", "lapsvm/nn/device/kernels.py"}
"""Which a loss need not have: the processor solves it without."""


class Steps(RankLoss):
    """A loss that has a name, and nothing else: wrong pairs count by the square root of the negative's place."""

    name = "steps"

    def derivative(self, j, i, n_pos, n_neg):
        return -1 / (n_pos * n_neg * np.sqrt(j))


@pytest.mark.parametrize(("name", "kind"), [("mrr", "MRRLoss"), ("pos_at_top", "PosAtTopLoss")])
def test_a_name_stands_in_three_files_of_code(name, kind):
    pattern = re.compile(rf"\b({name}|{kind})\b")
    files = [path for room in ("lapsvm", "pipelines", "datasets") for path in (ROOT / room).rglob("*.py")]
    having = {path.relative_to(ROOT).as_posix() for path in files if pattern.search(path.read_text())}
    assert having - ON_A_GPU == ALWAYS


def test_the_setting_and_the_reference_list_every_name():
    (sentence,) = (one.metadata["help"] for one in fields(TrainSettings) if one.name == "loss")
    reference = (ROOT / "docs" / "reference" / "ranking.md").read_text()
    for name in NAMED:
        assert re.search(rf"\b{name}\b", sentence)
        assert f'| `"{name}"`' in reference


def test_a_share_of_false_alarms_stands_behind_a_name():
    assert as_loss("partial_auc").max_fpr == 0.1
    assert as_loss("partial_auc@.05").max_fpr == 0.05
    assert as_loss("partial_auc@1e-2") is as_loss("partial_auc@1e-2")


@pytest.mark.parametrize("share", ["", "0", "1.5", "-0.1", "nan", "inf", "x", ".05@.05"])
def test_no_share_is_refused(share):
    with pytest.raises(
        OptionError, match=f"loss partial_auc@{re.escape(share)} must have a share above 0 and at most 1"
    ):
        as_loss(f"partial_auc@{share}")


def test_one_entry_makes_a_name_work(monkeypatch):
    monkeypatch.setitem(NAMED, "steps", Steps())
    scores, labels = [0.3, 0.1, 0.7, -0.2, 0.5], [1, 0, 0, 1, 0]
    assert as_loss("steps") is NAMED["steps"]
    assert most_violated_ranking(scores, labels, "steps").violation > 0
    assert predicted_ranking(scores, labels, "steps").loss > 0
    assert RankSVM("steps").fit(np.array(scores)[:, None], labels).coef_.shape == (1,)


def test_one_entry_makes_a_name_work_in_torch(monkeypatch):
    torch = pytest.importorskip("torch")
    from lapsvm.nn import RankHingeLoss
    from lapsvm.nn.device.losses import closed_form

    monkeypatch.setitem(NAMED, "steps", Steps())
    scores, labels = torch.tensor([0.3, 0.1, 0.7, -0.2], requires_grad=True), torch.tensor([1, 0, 0, 1])
    RankHingeLoss("steps")(scores, labels).backward()
    assert scores.grad.abs().sum() > 0
    assert closed_form(NAMED["steps"]) is None


@pytest.mark.parametrize("max_fpr", [0.001, 0.1, 0.37, 1.0])
@pytest.mark.parametrize("method", ["auto", "optranks"])
def test_the_compiled_partial_area_is_the_objects(max_fpr, method):
    class Uncompiled(PartialAUCLoss):
        def derivative(self, j, i, n_pos, n_neg):
            return super().derivative(j, i, n_pos, n_neg)

    rng = np.random.default_rng(0)
    for n in (5, 60, 3000):
        labels = np.arange(n) % 7 == 0
        scores = np.round(rng.normal(size=n) / 10 + 0.1 * labels, 2)
        compiled, uncompiled = (
            most_violated_ranking(scores, labels, kind(max_fpr), method) for kind in (PartialAUCLoss, Uncompiled)
        )
        assert np.array_equal(compiled.ranks, uncompiled.ranks)
        assert compiled.loss == pytest.approx(uncompiled.loss, rel=1e-12)
