"""CIFAR-10 with a piecewise-linear network: cross-entropy, then Adadelta and layerwise training under each loss.

    python benchmarks/papers/layerwise.py train DATA --out DIR [--seeds 5] [--pictures 10000]
    python benchmarks/papers/layerwise.py inference DATA [--pictures 10000]

Section 4.3 of Mohapatra et al. (CVPR 2018), after Berrada et al. (ICLR 2017), at half their width: six 3x3 convolutions
(32-32-pool-64-64-pool-128-128-pool, batch normalisation after each) and a linear layer. DATA has `cifar10_jpg`, a zip
of JPEG files, train/CLASS/NAME and test/CLASS/NAME. DIR keeps the figures of each seed: a command that was stopped goes
on where it was. Figures are of all test pictures, means over the classes, in per cent; cross-entropy ranks by the
softmax's probabilities. `inference` times epochs of the last layer by each way of inference. CPU time, one thread.
"""

import copy
import io
import json
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import torch
from claims import Mean, claim, print_claims, times
from lapsvm.pipelines.cli.study import Cell, Given, print_table, study_command
from PIL import Image
from torch import nn

from lapsvm.arrays import Array
from lapsvm.nn import LayerwiseSVM, RankHingeLoss
from lapsvm.ranking import average_precision, ndcg

CLASSES, WIDTH, DEPTH = 10, 32, 3  # DEPTH layers are trained after cross-entropy
EPOCHS, TUNED, LAST_RATE = 6, 2, 0.1  # of cross-entropy; of Adadelta on the loss; the rate of the last one, 1 before
BATCH, LAM, MU, EARLIER_MU = 200, 1e-2, 1e-3, 1e-1  # mu of the last layer, and of those before it
CROSS_ENTROPY, RANKED = "cross-entropy", ("zero_one", "ap", "ndcg")
METHODS = (("ap", "auto"), ("ap", "search"), ("ap", "greedy"), ("ndcg", "auto"), ("ndcg", "greedy"))
HOURS = {"ap": 1.974 / 1.589, "ndcg": 2.217 / 1.632}  # the paper's, of greedy over its own
Data = Annotated[Path | None, Given(help="The folder of the data.", is_argument=True)]
Pictures = Annotated[int, Given(low=10, help="Training pictures, drawn by each seed.")]
Quick = Annotated[bool, Given("--quick", help="Small made pictures, one epoch.")]
Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


class Set(NamedTuple):
    """Normalised pictures (n, 3, 32, 32) float32, or what a layer gets of them, and their classes (n,)."""

    X: torch.Tensor
    y: np.ndarray

    def through(self, network: nn.Module) -> "Set":
        """Return the outputs of a network."""
        with torch.no_grad():
            return Set(torch.cat([network(part) for part in self.X.split(BATCH)]), self.y)


def decoded(archive: Path) -> dict[str, tuple[Array, Array]]:
    """Return the pictures as bytes, and their classes, of both parts."""
    with zipfile.ZipFile(archive) as file:
        names = sorted(name for name in file.namelist() if name.endswith(".jpg"))
        kinds = sorted({name.split("/")[-2] for name in names})
        found: dict[str, list] = {"train": [], "test": []}
        for name in names:
            pixels = np.asarray(Image.open(io.BytesIO(file.read(name))).convert("RGB"))
            found[name.split("/")[-3]].append((pixels, kinds.index(name.split("/")[-2])))
    return {part: (np.array([p for p, _ in rows]), np.array([k for _, k in rows])) for part, rows in found.items()}


def made() -> dict[str, tuple[Array, Array]]:
    """Return noise whose brightness tells the class a little."""
    rng, y = np.random.default_rng(0), np.arange(60) % CLASSES
    X = rng.integers(0, 160, (60, 32, 32, 3)) + 9 * y[:, None, None, None]
    return {part: (X.astype(np.uint8), y) for part in ("train", "test")}


def sets(arrays: dict[str, tuple[Array, Array]], seed: int, n: int) -> tuple[Set, Set]:
    """Return n training pictures drawn at random, and all test pictures."""
    X, y = arrays["train"]
    chosen = np.random.default_rng(seed).permutation(len(X))[:n]
    mean, spread = X[chosen].mean(axis=(0, 1, 2)), X[chosen].std(axis=(0, 1, 2))

    def normalised(pictures: Array, classes: Array) -> Set:
        values = ((pictures - mean) / spread).astype(np.float32).transpose(0, 3, 1, 2)
        return Set(torch.from_numpy(values).contiguous(memory_format=torch.channels_last), classes.astype(np.int64))

    return normalised(X[chosen], y[chosen]), normalised(*arrays["test"])


