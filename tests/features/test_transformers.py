"""Tokens of vision transformers as maps, and pictures in the input of networks of fixed size.

Transformers are exported by the tests: formulas whose tokens are mean colours, and one with attention by torch.
"""

import warnings

import numpy as np
import pytest

from lapsvm.errors import DataError, OptionError
from lapsvm.features import Block, PooledNetwork, open_extractor
from lapsvm.features.extractors.maps.letterbox import letterbox_size

from ..twins.extractors import letterboxed, overlaps

pytest.importorskip("onnxruntime")
RNG = np.random.default_rng(0)
PICTURE = RNG.integers(0, 256, (84, 112, 3), dtype=np.uint8)  # 6 x 8 patches of 14
WEIGHTS = RNG.normal(size=(5, 3))
BOXES = np.array([[0, 0, 112, 84], [14, 28, 28, 42], [28, 0, 84, 28], [5, 7, 33, 51], [98, 70, 112, 84]])


def seen_colours(pixels):
    """What a network with the default colours sees."""
    return (pixels.astype(float) - 127.5) / 127.5


def mean_features(box, pixels=PICTURE):
    """The mean colour of a window through the weights."""
    x1, y1, x2, y2 = box
    return WEIGHTS @ seen_colours(pixels)[y1:y2, x1:x2].mean(axis=(0, 1))


@pytest.fixture
def write(tmp_path, write_transformer):
    """Write a transformer and return the text that opens its extractor."""

    def text(query="", **settings):
        return f"onnx:{write_transformer(tmp_path / 'vit.onnx', WEIGHTS, **settings)}?norm=none{query}"

    return text


# what is found from the number of tokens


@pytest.mark.parametrize("prefix", [0, 1, 2, 5])
@pytest.mark.parametrize("patch", [8, 14, 16, 32])
@pytest.mark.parametrize("size", [("h", "w"), (224, 224), (448, 224)], ids=str)
def test_patches_and_tokens_before_them_are_found(write, patch, prefix, size):
    extractor = open_extractor(write(patch=patch, prefix=prefix, size=size))
    assert extractor.strides == (patch,)
    assert (extractor.describe()["patch"], extractor.describe()["prefix"]) == (patch, prefix)
    assert extractor.blocks == (Block(5),)


def test_an_input_that_is_no_multiple_of_the_patch_is_read_without_its_border(write):
    """384 pixels with patches of 14: 27 patches see 378 pixels."""
    extractor = open_extractor(write(patch=14, prefix=0, size=(384, 384)))
    square = RNG.integers(0, 256, (378, 378, 3), dtype=np.uint8)
    assert extractor.feature_map(square).shape == (5, 27, 27)
    found = extractor(square, [[364, 364, 378, 378], [0, 0, 14, 14]])
    expected = [mean_features([364, 364, 378, 378], square), mean_features([0, 0, 14, 14], square)]
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_unusual_numbers_of_tokens_are_read_with_the_options(write):
    text = write("&patch=28&prefix=9", patch=28, prefix=9, size=(112, 112))
    assert open_extractor(text).feature_map(PICTURE).shape == (5, 3, 4)
    alone = open_extractor(text.replace("&prefix=9", ""))
    assert alone.describe() == open_extractor(text).describe()


@pytest.mark.parametrize(
    ("query", "settings", "sentence"),
    [
        (
            "",
            {"prefix": 9, "size": (112, 112)},
            "73 tokens for 112 x 112 pixels, which is no grid of patches after",
        ),
        ("", {"prefix": 2, "patch": 16, "size": (32, 32)}, "6 tokens for 32 x 32 pixels: patch=16 with prefix=2 or "),
        ("&prefix=3", {"size": (112, 112)}, "no grid of patches with prefix=3; give patch=P, prefix=K, or output=NAME"),
        ("&patch=16", {}, r"\d+ tokens for 224 x 224 pixels, which is no grid of patches with patch=16;"),
        ("&patch=7", {"size": (112, 112)}, "no grid of patches with patch=7; give"),
        ("&prefix=65", {}, "prefix must be a whole number from 0 to 64, got '65'"),
        ("&patch=0", {}, "patch must be a whole number from 1 to 1024, got '0'"),
        ("", {"also": ["second"]}, r"output must be chosen, as in output=tokens; there are tokens \(1, 257, 5\), sec"),
        ("&size=64", {"size": (112, 112)}, r"size must not be given: the network takes only \(112, 112\), got 64"),
    ],
)
def test_what_does_not_fit_is_one_sentence(write, query, settings, sentence):
    with pytest.raises((OptionError, DataError), match=sentence) as caught:
        open_extractor(write(query, **settings))
    assert "\n" not in str(caught.value)


