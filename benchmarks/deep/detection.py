"""Latent AP and WSDDN with the last layer of EfficientNet-Lite0 frozen and fine-tuned, on the windows of a run.

    python benchmarks/deep/detection.py choose|report|SEED... --run RUN --work DIR

RUN gives pictures, labels, windows and the suppression of overlaps. Its features are not used: pictures enter the
network with a longest side of 480 pixels, everything up to the last 1 x 1 convolution is computed once and kept in DIR,
and windows are means of that convolution's map (stride 32), the surroundings subtracted. A seed draws 300 of each
picture's windows and everything else that is random. ``choose`` compares steps of the convolution on trainval: trained
on one third, image-level AP on another one. Times are CPU time; fine-tuning under WSDDN gets that of latent AP.
"""

import argparse
import copy
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np
import onnx
import torch
from detection_figures import Evaluation
from lapsvm.pipelines.run.context import RunContext
from lapsvm.pipelines.run.folder import RunFolder
from lapsvm.pipelines.run.progress import Reporter

from lapsvm.bags import Bags
from lapsvm.evaluation import image_average_precision
from lapsvm.features import open_shards
from lapsvm.features.extractors.efficientnet.extractor import network_file
from lapsvm.features.extractors.maps.letterbox import network_size
from lapsvm.features.extractors.networks import RuntimeNetwork
from lapsvm.features.extractors.picture import Colours
from lapsvm.latent import LatentProblem, RankRisk, fit_many
from lapsvm.models.latent_estimator import feature_scale
from lapsvm.nn import (
    WSDDN,
    ActivationCache,
    LatentFineTuning,
    LatentRankHead,
    WindowPooling,
    cache_activations,
)
from lapsvm.nn.latent.activations import Activation
from lapsvm.nn.wsddn import log_loss, streams

SIZE, N_WINDOWS, EPOCHS, TOP = 480, 300, 4, 20
C = 0.3  # what the run's own folds choose for most classes
STEPS = {"latent": (3e-4, 3e-3, 1e-2), "wsddn": (1e-5, 1e-4, 1e-3)}
HEAD_STEP = {"latent": 0.01, "wsddn": 1e-3}  # the first is a share of the mean magnitude of the head's weights
POOLING = WindowPooling()
BELOW, LAYER = "_blocks.15._project_conv.output", "_conv_head"


