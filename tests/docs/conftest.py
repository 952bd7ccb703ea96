"""The files that the tutorial and the how-to pages name, small enough that every command takes seconds."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from lapsvm.datasets.digits import write_digits
from lapsvm.pipelines.commands.exporting import onnx_detector
from lapsvm.pipelines.commands.verbs import main
from lapsvm.pipelines.settings.recipes import BEST
from PIL import Image

from ..twins.networks import onnx_network

FEW = ["--classes", "six,three", "--windows", "grid", "--max-windows", "30"]
FAST = [*FEW, "--extractor", "hog", "--C", "1", "--quiet"]


def draw_photograph(path: Path, rng: np.random.Generator, brightness: int | None) -> None:
    """Write noise, with a square of a brightness somewhere."""
    pixels = rng.integers(90, 160, (48, 64, 3)).astype(np.uint8)
    y, x = rng.integers(0, 24, 2)
    if brightness is not None:
        pixels[y : y + 20, x : x + 20] = brightness
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)


def write_networks(folder: Path) -> None:
    """Write a convolution to (1, 8, h / 16, w / 16), a transformer, and a map of how far pixels are from the mean.

    The transformer gives a class token and means of patches of 14 x 14 pixels, 8 channels.
    """
    kernels = {side: np.random.default_rng(0).normal(size=(8, 3, side, side)).astype(np.float32) for side in (14, 16)}
    picture, tokens = {"picture": [1, 3, "h", "w"]}, {"tokens": [1, "n", 8]}
    (folder / "network.onnx").write_bytes(
        onnx_network(
            [("Conv", "picture kernel", "map", {"strides": [16, 16]})],
            picture,
            {"map": [1, 8, "rows", "columns"]},
            {"kernel": kernels[16]},
        )
    )
    nodes = [
        ("Conv", "picture kernel", "grid", {"strides": [14, 14]}),
        ("Reshape", "grid shape", "flat", {}),
        ("Transpose", "flat", "patches", {"perm": [0, 2, 1]}),
        ("Concat", "class patches", "tokens", {"axis": 1}),
    ]
    arrays = {"kernel": kernels[14], "shape": np.array([0, 8, -1]), "class": np.zeros((1, 1, 8), np.float32)}
    (folder / "transformer.onnx").write_bytes(onnx_network(nodes, picture, tokens, arrays))
    nodes = [("Abs", "picture", "distance", {}), ("ReduceMean", "distance", "map", {"axes": [1], "keepdims": 1})]
    (folder / "saliency.onnx").write_bytes(onnx_network(nodes, picture, {"map": [1, 1, "h", "w"]}, {}))


def write_features(folder: Path, voc: Path) -> None:
    """Write an .npz file with random windows and features for every picture of a folder in VOC's layout."""
    rng = np.random.default_rng(0)
    folder.mkdir()
    for path in (voc / "JPEGImages").iterdir():
        corner = rng.integers(0, 60, (20, 2))
        boxes = np.hstack([corner, corner + rng.integers(10, 60, (20, 2))])
        np.savez(folder / path.stem, boxes=boxes, features=rng.normal(size=(20, 16)).astype(np.float32))


def run_lapsvm(*arguments: str) -> None:
    """Run the command line in this process, and require success."""
    with pytest.raises(SystemExit) as end:
        main([*arguments])
    assert end.value.code in (0, None), arguments


@pytest.fixture(autouse=True)
def _small_sizes(monkeypatch):
    """Let networks see small pictures, and exports be compared on few: these pages are about commands."""
    monkeypatch.setitem(BEST, "features.sizes", (160, 240))
    for name in ("COMPARED", "EQUAL"):
        monkeypatch.setattr(onnx_detector, name, 4)


@pytest.fixture(scope="session")
def lapsvm():
    """The command line, as a function of its arguments."""
    return run_lapsvm


@pytest.fixture(scope="session")
def inputs(tmp_path_factory) -> Path:
    """A folder with everything that the pages name as given; not to be changed."""
    folder, rng = tmp_path_factory.mktemp("pages"), np.random.default_rng(0)
    for name, brightness in (("cat", 250), ("dog", 5), ("background", None)):
        for number in range(4):
            draw_photograph(folder / "pictures" / name / f"{number}.jpg", rng, brightness)
    draw_photograph(folder / "photo.jpg", rng, 250)
    write_networks(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        write_digits("VOC2007", seed=3, n_train=16, n_test=10)
        write_features(folder / "features", folder / "VOC2007")
        run_lapsvm("run", "--data", "voc", "--root", "VOC2007", *FAST, "--out", "RUN")
        run_lapsvm("export", "--out", "RUN", "--to", "coco", "--format", "coco", "--set", "test", "--quiet")
    shutil.copytree(folder / "RUN/detections/test", folder / "results")
    shutil.copy(folder / "coco/annotations.json", folder / "instances_val.json")
    shutil.copy(folder / "coco/results.json", folder / "results.json")
    return folder
