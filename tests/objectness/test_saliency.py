"""Networks from ONNX files that say what stands out: on tiny networks the map is a formula."""

import json
import os
import subprocess
import sys
from hashlib import sha256

import numpy as np
import pytest

from lapsvm.errors import DataError, DependencyError, InputError, MissingError, NotFiniteError, OptionError, ShapeError
from lapsvm.objectness import ObjectnessSource, object_regions, open_objectness, picture_objectness
from lapsvm.objectness.saliency import MapReading
from lapsvm.testing.objectness import ObjectnessLaws

RNG = np.random.default_rng(0)
PICTURE = RNG.integers(0, 200, (32, 48, 3), dtype=np.uint8)
MEAN, STD = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])


def stretched(values):
    return (values - values.min()) / (values.max() - values.min())


def opened(path, options=""):
    return open_objectness(f"onnx:{path}?size=32{options}")


def with_rectangle(height, width, box, channel=0):
    """A dark picture with a rectangle that is bright in one channel."""
    pixels = np.full((height, width, 3), 40, np.uint8)
    x1, y1, x2, y2 = box
    pixels[y1:y2, x1:x2, channel] = 250
    return pixels


SQUARE = np.ascontiguousarray(PICTURE[:, :32])


def test_a_source_has_what_the_protocol_says(path):
    source = opened(path)
    assert isinstance(source, ObjectnessSource)
    cells = source.map(SQUARE)
    assert (cells.dtype, cells.shape) == (np.float32, (32, 32))
    np.testing.assert_allclose(cells, stretched(SQUARE[..., 0].astype(float)), atol=1e-6)


@pytest.mark.parametrize(
    ("options", "scale", "mean", "std", "order"),
    [
        ("", "peak", MEAN, STD, 1),
        ("&scale=255", 255, MEAN, STD, 1),
        ("&scale=255&mean=.5&std=1", 255, np.full(3, 0.5), np.ones(3), 1),
        ("&scale=1/2&mean=1,2,3&std=4,5,6&order=bgr", 0.5, np.array([1, 2, 3]), np.array([4, 5, 6]), -1),
    ],
)
def test_the_network_sees_what_the_options_say(tmp_path, write_saliency, options, scale, mean, std, order):
    """Without stretching, a map is the weighted sum of what the network sees, here brought into 0..1."""
    weights = np.array([1e-3, 5e-4, 2e-4])
    path = write_saliency(tmp_path / "net.onnx", [weights], bias=0.3)
    divisor = SQUARE.max() if scale == "peak" else scale
    expected = ((SQUARE[..., ::order] / divisor - mean) / std) @ weights + 0.3
    np.testing.assert_allclose(opened(path, f"&stretch=no{options}").map(SQUARE), expected, atol=1e-5)


def test_logits_pass_the_logistic_function(tmp_path, write_saliency):
    path = write_saliency(tmp_path / "net.onnx", [[3, 0, 0]], bias=-1)
    expected = 1 / (1 + np.exp(1 - 3 * (SQUARE[..., 0] / SQUARE.max() - 0.485) / 0.229))
    plain, wide = (opened(path, f"&activation=sigmoid{more}").map(SQUARE) for more in ("&stretch=no", ""))
    np.testing.assert_allclose(plain, expected, rtol=1e-5)
    np.testing.assert_allclose(wide, stretched(expected), atol=1e-6)


def test_logits_that_are_not_stretched_are_refused(path):
    sentence = (
        r"output 'map' of the network must be in 0\.\.1 where it is not stretched, got -2\.\d+ to .*; activation="
    )
    with pytest.raises(DataError, match=sentence):
        opened(path, "&stretch=no").map(SQUARE)


@pytest.mark.parametrize(("options", "sign"), [("", 1), ("&output=map", 1), ("&output=other", -1)])
def test_the_map_is_the_first_output_or_the_one_that_is_named(tmp_path, write_saliency, options, sign):
    path = write_saliency(tmp_path / "net.onnx", outputs=("map", "other"))
    expected = stretched(sign * SQUARE[..., 0].astype(float))
    np.testing.assert_allclose(opened(path, options).map(SQUARE), expected, atol=1e-6)


