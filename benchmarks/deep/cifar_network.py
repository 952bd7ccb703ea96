"""CIFAR-10 pictures, a piecewise-linear network, and its training by Adadelta."""

import copy
import io
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from PIL import Image
from torch import nn

from lapsvm.nn import RankHingeLoss

SHOWN = 10  # classes
Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


class Set(NamedTuple):
    """Normalised pictures (n, 3, 32, 32) float32 and their classes (n,)."""

    pictures: torch.Tensor
    classes: np.ndarray


class Steps(NamedTuple):
    """How Adadelta goes over the training pictures: with rate 1 until the last epoch."""

    epochs: int
    batch: int
    bfloat16: bool
    last_rate: float


def decoded(data: Path, cache: Path | None) -> dict[str, np.ndarray]:
    """Return all pictures as bytes, and their classes, per set."""
    stored = cache / "pictures.npz" if cache else None
    if stored and stored.exists():
        return dict(np.load(stored))
    found: dict[str, list] = {"train": [], "test": [], "train_classes": [], "test_classes": []}
    with zipfile.ZipFile(next(data.glob("*.zip"))) as archive:
        names = sorted(name for name in archive.namelist() if name.endswith(".jpg"))
        classes = sorted({name.split("/")[-2] for name in names})
        for name in names:
            part = "train" if "train/" in name else "test"
            found[part].append(np.asarray(Image.open(io.BytesIO(archive.read(name))).convert("RGB")))
            found[f"{part}_classes"].append(classes.index(name.split("/")[-2]))
    arrays = {name: np.array(values, dtype=np.uint8) for name, values in found.items()}
    if stored:
        stored.parent.mkdir(parents=True, exist_ok=True)
        np.savez(stored, **arrays)
    return arrays


def sets(arrays: dict[str, np.ndarray], seed: int, n: int, held_out: int = 0) -> tuple[Set, Set]:
    """Return n training pictures drawn at random, and `held_out` other ones, or without these all test pictures."""
    order = np.random.default_rng(seed).permutation(len(arrays["train"]))
    chosen, others = order[:n], order[len(order) - held_out :]
    mean = arrays["train"][chosen].mean(axis=(0, 1, 2))
    deviation = arrays["train"][chosen].std(axis=(0, 1, 2))

    def made(pictures: np.ndarray, classes: np.ndarray) -> Set:
        values = ((pictures - mean) / deviation).astype(np.float32).transpose(0, 3, 1, 2)
        return Set(torch.from_numpy(values).contiguous(memory_format=torch.channels_last), classes.astype(np.int64))

    training = made(arrays["train"][chosen], arrays["train_classes"][chosen])
    if held_out:
        return training, made(arrays["train"][others], arrays["train_classes"][others])
    return training, made(arrays["test"], arrays["test_classes"])


def piecewise_linear() -> nn.Sequential:
    modules: list[nn.Module] = []
    for n_in, n_out in ((3, 32), (32, 64), (64, 128)):
        for n in (n_in, n_out):
            modules += [nn.Conv2d(n, n_out, 3, padding=1), nn.BatchNorm2d(n_out), nn.ReLU()]
        modules.append(nn.MaxPool2d(2))
    return nn.Sequential(*modules, nn.Flatten(), nn.Linear(2_048, SHOWN)).to(memory_format=torch.channels_last)


def places(network: nn.Sequential) -> list[int]:
    """Return where the linear and convolutional modules are."""
    return [place for place, module in enumerate(network) if isinstance(module, nn.Conv2d | nn.Linear)]


def as_loss(name: str, scale: float) -> Loss:
    """Return cross-entropy, or the sum over classes of the hinge: one ranking (or one against the rest) per class."""
    if name == "cross-entropy":
        return nn.functional.cross_entropy
    return RankHingeLoss(name, scale=1.0 if name == "zero_one" else scale, reduction="sum")


def descend(network: nn.Sequential, training: Set, loss: Loss, how: Steps) -> dict[str, float]:
    """Train the network in place by Adadelta; return the CPU seconds in all and in the loss's own forward pass."""
    steps, labels = torch.optim.Adadelta(network.parameters()), torch.from_numpy(training.classes)
    begin, inside, n = time.process_time(), 0.0, len(labels)
    network.train()
    for epoch in range(how.epochs):
        total, steps.param_groups[0]["lr"] = 0.0, how.last_rate if epoch + 1 == how.epochs else 1.0
        for chosen in torch.randperm(n).split(how.batch):
            with torch.autocast("cpu", torch.bfloat16, enabled=how.bfloat16):
                scores = network(training.pictures[chosen])
            before = time.process_time()
            value = loss(scores.float(), labels[chosen])
            inside += time.process_time() - before
            steps.zero_grad()
            value.backward()
            steps.step()
            total += value.item() * len(chosen) / n
        tell(f"epoch {epoch}: loss {total:.3f}, {time.process_time() - begin:.0f} s since the first one")
    network.eval()
    return {"seconds": time.process_time() - begin, "inference_seconds": inside}


def pretrained(training: Set, seed: int, how: Steps, cache: Path | None) -> nn.Sequential:
    """Return the network after cross-entropy."""
    torch.manual_seed(seed)
    network = piecewise_linear()
    stored = cache / f"network_{len(training.classes)}_{how.epochs}_{how.last_rate:g}_{seed}.pt" if cache else None
    if stored and stored.exists():
        network.load_state_dict(torch.load(stored, weights_only=True))
        return network.eval()
    tell(f"seed {seed}, cross-entropy")
    descend(network, training, as_loss("cross-entropy", 1.0), how)
    if stored:
        torch.save(network.state_dict(), stored)
    return network


def tuned(network: nn.Sequential, training: Set, seed: int, loss: Loss, how: Steps) -> tuple[nn.Sequential, dict]:
    """Return a copy of the network after more training under a loss, and what that took."""
    torch.manual_seed(seed)
    found = copy.deepcopy(network)
    return found, descend(found, training, loss, how)


def outputs(network: nn.Sequential, inputs: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return torch.cat([network(part) for part in inputs.split(200)])


def tell(message: object) -> None:
    print(message, file=sys.stderr, flush=True)