def test_the_options_of_transformers_must_fit_a_map(tmp_path, write_network):
    path = write_network(tmp_path / "net.onnx", WEIGHTS)
    with pytest.raises(OptionError, match="prefix must not be given: output 'map' is a map, not tokens, got 1"):
        open_extractor(f"onnx:{path}?prefix=1")
    with pytest.raises(OptionError, match="patch must be the side of a cell, but output 'map' is a map of 7 x 7 cells"):
        open_extractor(f"onnx:{path}?patch=16")


def test_tokens_first_are_refused(tmp_path, write_network):
    """Some programs put the tokens before the pictures: (tokens, 1, channels)."""
    import onnx

    model = onnx.load(write_network(tmp_path / "net.onnx", WEIGHTS))
    (old,) = [node for node in model.graph.node if node.output[0] == "map"]
    old.output[0] = "grid"
    shape = onnx.numpy_helper.from_array(np.array([-1, 1, 5]), "shape")
    model.graph.initializer.append(shape)
    model.graph.node.append(onnx.helper.make_node("Reshape", ["grid", "shape"], ["map"]))
    del model.graph.output[0].type.tensor_type.shape.dim[:]
    model.graph.output[0].type.tensor_type.ClearField("shape")
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(DataError, match=r"must have shape \(1, tokens, channels\), got \(49, 1, 5\)"):
        open_extractor(f"onnx:{tmp_path / 'net.onnx'}")


@pytest.mark.parametrize(
    ("outputs", "sentence"),
    [
        (
            {"map": np.zeros((1, 5, 0, 7))},
            r"output 'map' must not be empty, got shape \(1, 5, 0, 7\) for 224 x 224 pix",
        ),
        ({"tokens": np.zeros((1, 0, 5))}, r"output 'tokens' must not be empty, got shape \(1, 0, 5\)"),
        (
            {"names": np.full((1, 1, 1, 1), "cat")},
            "needs an output with 4 dimensions, or 3 for tokens; there are none of",
        ),
        (
            {"list": [np.zeros((1, 3, 7, 7))]},
            "needs an output with 4 dimensions, or 3 for tokens; there are none of num",
        ),
    ],
)
def test_outputs_that_hold_no_map_are_one_sentence(outputs, sentence):
    class Strange:
        runtime, fixed_size = {"name": "none", "version": "0"}, None

        def run(self, _):
            return outputs

    with pytest.raises(DataError, match=sentence):
        PooledNetwork(Strange(), "hash")


# features


@pytest.mark.parametrize("prefix", [0, 1, 5])
def test_features_are_means_of_patches_without_the_tokens_before_them(write, prefix):
    extractor = open_extractor(write("&size=112", prefix=prefix))
    whole_patches = BOXES[[0, 1, 2, 4]]
    expected = [mean_features(box) for box in whole_patches]
    np.testing.assert_allclose(extractor(PICTURE, whole_patches), expected, atol=1e-5)


@pytest.mark.parametrize(
    ("patch", "longest", "seen"), [(14, 100, (70, 98)), (14, 640, (476, 644)), (16, 100, (80, 96)), (8, 100, (72, 96))]
)
def test_sides_are_rounded_to_the_patch(write, patch, longest, seen):
    """70 = 5 * 14 is nearest to 75, and 98 = 7 * 14 to 100."""
    extractor = open_extractor(write(f"&size={longest}", patch=patch))
    assert extractor.feature_map(PICTURE).shape == (5, seen[0] // patch, seen[1] // patch)


def test_a_map_with_cells_of_14_pixels_gets_multiples_of_14(tmp_path, write_network):
    """As timm exports it with get_intermediate_layers(reshape=True); 640 / 32 * 32 is no multiple of 14."""
    import onnx

    kernel = np.broadcast_to(WEIGHTS[:, :, None, None], (5, 3, 14, 14)).astype(np.float32) / 14**2
    model = onnx.load(write_network(tmp_path / "net.onnx", WEIGHTS))
    model.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(kernel, "kernel"))
    for attribute in model.graph.node[0].attribute:
        attribute.ints[:] = [14, 14]
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    extractor = open_extractor(f"onnx:{tmp_path / 'net.onnx'}?size=640&norm=none")
    assert extractor.feature_map(PICTURE).shape == (5, 34, 46)
    assert extractor.describe()["patch"] == 14


def test_the_description_of_other_networks_is_as_before(tmp_path, write_network):
    keys = open_extractor(f"onnx:{write_network(tmp_path / 'net.onnx', WEIGHTS)}").describe().keys()
    assert not keys & {"patch", "prefix", "fit"}


