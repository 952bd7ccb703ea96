"""Networks run by torch: factories of one's own, and weights."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from lapsvm.errors import OptionError
from lapsvm.features import Block, open_extractor

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
    assert (extractor.dim, extractor.blocks, extractor.strides) == (5, (Block(5),), (32,))
    for box in BOXES[:2]:
        np.testing.assert_allclose(extractor(PICTURE, [box])[0], colours_formula(net, box), atol=1e-5)


def test_pooled_options_are_those_of_other_networks(nets):
    text = "torch:tiny_nets:colours?size=128&contrast=.3&order=bgr&mean=1,2,3&scale=1/100"
    extractor = open_extractor(text)
    assert extractor.dim == 5
    described = extractor.describe()
    assert (described["contrast"], described["order"]) == (0.3, "bgr")
    assert extractor(PICTURE, BOXES).shape == (4, 5)


@pytest.mark.parametrize("query", ["size=128&output=low", "size=64&output=high"])
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
    low, high = (open_extractor(f"torch:tiny_nets:named?size=128&output={name}") for name in ("low", "high"))
    np.testing.assert_array_equal(low(PICTURE, BOXES), -high(PICTURE, BOXES))


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
    assert first["mean"] == pytest.approx(MEAN.tolist())
    assert np.array(first["scale"]) == pytest.approx(1 / STD)


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
