"""CIFAR-10 with a piecewise-linear network: cross-entropy, then Adadelta and layerwise training under each loss.

    python benchmarks/deep/layerwise_cifar.py choose      the last layer per lam and mu, on held-out training pictures
    python benchmarks/deep/layerwise_cifar.py steps       Adadelta per loss and scale, on the same
    python benchmarks/deep/layerwise_cifar.py train       scores of the test pictures after each stage, into --results
    python benchmarks/deep/layerwise_cifar.py report      tables over the seeds, from --results
    python benchmarks/deep/layerwise_cifar.py inference   share of loss-augmented inference in the time of an epoch

Six 3x3 convolutions (32-32-pool-64-64-pool-128-128-pool, batch normalisation after each) and a linear layer, half the
width of Berrada et al. The pictures are a zip of JPEG files, train/CLASS/NAME and test/CLASS/NAME, in cifar10_jpg of
the folder that LAPSVM_TEST_DATA names, or --data. Times are CPU time of the process, one thread.
"""

import argparse
import copy
import itertools
import json
import os
from pathlib import Path
from typing import Any, NamedTuple

import cifar_network
import layerwise_report
import numpy as np
import torch
from cifar_network import Set, Steps, as_loss, outputs, places, tuned
from layerwise_report import figures
from torch import nn

from lapsvm.nn import LayerwiseSVM

TIMES = ("seconds", "inference_seconds")
BASE = "cross-entropy"
STARTS = [BASE, "Adadelta"]
Options = argparse.Namespace


def arguments() -> Options:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=COMMANDS)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("LAPSVM_TEST_DATA", ".")) / "cifar10_jpg")
    parser.add_argument("--pictures", type=int, default=10_000, help="training pictures")
    parser.add_argument("--held-out", type=int, default=2_000, help="other training pictures, for choose and steps")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--losses", nargs="+", default=[BASE, "zero_one", "ap", "ndcg"])
    parser.add_argument("--epochs", type=int, default=6, help="of cross-entropy")
    parser.add_argument("--last-rate", type=float, default=0.1, help="of Adadelta in its last epoch; 1 before it")
    parser.add_argument("--bfloat16", action="store_true", help="cross-entropy and Adadelta in bfloat16")
    parser.add_argument("--starts", nargs="*", choices=STARTS, default=STARTS)
    parser.add_argument("--adadelta-epochs", type=int, default=2, help="of the loss itself, and of more cross-entropy")
    parser.add_argument("--adadelta-scale", type=float, default=1.0, help="as --scale")
    parser.add_argument("--scales", type=float, nargs="+", default=[1.0, 10.0], help="of a rank loss, for steps")
    parser.add_argument("--depth", type=int, default=3, help="how many layers are trained after cross-entropy")
    parser.add_argument("--deep-starts", nargs="*", choices=STARTS, default=STARTS[1:], help="those of deeper layers")
    parser.add_argument("--activations", choices=["fixed", "bounded"], default="fixed")
    parser.add_argument("--max-epochs", type=int, default=5, help="of a layer before the last one")
    parser.add_argument("--batch-size", type=int, default=200)
    parser.add_argument("--lam", type=float, default=1e-2)
    parser.add_argument("--mu", type=float, default=1e-3, help="of the last layer")
    parser.add_argument("--earlier-mu", type=float, default=1e-1, help="of the layers before it")
    parser.add_argument("--ratios", type=float, nargs="+", default=[10.0, 0.1], help="mu / lam, for choose")
    parser.add_argument("--scale", type=float, default=1.0, help="of the scores in a rank loss; the 0-1 loss has 1")
    parser.add_argument("--cache", type=Path, help="folder for pictures and pre-trained weights")
    parser.add_argument("--results", type=Path, default=Path("layerwise_results"), help="folder of rows and scores")
    parser.add_argument("--resamples", type=int, default=200, help="of the test pictures, for report")
    return parser.parse_args()


