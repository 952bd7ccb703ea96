"""Made-up data that a random network labels, after Song et al. (ICML 2016): the same network learns them.

A network of four layers with ReLU between them, 10-30-30-30-1, has weights and biases from the standard normal
distribution. It scores samples from the 10-dimensional standard normal distribution; the fifth with the highest scores
is positive. Training labels are flipped, each with the same probability; those of validation and test are not.
"""

from itertools import pairwise

import numpy as np
import torch
from head_training import LOSSES, Metrics, Settings, evaluate, train

WIDTHS = (10, 30, 30, 30, 1)
PARTS = {"train": 2_500, "validation": 2_500, "test": 5_000}
POSITIVE = 0.2
PASSES = 100


def network() -> torch.nn.Sequential:
    """Return the network with torch's initial weights."""
    layers: list[torch.nn.Module] = []
    for before, after in pairwise(WIDTHS):
        layers += [torch.nn.Linear(before, after), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


def describe() -> dict[str, int]:
    """Return what a result depends on besides loss, noise, seed and settings."""
    return {"passes": PASSES, "samples": PARTS["train"]}


@torch.no_grad()
def make_data() -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    """Return X (n, 10) and labels (n, 1) of each part, by torch's random numbers."""
    teacher = network()
    for parameter in teacher.parameters():
        parameter.normal_()
    X = torch.randn(sum(PARTS.values()), WIDTHS[0])
    scores = teacher(X)
    labels = scores >= scores.quantile(1 - POSITIVE)
    sizes = list(PARTS.values())
    return dict(zip(PARTS, zip(X.split(sizes), labels.split(sizes), strict=True), strict=True))


def flipped(labels: torch.Tensor, share: float, rng: np.random.Generator) -> torch.Tensor:
    """Return the labels, each turned round with probability `share`."""
    return labels ^ torch.from_numpy(rng.random(labels.shape) < share)


def run(loss: str, noise: float, seed: int, settings: Settings, part: str) -> Metrics:
    """Train a network and evaluate it; the seed decides the teacher, the samples, the noise and the initial weights."""
    torch.manual_seed(seed)
    data = make_data()
    model = network()
    X, labels = data["train"]
    labels = flipped(labels, noise, np.random.default_rng(seed))
    train(model, X, labels, LOSSES[loss], settings, batch=len(X), passes=PASSES, seed=seed)
    X, truth = data[part]
    return evaluate(model(X).detach(), truth)
