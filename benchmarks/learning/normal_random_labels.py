"""Held-out figures of random labels where ``--objectness normal`` is fitted to all good pictures.

Pictures of noise with a few discs are drawn, and half of them, at random, are called defective. All others are good, so
the normal map is fitted to all of these, the held-out ones too. Nothing can be learned, so a held-out image AP above
that of random orders would say that labels of the held-out fold get into the chain that is trained without them. A
random network of two layers gives the features.

    python benchmarks/learning/normal_random_labels.py --seeds 10
    python benchmarks/learning/normal_random_labels.py --quick
"""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from lapsvm.pipelines.cli.study import Into, print_table, study_command
from lapsvm.pipelines.commands.verbs import main as lapsvm
from lapsvm.pipelines.products.held_out import read_held_out
from lapsvm.pipelines.run.folder import RunFolder

from lapsvm.arrays import Array, Float64
from lapsvm.errors import StageError
from lapsvm.ranking import average_precision

SOURCES = "none", "normal"
SIZE = 64, 96  # height and width
DISCS = 4
CLASS = "defect"
ORDERS = 2_000


@study_command
def main(seeds: int = 10, pictures: int = 60, quick: bool = False, into: Into = None) -> None:
    """Print the mean held-out image AP of random labels with each source."""
    found = list(figures(2, 24) if quick else figures(seeds, pictures))
    print_table(("objectness", "held-out image AP", "standard error", "seeds"), rows(np.array(found)), into)


def figures(seeds: int, pictures: int) -> Iterator[list[float]]:
    """Yield the image AP of each source, and that of random orders, for each seed."""
    for seed in range(seeds):
        with TemporaryDirectory() as folder:
            yield [*measured(Path(folder), seed, pictures)]


def rows(found: Float64) -> Iterator[tuple[str, float, float, int]]:
    """Yield the mean and its standard error of each source, of chance, and of the difference of the sources."""
    none, normal, chance = found.T
    named = {"none": none, "normal": normal, "random order": chance, "normal - none": normal - none,
             "normal - random order": normal - chance}  # fmt: skip
    for name, values in named.items():
        error = values.std(ddof=1) / np.sqrt(len(values))
        yield name, round(float(values.mean()), 3), round(float(error), 3), len(values)


def measured(folder: Path, seed: int, pictures: int) -> Iterator[float]:
    """Yield the held-out image AP of each source, then that of random orders."""
    write_pictures(folder / "pictures", seed, pictures)
    write_network(folder / "network.onnx")
    for source in SOURCES:
        run = folder / source
        options = ["--data", "folder", "--root", folder / "pictures", "--recipe", "best", "--objectness", source]
        features = ["--extractor", f"onnx:{folder / 'network.onnx'}?size=96", "--pca", 0, "--max-windows", 60]
        call("run", "--out", run, *options, *features, "--seed", seed, "--jobs", 1, "--quiet")
        held_out = read_held_out(RunFolder(run), CLASS)
        if held_out is None:
            raise StageError(f"run {run} must have held-out scores.")
        yield average_precision(held_out.score, held_out.y)
    rng = np.random.default_rng(seed)
    yield float(np.mean([average_precision(rng.permutation(len(held_out.y)), held_out.y) for _ in range(ORDERS)]))


def call(*arguments: object) -> None:
    """Run a command of lapsvm in this process."""
    with suppress(SystemExit):
        lapsvm([str(argument) for argument in arguments])


def write_pictures(folder: Path, seed: int, count: int) -> None:
    """Write pictures of noise and discs; half of them, at random, lie in the folder of the class."""
    from PIL import Image

    rng = np.random.default_rng(seed)
    order = rng.permutation(count)
    for number in range(count):
        label = CLASS if order[number] < count // 2 else "good"
        (folder / label).mkdir(parents=True, exist_ok=True)
        Image.fromarray(drawn(rng)).save(folder / label / f"{number:03d}.png")


def drawn(rng: np.random.Generator) -> Array:
    """Return a picture of smooth noise with discs of any colour."""
    import cv2

    noise = cv2.resize(rng.normal(128, 40, (8, 12, 3)), SIZE[::-1], interpolation=cv2.INTER_CUBIC)
    picture = np.clip(noise + rng.normal(0, 8, (*SIZE, 3)), 0, 255).astype(np.uint8)
    for _ in range(DISCS):
        place = int(rng.integers(SIZE[1])), int(rng.integers(SIZE[0]))
        cv2.circle(picture, place, int(rng.integers(4, 14)), rng.integers(0, 256, 3).tolist(), -1)
    return picture


def write_network(path: Path) -> None:
    """Write a network of two layers of random weights, whose map has 24 channels at a stride of 8."""
    from onnx import TensorProto, helper

    rng = np.random.default_rng(0)
    sizes = {"w1": (16, 3, 5, 5), "w2": (24, 16, 3, 3)}
    weights = [
        helper.make_tensor(name, TensorProto.FLOAT, size, rng.normal(0, 1 / np.sqrt(np.prod(size[1:])), size).ravel())
        for name, size in sizes.items()
    ]
    nodes = [
        helper.make_node("Conv", ["picture", "w1"], ["first"], strides=[4, 4], pads=[2, 2, 2, 2]),
        helper.make_node("Relu", ["first"], ["seen"]),
        helper.make_node("Conv", ["seen", "w2"], ["second"], strides=[2, 2], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["second"], ["map"]),
    ]
    given = [helper.make_tensor_value_info("picture", TensorProto.FLOAT, (1, 3, "height", "width"))]
    taken = [helper.make_tensor_value_info("map", TensorProto.FLOAT, (1, 24, "rows", "columns"))]
    graph = helper.make_graph(nodes, "random", given, taken, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    path.write_bytes(model.SerializeToString())


if __name__ == "__main__":
    main()