def piecewise_linear(width: int) -> nn.Sequential:
    """Return an untrained network."""
    modules: list[nn.Module] = []
    for n_in, n_out in ((3, width), (width, 2 * width), (2 * width, 4 * width)):
        for n in (n_in, n_out):
            modules += [nn.Conv2d(n, n_out, 3, padding=1), nn.BatchNorm2d(n_out), nn.ReLU()]
        modules.append(nn.MaxPool2d(2))
    network = nn.Sequential(*modules, nn.Flatten(), nn.Linear(64 * width, CLASSES))
    return network.to(memory_format=torch.channels_last)


def layers(network: nn.Sequential) -> list[int]:
    """Return where the linear and convolutional modules are."""
    return [place for place, module in enumerate(network) if isinstance(module, nn.Conv2d | nn.Linear)]


def descend(network: nn.Sequential, training: Set, name: str, epochs: int, batch: int) -> nn.Sequential:
    """Return a copy of the network after Adadelta on a loss: one ranking, or one hinge, for each class."""
    loss: Loss = nn.functional.cross_entropy if name == CROSS_ENTROPY else RankHingeLoss(name, reduction="sum")
    network, labels = copy.deepcopy(network).train(), torch.from_numpy(training.y)
    steps = torch.optim.Adadelta(network.parameters())
    for epoch in range(epochs):
        steps.param_groups[0]["lr"] = LAST_RATE if epoch + 1 == epochs else 1.0
        for chosen in torch.randperm(len(labels)).split(batch):
            with torch.autocast("cpu", torch.bfloat16):
                scores = network(training.X[chosen])
            steps.zero_grad()
            loss(scores.float(), labels[chosen]).backward()
            steps.step()
    return network.eval()


def layerwise(network: nn.Sequential, training: Set, loss: str, seed: int, **others: Any) -> LayerwiseSVM:
    """Train a network's layers, those of `others`."""
    chosen = {"lam": LAM, "mu": MU, "batch_size": BATCH, "activations": "fixed", "seed": seed} | others
    return LayerwiseSVM(network, loss, **chosen).fit(training.X, training.y)


def figures(scores: Array, classes: Array) -> dict[str, float]:
    """Return mean AP, mean NDCG and accuracy in per cent."""
    means = {name: np.mean([measure(scores[:, k], classes == k) for k in range(CLASSES)])
             for name, measure in (("AP", average_precision), ("NDCG", ndcg))}  # fmt: skip
    return {
        name: 100 * float(value) for name, value in (*means.items(), ("accuracy", np.mean(scores.argmax(1) == classes)))
    }


