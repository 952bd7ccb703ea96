"""Networks run by torch: factories of one's own, both ways to the windows, and weights."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from lapsvm.errors import OptionError
from lapsvm.features import open_extractor

from ..twins import extractors as reference

torch = pytest.importorskip("torch", reason="torch is not installed")

PICTURE = np.random.default_rng(0).integers(0, 256, (96, 128, 3), dtype=np.uint8)
BOXES = np.array([[0, 0, 128, 96], [32, 32, 96, 96], [3.5, 5, 100.5, 41.25], [120, 90, 140, 200]], dtype=np.float64)
MEAN, STD = 255 * np.array([0.485, 0.456, 0.406]), 255 * np.array([0.229, 0.224, 0.225])


def colours_formula(net, box):
    """The mean colour of a window of whole cells, as torchvision normalises it, through the weights."""
    x1, y1, x2, y2 = (int(value) for value in box)
    colour = (PICTURE[y1:y2, x1:x2].mean(axis=(0, 1)) - MEAN) / STD
    return net.mix.weight.detach().numpy()[:, :, 0, 0] @ colour + net.mix.bias.detach().numpy()


def test_pooled_features_of_a_factory_are_the_formula(nets):
    torch.manual_seed(3)
    state = torch.get_rng_state()
    extractor = open_extractor("torch:tiny_nets:colours?size=128&norm=none&seed=5")
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(5)
    net = nets.colours()
    assert (extractor.dim, extractor.blocks, extractor.halves, extractor.stride) == (5, (5,), (False,), 32)
    for box in BOXES[:2]:
        np.testing.assert_allclose(extractor(PICTURE, [box])[0], colours_formula(net, box), atol=1e-5)


def test_pooled_options_are_those_of_other_networks(nets):
    text = "torch:tiny_nets:colours?size=128&contrast=.3&order=bgr&mean=1,2,3&scale=1/100"
    extractor = open_extractor(text)
    assert extractor.dim == 5
    described = extractor.describe()
    assert (described["contrast"], described["order"]) == (0.3, "bgr")
    assert extractor(PICTURE, BOXES).shape == (4, 5)


def test_warped_features_are_the_network_on_the_twins_squares(nets):
    extractor = open_extractor("torch:tiny_nets:vectors?way=warped&size=32&context=4&seed=1")
    torch.manual_seed(1)
    net = nets.vectors()
    picture = ((PICTURE - MEAN) / STD).transpose(2, 0, 1)
    clipped = np.clip(BOXES, 0, [128, 96, 128, 96])
    squares = np.stack([reference.warp(picture, box, 32, 4) for box in clipped])
    np.testing.assert_allclose(extractor.squares(PICTURE, BOXES), squares, atol=2e-3)
    with torch.no_grad():
        expected = net(torch.from_numpy(squares.astype(np.float32))).numpy()
    np.testing.assert_allclose(extractor(PICTURE, BOXES), expected, atol=2e-3)
    assert extractor.dim == 7


@pytest.mark.parametrize("seed", range(3))
def test_warping_equals_its_twin_on_any_window(nets, seed):
    rng = np.random.default_rng(seed)
    pixels = rng.integers(0, 256, (rng.integers(1, 30), rng.integers(1, 30), 3), dtype=np.uint8)
    limits = np.array([pixels.shape[1], pixels.shape[0]])
    low, high = np.sort(rng.uniform(0, 1, (2, 6, 2)), axis=0) * limits
    extractor = open_extractor("torch:tiny_nets:vectors?way=warped&size=15&context=3&mean=0&scale=1/255")
    found = extractor.squares(pixels, np.hstack([low, high]))
    for window, square in zip(np.hstack([low, high]), found, strict=True):
        assert square == pytest.approx(reference.warp(pixels.transpose(2, 0, 1) / 255, window, 15, 3), abs=2e-3)


def test_exactly_the_context_lies_outside_of_the_window(nets):
    pixels = np.zeros((80, 100, 3), dtype=np.uint8)
    pixels[20:60, 30:90] = 255
    extractor = open_extractor("torch:tiny_nets:vectors?way=warped&size=56&context=8&mean=0&scale=1/255")
    square = extractor.squares(pixels, [[30, 20, 90, 60]])[0, 0]
    inner = np.zeros((56, 56), dtype=bool)
    inner[8:48, 8:48] = True
    np.testing.assert_allclose(square[9:47, 9:47], 1, atol=1e-4)
    assert (square[inner] > 0.5 - 1e-3).all()
    assert (square[~inner] < 0.5 + 1e-3).all()


def test_outside_of_the_picture_is_the_mean_colour(nets):
    white = np.full((40, 40, 3), 255, dtype=np.uint8)
    extractor = open_extractor("torch:tiny_nets:vectors?way=warped&size=28&context=4&mean=100,50,20&scale=1")
    square = extractor.squares(white, [[0, 0, 40, 40]])[0]
    np.testing.assert_array_equal(square[:, :4], 0)
    np.testing.assert_array_equal(square[:, :, -4:], 0)
    np.testing.assert_allclose(square[:, 4:24, 4:24], np.array([155, 205, 235])[:, None, None] * np.ones((20, 20)))


def test_a_window_without_area_gives_zeros_and_none_give_none(nets):
    extractor = open_extractor("torch:tiny_nets:vectors?way=warped&size=32&context=2&norm=l2")
    found = extractor(PICTURE, [[5, 5, 5, 9], [0, 0, 20, 20], [200, 0, 300, 50]])
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), [0, 1, 0], atol=1e-6)
    assert extractor(PICTURE, np.zeros((0, 4))).shape == (0, 7)


@pytest.mark.parametrize("query", ["size=128&output=low", "way=warped&size=32&context=2&batch=3&output=flat"])
def test_several_threads_get_what_one_gets_and_torchs_threads_are_put_back(nets, query):
    before = torch.get_num_threads()
    extractor = open_extractor(f"torch:tiny_nets:named?{query}")
    pictures = [np.roll(PICTURE, 7 * shift, axis=1) for shift in range(24)]
    expected = [extractor(pixels, BOXES) for pixels in pictures]
    with ThreadPoolExecutor(6) as pool:
        np.testing.assert_array_equal(list(pool.map(lambda pixels: extractor(pixels, BOXES), pictures)), expected)
    assert torch.get_num_threads() == before


def test_an_output_is_chosen_by_its_name(nets):
    with pytest.raises(OptionError, match=r"torch:tiny_nets:named.*output must be chosen, as in output=low"):
        open_extractor("torch:tiny_nets:named")
    with pytest.raises(OptionError, match="output must be one with 4 dimensions, or 3 for tokens, got 'flat'"):
        open_extractor("torch:tiny_nets:named?output=flat")
    with pytest.raises(OptionError, match="output must be one of the network's, got 'x'; there are low"):
        open_extractor("torch:tiny_nets:named?way=warped&output=x")
    low, high = (open_extractor(f"torch:tiny_nets:named?size=128&output={name}") for name in ("low", "high"))
    np.testing.assert_array_equal(low(PICTURE, BOXES), -high(PICTURE, BOXES))


def test_a_map_warped_is_read_as_one_row(nets):
    extractor = open_extractor("torch:tiny_nets:colours?way=warped&size=64")
    assert extractor.dim == 5 * 2 * 2


def test_the_factory_and_the_weights_are_told_and_no_path(nets, tmp_path):
    text = "torch:tiny_nets:colours"
    first = open_extractor(text).describe()
    assert (first["network"], first["engine"]) == ("tiny_nets:colours", "torch")
    assert open_extractor(text).describe() == first
    assert open_extractor(f"{text}?seed=1").describe()["weights"] != first["weights"]
    torch.save(nets.Colours(bias=2.0).state_dict(), tmp_path / "net.pth")
    (tmp_path / "other").mkdir()
    torch.save(torch.load(tmp_path / "net.pth", weights_only=True), tmp_path / "other" / "moved.pth")
    one, two = (
        open_extractor(f"{text}?weights={tmp_path}/{name}").describe() for name in ("net.pth", "other/moved.pth")
    )
    assert one == two
    assert one["weights"] != first["weights"]
    assert str(tmp_path) not in str(one)
    warped = open_extractor(f"{text}?way=warped").describe()
    assert {"size": 224, "context": 16}.items() <= warped.items()
    assert warped["mean"] == pytest.approx(MEAN.tolist())
    assert np.array(warped["scale"]) == pytest.approx(1 / STD)


@pytest.mark.parametrize("ending", ["pth", "safetensors"])
def test_a_state_dict_is_loaded_into_what_the_factory_makes(nets, tmp_path, ending):
    net, path = nets.Colours(bias=2.0), tmp_path / f"net.{ending}"
    if ending == "pth":
        torch.save(net.state_dict(), path)
    else:
        from safetensors.torch import save_file

        save_file(net.state_dict(), path)
    extractor = open_extractor(f"torch:tiny_nets:colours?weights={path}&size=128&norm=none")
    np.testing.assert_allclose(extractor(PICTURE, BOXES[:1])[0], colours_formula(net, BOXES[0]), atol=1e-5)


def test_a_factory_that_takes_weights_gets_the_file(nets, tmp_path):
    net = nets.Colours(bias=2.0)
    torch.save(net.state_dict(), tmp_path / "net.pth")
    text = f"torch:tiny_nets:with_weights?weights={tmp_path}/net.pth&size=128&norm=none"
    positive = np.maximum(colours_formula(net, BOXES[0]), 0)
    assert open_extractor(text)(PICTURE, BOXES[:1])[0].max() >= positive.max() - 1e-5
