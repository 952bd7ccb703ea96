"""Pooled network features: on tiny networks they are a formula, on real ones a manual run."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from lapsvm.catalog import read_image
from lapsvm.errors import DataError, DependencyError, LapsvmError, MissingError, NotFiniteError, OptionError
from lapsvm.features import Block, open_extractor
from lapsvm.features.extractors.maps.letterbox import network_size

pytest.importorskip("onnxruntime")
PICTURE = np.random.default_rng(0).integers(0, 256, (96, 128, 3), dtype=np.uint8)  # 3 x 4 cells of 32
WEIGHTS = np.random.default_rng(1).normal(size=(5, 3))
BOXES = {"whole": [0, 0, 128, 96], "one cell": [32, 64, 64, 96], "two by three": [32, 0, 128, 64]}


@pytest.fixture
def path(tmp_path, write_network):
    return write_network(tmp_path / "net.onnx", WEIGHTS)


def formula(box, *, order="rgb", mean=127.5, scale=1 / 127.5):
    """The mean colour of a window that is made of whole cells, through the weights."""
    x1, y1, x2, y2 = box
    colour = PICTURE[y1:y2, x1:x2, :: 1 if order == "rgb" else -1].mean(axis=(0, 1))
    return WEIGHTS @ ((colour - mean) * scale)


@pytest.mark.parametrize("box", BOXES.values(), ids=BOXES.keys())
def test_features_are_the_formula(path, box):
    extractor = open_extractor(f"onnx:{path}?size=128&norm=none")
    assert (extractor.dim, extractor.blocks) == (5, (Block(5),))
    np.testing.assert_allclose(extractor(PICTURE, [box])[0], formula(box), atol=1e-5)


def test_features_are_the_formula_for_every_preprocessing(path):
    extractor = open_extractor(f"onnx:{path}?size=128&norm=none&order=bgr&mean=104,117,123&scale=1/2")
    expected = formula(BOXES["two by three"], order="bgr", mean=np.array([104, 117, 123]), scale=0.5)
    np.testing.assert_allclose(extractor(PICTURE, [BOXES["two by three"]])[0], expected, rtol=1e-4)


def test_a_window_between_cells_takes_their_shares(path):
    extractor = open_extractor(f"onnx:{path}?size=128&norm=none")
    cells = extractor(PICTURE, [[0, 0, 32, 32], [32, 0, 64, 32]])
    np.testing.assert_allclose(extractor(PICTURE, [[24, 3, 56, 9]])[0], (8 * cells[0] + 24 * cells[1]) / 32, atol=1e-5)


def test_several_threads_get_what_one_gets(path):
    extractor = open_extractor(f"onnx:{path}?size=128")
    pictures = [np.roll(PICTURE, 7 * shift, axis=1) for shift in range(40)]
    expected = [extractor(pixels, list(BOXES.values())) for pixels in pictures]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda pixels: extractor(pixels, list(BOXES.values())), pictures))
    np.testing.assert_array_equal(found, expected)


def test_rows_have_length_one_by_default(path):
    boxes = list(BOXES.values())
    plain = open_extractor(f"onnx:{path}?size=128&norm=none")(PICTURE, boxes)
    unit = open_extractor(f"onnx:{path}?size=128")(PICTURE, boxes)
    np.testing.assert_allclose(unit, plain / np.linalg.norm(plain, axis=1, keepdims=True), rtol=1e-5)
    assert unit.dtype == np.float32


def test_contrast_takes_the_surroundings_away(path):
    box = [32, 32, 64, 64]  # enlarged 1.8 times: 12.8 pixels more on every side
    plain = open_extractor(f"onnx:{path}?size=128")
    contrast = open_extractor(f"onnx:{path}?size=128&contrast=.35")
    outer = [32 - 12.8, 32 - 12.8, 64 + 12.8, 64 + 12.8]
    raw = open_extractor(f"onnx:{path}?size=128&norm=none")(PICTURE, [box, outer])
    ring = (raw[1] * 57.6**2 - raw[0] * 32**2) / (57.6**2 - 32**2)
    expected = plain(PICTURE, [box])[0] - 0.35 * ring / np.linalg.norm(ring)
    np.testing.assert_allclose(contrast(PICTURE, [box])[0], expected, atol=1e-5)
    assert contrast.dim == plain.dim


def test_surroundings_beside_are_what_a_contrast_takes_away(path):
    boxes = [[32, 32, 64, 64], *BOXES.values()]
    both = open_extractor(f"onnx:{path}?size=128&context=appended")
    assert (both.dim, both.blocks) == (10, (Block(10, has_context=True),))
    own, around = np.split(both(PICTURE, boxes), 2, axis=1)
    np.testing.assert_array_equal(own, open_extractor(f"onnx:{path}?size=128")(PICTURE, boxes))
    contrast = open_extractor(f"onnx:{path}?size=128&contrast=.35")(PICTURE, boxes)
    np.testing.assert_allclose(own - 0.35 * around, contrast, atol=1e-6)


def test_contrast_and_surroundings_beside_exclude_each_other(path):
    with pytest.raises(OptionError, match="contrast must not be given where context=appended keeps both parts"):
        open_extractor(f"onnx:{path}?contrast=.2&context=appended")


def test_the_stride_is_known(path):
    assert open_extractor(f"onnx:{path}").strides == (32,)


def test_the_whole_picture_has_no_surroundings_to_take_away(path):
    whole = [BOXES["whole"]]
    plain = open_extractor(f"onnx:{path}?size=128")(PICTURE, whole)
    np.testing.assert_array_equal(open_extractor(f"onnx:{path}?size=128&contrast=1")(PICTURE, whole), plain)


def test_a_map_of_zeros_gives_zeros(tmp_path, write_network):
    """A white background through a rectifier: 0/0 must not come about."""
    path = write_network(tmp_path / "net.onnx", -np.eye(3), relu=True)
    white = np.full((64, 64, 3), 255, np.uint8)
    white[:, 32:] = 0
    features = open_extractor(f"onnx:{path}?size=64")(white, [[0, 0, 32, 64], [0, 0, 64, 64], [5, 5, 5, 9]])
    assert features[0].tolist() == features[2].tolist() == [0, 0, 0]
    np.testing.assert_allclose(features[1], 1 / np.sqrt(3), rtol=1e-6)


@pytest.mark.parametrize("boxes", [[], np.empty((0, 4), np.float32)])
def test_no_windows_give_no_rows(path, boxes):
    assert open_extractor(f"onnx:{path}")(PICTURE, boxes).shape == (0, 5)


@pytest.mark.parametrize("shape", [(1, 1), (1, 500), (500, 1), (33, 2000)])
def test_pictures_of_any_shape_pass(path, shape):
    pixels = np.full((*shape, 3), 200, np.uint8)
    features = open_extractor(f"onnx:{path}?size=64&norm=none")(pixels, [[0, 0, shape[1], shape[0]], [0, 0, 0.3, 0.2]])
    np.testing.assert_allclose(features, np.tile(WEIGHTS @ np.full(3, 72.5 / 127.5), (2, 1)), atol=1e-5)


def test_a_picture_is_seen_at_the_size_asked_for(path):
    """A gradient from left to right: at any size, the left and right half keep their mean colours."""
    ramp = np.broadcast_to(np.arange(200, dtype=np.uint8)[None, :, None], (150, 200, 3)).copy()
    for size in (64, 128, 320):
        half = open_extractor(f"onnx:{path}?size={size}&norm=none")(ramp, [[0, 0, 100, 150], [100, 0, 200, 150]])
        expected = [WEIGHTS @ np.full(3, (level - 127.5) / 127.5) for level in (49.5, 149.5)]
        np.testing.assert_allclose(half, expected, atol=0.01)


def test_a_picture_that_is_a_view_passes(path):
    extractor, view = open_extractor(f"onnx:{path}?size=64"), PICTURE[::-2, ::-1]
    np.testing.assert_array_equal(extractor(view, [[0, 0, 40, 30]]), extractor(view.copy(), [[0, 0, 40, 30]]))


@pytest.mark.parametrize(
    ("shape", "longest", "expected"),
    [
        ((375, 500), 640, (480, 640)),
        ((500, 375), 640, (640, 480)),
        ((375, 500), 448, (320, 448)),  # 336 lies half way: to the even multiple
        ((333, 500), 640, (416, 640)),
        ((10, 1000), 640, (32, 640)),
        ((1, 1), 100, (96, 96)),
        ((4000, 3000), 32, (32, 32)),
    ],
)
def test_the_network_sees_multiples_of_32(shape, longest, expected):
    assert network_size(*shape, longest) == expected


def test_an_output_must_be_chosen_among_several(tmp_path, write_network):
    path = write_network(tmp_path / "net.onnx", WEIGHTS, also=["second"])
    with pytest.raises(OptionError, match=r"output must be chosen, as in output=map; there are map \(1, 5, 7"):
        open_extractor(f"onnx:{path}")
    assert open_extractor(f"onnx:{path}?output=second").describe()["output"] == "second"
    with pytest.raises(OptionError, match=r"net\.onnx\?output=third': output must be one with 4 dim.*got 'third'"):
        open_extractor(f"onnx:{path}?output=third")


def test_several_outputs_stand_side_by_side(tmp_path, write_network):
    path = write_network(tmp_path / "net.onnx", WEIGHTS, also=["second"])
    together, *alone = (open_extractor(f"onnx:{path}?output={names}") for names in ("map,second", "map", "second"))
    boxes = list(BOXES.values())
    assert together.blocks == (Block(5), Block(5))
    np.testing.assert_array_equal(together(PICTURE, boxes), np.hstack([one(PICTURE, boxes) for one in alone]))
    with pytest.raises(OptionError, match="several with commas between them, none twice, got 'map,map'"):
        open_extractor(f"onnx:{path}?output=map,map")


def test_a_network_without_a_map_is_refused(tmp_path, write_network):
    path = write_network(tmp_path / "net.onnx", WEIGHTS, flat=True)
    with pytest.raises(DataError, match=r"needs an output with 4 dimensions, or 3 for tokens; there are map \(1, 5\)"):
        open_extractor(f"onnx:{path}")
    with pytest.raises(OptionError, match="output must be one with 4 dimensions, or 3 for tokens, got 'map'"):
        open_extractor(f"onnx:{path}?output=map")


@pytest.mark.parametrize(("changed", "got"), [({"channels": 1}, r"1, 1"), ({"inputs": 2}, "picture1")])
def test_a_network_that_takes_no_picture_is_refused(tmp_path, changed, got, write_network):
    path = write_network(tmp_path / "net.onnx", **changed)
    with pytest.raises(DataError, match=rf"must have one input of shape \(1, 3, height, width\), got .*{got}"):
        open_extractor(f"onnx:{path}")


@pytest.mark.parametrize("content", [b"", b"hello", b"\x00" * 1000, b"\xff\xd8\xff\xe0 a picture"])
def test_a_file_that_is_no_network_is_refused(tmp_path, content):
    path = tmp_path / "net.onnx"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"^extractor .*: network .*net\.onnx (is no|must be an) ONNX file.*\.$"):
        open_extractor(f"onnx:{path}")


def test_a_truncated_network_is_refused_in_one_sentence(path):
    content = path.read_bytes()
    for length in range(0, len(content), len(content) // 20 + 1):
        path.write_bytes(content[:length])
        with pytest.raises(DataError) as caught:
            open_extractor(f"onnx:{path}")
        assert "\n" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(MissingError, match=r"network .*absent\.onnx is not there"):
        open_extractor(f"onnx:{tmp_path}/absent.onnx")
    with pytest.raises(MissingError, match="must be a regular file, got a folder"):
        open_extractor(f"onnx:{tmp_path}")


def test_a_network_with_a_changed_byte_is_read_or_refused(path):
    """Names that are no text made the runtime's own reader fail."""
    content, refused = path.read_bytes(), 0
    for place in range(0, len(content), len(content) // 60 + 1):
        path.write_bytes(content[:place] + bytes([content[place] ^ 0x80]) + content[place + 1 :])
        try:
            open_extractor(f"onnx:{path}")
        except LapsvmError:
            refused += 1
    assert refused > 0


OUTSIDE = ("-1", "1.5", "nan", "much")


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        *((f"contrast={value}", f"contrast must be a number from 0 to 1, got '{value}'") for value in OUTSIDE),
        ("order=RGB", "order must be rgb or bgr, got 'RGB'"),
        ("mean=1,2", "mean must be one finite number, or three with commas between them, got '1,2'"),
        ("scale=0", "scale must be one finite number greater than 0, or three with commas between them, got '0'"),
        ("scale=nan", "scale must be one finite number greater than 0, or three with commas between them, got 'nan'"),
        ("size=31", "size must be a whole number from 32 to 8192, got '31'"),
        ("norm=l1", "norm must be l2 or none, got 'l1'"),
        ("sise=64", "option 'sise' is not known; choose from output, order, mean, scale, size, norm"),
    ],
)
def test_a_bad_option_is_one_sentence_before_the_file_is_read(query, sentence):
    with pytest.raises(OptionError, match=sentence):
        open_extractor(f"onnx:absent.onnx?{query}")


