"""CIFAR-10 with a piecewise-linear network: cross-entropy, then layerwise training under each loss.

    python benchmarks/deep/layerwise_cifar.py choose      the last layer per lam and mu, on held-out training pictures
    python benchmarks/deep/layerwise_cifar.py train       mean AP and NDCG on the test pictures, before and after
    python benchmarks/deep/layerwise_cifar.py inference   share of loss-augmented inference in the time of an epoch

Six 3x3 convolutions (32-32-pool-64-64-pool-128-128-pool, batch normalisation after each) and a linear layer, half the
width of Berrada et al. The pictures are a zip of JPEG files, train/CLASS/NAME and test/CLASS/NAME, in cifar10_jpg of
the folder that LAPSVM_TEST_DATA names, or --data. Times are CPU time of the process, one thread.
"""

import argparse
import io
import itertools
import json
import os
import sys
import time
import zipfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from PIL import Image
from torch import nn

from lapsvm.nn import LayerwiseSVM
from lapsvm.ranking import average_precision, ndcg

SHOWN = 10  # classes
TIMES = ("seconds", "inference_seconds")


class Set(NamedTuple):
    """Normalised pictures (n, 3, 32, 32) float32 and their classes (n,)."""

    pictures: torch.Tensor
    classes: np.ndarray


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["choose", "train", "inference"])
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("LAPSVM_TEST_DATA", ".")) / "cifar10_jpg")
    parser.add_argument("--pictures", type=int, default=5_000, help="training pictures")
    parser.add_argument("--held-out", type=int, default=2_000, help="other training pictures, for choose")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--losses", nargs="+", default=["zero_one", "ap", "ndcg"])
    parser.add_argument("--activations", nargs="+", default=["fixed"])
    parser.add_argument("--epochs", type=int, default=15, help="of cross-entropy")
    parser.add_argument("--layers", type=int, default=7, help="how many layers to train, from the last one")
    parser.add_argument("--max-epochs", type=int, default=5, help="of a layer")
    parser.add_argument("--batch-size", type=int, default=200)
    parser.add_argument("--lam", type=float, default=1e-2)
    parser.add_argument("--mu", type=float, default=1e-3, help="of the last layer")
    parser.add_argument("--earlier-mu", type=float, default=1e-1, help="of the layers before it")
    parser.add_argument("--ratios", type=float, nargs="+", default=[10.0, 0.1], help="mu / lam, for choose")
    parser.add_argument("--scale", type=float, default=1.0, help="of the scores in a rank loss; the 0-1 loss has 1")
    parser.add_argument("--bfloat16", action="store_true", help="cross-entropy in bfloat16")
    parser.add_argument("--cache", type=Path, help="folder for pictures and pre-trained weights")
    parser.add_argument("--rows", type=Path, help="file to append results to, as JSON lines")
    parser.add_argument("--resamples", type=int, default=200)
    return parser.parse_args()


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


def sets(arguments: argparse.Namespace, seed: int) -> tuple[Set, Set]:
    """Return training pictures drawn at random, and all test pictures or held-out training pictures."""
    arrays = decoded(arguments.data, arguments.cache)
    order = np.random.default_rng(seed).permutation(len(arrays["train"]))
    chosen, held_out = order[: arguments.pictures], order[len(order) - arguments.held_out :]
    mean = arrays["train"][chosen].mean(axis=(0, 1, 2))
    deviation = arrays["train"][chosen].std(axis=(0, 1, 2))

    def made(pictures: np.ndarray, classes: np.ndarray) -> Set:
        values = ((pictures - mean) / deviation).astype(np.float32).transpose(0, 3, 1, 2)
        return Set(torch.from_numpy(values).contiguous(memory_format=torch.channels_last), classes.astype(np.int64))

    training = made(arrays["train"][chosen], arrays["train_classes"][chosen])
    if arguments.command == "choose":
        return training, made(arrays["train"][held_out], arrays["train_classes"][held_out])
    return training, made(arrays["test"], arrays["test_classes"])