def test_a_number_of_tokens_that_does_not_follow_the_size_is_one_sentence(write):
    extractor = open_extractor(write("&size=112"))
    inner = extractor._network

    class Stuck:
        runtime, fixed_size = inner.runtime, None

        def run(self, batch):
            return {name: value[:, :-1] for name, value in inner.run(batch).items()}

    extractor._network = Stuck()
    with pytest.raises(DataError, match=r"must have 1 \+ 6 x 8 tokens for 84 x 112 pixels, got shape \(1, 48, 5\)"):
        extractor(PICTURE, BOXES)


# letterboxing


@pytest.mark.parametrize(
    ("picture", "grid", "cell", "expected"),
    [
        ((375, 500), (16, 16), (14.0, 14.0), (168, 224)),  # 168 = 12 cells, exactly 3 : 4
        ((500, 375), (16, 16), (14.0, 14.0), (224, 168)),
        ((375, 500), (7, 7), (32.0, 32.0), (160, 224)),  # 5.25 cells become 5
        ((100, 100), (16, 16), (14.0, 14.0), (224, 224)),
        ((10, 3000), (16, 16), (14.0, 14.0), (14, 224)),  # never less than a cell
        ((100, 300), (14, 7), (16.0, 16.0), (32, 112)),
        ((300, 300), (13, 13), (224 / 13, 224 / 13), (224, 224)),
        ((300, 400), (13, 13), (224 / 13, 224 / 13), (172, 224)),  # 10 cells of 17.2 pixels
        ((300, 400), (1, 1), (224.0, 224.0), (224, 224)),  # one cell: nothing can be left out
    ],
)
def test_a_picture_keeps_its_aspect_ratio_to_whole_cells(picture, grid, cell, expected):
    assert letterbox_size(*picture, *grid, cell) == expected


SHAPES = {
    "wide": (84, 112),
    "tall": (112, 56),
    "square": (112, 112),
    "odd": (83, 147),
    "small": (9, 20),
    "big": (500, 333),
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
def test_features_of_a_fixed_size_equal_the_slow_twin(write, shape):
    """The twin places the picture, and averages over each window's share of the patches that show the picture."""
    extractor = open_extractor(write(size=(112, 112), prefix=5))
    height, width = shape
    pixels = RNG.integers(0, 256, (*shape, 3), dtype=np.uint8)
    seen, (rows, columns) = letterboxed(seen_colours(pixels), 14, 8, 8)
    assert seen.shape == (112, 112, 3)
    patches = seen.reshape(8, 14, 8, 14, 3).mean(axis=(1, 3)) @ WEIGHTS.T
    corners = RNG.uniform(0, 1, (20, 2, 2)).cumsum(axis=1) / 2 * [width, height]
    boxes = np.vstack([corners.reshape(20, 4), [[0, 0, width, height]]])
    found = extractor(pixels, boxes)
    for box, features in zip(boxes, found, strict=True):
        across = overlaps(box[0] * columns / width, box[2] * columns / width, 8)
        down = overlaps(box[1] * rows / height, box[3] * rows / height, 8)
        share = np.outer(down, across)
        expected = (share[:, :, None] * patches).sum(axis=(0, 1)) / share.sum()
        np.testing.assert_allclose(features, expected, atol=0.02)  # the extractor rounds resized pixels


@pytest.mark.parametrize("query", ["", "&contrast=.5", "&context=appended"])
@pytest.mark.parametrize("stride", [(14, "wide"), (14, "tall"), (16, "odd"), (32, "odd")], ids=str)
def test_cells_of_the_padding_are_never_read(tmp_path, write_network, query, stride):
    """The map is 1 in cells that show the picture and not finite in those of the padding, where the input is 0."""
    import onnx

    size, shape = stride[0], SHAPES[stride[1]]
    path = write_network(tmp_path / "net.onnx", np.ones((1, 3)), size=(224, 224))
    model = onnx.load(path)
    kernel = np.full((1, 3, size, size), 1 / size**2, np.float32)
    model.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(kernel, "kernel"))
    for attribute in model.graph.node[0].attribute:
        attribute.ints[:] = [size, size]
    model.graph.node[1].input[0] = "quotient"
    model.graph.node.insert(1, onnx.helper.make_node("Div", ["sums", "sums"], ["quotient"]))
    path.write_bytes(model.SerializeToString())
    pixels = np.full((*shape, 3), 200, np.uint8)
    width, height = shape[1], shape[0]
    boxes = [[0, 0, width, height], [width - 3, height - 3, width, height], [0, height / 2, width / 3, height]]
    extractor = open_extractor(f"onnx:{path}?norm=none{query}")
    found = extractor(pixels, boxes)
    assert np.isfinite(found).all()
    if not query:
        np.testing.assert_allclose(found, np.ones((3, 1)), atol=1e-6)


