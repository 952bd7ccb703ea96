"""A small data set and a finished run on it, made once."""

import csv
import json
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from lapsvm.datasets.digits import write_digits
from lapsvm.pipelines.products.detections import stamp_with_results
from PIL import Image

from lapsvm import catalog

from .calls import done, main, status_of

EXTRACTION = ["--windows", "grid", "--max-windows", "60", "--classes", "six,three"]
TRAINING = ["--C", "1,10", "--folds", "2"]
HOG = ["--extractor", "hog"]
OF_PRODUCT = ["--windows", "grid", "--max-windows", "200", "--C", "10", "--folds", "3"]
FAST = EXTRACTION + TRAINING + HOG
BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path += [
    str(BENCHMARKS / name) for name in ("protocols", "recipes", "papers", "passes")
]  # scripts import their siblings
MADE = ("shards/*/*.safetensors", "models/*.safetensors", "detections/*/*.txt", "evaluation.json")


@pytest.fixture(scope="session")
def digits(tmp_path_factory) -> Path:
    """A few digits in the VOC layout; not to be changed."""
    root = tmp_path_factory.mktemp("data") / "digits"
    write_digits(root, seed=3, n_train=40, n_test=20)
    return root


@pytest.fixture(scope="session")
def fast() -> list[str]:
    """Options that make a run take seconds."""
    return FAST


@pytest.fixture(scope="session")
def fast_extraction() -> list[str]:
    """Those of them that extraction takes."""
    return EXTRACTION + HOG


@pytest.fixture(scope="session")
def fast_network() -> list[str]:
    """Options that make a run on a network take seconds; the extractor is to be named."""
    return [*EXTRACTION, *TRAINING, "--recipe", "plain"]


@pytest.fixture(scope="session")
def fast_network_extraction() -> list[str]:
    """Those of them that extraction takes."""
    return [*EXTRACTION, "--recipe", "plain"]


@pytest.fixture(scope="session")
def fast_training() -> list[str]:
    """Those of them that training takes."""
    return TRAINING


@pytest.fixture(scope="session")
def made():
    """Return relative path -> bytes of what a run made, all of it or what a pattern names."""

    def content(folder: Path, *patterns: str) -> dict[str, bytes]:
        found = [path for pattern in patterns or MADE for path in sorted(folder.glob(pattern))]
        return {str(path.relative_to(folder)): _comparable(path) for path in found}

    return content


def _comparable(path: Path) -> bytes:
    """Return the content of a file, of a history without the seconds, which no two runs share."""
    if path.name != "history.csv":
        return path.read_bytes()
    with path.open(newline="") as file:
        return repr([{**row, "seconds": ""} for row in csv.DictReader(file)]).encode()


@pytest.fixture(scope="session")
def finished(digits, tmp_path_factory) -> Path:
    """A finished run on the digits; not to be changed."""
    out = tmp_path_factory.mktemp("runs") / "RUN"
    done("run", "--data", "voc", "--root", digits, "--out", out, "--quiet", *FAST)
    return out


@pytest.fixture(scope="session")
def refined(finished, tmp_path_factory) -> Path:
    """The finished run with a round of refinement; not to be changed."""
    out = shutil.copytree(finished, tmp_path_factory.mktemp("refined") / "RUN")
    done("refine", "--out", out, "--refine", "1", "--set=refine.C=10", "--quiet")
    for verb in ("detect", "evaluate", "report"):
        done(verb, "--out", out, "--quiet")
    return out


@pytest.fixture(scope="session")
def product(tmp_path_factory) -> Path:
    """A product in the layout of MVTec AD, whose defects are a bright spot or a dark bar; not to be changed."""
    root = tmp_path_factory.mktemp("data") / "product"
    for folder, count in (("train/good", 12), ("test/good", 24), ("test/spot", 12), ("test/bar", 12)):
        for number in range(count):
            write_product(root, folder, number)
    return root


def write_product(root: Path, folder: str, number: int) -> None:
    """Write one picture of 96 x 80 pixels, and the mask of its defect."""
    random, kind = np.random.default_rng([number, len(folder), ord(folder[-1])]), folder.split("/")[1]
    pixels, mask = random.normal(120, 8, (80, 96)), np.zeros((80, 96), np.uint8)
    if kind != "good":
        width, height = (16, 16) if kind == "spot" else (40, 6)
        x, y = random.integers(4, 92 - width), random.integers(4, 76 - height)
        mask[y : y + height, x : x + width] = 255
        pixels[mask > 0] += 90 if kind == "spot" else -90
        (root / "ground_truth" / kind).mkdir(parents=True, exist_ok=True)
        Image.fromarray(mask).save(root / f"ground_truth/{kind}/{number:03}_mask.png")
    (root / folder).mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)).save(root / folder / f"{number:03}.png")


@pytest.fixture(scope="session")
def inspected(product, tmp_path_factory) -> Path:
    """A finished run on the product; not to be changed."""
    out = tmp_path_factory.mktemp("runs") / "INSPECTED"
    done("run", "--data", "mvtec", "--root", product, "--out", out, "--quiet", *HOG, *OF_PRODUCT)
    return out


@pytest.fixture
def run_copy(finished, tmp_path) -> Path:
    """A finished run that a test may change."""
    return Path(shutil.copytree(finished, tmp_path / "RUN"))


@pytest.fixture
def inspected_copy(inspected, tmp_path) -> Path:
    """A finished run on the product that a test may change."""
    return Path(shutil.copytree(inspected, tmp_path / "INSPECTED"))


@pytest.fixture
def entry_point(monkeypatch):
    """Return a function that lets a group have an entry point of these tests, and no other."""

    def install(of, name, load):
        found = [Point(name, load)]
        others = catalog.entry_points
        monkeypatch.setattr(catalog, "entry_points", lambda group: found if group == of else others(group=group))

    return install


class Point:
    """An entry point, which is told apart by what it is."""

    dist = SimpleNamespace(name="numpy")

    def __init__(self, name, load) -> None:
        self.name, self.load = name, load


@pytest.fixture
def stamp_anew():
    """Let the edited result files of a folder pass for those that detection wrote."""

    def stamp(folder: Path) -> None:
        made_with = json.loads((folder / "detections.json").read_text())
        del made_with["results"]
        (folder / "detections.json").write_text(stamp_with_results(made_with, sorted(folder.glob("*.txt"))))

    return stamp


@pytest.fixture
def command(capsys):
    """Call the command line as a user would and see what it said."""

    def call(*arguments: object) -> SimpleNamespace:
        capsys.readouterr()
        status = status_of(main, *arguments)
        said = capsys.readouterr()
        return SimpleNamespace(status=status, out=said.out, err=said.err)

    return call


@pytest.fixture
def refused(command):
    """Call the command line, check that it fails in one line with exit status 2, and return that line."""

    def call(*arguments: object) -> str:
        result = command(*arguments)
        assert result.status == 2, result
        assert result.err.count("\n") == 1, result.err
        assert result.err.startswith("lapsvm: "), result.err
        return result.err

    return call
