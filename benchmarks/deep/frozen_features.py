"""Losses on frozen features: a linear layer per loss on CIFAR-10, also under label noise.

    python benchmarks/deep/frozen_features.py extract --folder DIR --zip FILE
    python benchmarks/deep/frozen_features.py losses --folder DIR     every loss, full batch and batches of 200
    python benchmarks/deep/frozen_features.py noise --folder DIR      wrong classes in training, batches of 500

`extract` reads a zip of JPEG files, train/CLASS/NUMBER.jpg and test/CLASS/NUMBER.jpg. DIR keeps features and results; a
command that was stopped goes on where it was. One thread. Cells are the mean AP of the test pictures, and how much more
it is than a pointwise loss's, with a 95 % interval over seeds.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import cifar_features
import numpy as np
import torch
from cifar_features import Data
from head_training import LOSSES, Records, Settings, Task, evaluate, measure, train
from lapsvm.pipelines.cli.study import Given, Into, print_table, study_command
from scipy.stats import t as student

TRAINING = 10_000
FULL = TRAINING
PASSES = {FULL: 30, 500: 6, 200: 4}
BATCHES = (FULL, 200)
SEEDS = range(5)
POINTWISE = "cross-entropy"
NOISE = (0.0, 0.1, 0.2, 0.3)
NOISE_BATCH = 500
NOISE_LOSSES = ("BCE", "AP hinge", "AP ramp, direct up", "AP direct down")
Folder = Annotated[Path, Given(help="Folder of features and results.")]


def flipped(classes: torch.Tensor, share: float, rng: np.random.Generator) -> torch.Tensor:
    """Return the classes, each replaced with probability `share` by one of the other nine."""
    wrong = torch.from_numpy(rng.random(len(classes)) < share)
    others = (classes + torch.from_numpy(rng.integers(1, 10, len(classes)))) % 10
    return torch.where(wrong, others, classes)


def run_head(data: Data, loss: str, batch: int, noise: float, seed: int, settings: Settings, part: str) -> float:
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


def extract(folder: Folder, archive: Annotated[Path, Given("--zip", help="JPEG files.")]) -> None:
    """Extract features."""
    cifar_features.extract(archive, folder)


def losses(folder: Folder, into: Into = None) -> None:
    """Train heads by every loss."""
    data, records = cifar_features.load(folder), Records(folder / "results.jsonl")

    def measured(loss: str, batch: int) -> list[dict[str, Any]]:
        task = head_task(data, loss, batch, 0.0)
        return measure(LOSSES[loss], task, records, SEEDS, task)

    named = ("full batch" if batch == FULL else f"batches of {batch}" for batch in BATCHES)
    titles = [f"{name}, minus {POINTWISE}" for name in named]
    print_table(["loss", *titles], comparison(LOSSES, POINTWISE, BATCHES, measured), into)


def noise(folder: Folder, into: Into = None) -> None:
    """Train heads with some pictures in a wrong class."""
    data, records = cifar_features.load(folder), Records(folder / "results.jsonl")

    def measured(loss: str, share: float) -> list[dict[str, Any]]:
        levels = (share, 0.2 if share else 0.0)  # of the pictures, and of those on which settings are chosen
        task, search = (head_task(data, loss, NOISE_BATCH, level) for level in levels)
        return measure(LOSSES[loss], task, records, SEEDS, search)

    titles = [f"{100 * share:g} %" for share in NOISE]
    print_table(["loss", *titles], comparison(NOISE_LOSSES, "BCE", NOISE, measured), into)


def comparison(
    names: Iterable[str], base: str, columns: Sequence[Any], measured: Callable[[str, Any], list[dict[str, Any]]]
) -> Iterator[list[str]]:
    """Yield the row of each loss: the mean AP of each column, and its difference to the base, seed by seed."""
    for name in names:
        cells = ((measured(name, column), measured(base, column)) for column in columns)
        yield [name, *(mean_text(own) if name == base else difference_text(own, other) for own, other in cells)]


def mean_text(records: list[dict[str, Any]]) -> str:
    return f"{np.mean([record['ap'] for record in records]):.2f}"


def difference_text(records: list[dict[str, Any]], base: list[dict[str, Any]]) -> str:
    """Return the mean AP and its difference to the base's, with the half of its 95 % interval by Student's t."""
    less = np.array([record["ap"] - other["ap"] for record, other in zip(records, base, strict=True)])
    half = student.ppf(0.975, len(less) - 1) * less.std(ddof=1) / len(less) ** 0.5
    return f"{mean_text(records)}, {less.mean():+.2f}±{half:.2f}"


main = study_command(extract, losses, noise)

if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