def piecewise_linear() -> nn.Sequential:
    modules: list[nn.Module] = []
    for n_in, n_out in ((3, 32), (32, 64), (64, 128)):
        for n in (n_in, n_out):
            modules += [nn.Conv2d(n, n_out, 3, padding=1), nn.BatchNorm2d(n_out), nn.ReLU()]
        modules.append(nn.MaxPool2d(2))
    return nn.Sequential(*modules, nn.Flatten(), nn.Linear(2_048, SHOWN)).to(memory_format=torch.channels_last)


def pretrained(arguments: argparse.Namespace, training: Set, seed: int) -> nn.Sequential:
    """Return the network after cross-entropy with Adadelta, batches of 100."""
    torch.manual_seed(seed)
    network, n = piecewise_linear(), len(training.classes)
    stored = arguments.cache / f"network_{n}_{arguments.epochs}_{seed}.pt" if arguments.cache else None
    if stored and stored.exists():
        network.load_state_dict(torch.load(stored, weights_only=True))
        return network.eval()
    steps, labels = torch.optim.Adadelta(network.parameters(), lr=1.0), torch.from_numpy(training.classes)
    for epoch in range(arguments.epochs):
        begin, total = time.process_time(), 0.0
        for chosen in torch.randperm(n).split(100):
            with torch.autocast("cpu", torch.bfloat16, enabled=arguments.bfloat16):
                scores = network(training.pictures[chosen])
            value = nn.functional.cross_entropy(scores.float(), labels[chosen])
            steps.zero_grad()
            value.backward()
            steps.step()
            total += value.item() * len(chosen) / n
        tell(f"seed {seed}, epoch {epoch}: cross-entropy {total:.3f}, {time.process_time() - begin:.0f} s")
    if stored:
        torch.save(network.state_dict(), stored)
    return network.eval()


def trained_names(network: nn.Sequential, n_layers: int) -> list[str]:
    return [name for name, module in network.named_children() if isinstance(module, nn.Conv2d | nn.Linear)][-n_layers:]


def learner(arguments: argparse.Namespace, network: nn.Sequential, loss: str, activations: str, seed: int, **others):
    options = {
        "lam": arguments.lam,
        "mu": arguments.mu,
        "batch_size": arguments.batch_size,
        "max_epochs": arguments.max_epochs,
        "layers": trained_names(network, arguments.layers),
        "scale": 1.0 if loss == "zero_one" else arguments.scale,
    }
    return LayerwiseSVM(network, loss, seed=seed, activations=activations, **(options | others))


def scored(network: nn.Sequential, pictures: torch.Tensor) -> np.ndarray:
    with torch.no_grad():
        return torch.cat([network(part) for part in pictures.split(200)]).double().numpy()


