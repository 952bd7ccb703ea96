"""Losses on frozen features: a linear layer per loss on CIFAR-10, also under label noise.

    python benchmarks/deep/frozen_features.py extract --folder DIR --zip FILE
    python benchmarks/deep/frozen_features.py losses --folder DIR     every loss, full batch and batches of 500 and 200
    python benchmarks/deep/frozen_features.py noise --folder DIR      wrong classes in training, batches of 500

`extract` reads a zip of JPEG files, train/CLASS/NUMBER.jpg and test/CLASS/NUMBER.jpg. DIR keeps features and results; a
command that was stopped goes on where it was. One thread; times are process CPU time.
"""

from functools import partial
from pathlib import Path
from typing import Annotated

import cifar_features
import numpy as np
import torch
import typer
from cifar_features import Data
from head_training import LOSSES, Metrics, Records, Settings, Task, evaluate, measure, train
from lapsvm.pipelines.cli.study import study_command
from tables import comparison

TRAINING = 10_000
FULL = TRAINING
PASSES = {FULL: 30, 500: 6, 200: 4}
SEEDS = range(5)
NOISE = (0.0, 0.1, 0.2, 0.3)
NOISE_BATCH = 500
NOISE_LOSSES = ("BCE", "AP hinge", "AP ramp, direct up", "AP direct down")
Folder = Annotated[Path, typer.Option(help="Folder of features and results.")]


def flipped(classes: torch.Tensor, share: float, rng: np.random.Generator) -> torch.Tensor:
    """Return the classes, each replaced with probability `share` by one of the other nine."""
    wrong = torch.from_numpy(rng.random(len(classes)) < share)
    others = (classes + torch.from_numpy(rng.integers(1, 10, len(classes)))) % 10
    return torch.where(wrong, others, classes)


def run_head(data: Data, loss: str, batch: int, noise: float, seed: int, settings: Settings, part: str) -> Metrics:
    """Train a linear layer on a draw of the pool and evaluate it; the seed decides draw, noise, weights and order."""
    rng = np.random.default_rng(seed)
    drawn = data.pool.at(rng.choice(len(data.pool.classes), TRAINING, replace=False))
    torch.manual_seed(seed)
    head = torch.nn.Linear(drawn.X.shape[1], 10)
    classes, kind = flipped(drawn.classes, noise, rng), LOSSES[loss]
    train(head, drawn.X, classes, kind, settings, batch=batch, passes=PASSES[batch], seed=seed)
    X, truth = getattr(data, part)
    return evaluate(kind.to_rank(head(X).detach(), settings.scale), truth)


def head_task(data: Data, loss: str, batch: int, share: float) -> Task:
    key = {"data": "cifar10", "loss": loss, "batch": batch, "passes": PASSES[batch], "noise": share}
    return Task(partial(run_head, data, loss, batch, share), key)


def extract(
    folder: Folder, archive: Annotated[Path, typer.Option("--zip", help="JPEG files.")],
    limit: Annotated[int | None, typer.Option(help="Pictures of each part, to measure the cost.")] = None,
) -> None:  # fmt: skip
    """Extract features."""
    cifar_features.extract(archive, folder, limit)


def losses(folder: Folder) -> None:
    """Train heads by every loss."""
    data, records = cifar_features.load(folder), Records(folder / "results.jsonl")
    for batch, passes in PASSES.items():
        print(f"\n{'full batch' if batch == FULL else f'batches of {batch}'}, {passes} passes\n")
        tasks = {name: head_task(data, name, batch, 0.0) for name in LOSSES}
        found = {name: measure(LOSSES[name], task, records, SEEDS, task) for name, task in tasks.items()}
        comparison(found, "cross-entropy")


def noise(folder: Folder) -> None:
    """Train heads with some pictures in a wrong class."""
    data, records = cifar_features.load(folder), Records(folder / "results.jsonl")
    for share in NOISE:
        print(f"\n{100 * share:g} % of the training pictures in a wrong class, batches of {NOISE_BATCH}\n")
        found = {}
        for name in NOISE_LOSSES:
            levels = (share, 0.2 if share else 0.0)  # of the pictures, and of those on which settings are chosen
            task, search = (head_task(data, name, NOISE_BATCH, level) for level in levels)
            found[name] = measure(LOSSES[name], task, records, SEEDS, search)
        comparison(found, "BCE")


main = study_command(extract, losses, noise)

if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
