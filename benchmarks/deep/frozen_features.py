"""Losses on frozen features: a linear layer per loss on CIFAR-10 or, under label noise, also on made-up data.

    python benchmarks/deep/frozen_features.py extract --folder DIR --zip FILE
    python benchmarks/deep/frozen_features.py losses --folder DIR     every loss, full batch and batches of 500 and 200
    python benchmarks/deep/frozen_features.py noise --folder DIR      wrong classes in training, batches of 500
    python benchmarks/deep/frozen_features.py synthetic --folder DIR  wrong labels, a small network learns another one

`extract` reads a zip of JPEG files, train/CLASS/NUMBER.jpg and test/CLASS/NUMBER.jpg. DIR keeps features and results; a
command that was stopped goes on where it was. One thread; times are process CPU time.
"""

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path

import cifar_features
import numpy as np
import synthetic_network
import torch
from cifar_features import Data
from head_training import LOSSES, Metrics, Records, Settings, Task, evaluate, measure, train
from tables import comparison

TRAINING = 10_000
FULL = TRAINING
PASSES = {FULL: 30, 500: 6, 200: 4}
SEEDS = range(5)
NOISE = (0.0, 0.1, 0.2, 0.3)
NOISE_BATCH = 500
NOISE_LOSSES = ("BCE", "AP hinge", "AP ramp, direct up", "AP direct down")


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


def synthetic_task(loss: str, share: float) -> Task:
    key = {"data": "synthetic", "loss": loss, "noise": share, **synthetic_network.describe()}
    return Task(partial(synthetic_network.run, loss, share), key)


def losses(folder: Path, seeds: range = SEEDS) -> None:
    data, records = cifar_features.load(folder), Records(folder / "results.jsonl")
    for batch, passes in PASSES.items():
        print(f"\n{'full batch' if batch == FULL else f'batches of {batch}'}, {passes} passes\n")
        tasks = {name: head_task(data, name, batch, 0.0) for name in LOSSES}
        comparison({name: measure(LOSSES[name], tasks[name], records, seeds) for name in tasks}, "cross-entropy")


def noise(folder: Path, seeds: range = SEEDS) -> None:
    data, records = cifar_features.load(folder), Records(folder / "results.jsonl")
    for share in NOISE:
        print(f"\n{100 * share:g} % of the training pictures in a wrong class, batches of {NOISE_BATCH}\n")
        found = {}
        for name in NOISE_LOSSES:
            task, search = (head_task(data, name, NOISE_BATCH, level) for level in (share, chosen_at(share)))
            found[name] = measure(LOSSES[name], task, records, seeds, search)
        comparison(found, "BCE")


def synthetic(folder: Path, seeds: range = SEEDS) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    records = Records(folder / "results.jsonl")
    for share in NOISE:
        print(f"\n{100 * share:g} % of the training labels flipped, full batch, {synthetic_network.PASSES} passes\n")
        found = {}
        for name in NOISE_LOSSES:
            task, search = (synthetic_task(name, level) for level in (share, chosen_at(share)))
            # each seed has its teacher, and so its settings
            found[name] = measure(LOSSES[name], task, records, seeds, search, own_search=True)
        comparison(found, "BCE")


def chosen_at(share: float) -> float:
    """Return the noise under which the settings for a level of noise are chosen: none, or 20 %."""
    return 0.2 if share else 0.0


COMMANDS: dict[str, Callable[[Path], None]] = {"losses": losses, "noise": noise, "synthetic": synthetic}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["extract", *COMMANDS])
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--zip", type=Path)
    parser.add_argument("--limit", type=int, help="pictures of each part, to measure the cost")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.command == "extract":
        if options.zip is None:
            parser.error("extract needs --zip")
        cifar_features.extract(options.zip, options.folder, options.limit)
    else:
        COMMANDS[options.command](options.folder)


if __name__ == "__main__":
    main()