@pytest.mark.parametrize("size", [(32, 32), (16, 64)])
def test_a_network_of_fixed_size_gets_that_size(tmp_path, write_saliency, size):
    path = write_saliency(tmp_path / "net.onnx", size=size)
    source = open_objectness(f"onnx:{path}")
    assert source.map(PICTURE).shape == size
    assert source.describe()["size"] == list(size)
    with pytest.raises(OptionError, match=rf"size must not be given: the network takes only \({size[0]}, .*got 32"):
        opened(path)


def test_a_network_of_any_size_gets_a_square_of_320_or_the_size_that_is_given(path):
    assert open_objectness(f"onnx:{path}").map(PICTURE).shape == (320, 320)
    assert open_objectness(f"onnx:{path}?size=17").map(PICTURE).shape == (17, 17)


def test_the_network_runs_on_one_picture_whose_size_it_declares_wrongly(tmp_path, write_saliency):
    path = write_saliency(tmp_path / "net.onnx", inside=(1, 1, 9, 9))
    with pytest.raises(DataError, match=r"network .*net\.onnx cannot take a picture of 32 x 32: .*\.$") as caught:
        opened(path).map(PICTURE)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("shape", [(32, 32), (64, 96), (320, 16), (33, 1000)])
def test_regions_are_in_pixels_of_the_picture(path, shape):
    """The rectangle's edges lie on cells where the picture's sides are multiples of the map's, or the reverse."""
    height, width = shape
    box = np.array([width // 4, height // 2, width // 2, height])
    found = opened(path).regions(with_rectangle(height, width, box))
    cell = np.maximum(1, np.array([width, height] * 2) / 32)
    assert len(found)
    assert (np.abs(found - box) <= cell).all()


@pytest.mark.parametrize("factor", [1, 3])
def test_regions_of_a_picture_of_whole_cells_are_exact(path, factor):
    box = [4, 8, 20, 24]
    pixels = with_rectangle(32, 32, box).repeat(factor, axis=0).repeat(factor, axis=1)
    assert opened(path).regions(pixels).tolist() == [[factor * side for side in box]]


def test_regions_are_those_of_the_map(path):
    source = opened(path)
    expected = object_regions(source.map(PICTURE)) * [48, 32, 48, 32] / [32, 32, 32, 32]
    assert len(expected) > 3
    np.testing.assert_array_equal(source.regions(PICTURE), expected)


def test_a_window_on_the_object_stands_out_and_others_less(path):
    windows = [[4, 8, 20, 24], [0, 0, 32, 32], [4, 8, 12, 24], [24, 0, 32, 8]]
    found = picture_objectness(opened(path), with_rectangle(32, 32, windows[0]), windows)
    np.testing.assert_allclose(found, [1, 256 / 1024, 0.5, 0])
    assert found.dtype == np.float32


@pytest.mark.parametrize("level", [0, 7, 255])
@pytest.mark.parametrize("shape", [(1, 1), (1, 20000), (20000, 1), (40, 40)])
def test_pictures_of_one_colour_have_no_regions(path, shape, level):
    pixels = np.full((*shape, 3), level, np.uint8)
    assert opened(path).map(pixels).max() == 0
    assert picture_objectness(opened(path), pixels, [[0, 0, shape[1], shape[0]]]).tolist() == [0]


@pytest.mark.parametrize(
    ("pixels", "error"),
    [
        (PICTURE.astype(float), InputError),
        (PICTURE[..., 0], ShapeError),
        (PICTURE[:0], ShapeError),
        (None, InputError),
    ],
)
def test_what_is_no_picture_is_refused(path, pixels, error):
    source = opened(path)
    for call in (source.map, source.regions, lambda picture: picture_objectness(source, picture, [[0, 0, 1, 1]])):
        with pytest.raises(error, match="a picture must"):
            call(pixels)


@pytest.mark.parametrize("bias", [np.nan, np.inf])
def test_a_map_that_is_not_finite_is_refused(tmp_path, write_saliency, bias):
    path = write_saliency(tmp_path / "net.onnx", bias=bias)
    with pytest.raises(NotFiniteError, match=r"output 'map' of the network must be finite, got (nan|inf) at index"):
        opened(path).regions(PICTURE)


def test_a_description_names_everything_and_no_path(path):
    source = opened(path, "&scale=255&activation=sigmoid&stretch=no&order=bgr&mean=1,2,3&std=4")
    description = source.describe()
    assert description.pop("runtime")["name"] == "onnxruntime"
    assert json.loads(json.dumps(description)) == description == {
        "kind": "saliency-network", "version": 1, "engine": "onnxruntime",
        "weights": sha256(path.read_bytes()).hexdigest(), "size": [32, 32], "scale": 255.0, "mean": [1.0, 2.0, 3.0],
        "std": [4.0, 4.0, 4.0], "order": "bgr", "output": "map", "activation": "sigmoid", "stretch": False,
    }  # fmt: skip


WRONG = {
    "two channels": ({"weights": np.ones((2, 3))}, r"'map' .* one map of shape \(1, 1, rows, columns\), got \(1, 2,"),
    "numbers": ({"flat": True, "weights": np.ones((2, 3))}, r"shape \(1, 1, rows, columns\), got .*2\); output=NAME"),
    "several inputs": ({"inputs": 2}, r"one input of shape \(1, 3, height, width\), got picture0 .*, picture1"),
    "undeclared, two channels": ({"declared": False, "weights": np.ones((2, 3))}, r"got \(1, 2, None, None\)"),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "sentence"), WRONG.values(), ids=WRONG.keys())
def test_a_network_that_gives_no_map_is_one_sentence(tmp_path, write_saliency, changes, sentence):
    path = write_saliency(tmp_path / "net.onnx", **changes)
    with pytest.raises(DataError, match=sentence):
        opened(path).map(PICTURE)


def test_a_wrong_output_is_refused_when_the_network_is_opened(tmp_path, write_saliency):
    with pytest.raises(DataError, match=r"objectness 'onnx:.*net\.onnx': output 'map' of the network must be one map"):
        open_objectness(f"onnx:{write_saliency(tmp_path / 'net.onnx', np.ones((2, 3)))}")


def test_a_file_that_declares_no_shapes_is_read(tmp_path, write_saliency):
    path = write_saliency(tmp_path / "net.onnx", declared=False)
    np.testing.assert_allclose(opened(path).map(SQUARE), stretched(SQUARE[..., 0].astype(float)), atol=1e-6)


@pytest.mark.parametrize(
    "value", [["a"], np.array(["a"]), np.zeros((1, 1, 0, 5)), np.float32(3), np.zeros(4), [1, [2]]]
)
def test_an_output_that_is_no_map_of_numbers_is_refused(value):
    with pytest.raises(DataError, match="output 'map' of the network must be"):
        MapReading("map")(value)


@pytest.mark.parametrize("dtype", [np.float16, np.float64, np.int32, np.bool_])
@pytest.mark.parametrize("shape", [(1, 2, 3), (1, 1, 2, 3)])
def test_a_map_may_have_any_type_of_numbers_and_axes_of_one(dtype, shape):
    found = MapReading("map")(np.arange(6).reshape(shape).clip(0, 1).astype(dtype))
    assert (found.dtype, found.tolist()) == (np.float32, [[0, 1, 1], [1, 1, 1]])


def test_maps_of_huge_numbers_are_stretched_without_an_overflow():
    values = np.array([[[np.finfo(np.float32).min, 0, np.finfo(np.float32).max]]], np.float32)
    np.testing.assert_allclose(MapReading("map")(values), [[0, 0.5, 1]])
    np.testing.assert_allclose(MapReading("map", "sigmoid")(values), [[0, 0.5, 1]])


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("size=0", "size must be a whole number from 1 to 8192, got '0'"),
        ("size=3&size=4", "option 'size' must stand once, got it twice"),
        ("size", "an option must read key=value, got 'size'"),
        ("scale=0", "scale must be peak or a finite number greater than 0, got '0'"),
        ("scale=top", "scale must be peak or a finite number"),
        ("mean=1,2", "mean must be one finite number, or three with commas between them, got '1,2'"),
        ("std=1,0,1", "std must be one finite number greater than 0"),
        ("order=gbr", "order must be rgb or bgr, got 'gbr'"),
        ("activation=relu", "activation must be none or sigmoid, got 'relu'"),
        ("stretch=true", "stretch must be yes or no, got 'true'"),
        ("output=depth", "output 'depth' is not known; choose from map"),
        ("norm=l2", "option 'norm' is not known; choose from scale, mean, std, order, size, output"),
    ],
)
def test_an_option_that_breaks_its_rule_is_one_sentence(path, options, sentence):
    with pytest.raises(OptionError, match=f"^objectness 'onnx:.*{sentence}"):
        open_objectness(f"onnx:{path}?{options}")


