"""Training of one model by one loss, and the choice of a loss's settings on a validation split.

Every loss gets the same number of candidates and the same passes over the data: a grid of two step sizes and four
scales of the scores without weight decay, then two weight decays at the best of them.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from lapsvm.nn import DirectLoss, RankHingeLoss, RankRampLoss
from lapsvm.ranking import average_precision

Scored = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""A loss of scores (B, K) and classes (B,)."""

STEPS = (0.01, 0.03)
DECAYS = (1.0, 5.0)
POINTWISE, HINGE, RAMP = (1.0, 3.0, 10.0, 30.0), (0.0003, 0.003, 0.03, 0.3), (0.03, 0.3, 3.0, 30.0)


class Settings(NamedTuple):
    """What is chosen on the validation split."""

    step: float
    scale: float
    decay: float


class LossKind(NamedTuple):
    """A loss, and what is tried and evaluated with it."""

    make: Callable[[float, int], Scored]
    """The loss as a function of the scores' scale and the size of a batch."""
    scales: tuple[float, ...]
    to_rank: Callable[[torch.Tensor, float], torch.Tensor] = lambda scores, _: scores
    """What ranks the samples of a column: the scores, unless the loss compares the columns of each sample."""


def log_probability(scores: torch.Tensor, scale: float) -> torch.Tensor:
    """Return the log of each class's softmax probability."""
    return torch.log_softmax(scale * scores, 1)


def margin(scores: torch.Tensor, _: float) -> torch.Tensor:
    """Return how far each class's score is above the best of the others."""
    first, second = scores.topk(2, dim=1).values.T[:, :, None]
    return scores - torch.where(scores == first, second, first)


def _pointwise(function: Callable[..., torch.Tensor], *, one_hot: bool = False, **how: Any) -> LossKind:
    def make(scale: float, _: int) -> Scored:
        def loss(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
            targets = positives(labels, scores.shape[1]).to(scores.dtype) if one_hot else labels
            return function(scale * scores, targets)

        return loss

    return LossKind(make, POINTWISE, **how)


LOSSES = {
    "cross-entropy": _pointwise(torch.nn.functional.cross_entropy, to_rank=log_probability),
    "BCE": _pointwise(torch.nn.functional.binary_cross_entropy_with_logits, one_hot=True),
    "0-1, multi-class hinge": _pointwise(torch.nn.functional.multi_margin_loss, to_rank=margin),
    "0-1, binary hinge": LossKind(lambda scale, _: RankHingeLoss("zero_one", scale=scale), POINTWISE),
    "AUC hinge": LossKind(lambda scale, _: RankHingeLoss("auc", scale=scale), POINTWISE),
    # the gap that these ask of the best pair grows with the number of negatives: so do the scales
    "NDCG hinge": LossKind(lambda scale, n: RankHingeLoss("ndcg", scale=scale * n), HINGE),
    "AP hinge": LossKind(lambda scale, n: RankHingeLoss("ap", scale=scale * n), HINGE),
    "AP ramp, direct up": LossKind(lambda scale, n: RankRampLoss("ap", scale=scale * n), RAMP),
    "AP direct down": LossKind(lambda scale, n: DirectLoss("ap", direction="down", scale=scale * n), RAMP),
}


def positives(classes: torch.Tensor, n_columns: int) -> torch.Tensor:
    """Return which samples are positive in which column (B, K)."""
    return classes[:, None] == torch.arange(n_columns)


def train(
    model: torch.nn.Module, X: torch.Tensor, labels: torch.Tensor, kind: LossKind, settings: Settings, *,
    batch: int, passes: int, seed: int,
) -> None:  # fmt: skip
    """Train by AdamW, the step size falling linearly to 0; each pass has its own random order."""
    generator, loss = torch.Generator().manual_seed(seed), kind.make(settings.scale, batch)
    adam = torch.optim.AdamW(model.parameters(), lr=settings.step, weight_decay=settings.decay)
    n_steps = passes * -(-len(X) // batch)
    schedule = torch.optim.lr_scheduler.LinearLR(adam, 1.0, 0.0, n_steps)
    for _ in range(passes):
        for chunk in _chunks(len(X), batch, generator):
            adam.zero_grad()
            loss(model(X[chunk]), labels[chunk]).backward()
            adam.step()
            schedule.step()


def _chunks(n: int, batch: int, generator: torch.Generator) -> Iterator[Any]:
    """Yield the indices of each batch; one batch of all samples needs no copy."""
    yield from [slice(None)] if batch >= n else torch.randperm(n, generator=generator).split(batch)


def evaluate(scores: torch.Tensor, labels: torch.Tensor) -> float:
    """Return the mean average precision over the columns in percent, equal scores as in scikit-learn."""
    columns = zip(scores.numpy().T, positives(labels, scores.shape[1]).numpy().T, strict=True)
    return 100 * float(np.mean([average_precision(*column) for column in columns]))


class Records:
    """Results in a file of JSON lines: a run that stopped continues where it was."""

    def __init__(self, path: Path) -> None:
        self._path = path
        lines = path.read_text().splitlines() if path.exists() else []
        self._known = {self._key(record["key"]): record for record in map(json.loads, lines)}

    @staticmethod
    def _key(key: dict[str, Any]) -> str:
        return json.dumps(key, sort_keys=True)

    def get(self, key: dict[str, Any], compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return the record of the key, computed once."""
        name = self._key(key)
        if name not in self._known:
            self._known[name] = {"key": key, **compute()}
            with self._path.open("a") as file:
                file.write(json.dumps(self._known[name]) + "\n")
        return self._known[name]


Run = Callable[[int, Settings, str], float]
"""One training run with a seed and settings; the mean AP on the validation or the test part."""
SEARCH_SEED = 99


class Task(NamedTuple):
    """Something to learn: how, and the key of its records."""

    run: Run
    key: dict[str, Any]

    def record(self, records: Records, seed: int, settings: Settings, part: str) -> dict[str, Any]:
        """Return the mean AP of a run, and its key."""
        key = {**self.key, "seed": seed, "settings": settings, "part": part}
        return records.get(key, lambda: {"ap": self.run(seed, settings, part)})


def choose(kind: LossKind, task: Task, records: Records) -> Settings:
    """Return the candidate with the best mean AP on the validation split of `SEARCH_SEED`."""

    def value(settings: Settings) -> float:
        return float(task.record(records, SEARCH_SEED, settings, "validation")["ap"])

    best = max((Settings(step, scale, 0.0) for scale in kind.scales for step in STEPS), key=value)
    return max((best, *(best._replace(decay=decay) for decay in DECAYS)), key=value)


def measure(kind: LossKind, task: Task, records: Records, seeds: range, search: Task) -> list[dict[str, Any]]:
    """Return the test records of each seed; the settings are chosen on one draw of the task `search`."""
    settings = choose(kind, search, records)
    return [task.record(records, seed, settings, "test") for seed in seeds]