class Start(NamedTuple):
    """A network that layerwise training starts from, its pictures, and the name of the training before."""

    network: nn.Sequential
    training: Set
    test: Set
    name: str

    def before_last(self, n_layers: int) -> "Start":
        """Return the last layers that are trained and what follows them, with what they get for the pictures."""
        place = places(self.network)[-n_layers]
        parts = (part._replace(pictures=outputs(self.network[:place], part.pictures)) for part in (self[1], self[2]))
        return Start(self.network[place:], *parts, self.name)


def sets(options: Options, seed: int, held_out: int = 0) -> tuple[Set, Set]:
    return cifar_network.sets(cifar_network.decoded(options.data, options.cache), seed, options.pictures, held_out)


def pretrained(options: Options, training: Set, seed: int) -> nn.Sequential:
    how = Steps(options.epochs, 100, options.bfloat16, options.last_rate)
    return cifar_network.pretrained(training, seed, how, options.cache)


def learner(options: Options, network: nn.Sequential, loss: str, seed: int, **others: Any) -> LayerwiseSVM:
    chosen = {
        "lam": options.lam,
        "mu": options.mu,
        "batch_size": options.batch_size,
        "activations": options.activations,
        "scale": 1.0 if loss == "zero_one" else options.scale,
    }
    return LayerwiseSVM(network, loss, seed=seed, **(chosen | others))


def probabilities(scores: np.ndarray) -> np.ndarray:
    """Return the log of the softmax, which ranks better after cross-entropy than the scores do."""
    return scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)


def train(options: Options) -> None:
    for seed in options.seeds:
        training, test = sets(options, seed)
        start = Start(pretrained(options, training, seed), training, test, BASE).before_last(options.depth)
        if BASE in options.starts:
            keep(options, {"seed": seed, "stage": BASE, "loss": BASE}, start, probabilities(scored(start)))
            for loss in (loss for loss in options.losses if loss != BASE):
                layerwise(options, start, loss, seed)
        if STARTS[1] in options.starts:
            for loss in options.losses:
                by_adadelta(options, start, loss, seed)


def scored(start: Start) -> np.ndarray:
    return outputs(start.network, start.test.pictures).double().numpy()


def by_adadelta(options: Options, start: Start, loss: str, seed: int) -> None:
    """Train the layers under a loss, all at once and then one by one; cross-entropy is the control of the first."""
    how = Steps(options.adadelta_epochs, options.batch_size, options.bfloat16, options.last_rate)
    before = (options.pictures, options.epochs, options.last_rate)
    about = (*before, how.epochs, how.batch, options.depth, options.adadelta_scale, loss, seed)
    name = "_".join(["adadelta", *map(str, about)]) + ".pt"
    if options.cache and (options.cache / name).exists():
        network = copy.deepcopy(start.network)
        network.load_state_dict(torch.load(options.cache / name, weights_only=True))
    else:
        network, took = tuned(start.network, start.training, seed, as_loss(loss, options.adadelta_scale), how)
        scores = scored(start._replace(network=network))
        row = {"seed": seed, "stage": STARTS[1], "loss": loss} | took
        keep(options, row, start, probabilities(scores) if loss == BASE else scores)
        if options.cache:
            torch.save(network.state_dict(), options.cache / name)
    after = start._replace(network=network, name=STARTS[1])
    if loss != BASE:
        layerwise(options, after, loss, seed)


def layerwise(options: Options, start: Start, loss: str, seed: int) -> None:
    """Train the last layer until it is left, then if wanted those before it; keep the scores of both."""
    at_last = start.before_last(1)
    last = learner(options, at_last.network, loss, seed)
    last.fit(at_last.training.pictures, at_last.training.classes)
    about = {"seed": seed, "loss": loss, "activations": options.activations}
    row = about | {"stage": f"{start.name}, last layer"} | course(last)
    keep(options, row, start, last.decision_function(at_last.test.pictures))
    if start.name in options.deep_starts and options.depth > 1:
        network = nn.Sequential(*start.network[:-1], *last.network_)
        names = [str(place) for place in places(network)[:-1]]
        chosen = {"layers": names, "mu": options.earlier_mu, "max_epochs": options.max_epochs}
        model = learner(options, network, loss, seed, **chosen)
        model.fit(start.training.pictures, start.training.classes)
        row = about | {"stage": f"{start.name}, last {options.depth} layers"} | course(model)
        keep(options, row, start, model.decision_function(start.test.pictures))