def test_a_file_that_is_missing_or_no_network_is_refused(tmp_path, path):
    with pytest.raises(MissingError, match=r"network .*absent\.onnx is not there"):
        open_objectness(f"onnx:{tmp_path}/absent.onnx")
    with pytest.raises(OptionError, match=r"objectness 'onnx': a file must be named, as in onnx:network\.onnx"):
        open_objectness("onnx")
    for content in (b"", b"text", path.read_bytes()[:-9]):
        (tmp_path / "bad.onnx").write_bytes(content)
        rule = "must be an ONNX file, got an empty file|is no ONNX file"
        with pytest.raises(DataError, match=rf"objectness 'onnx:.*': network .* ({rule})"):
            open_objectness(f"onnx:{tmp_path}/bad.onnx")


def test_without_onnx_runtime_the_extra_is_named(path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(DependencyError, match=r'needs onnxruntime, which is not installed; pip install "\.\[onnx\]"'):
        opened(path)


def test_a_session_has_one_thread_and_prints_nothing(path):
    """Threads of ONNX Runtime's pool would show in the process's own count."""
    code = f"""
import os, numpy as np
from lapsvm.objectness import open_objectness
import cv2, onnxruntime, scipy.linalg  # OpenBLAS begins its threads when it is loaded
cv2.setNumThreads(1)
before = len(os.listdir("/proc/self/task"))
open_objectness("onnx:{path}?size=64").regions(np.zeros((9, 9, 3), np.uint8))
print(len(os.listdir("/proc/self/task")) - before)
"""
    if not os.path.isdir("/proc/self/task"):
        pytest.skip("the system does not list a process's threads")
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == ("0", "")


class TestTinyNetwork(ObjectnessLaws):
    @pytest.fixture(autouse=True)
    def _network(self, path):
        self.path = path

    def make(self):
        return opened(self.path)


class TestTinyNetworkOfLogits(TestTinyNetwork):
    def make(self):
        return opened(self.path, "&activation=sigmoid&stretch=no&scale=255&order=bgr")


def _network(outputs, kind):
    """Return the bytes of a network of the mean over channels, with some outputs of an ONNX type."""
    onnx = pytest.importorskip("onnx")
    made, types = onnx.helper, onnx.TensorProto
    nodes = [
        made.make_node("ReduceMean", ["x"], ["y"], axes=[1], keepdims=1),
        made.make_node("Cast", ["y"], ["z"], to=getattr(types, kind)),
    ]
    given = [made.make_tensor_value_info("x", types.FLOAT, (1, 3, 64, 64))]
    taken = [made.make_tensor_value_info(name, getattr(types, kind), (1, 1, 64, 64)) for name in outputs]
    graph = made.make_graph(nodes, "g", given, taken)
    model = made.make_model(graph, opset_imports=[made.make_opsetid("", 17)])
    model.ir_version = 8
    return model.SerializeToString()


def test_a_network_without_an_output_is_refused(tmp_path):
    (tmp_path / "net.onnx").write_bytes(_network([], "FLOAT"))
    with pytest.raises(DataError, match=r"net\.onnx must give a map, but its graph has no output\.$"):
        open_objectness(f"onnx:{tmp_path / 'net.onnx'}")


def test_a_map_of_a_type_that_numpy_lacks_is_refused(tmp_path):
    (tmp_path / "net.onnx").write_bytes(_network(["z"], "BFLOAT16"))
    source = open_objectness(f"onnx:{tmp_path / 'net.onnx'}")
    with pytest.raises(DataError, match=r"net\.onnx must give numbers of NumPy's types"):
        source.map(np.zeros((50, 70, 3), np.uint8))