def of_seed(seed: int, training: Set, test: Set, *, quick: bool) -> dict[str, dict[str, float]]:
    """Return the figures after each stage, by "stage, loss"."""
    torch.manual_seed(seed)
    epochs = 1 if quick else EPOCHS
    network = descend(piecewise_linear(2 if quick else WIDTH), training, CROSS_ENTROPY, epochs, BATCH // 2)
    place = layers(network)[-DEPTH]
    training, test = training.through(network[:place]), test.through(network[:place])
    found = {f"cross-entropy, {CROSS_ENTROPY}": ranked(network[place:], test, probabilities=True)}
    for loss in (CROSS_ENTROPY, *RANKED):
        torch.manual_seed(seed)
        tuned = descend(network[place:], training, loss, min(TUNED, epochs), BATCH)
        found[f"Adadelta, {loss}"] = ranked(tuned, test, probabilities=loss == CROSS_ENTROPY)
        if loss != CROSS_ENTROPY:
            last = layerwise(tuned[-1:], training.through(tuned[:-1]), loss, seed)
            whole = nn.Sequential(*tuned[:-1], *last.network_)
            found[f"last layer, {loss}"] = ranked(whole, test)
            names = [str(place) for place in layers(whole)[:-1]]
            model = layerwise(whole, training, loss, seed, layers=names, mu=EARLIER_MU, max_epochs=1)
            found[f"last {DEPTH} layers, {loss}"] = ranked(model.network_, test)
    return found


def ranked(network: nn.Module, test: Set, *, probabilities: bool = False) -> dict[str, float]:
    """Return the figures of a network's scores, or of its softmax."""
    scores = test.through(network).X.double().numpy()
    return figures(scores - np.logaddexp.reduce(scores, axis=1, keepdims=True) if probabilities else scores, test.y)


def train(
    data: Data = None,
    out: Annotated[Path, Given(help="Folder of figures.")] = Path("layerwise"),
    seeds: Annotated[int, Given(low=1)] = 5,
    pictures: Pictures = 10_000,
    quick: Quick = False,
) -> None:
    """Train under all losses; print means over seeds, and differences to 0-1 by seed."""
    arrays, by_seed = opened(data, quick), []
    out.mkdir(parents=True, exist_ok=True)
    for seed in range(2 if quick else seeds):
        path = out / f"{'made' if quick else pictures}_{seed}.json"
        if not path.exists():
            found = of_seed(seed, *sets(arrays, seed, pictures), quick=quick)
            path.write_text(json.dumps(found))
        by_seed.append(json.loads(path.read_text()))
    values = {
        key: {name: np.array([one[key][name] for one in by_seed]) for name in of} for key, of in by_seed[0].items()
    }
    print_table(["stage, loss", "mean AP", "less 0-1", "mean NDCG", "less 0-1", "accuracy"], stages(values))
    print()
    print_claims(stage_claims(values))


def opened(data: Path | None, quick: bool) -> dict[str, tuple[Array, Array]]:
    torch.set_num_threads(1)
    return made() if quick or data is None else decoded(next((data / "cifar10_jpg").glob("*.zip")))


def stages(values: dict[str, dict[str, Array]]) -> Iterator[list[Cell]]:
    """Yield the row of each stage and loss."""
    for key, own in values.items():
        base = values.get(f"{key.rsplit(', ', 1)[0]}, zero_one", own)
        less = {name: Mean.of(own[name] - base[name]) for name in ("AP", "NDCG")}
        cells = (
            (f"{own[name].mean():.2f}", f"{of.value:+.2f} [{of.low:+.2f}, {of.high:+.2f}]") for name, of in less.items()
        )
        yield [key, *(cell for pair in cells for cell in pair), f"{own['accuracy'].mean():.1f}"]


def stage_claims(values: dict[str, dict[str, Array]]) -> Iterator[list[Cell]]:
    """Yield the paper's differences after the whole protocol, and the control that it does not report."""
    end = f"last {DEPTH} layers"
    for loss, name, paper in (("ap", "AP", 85.28 - 84.22), ("ndcg", "NDCG", 96.14 - 95.31)):
        own = values[f"{end}, {loss}"][name]
        yield claim(
            f"mean {name}: {name} loss less 0-1", Mean.of(own - values[f"{end}, zero_one"][name]), paper, "+.2f"
        )
        control = own - values[f"Adadelta, {CROSS_ENTROPY}"][name]
        yield claim(f"mean {name}: {name} loss less more cross-entropy", Mean.of(control), "not reported", "+.2f")


def inference(data: Data = None, pictures: Pictures = 10_000, quick: Quick = False) -> None:
    """Time epochs of the last layer, in mini-batches and in one batch."""
    training, _ = sets(opened(data, quick), 0, pictures)
    torch.manual_seed(0)
    network = descend(piecewise_linear(2 if quick else WIDTH), training, CROSS_ENTROPY, 1, BATCH // 2)
    features, found = training.through(network[:-1]), {}

    def rows() -> Iterator[list[Cell]]:
        for batch in (BATCH, len(training.y)):
            for loss, method in METHODS:
                options = {"method": method, "batch_size": batch, "tol": 1e-9, "max_epochs": 3}
                history = layerwise(network[-1:], features, loss, 0, **options).history_
                found[batch, loss, method] = epoch = [record["seconds"] for record in history]
                inside = np.median([record["inference_seconds"] for record in history])
                yield [f"{batch:,}, {loss}, {method}", f"{1e3 * np.median(epoch):.0f}", f"{1e3 * inside:.1f}"]

    print_table(["batch, loss, method", "epoch, ms", "inference, ms"], rows())
    print()
    print_claims(
        times(f"batches of {batch:,}: training with greedy over ours, {loss}", found[batch, loss, "greedy"],
              found[batch, loss, "auto"], paper)
        for batch in (BATCH, len(training.y)) for loss, paper in HOURS.items()
    )  # fmt: skip


main = study_command(train, inference)

if __name__ == "__main__":
    main()