def test_maps_of_several_strides_show_the_same_part_of_the_input(tmp_path, write_network):
    """The picture ends with a cell of the coarsest map; the finer one is cut at the same pixel."""
    import onnx

    path = write_network(tmp_path / "net.onnx", WEIGHTS, size=(128, 128), also=["fine"])
    model = onnx.load(path)
    kernel = np.broadcast_to(WEIGHTS[:, :, None, None], (5, 3, 8, 8)).astype(np.float32) / 64
    model.graph.initializer.append(onnx.numpy_helper.from_array(kernel, "small"))
    model.graph.node.pop()
    node = onnx.helper.make_node("Conv", ["picture0", "small"], ["fine"], kernel_shape=[8, 8], strides=[8, 8])
    model.graph.node.append(node)
    path.write_bytes(model.SerializeToString())
    extractor = open_extractor(f"onnx:{path}?norm=none&output=fine")
    both = type(extractor)(extractor._network, "hash", output=("fine", "map"), norm="none")
    pixels = RNG.integers(0, 256, (96, 128, 3), dtype=np.uint8)
    assert [found.shape for found in both.feature_maps(pixels)] == [(5, 12, 16), (5, 3, 4)]
    fine, coarse = np.split(both(pixels, [[32, 32, 64, 96]]), 2, axis=1)
    np.testing.assert_allclose(fine, coarse, atol=1e-5)


def test_the_description_says_how_a_picture_lies_in_a_fixed_size(write):
    description = open_extractor(write(size=(112, 112))).describe()
    assert (description["size"], description["fit"]) == ([112, 112], "letterbox")


# a transformer with attention, exported by torch


def attention_transformer(torch, side):
    """A transformer with a class token, positions that are resized for other inputs, and one block."""
    nn = torch.nn

    class Transformer(nn.Module):
        def __init__(self):
            super().__init__()
            self.patches = nn.Conv2d(3, 16, 14, stride=14)
            self.token = nn.Parameter(torch.randn(1, 1, 16))
            self.positions = nn.Parameter(torch.randn(1, 16, 4, 4))
            self.heads, self.out = nn.Linear(16, 48), nn.Linear(16, 16)

        def forward(self, picture):
            grid = self.patches(picture)
            size = (grid.shape[2], grid.shape[3]) if side is None else (side // 14, side // 14)
            places = nn.functional.interpolate(self.positions, size=size, mode="bilinear", align_corners=False)
            tokens = torch.cat([self.token, (grid + places).flatten(2).transpose(1, 2)], dim=1)
            query, key, value = self.heads(tokens).chunk(3, dim=-1)
            tokens = tokens + self.out((query @ key.transpose(1, 2) / 4).softmax(-1) @ value)
            return nn.functional.layer_norm(tokens, (16,)), tokens[:, 0]

    torch.manual_seed(0)
    return Transformer().eval()


@pytest.mark.parametrize("side", [None, 112])
def test_an_exported_transformer_gives_the_features_of_its_tokens(tmp_path, side):
    torch = pytest.importorskip("torch")
    pytest.importorskip("onnx")
    module, path = attention_transformer(torch, side), tmp_path / "vit.onnx"
    sides = {"picture": {2: "h", 3: "w"}, "tokens": {1: "n"}} if side is None else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the exporter, which needs no further package
        torch.onnx.export(
            module,
            (torch.zeros(1, 3, side or 56, side or 56),),
            path,
            dynamo=False,
            input_names=["picture"],
            output_names=["tokens", "class"],
            dynamic_axes=sides,
        )
    extractor = open_extractor(f"onnx:{path}?norm=none{'' if side else '&size=112'}")
    assert extractor.describe()["prefix"] == 1
    seen = np.zeros((84, 112, 3)) if side is None else np.zeros((112, 112, 3))
    seen[:84, :112] = seen_colours(PICTURE)
    with torch.no_grad():
        tokens = module(torch.from_numpy(seen.transpose(2, 0, 1)[None].astype(np.float32)))[0][0, 1:].numpy()
    grid = tokens.reshape(-1, 8, 16)[:6]
    expected = [grid[2, 1], grid[:2, 2:6].mean(axis=(0, 1)), grid.mean(axis=(0, 1))]
    np.testing.assert_allclose(extractor(PICTURE, BOXES[[1, 2, 0]]), expected, atol=1e-5)