class Network:
    """The network cut below its last convolution: what lies below runs once, the convolution learns."""

    def __init__(self) -> None:
        model = onnx.load_from_string(network_file())
        weights = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
        self._kernel, self._bias = (torch.tensor(weights[f"{LAYER}.{part}"]) for part in ("weight", "bias"))
        del model.graph.output[:]
        model.graph.output.append(onnx.helper.make_tensor_value_info(BELOW, onnx.TensorProto.FLOAT, [1, 320, "h", "w"]))
        kept = [node for node in model.graph.node if not node.output[0].startswith((LAYER, "stride32"))]
        del model.graph.node[:]
        model.graph.node.extend(kept)
        self._lower = RuntimeNetwork("efficientnet_lite0", model.SerializeToString(), 1)

    def lower(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return what the frozen part computes."""
        return torch.from_numpy(self._lower.run(inputs.numpy())[BELOW])

    def block(self) -> torch.nn.Module:
        """Return the last convolution; its batch norm is folded into it, and the shift stays."""
        layer = torch.nn.Conv2d(320, 1280, 1)
        layer.load_state_dict({"weight": self._kernel, "bias": self._bias})
        layer.bias.requires_grad_(False)
        return torch.nn.Sequential(layer, torch.nn.ReLU6())


class Data:
    """The pictures of a run: activations, boxes and labels of both sets."""

    def __init__(self, folder: Path, work: Path) -> None:
        run = RunFolder(folder)
        self.context = RunContext(run, run.settings(), 1, Reporter(True))
        self.names = self.context.data.classes
        self.activations, self.boxes, self.ids, self.labels = {}, {}, {}, {}
        for name, records in self.context.data.records.items():
            by_id = {record.id: record for record in records}
            shards = [(shard.image_ids, shard.boxes, shard.offsets) for shard in open_shards(run.shards(name))]
            self.ids[name] = [image for ids, _, _ in shards for image in ids]
            self.boxes[name] = [own for _, boxes, offsets in shards for own in np.split(boxes, offsets[1:-1])]
            ordered = [by_id[image] for image in self.ids[name]]
            self.labels[name] = np.array([[record.labels.get(c, 0) for c in self.names] for record in ordered], float)
            self.activations[name] = list(self._cached(work / name, ordered, self.boxes[name]))

    def _cached(self, folder: Path, records: Sequence, boxes: Sequence) -> ActivationCache:
        if not (folder / "activations.json").exists():
            pictures = (_prepared(record, own) for record, own in zip(records, boxes, strict=True))
            cache_activations(
                folder, Network().lower, pictures, name=f"efficientnet_lite0 {BELOW} {SIZE}", report=print
            )
        return ActivationCache(folder)


class Sample:
    """Some windows of some pictures of a set: always the first, which is the whole picture, and others at random."""

    def __init__(self, data: Data, name: str, seed: int, pictures: Sequence[int] | None = None) -> None:
        chosen = range(len(data.ids[name])) if pictures is None else pictures
        self.labels = data.labels[name][list(chosen)]
        self.ids = [data.ids[name][i] for i in chosen]
        self.boxes, self.activations = [], []
        for i in chosen:
            count = len(data.boxes[name][i])
            rng = np.random.default_rng((seed, i))
            rows = np.append(0, 1 + np.sort(rng.permutation(count - 1)[: N_WINDOWS - 1]))
            self.boxes.append(data.boxes[name][i][rows])
            found = data.activations[name][i]
            self.activations.append(Activation(found.values, found.windows[rows]))


def _prepared(record, boxes) -> tuple:
    """Return the network's input for a picture, its boxes and its size."""
    pixels = record.pixels()
    height, width = network_size(*pixels.shape[:2], SIZE)
    smaller = height * width < pixels.shape[0] * pixels.shape[1]
    resized = cv2.resize(pixels, (width, height), interpolation=cv2.INTER_AREA if smaller else cv2.INTER_LINEAR)
    return torch.from_numpy(Colours("rgb", (127.0,) * 3, (1 / 128,) * 3)(resized)), boxes, pixels.shape[:2]


@torch.no_grad()
def features(block: torch.nn.Module, sample: Sample) -> Iterator[torch.Tensor]:
    """Yield the features of each picture's windows."""
    for values, windows in sample.activations:
        yield POOLING(block(values[None])[0], windows)


def train_latent(bags: Bags, labels: np.ndarray) -> LatentRankHead:
    """Return the head that `LatentRankSVM` would have for each class."""
    scale = feature_scale("mean_norm", bags)
    problems = [LatentProblem(y, RankRisk("ap"), C, tol=1e-2, top=TOP) for y in labels.T]
    head = LatentRankHead(bags.dim, C=C, top=TOP, scale=scale, n_classes=labels.shape[1])
    head.set_coef([solution.coef * scale for solution in fit_many(problems, bags.scaled(scale))])
    return head


def tune_latent(block: torch.nn.Module, head: LatentRankHead, sample: Sample, step: float) -> list:
    """Fine-tune block and head; return the history."""
    steps = step, HEAD_STEP["latent"] * head.weight.detach().abs().mean().item()
    made = lambda groups: torch.optim.Adam([{**group, "lr": lr} for group, lr in zip(groups, steps, strict=True)])  # noqa: E731
    tuning = LatentFineTuning(block, head, optimiser=made, report=lambda line: print(line, flush=True))
    return tuning.fit(sample.activations, sample.labels, EPOCHS).history


def train_wsddn(parts: list[np.ndarray], labels: np.ndarray, scale: float, seed: int) -> list:
    """Return the parameters that `WSDDN(random_state=seed).fit` finds; its float64 copies of windows are left out."""
    model, generator, targets = WSDDN(), torch.Generator().manual_seed(seed), torch.from_numpy(labels)
    shape = parts[0].shape[1], labels.shape[1]
    first, second = (0.01 * torch.randn(shape, generator=generator) for _ in range(2))
    parameters = [part.requires_grad_() for part in (first, torch.zeros(shape[1]), second)]
    adam = torch.optim.Adam(parameters, lr=model.lr, weight_decay=model.weight_decay)
    rng = np.random.default_rng(seed)
    for _ in range(model.epochs):
        for i in rng.permutation(np.flatnonzero(labels.any(axis=1))):
            adam.zero_grad()
            own = scale * torch.from_numpy(parts[i]).float()
            log_loss(*streams(own, *parameters), targets[i]).backward()
            adam.step()
    return [part.detach() for part in parameters]


def tune_wsddn(
    block: torch.nn.Module, parts: list, scale: float, sample: Sample, step: float, seconds: float, seed: int
) -> dict:
    """Fine-tune block and head picture by picture for so much CPU time; return what was done."""
    labels = torch.from_numpy(sample.labels)
    groups = [{"params": [block[0].weight], "lr": step}, {"params": parts, "lr": HEAD_STEP["wsddn"]}]
    adam, rng, begin, losses = torch.optim.Adam(groups), np.random.default_rng(seed), time.process_time(), []
    while True:
        for i in rng.permutation(len(labels)):
            if time.process_time() - begin >= seconds:
                return {"pictures": len(losses), "loss": float(np.mean(losses[-len(labels) :]))}
            values, windows = sample.activations[i]
            adam.zero_grad()
            heads = scale * POOLING.scores(block(values[None])[0], windows, torch.cat([parts[0], parts[2]], dim=1).T)
            classes, weights = heads.chunk(2, dim=1)
            loss = log_loss(classes + parts[1], weights, labels[i])
            loss.backward()
            adam.step()
            losses.append(float(loss.detach()))


class Detector(NamedTuple):
    """A block, the weights (m, d) of what is linear in its features, and the function from that to scores (n, k)."""

    block: torch.nn.Module
    weight: torch.Tensor
    scores: Callable[[torch.Tensor], torch.Tensor]


def latent_detector(block: torch.nn.Module, head: LatentRankHead) -> Detector:
    """Return the detector of a head."""
    return Detector(block, (head.scale * head.weight).detach().float(), lambda values: values)


def wsddn_detector(block: torch.nn.Module, parts: list, scale: float) -> Detector:
    """Return the detector of WSDDN's two heads."""
    first, intercept, second = (part.detach() for part in parts)

    def scores(values: torch.Tensor) -> torch.Tensor:
        classes, windows = values.chunk(2, dim=1)
        return (classes + intercept).log_softmax(1) + windows.log_softmax(0)

    return Detector(block, scale * torch.cat([first, second], dim=1).T, scores)


@torch.no_grad()
def scored(detectors: dict[str, Detector], sample: Sample) -> Iterator[dict[str, np.ndarray]]:
    """Yield the scores of each picture's windows, by the detectors' names."""
    blocks = {id(detector.block): detector.block for detector in detectors.values()}
    for values, windows in sample.activations:
        found = {}
        for key, block in blocks.items():
            own = {name: detector for name, detector in detectors.items() if id(detector.block) == key}
            weight = torch.cat([detector.weight for detector in own.values()])
            products = POOLING.scores(block(values[None])[0], windows, weight)
            parts = products.split([len(detector.weight) for detector in own.values()], dim=1)
            for (name, detector), part in zip(own.items(), parts, strict=True):
                found[name] = detector.scores(part).double().numpy()
        yield found


class Learners:
    """Both methods trained on frozen features of a sample."""

    def __init__(self, network: Network, sample: Sample, seed: int) -> None:
        self._block, self._sample, self._seed = network.block(), sample, seed
        parts = [own.half().numpy() for own in features(self._block, sample)]
        bags = Bags.from_arrays(parts, threads=1)
        self.seconds, self.records = {}, {}
        self.head = self._timed("latent frozen", lambda: train_latent(bags, sample.labels))
        self.scale = float(self.head.scale)
        train = lambda: train_wsddn(parts, sample.labels, self.scale, seed)  # noqa: E731
        self.parts = self._timed("wsddn frozen", train)

    def frozen(self) -> dict[str, Detector]:
        """Return the detectors on the frozen block."""
        return {
            "latent frozen": latent_detector(self._block, self.head),
            "wsddn frozen": wsddn_detector(self._block, self.parts, self.scale),
        }

    def tuned_latent(self, step: float) -> dict[str, Detector]:
        """Return the detector of a fine-tuned copy."""
        block, head = copy.deepcopy(self._block), copy.deepcopy(self.head)
        self.records["latent tuned"] = self._timed("latent tuned", lambda: tune_latent(block, head, self._sample, step))
        return {"latent tuned": latent_detector(block, head)}

    def tuned_wsddn(self, step: float) -> dict[str, Detector]:
        """Return the same for a copy that is fine-tuned for as long as latent AP was."""
        block, parts = copy.deepcopy(self._block), [part.clone().requires_grad_() for part in self.parts]
        arguments = self.scale, self._sample, step, self.seconds["latent tuned"], self._seed
        tuned = self._timed("wsddn tuned", lambda: tune_wsddn(block, parts, *arguments))
        self.records["wsddn tuned"] = tuned
        return {"wsddn tuned": wsddn_detector(block, parts, self.scale)}

    def _timed(self, name: str, work: Callable):
        begin = time.process_time()
        done = work()
        self.seconds[name] = round(time.process_time() - begin, 1)
        return done


def choose(data: Data, work: Path) -> None:
    """Print and store the image-level AP of held-out trainval pictures for each step of the convolution."""
    network, order = Network(), np.random.default_rng(0).permutation(len(data.ids["trainval"]))
    train, held_out = (
        Sample(data, "trainval", 0, order[first : first + len(order) // 3]) for first in (0, len(order) // 3)
    )
    learners = Learners(network, train, 0)
    rows = _image_ap(learners.frozen(), held_out)
    chosen = {}
    for method in ("latent", "wsddn"):
        values = {}
        for step in STEPS[method]:
            (values[step],) = _image_ap(getattr(learners, f"tuned_{method}")(step), held_out).values()
            print(method, f"step {step:g}: {values[step]:.4f}", learners.seconds[f"{method} tuned"], flush=True)
        chosen[method] = max(values, key=values.get)
        rows[method] = {f"{step:g}": value for step, value in values.items()}
    print(rows, learners.seconds)
    (work / "chosen.json").write_text(json.dumps({"steps": chosen, "image_ap": rows, "seconds": learners.seconds}))


def _image_ap(detectors: dict[str, Detector], sample: Sample) -> dict[str, float]:
    """Return the mean image-level AP of the best windows."""
    best = [{name: scores.max(axis=0) for name, scores in found.items()} for found in scored(detectors, sample)]
    means = {}
    for name in detectors:
        columns = np.stack([found[name] for found in best])
        means[name] = float(np.mean([image_average_precision(columns[:, k], y) for k, y in enumerate(sample.labels.T)]))
    return means


def run_seed(data: Data, work: Path, seed: int) -> None:
    """Train all methods with a seed, and store their figures."""
    begin, steps = time.process_time(), json.loads((work / "chosen.json").read_text())["steps"]
    train, test = (Sample(data, name, seed) for name in ("trainval", "test"))
    learners = Learners(Network(), train, seed)
    made = learners.frozen() | learners.tuned_latent(steps["latent"]) | learners.tuned_wsddn(steps["wsddn"])
    demoting = data.context.settings.detect
    plain = replace(demoting, demotion=0.0, score_smoothing=0.0, box_voting=0.0)
    rules = {name: replace(plain, demotion=demoting.demotion) if "latent" in name else plain for name in made}
    evaluation = Evaluation(data.context, data.names, rules)
    for name, sample in (("trainval", train), ("test", test)):
        for found, image, boxes in zip(scored(made, sample), sample.ids, sample.boxes, strict=True):
            for key, scores in found.items():
                evaluation.add(key, name, image, boxes, scores)
    facts = {"seconds": learners.seconds, "all": round(time.process_time() - begin, 1), "records": learners.records}
    evaluation.store(work, seed, {"steps": steps, **facts})


def main() -> None:
    """Run one step of the comparison."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="+", help="choose, report, or seeds")
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    options = parser.parse_args()
    torch.set_num_threads(1)
    options.work.mkdir(parents=True, exist_ok=True)
    if options.what == ["report"]:
        Evaluation.report(options.work)
        return
    begin = time.process_time()
    data = Data(options.run, options.work)
    print(f"data: {time.process_time() - begin:.0f} s", flush=True)
    for what in options.what:
        if what == "choose":
            choose(data, options.work)
        else:
            run_seed(data, options.work, int(what))


if __name__ == "__main__":
    main()