def figures(scores: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Mean AP, mean NDCG and accuracy, in per cent."""
    wanted = classes[:, None] == np.arange(SHOWN)
    means = [
        np.mean([metric(scores[:, k], wanted[:, k]) for k in range(SHOWN)]) for metric in (average_precision, ndcg)
    ]
    return 100 * np.array([*means, (scores.argmax(axis=1) == classes).mean()])


def change(before: np.ndarray, after: np.ndarray, classes: np.ndarray, n_resamples: int) -> np.ndarray:
    """95 % intervals (2, 3) of the differences of the figures, pictures resampled in pairs."""
    rng = np.random.default_rng(0)
    drawn = (rng.integers(len(classes), size=len(classes)) for _ in range(n_resamples))
    found = [figures(after[chosen], classes[chosen]) - figures(before[chosen], classes[chosen]) for chosen in drawn]
    return np.percentile(found, [2.5, 97.5], axis=0)


def train(arguments: argparse.Namespace) -> None:
    for seed in arguments.seeds:
        training, test = sets(arguments, seed)
        network = pretrained(arguments, training, seed)
        features, unseen = (torch.from_numpy(scored(network[:-1], part.pictures)).float() for part in (training, test))
        logits = scored(network[-1:], unseen)
        before = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)  # ranks better than the logits do
        for name, scores in (("cross-entropy, logits", logits), ("cross-entropy", before)):
            report(arguments, {"seed": seed, "loss": name, "figures": figures(scores, test.classes).tolist()})
        for activations in arguments.activations:
            for loss in arguments.losses:
                options = {"layers": None, "max_epochs": 50, "callback": tell}
                last = learner(arguments, network[-1:], loss, activations, seed, **options)
                last.fit(features, training.classes)
                about = {"seed": seed, "loss": loss, "activations": activations}
                row = about | {"layers": 1} | course(last)
                report(arguments, row | compared(before, last.decision_function(unseen), test.classes, arguments))
                if arguments.layers > 1:
                    earlier = trained_names(network, arguments.layers)[:-1]
                    whole = nn.Sequential(*network[:-1], *last.network_)
                    options = {"layers": earlier, "mu": arguments.earlier_mu, "callback": tell}
                    model = learner(arguments, whole, loss, activations, seed, **options)
                    model.fit(training.pictures, training.classes)
                    row = about | {"layers": arguments.layers} | course(model)
                    after = model.decision_function(test.pictures)
                    report(arguments, row | compared(before, after, test.classes, arguments))


def choose(arguments: argparse.Namespace) -> None:
    seed = arguments.seeds[0]
    training, held_out = sets(arguments, seed)
    network = pretrained(arguments, training, seed)
    features, unseen = (torch.from_numpy(scored(network[:-1], part.pictures)).float() for part in (training, held_out))
    for loss in arguments.losses:
        for lam, ratio in itertools.product((1e-3, 1e-2, 1e-1, 1.0), arguments.ratios):
            options = {"layers": None, "max_epochs": 50, "lam": lam, "mu": ratio * lam}
            model = learner(arguments, network[-1:], loss, "fixed", seed, **options).fit(features, training.classes)
            found = figures(model.decision_function(unseen), held_out.classes).tolist()
            report(arguments, {"loss": loss, "lam": lam, "ratio": ratio, "figures": found, **course(model)})


def course(model: LayerwiseSVM) -> dict:
    """What training did: CPU seconds of its epochs, in all and in inference; objectives; weights kept per layer."""
    return {
        **{name: sum(record[name] for record in model.history_) for name in TIMES},
        "objectives": [model.start_objective_, model.objective_],
        "duals": [record["dual"] for record in model.history_ if record["kept"]],
        "kept": [record["kept"] for record in model.history_ if record["kept"]],
        "epochs": [record["epoch"] for record in model.history_ if record["kept"]],
    }


def compared(before: np.ndarray, after: np.ndarray, classes: np.ndarray, arguments: argparse.Namespace) -> dict:
    """Return the figures after training, and their change with its interval."""
    found = figures(after, classes)
    return {
        "figures": found.tolist(),
        "change": (found - figures(before, classes)).tolist(),
        "interval": change(before, after, classes, arguments.resamples).tolist(),
    }


def inference(arguments: argparse.Namespace) -> None:
    """Epochs of the last layer, on the features before it: seconds in all, and in inference, per method."""
    seed = arguments.seeds[0]
    training, _ = sets(arguments, seed)
    network = pretrained(arguments, training, seed)
    features, last = torch.from_numpy(scored(network[:-1], training.pictures)).float(), nn.Sequential(network[-1])
    for size in (arguments.batch_size, len(training.classes)):
        for loss, methods in (("ap", ["auto", "search", "greedy"]), ("ndcg", ["auto", "greedy"])):
            for method in methods:
                options = {"batch_size": size, "method": method, "layers": None, "tol": 1e-9}
                records = (
                    learner(arguments, last, loss, "fixed", seed, **options).fit(features, training.classes).history_
                )
                row = {"batch": size, "loss": loss, "method": method, "epochs": len(records)}
                row |= {name: np.median([record[name] for record in records]) for name in TIMES}
                report(arguments, row)


def report(arguments: argparse.Namespace, row: dict) -> None:
    line = json.dumps(row, default=lambda value: round(float(value), 6))
    print(line, flush=True)
    if arguments.rows:
        with arguments.rows.open("a") as file:
            file.write(line + "\n")


def tell(message: object) -> None:
    print(message, file=sys.stderr, flush=True)


def main() -> None:
    torch.set_num_threads(1)
    chosen = arguments()
    {"choose": choose, "train": train, "inference": inference}[chosen.command](chosen)


if __name__ == "__main__":
    main()
