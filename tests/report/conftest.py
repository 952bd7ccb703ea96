"""A made-up run: drawn pictures, made-up numbers, every part of the page filled."""

from collections.abc import Callable

import numpy as np
import pytest

from lapsvm.report import CccpStep, ClassSummary, Contents, Curve, Example, LabelCounts, RunSummary, SetSummary

NAMES = ("bus", "car", "cat", "train", "person")
COLOURS = ((178, 60, 50), (60, 100, 160), (190, 150, 90), (70, 130, 80), (150, 110, 160))


def drawn_picture(seed: int, kind: int, width: int = 500, height: int = 375) -> tuple[np.ndarray, np.ndarray]:
    """A coarse landscape with one coloured object, and the object's box."""
    rng = np.random.default_rng(seed)
    coarse = rng.normal(0, 14, (height // 12 + 1, width // 12 + 1, 1)).repeat(12, axis=0).repeat(12, axis=1)
    sky = np.linspace(205, 120, height)[:, None, None] * np.array([0.8, 0.93, 1.0])
    ground = np.array([125.0, 122, 100])
    horizon = int(height * rng.uniform(0.45, 0.65))
    picture = np.where(np.arange(height)[:, None, None] < horizon, sky, ground) + coarse[:height, :width]
    w, h = int(width * rng.uniform(0.25, 0.5)), int(height * rng.uniform(0.25, 0.5))
    x, y = int(rng.uniform(5, width - w - 5)), int(rng.uniform(5, height - h - 5))
    body = picture[y : y + h, x : x + w]
    body[:] = np.array(COLOURS[kind]) + rng.normal(0, 8, (h, w, 1))
    body[h // 6 : h // 3, w // 8 : -w // 8] = (225, 232, 238)
    body[-h // 6 :, w // 6 : w // 3] = 35
    body[-h // 6 :, -w // 3 : -w // 6] = 35
    box = np.array([x, y, x + w, y + h], dtype=float)
    return np.clip(picture, 0, 255).astype(np.uint8), box


def drawn_example(seed: int, kind: int, shift: tuple[float, ...], score: float, **more) -> Example:
    """The example whose window is the object's box, its edges moved by shares of its sides."""
    width, height = ((500, 375), (375, 500), (500, 333))[seed % 3]
    pixels, truth = drawn_picture(seed, kind, width, height)
    sides = np.tile(truth[2:] - truth[:2], 2)
    box = np.clip(truth + np.array(shift) * sides, 0, [width, height, width, height])
    return Example(f"{seed:06d}", lambda: pixels, box, score, truth=[truth], **more)


MISSES = {
    "large": (-0.7, -0.7, 0.7, 0.7),
    "small": (0.1, 0.1, -0.45, -0.45),
    "beside": (0.7, 0.5, 0.7, 0.5),
    "wrong": (1.0, 0.9, 1.0, 0.9),
}


def drawn_misses(kind: int, rng: np.random.Generator) -> tuple[Example, ...]:
    found = []
    for group, (name, shift) in enumerate(MISSES.items()):
        for i in range(int(rng.integers(1, 9))):
            example = drawn_example(4000 + 100 * kind + 10 * group + i, kind, shift, 1.2 - 0.1 * i)
            others = {NAMES[kind - 1]: [example.box + 4]} if name == "wrong" else {}
            found.append(Example(example.id, example.pixels, example.box, example.score, example.truth, others))
    return tuple(found)


def drawn_class(kind: int) -> ClassSummary:
    rng = np.random.default_rng(kind)
    objects, n = 200 + 11 * kind, 3000
    right = rng.random(n) < 0.7 * np.exp(-np.arange(n) / (120 + 60 * kind))
    hits = np.cumsum(right)
    curve = Curve(hits / objects, hits / np.arange(1, n + 1))
    falls = np.cumsum(np.r_[0, rng.uniform(0.3, 2.0, 5 + kind) * 0.6 ** np.arange(5 + kind)])
    gaps, passes = rng.uniform(2e-4, 1e-3, len(falls)), np.cumsum(rng.integers(1, 30, len(falls)))
    steps = tuple(map(CccpStep, 63.1 + 8 * kind - falls, gaps, passes.astype(float), 0.43 * passes))
    beside = (0.7, 0.5, 0.7, 0.5)
    return ClassSummary(
        NAMES[kind],
        C=(0.3, 1.0, 10.0, 100.0, 3.0)[kind],
        duality_gap=steps[-1].duality_gap,
        steps=steps,
        curve=curve,
        best=tuple(drawn_example(100 * kind + i, kind, (0.03, 0.04, -0.02, 0.05), 2.1 - 0.2 * i) for i in range(8)),
        false_positives=tuple(
            drawn_example(2000 + 100 * kind + i, kind, beside, 1.9 - 0.2 * i, note="a second detection" * (i == 1))
            for i in range(8)
        ),
        misses=drawn_misses(kind, rng),
    )


def made_summary(test_boxes: bool = True, train_boxes: bool = True, with_test: bool = True) -> RunSummary:
    labels = {name: LabelCounts(120 + 7 * i, 520 - 7 * i, i) for i, name in enumerate(NAMES)}
    return RunSummary(
        title="Vehicles, cats and people",
        dataset="voc",
        extractors=("onnx:mobilenet_v2_1.0",),
        loss="ap",
        train=SetSummary("trainval", 651, train_boxes, 405_841, labels),
        test=SetSummary("test", 655, test_boxes, 411_210, labels) if with_test else None,
        command="lapsvm run --data voc --root voc2007_vehicles_cat --classes bus,car,cat,train,person "
        "--extractor onnx:mobilenet_v2_1.0.onnx --loss ap --out runs/first",
        seeds={"run": 0},
        settings={"--recipe": "plain", "--C": "chosen by two-fold cross-validation", "--iou": "0.5", "--jobs": "2"},
        versions={"lapsvm": "0.1.0", "numpy": "2.3.1", "scikit-learn": "1.7.0", "onnxruntime": "1.22.0"},
        seconds={"extract": 312.4, "train": 65.21, "detect": 8.372, "evaluate": 1.91},
    )


@pytest.fixture(scope="session")
def make_summary() -> Callable[..., RunSummary]:
    return made_summary


@pytest.fixture(scope="session")
def make_example() -> Callable[..., Example]:
    return drawn_example


def entry(**classes: dict) -> dict:
    """An entry of evaluation.json with figures of some classes."""
    return {"classes": classes, "mean": {}}


def drawn_figures() -> dict[str, dict]:
    numbers = dict(enumerate(NAMES))
    test = {
        name: {"ap_11point": 0.31 + 0.041 * kind, "ap_area": 0.295 + 0.043 * kind, "npos": 200 + 11 * kind,
               "image_ap": 0.93 + 0.012 * kind}
        for kind, name in numbers.items()
    }  # fmt: skip
    train = {
        name: {"corloc": 0.58 - 0.06 * kind, "pointing": 0.81 - 0.05 * kind, "image_ap": 0.97}
        for kind, name in numbers.items()
    }
    return {"test": entry(**test), "trainval": entry(**train)}


@pytest.fixture(scope="session")
def entry_of() -> Callable[..., dict]:
    return entry


@pytest.fixture(scope="session")
def full_contents() -> Contents:
    return Contents(
        made_summary(),
        tuple(drawn_class(kind) for kind in range(len(NAMES))),
        skipped={"aeroplane": "no picture of the set trainval shows it"},
        figures=drawn_figures(),
        left_out={"000999": "picture 000999.jpg cannot be read whole: image file is truncated."},
        warnings=(
            (
                "Image AP of cat was 1.000 from the first step on: the pictures without cats are told apart by their "
                "scenery alone, so nothing forces the window onto the object."
            ),
        ),
    )