def test_a_missing_runtime_names_the_extra(path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(DependencyError, match=r'needs onnxruntime, .*; pip install "\.\[onnx\]"'):
        open_extractor(f"onnx:{path}")


def test_the_runtime_leaves_nothing_in_the_home_of_the_user(path, tmp_path):
    """ONNX Runtime would keep a device id for its telemetry there, and warn where it cannot."""
    code = f"from lapsvm.features import open_extractor; open_extractor('onnx:{path}')"
    home = tmp_path / "home"
    home.mkdir()
    hidden = ("ORT_DISABLE_TELEMETRY", "XDG_CACHE_HOME")
    environment = {name: value for name, value in os.environ.items() if name not in hidden} | {"HOME": str(home)}
    ended = subprocess.run([sys.executable, "-P", "-c", code], env=environment, capture_output=True, check=True)
    assert ended.stderr == b""
    assert list(home.iterdir()) == []


def test_a_map_that_is_not_finite_is_refused(tmp_path, write_network):
    path = write_network(tmp_path / "net.onnx", np.array([[np.inf, 1, 1]]))
    with pytest.raises(NotFiniteError, match="output 'map' of the network must be finite"):
        open_extractor(f"onnx:{path}")(PICTURE, [[0, 0, 9, 9]])


def test_a_picture_that_the_network_fails_on_is_one_sentence(path):
    extractor = open_extractor(f"onnx:{path}")
    with pytest.raises(DataError, match=r"network .* cannot take a picture of 8 x 8: .*\.$") as caught:
        extractor._network.run(np.zeros((1, 3, 8, 8), np.float32))
    assert "\n" not in str(caught.value)


def test_the_description_knows_the_weights_and_no_path(path, tmp_path, write_network):
    first = open_extractor(f"onnx:{path}").describe()
    (tmp_path / "elsewhere").mkdir()
    moved = path.rename(tmp_path / "elsewhere" / "other.onnx")
    assert open_extractor(f"onnx:{moved}?output=map&order=rgb&mean=127.5&scale=1/127.5").describe() == first
    assert str(tmp_path) not in str(first)
    assert "onnx:" not in str(first)
    other = open_extractor(f"onnx:{write_network(path, WEIGHTS + 1)}").describe()
    assert {key for key in first if first[key] != other[key]} == {"weights"}
    assert first["runtime"]["name"] == "onnxruntime"


@pytest.mark.parametrize("query", ["order=bgr", "mean=1", "scale=1", "size=64", "norm=none"])
def test_the_description_changes_with_every_option(path, query):
    assert open_extractor(f"onnx:{path}?{query}").describe() != open_extractor(f"onnx:{path}").describe()


def test_concatenated_networks_describe_their_blocks(path, tmp_path, write_network):
    wide = write_network(tmp_path / "wide.onnx", np.ones((7, 3)))
    both = open_extractor([f"onnx:{path}", f"onnx:{wide}?size=96", "hog"])
    assert both.blocks == (Block(5), Block(7), Block(900))
    assert both(PICTURE, [[0, 0, 50, 50]]).shape == (1, 912)


# real networks


REAL = {
    "mobilenet": ("mobilenet_v2_1.0_tf2_dequantised_fp32.onnx", "", 1280, 32),
    "squeezenet": ("squeezenet_v1.0_deepcompression_fp32.onnx", "order=bgr&mean=104,117,123&scale=1", 512, 16),
}


@pytest.fixture(params=REAL.values(), ids=REAL.keys())
def real(request, real_data):
    file, options, channels, stride = request.param
    return real_data / "weights" / file, options, channels, stride


@pytest.fixture
def real_pictures(real_data):
    folder = real_data / "voc2007_vehicles_cat" / "JPEGImages"
    return [read_image(path) for path in sorted(folder.glob("*.jpg"))[:3]]


def test_the_map_of_a_real_network_has_its_stride(real, real_pictures):
    path, options, channels, stride = real
    extractor = open_extractor(f"onnx:{path}?size=320&{options}".rstrip("&"))
    assert extractor.dim == channels
    for pixels in real_pictures:
        height, width = network_size(*pixels.shape[:2], 320)
        rows, columns = extractor.feature_map(pixels).shape[1:]
        assert 0 <= height / stride - rows <= 1.5
        assert 0 <= width / stride - columns <= 1.5


def test_whole_picture_features_of_a_real_network_equal_a_manual_run(real, real_pictures):
    import cv2
    import onnxruntime

    path, options, channels, _ = real
    extractor = open_extractor(f"onnx:{path}?size=320&{options}".rstrip("&"))
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    for pixels in real_pictures:
        height, width = network_size(*pixels.shape[:2], 320)
        seen = cv2.resize(pixels, (width, height), interpolation=cv2.INTER_AREA).astype(np.float32)
        seen = seen / 127.5 - 1 if channels == 1280 else seen[:, :, ::-1] - np.array([104, 117, 123], np.float32)
        found = session.run(None, {session.get_inputs()[0].name: seen.transpose(2, 0, 1)[None]})[0]
        mean = found[0].mean(axis=(1, 2))
        box = [0, 0, pixels.shape[1], pixels.shape[0]]
        np.testing.assert_allclose(extractor(pixels, [box])[0], mean / np.linalg.norm(mean), atol=1e-4)


def test_the_number_of_threads_changes_no_bit(real, real_pictures):
    path, options, *_ = real
    spec = f"onnx:{path}?size=320&{options}".rstrip("&")
    one, two = open_extractor(spec), open_extractor(spec, threads=2)
    for pixels in real_pictures:
        np.testing.assert_array_equal(one.feature_map(pixels), two.feature_map(pixels))


def keep_outside(tensor, location):
    """Have a tensor say that its numbers are in another file."""
    tensor.ClearField("raw_data")
    tensor.data_location = 1
    tensor.external_data.add(key="location", value=location)


@pytest.mark.parametrize("where", ["initializer", "constant", "nested"])
def test_weights_in_another_file_are_refused(path, where):
    import onnx

    model = onnx.load(path)
    (kernel,) = model.graph.initializer
    (path.parent / "weights.bin").write_bytes(kernel.raw_data)
    keep_outside(kernel, str(path.parent / "weights.bin"))
    if where != "initializer":  # in an attribute of a node, and in a graph inside of a node
        constant = onnx.helper.make_node("Constant", [], ["kernel"], value=kernel)
        model.graph.ClearField("initializer")
        inner = onnx.helper.make_graph([constant], "inner", [], [])
        held = onnx.helper.make_node("If", ["picture0"], ["kernel"], then_branch=inner, else_branch=inner)
        model.graph.node.insert(0, constant if where == "constant" else held)
    path.write_bytes(model.SerializeToString())
    with pytest.raises(DataError, match=r"must hold its weights itself, but keeps some in another file\.$"):
        open_extractor(f"onnx:{path}")


def test_channels_may_have_scales_of_their_own(path):
    query = "size=128&norm=none&mean=1,2,3"
    whole = [[0, 0, 128, 96]]
    colour = PICTURE.mean(axis=(0, 1))
    found = open_extractor(f"onnx:{path}?{query}&scale=1/2,1/3,1/4")
    np.testing.assert_allclose(found(PICTURE, whole)[0], WEIGHTS @ ((colour - [1, 2, 3]) / [2, 3, 4]), rtol=1e-3)
    assert found.describe()["scale"] == [1 / 2, 1 / 3, 1 / 4]
    assert open_extractor(f"onnx:{path}?scale=1/2,1/2,1/2").describe()["scale"] == 1 / 2
