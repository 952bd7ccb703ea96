"""The built-in AlexNet: names and shapes of its weights, its layers against a twin, and what is refused."""

import numpy as np
import pytest

from lapsvm.errors import DataError, OptionError
from lapsvm.features import open_extractor

torch = pytest.importorskip("torch", reason="torch is not installed")
functional = torch.nn.functional

PICTURE = np.random.default_rng(0).integers(0, 256, (90, 120, 3), dtype=np.uint8)
BOXES = [[0, 0, 120, 90], [20, 30, 70, 80]]
RANDOM = "torch:alexnet?weights=random&seed=7"
# names and shapes of the state dict that torchvision publishes
PUBLISHED = {
    "features.0": (64, 3, 11, 11),
    "features.3": (192, 64, 5, 5),
    "features.6": (384, 192, 3, 3),
    "features.8": (256, 384, 3, 3),
    "features.10": (256, 256, 3, 3),
    "classifier.1": (4096, 9216),
    "classifier.4": (4096, 4096),
    "classifier.6": (1000, 4096),
}


@pytest.fixture(scope="module")
def state():
    """A state dict as published, with small weights that keep the numbers alive through all layers."""
    generator = torch.Generator().manual_seed(0)
    weights = {}
    for name, shape in PUBLISHED.items():
        weights[f"{name}.weight"] = torch.randn(shape, generator=generator) * (2 / np.prod(shape[1:])) ** 0.5
        weights[f"{name}.bias"] = 0.1 * torch.randn(shape[0], generator=generator)
    return weights


@pytest.fixture(scope="module")
def weights(state, tmp_path_factory):
    path = tmp_path_factory.mktemp("alexnet") / "alexnet.pth"
    torch.save(state, path)
    return path


def twin(state, batch, until):
    """AlexNet written out, layer by layer."""

    def layer(name):
        return state[f"{name}.weight"], state[f"{name}.bias"]

    x = functional.relu(functional.conv2d(batch, *layer("features.0"), stride=4, padding=2))
    x = functional.relu(functional.conv2d(functional.max_pool2d(x, 3, 2), *layer("features.3"), padding=2))
    x = functional.relu(functional.conv2d(functional.max_pool2d(x, 3, 2), *layer("features.6"), padding=1))
    x = functional.relu(functional.conv2d(x, *layer("features.8"), padding=1))
    x = functional.relu(functional.conv2d(x, *layer("features.10"), padding=1))
    if until == "conv5":
        return x
    x = functional.max_pool2d(x, 3, 2).reshape(len(batch), -1)  # 6 x 6 of 256 already
    x = functional.relu(functional.linear(x, *layer("classifier.1")))
    return x if until == "fc6" else functional.relu(functional.linear(x, *layer("classifier.4")))


@pytest.mark.parametrize("output", ["", "fc6", "fc7"])
def test_features_are_the_twins_layers_of_every_warped_window(state, weights, output):
    extractor = open_extractor(f"torch:alexnet?weights={weights}" + (f"&output={output}" if output else ""))
    assert (extractor.dim, extractor.blocks, extractor.halves) == (4096, (4096,), (False,))
    squares = torch.from_numpy(extractor.squares(PICTURE, BOXES))
    assert squares.shape == (2, 3, 224, 224)
    found, expected = extractor(PICTURE, BOXES), twin(state, squares, output or "fc7").numpy()
    assert (expected > 0).mean() > 0.2
    np.testing.assert_allclose(found, expected, atol=1e-3 * expected.max())


def test_the_pooled_way_takes_conv5(state, weights):
    extractor = open_extractor(f"torch:alexnet?weights={weights}&way=pooled&size=224&norm=none")
    assert (extractor.dim, extractor.describe()["output"]) == (256, "conv5")
    assert 16 < extractor.stride < 24
    square = np.random.default_rng(1).integers(0, 256, (224, 224, 3), dtype=np.uint8)
    mean, std = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    batch = ((torch.from_numpy(square) / 255 - mean) / std).permute(2, 0, 1)[None]
    expected = twin(state, batch, "conv5")[0].mean((1, 2)).numpy()
    np.testing.assert_allclose(extractor(square, [[0, 0, 224, 224]])[0], expected, atol=1e-3 * expected.max())


@pytest.mark.slow
def test_random_weights_come_from_the_seed_alone():
    first, again, other = (open_extractor(f"torch:alexnet?weights=random&seed={seed}") for seed in (7, 7, 8))
    np.testing.assert_array_equal(first(PICTURE, BOXES), again(PICTURE, BOXES))
    assert first.describe() == again.describe()
    assert first.describe()["weights"] != other.describe()["weights"]
    assert first.describe()["network"] == "alexnet"


@pytest.mark.parametrize("query", ["", "?weights=random", "?seed=1", "?way=pooled"])
def test_weights_must_be_named(query):
    with pytest.raises(OptionError, match=r"alexnet needs weights=FILE, .* or weights=random&seed=N for trials"):
        open_extractor(f"torch:alexnet{query}")


def test_layers_go_with_their_way():
    with pytest.raises(OptionError, match="output must be fc7 or fc6 where way=warped, got 'conv5'"):
        open_extractor(f"{RANDOM}&output=conv5")
    with pytest.raises(OptionError, match="output must be conv5 where way=pooled, got 'fc7'"):
        open_extractor(f"{RANDOM}&way=pooled&output=fc7")


def test_a_square_that_is_too_small_is_a_sentence(weights):
    with pytest.raises(DataError, match="network alexnet cannot take a picture of 32 x 32"):
        open_extractor(f"torch:alexnet?weights={weights}&size=32&context=2")


def test_a_network_of_other_shapes_is_named(state, tmp_path):
    other = {name: torch.zeros(1).expand(value.shape) for name, value in state.items()}  # files of a few bytes
    torch.save({**other, "classifier.6.weight": torch.zeros(1).expand(20, 4096)}, tmp_path / "tuned.pth")
    sentence = r"tuned\.pth do not fit: classifier\.6\.weight must have shape \(1000, 4096\), got shape \(20, 4096\)"
    with pytest.raises(DataError, match=sentence):
        open_extractor(f"torch:alexnet?weights={tmp_path}/tuned.pth")