def keep(options: Options, row: dict[str, Any], start: Start, scores: np.ndarray) -> None:
    """Store the test scores, and a row with their figures; `report` reads both."""
    classes = start.test.classes
    layerwise_report.store(options.results, row | {"figures": figures(scores, classes).tolist()}, scores, classes)


def choose(options: Options) -> None:
    seed = options.seeds[0]
    training, held_out = sets(options, seed, options.held_out)
    last = Start(pretrained(options, training, seed), training, held_out, BASE).before_last(1)
    for loss in options.losses:
        for lam, ratio in [] if loss == BASE else itertools.product((1e-3, 1e-2, 1e-1, 1.0), options.ratios):
            model = learner(options, last.network, loss, seed, lam=lam, mu=ratio * lam)
            model.fit(last.training.pictures, last.training.classes)
            found = figures(model.decision_function(last.test.pictures), held_out.classes).tolist()
            show({"loss": loss, "lam": lam, "ratio": ratio, "figures": found, **course(model)})


def steps(options: Options) -> None:
    seed = options.seeds[0]
    training, held_out = sets(options, seed, options.held_out)
    start = Start(pretrained(options, training, seed), training, held_out, BASE).before_last(options.depth)
    show({"figures": figures(probabilities(scored(start)), held_out.classes).tolist()})
    how = Steps(options.adadelta_epochs, options.batch_size, options.bfloat16, options.last_rate)
    for loss, scale in itertools.product(options.losses, options.scales):
        network, took = tuned(start.network, start.training, seed, as_loss(loss, scale), how)
        scores = scored(start._replace(network=network))
        values = figures(probabilities(scores) if loss == BASE else scores, held_out.classes).tolist()
        show({"loss": loss, "scale": scale, "figures": values} | took)


def course(model: LayerwiseSVM) -> dict[str, Any]:
    """What training did: CPU seconds of its epochs, in all and in inference; objectives; weights kept per layer."""
    ends = [record for record in model.history_ if record["kept"]]
    return {
        **{name: sum(record[name] for record in model.history_) for name in TIMES},
        "objectives": [model.start_objective_, *(record["objective"] for record in ends)],
        "duals": [record["dual"] for record in ends],
        "kept": [record["kept"] for record in ends],
        "epochs": [record["epoch"] for record in ends],
    }


def inference(options: Options) -> None:
    """Epochs of the last layer, on the features before it: seconds in all, and in inference, per method."""
    seed = options.seeds[0]
    training, _ = sets(options, seed)
    network = pretrained(options, training, seed)
    features, last = outputs(network[:-1], training.pictures), network[-1:]
    for size in (options.batch_size, len(training.classes)):
        for loss, methods in (("ap", ["auto", "search", "greedy"]), ("ndcg", ["auto", "greedy"])):
            for method in methods:
                chosen = {"batch_size": size, "method": method, "tol": 1e-9, "max_epochs": options.max_epochs}
                records = learner(options, last, loss, seed, **chosen).fit(features, training.classes).history_
                row = {"batch": size, "loss": loss, "method": method, "epochs": len(records)}
                show(row | {name: float(np.median([record[name] for record in records])) for name in TIMES})


def report(options: Options) -> None:
    layerwise_report.show(options.results, options.resamples)


def show(row: dict[str, Any]) -> None:
    print(json.dumps(row), flush=True)


COMMANDS = {"choose": choose, "steps": steps, "train": train, "report": report, "inference": inference}


def main() -> None:
    torch.set_num_threads(1)
    chosen = arguments()
    COMMANDS[chosen.command](chosen)


if __name__ == "__main__":
    main()
