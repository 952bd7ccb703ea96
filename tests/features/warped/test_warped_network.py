"""Features of warped windows: the laws, batches, what is refused, AlexNet's layers and its weights."""

from types import SimpleNamespace

import numpy as np
import pytest

from lapsvm.errors import DataError, NotFiniteError, OptionError, SettingsError
from lapsvm.features import Block, open_extractor
from lapsvm.features.extractors import torch_network, torch_running
from lapsvm.features.extractors.extractor import completed, sees_context
from lapsvm.features.extractors.picture import Colours
from lapsvm.features.extractors.specs import check_trusted
from lapsvm.features.extractors.warped import network as warped
from lapsvm.features.extractors.warped.warping import Warping, placed_windows
from lapsvm.settings import NetworkSettings
from lapsvm.testing.extractors import ExtractorLaws

from ...twins.extractors import warped_window

torch = pytest.importorskip("torch", reason="torch is not installed")

pytestmark = pytest.mark.filterwarnings("ignore:network .* takes about")  # a busy machine is slow
PICTURE = np.random.default_rng(0).integers(0, 256, (40, 60, 3), dtype=np.uint8)
BOXES = np.array([[0, 0, 60, 40], [10, 5, 30, 35], [3.5, 2, 44.25, 17], [50, 30, 70, 50], [8, 8, 8, 20]])
MEAN, STD = 255 * np.array([0.485, 0.456, 0.406]), 255 * np.array([0.229, 0.224, 0.225])
NET = "torch:tiny_alexnet:net?way=warped&size=32&context=4"


@pytest.mark.usefixtures("tiny")
class TestWarpedNetwork(ExtractorLaws):
    def make(self):
        return open_extractor(f"{NET}&batch=5&seed=2")


@pytest.mark.usefixtures("tiny")
class TestWarpedNetworkOfLengthOne(ExtractorLaws):
    def make(self):
        return open_extractor(f"{NET}&norm=l2&output=output&order=bgr")


def seen(box, size, context):
    """Return a window as a network sees it, by the twin."""
    square = (warped_window(PICTURE, box, size, context, MEAN) - MEAN) / STD
    return torch.from_numpy(square.transpose(2, 0, 1)[None].astype(np.float32))


def test_features_are_the_networks_numbers_of_the_warped_window(tiny):
    extractor = open_extractor(f"{NET}&seed=5")
    torch.manual_seed(5)
    net = tiny.net().eval()
    assert (extractor.dim, extractor.blocks) == (16, (Block(16),))
    found = extractor(PICTURE, BOXES[:3])
    with torch.no_grad():
        for features, box in zip(found, BOXES[:3], strict=True):
            np.testing.assert_allclose(features, net(seen(box, 32, 4))[0].numpy(), atol=1e-4)
    assert found.any()


@pytest.mark.usefixtures("tiny")
def test_a_window_that_leaves_the_picture_is_cut_and_one_without_area_is_zero():
    features = open_extractor(NET)(PICTURE, BOXES)
    np.testing.assert_array_equal(features[3], open_extractor(NET)(PICTURE, [[50, 30, 60, 40]])[0])
    assert not features[4].any()


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("batch", [1, 2, 3, 100])
def test_the_batch_changes_no_number(batch):
    expected = open_extractor(f"{NET}&batch=5")(PICTURE, BOXES)
    np.testing.assert_allclose(open_extractor(f"{NET}&batch={batch}")(PICTURE, BOXES), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("count", [1, 4, 5, 6, 10, 11])
def test_the_picture_goes_to_the_device_once_and_any_number_of_windows_is_whole(count, monkeypatch):
    extractor, boxes = open_extractor(f"{NET}&batch=5"), np.resize(BOXES[:4], (count, 4))
    alone = np.concatenate([extractor(PICTURE, box[None]) for box in boxes])
    places = []
    monkeypatch.setattr(torch_running, "placed_windows", lambda *given: places.append(given) or placed_windows(*given))
    np.testing.assert_array_equal(extractor(PICTURE, boxes), alone)
    assert len(places) == 1


@pytest.mark.usefixtures("tiny")
@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU here")
def test_a_gpu_gives_what_the_processor_gives():
    """To 1e-4 of the largest number: the warped windows are equal, and a network's sums are rounded otherwise."""
    here, there = (open_extractor(f"{NET}&batch=5&seed=2", device=name)(PICTURE, BOXES) for name in ("cpu", "cuda"))
    np.testing.assert_allclose(there, here, rtol=0, atol=1e-4 * np.abs(here).max())


@pytest.mark.usefixtures("tiny")
def test_the_batch_is_recorded_and_need_not_match():
    one, two = (open_extractor(f"{NET}&batch={batch}").describe() for batch in (1, 2))
    assert (one.pop("runtime")["batch"], two.pop("runtime")["batch"]) == (1, 2)
    assert one == two
    assert (one["size"], one["context"], one["network"]) == (32, 4, "tiny_alexnet:net")


@pytest.mark.usefixtures("tiny")
def test_the_output_is_chosen_where_there_are_several():
    with pytest.raises(OptionError, match="output must be chosen, as in output=mean; there are mean, most"):
        open_extractor("torch:tiny_alexnet:several?way=warped")
    with pytest.raises(OptionError, match=r"output must be one with numbers \(n, d\), mean or most, got 'map'"):
        open_extractor("torch:tiny_alexnet:several?way=warped&output=map")
    mean, most = (
        open_extractor(f"torch:tiny_alexnet:several?way=warped&size=16&context=2&output={name}")(PICTURE, BOXES[:1])[0]
        for name in ("mean", "most")
    )
    square = seen(BOXES[0], 16, 2)[0].numpy()
    np.testing.assert_allclose(mean, square.mean(axis=(1, 2)), atol=1e-4)
    np.testing.assert_allclose(most, square.max(axis=(1, 2)), atol=1e-4)


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize(
    ("text", "error", "sentence"),
    [
        ("maps?way=warped", DataError, r"must give numbers \(n, d\) for n windows, got output \(64, 3, 224, 224\)"),
        ("one_row?way=warped", DataError, r"must give numbers \(n, d\) for n windows, got output \(1, 3\) for 64"),
        (
            "starving?way=warped&batch=2",
            DataError,
            "more memory than device cpu has for 2 windows of 224 x 224; give a",
        ),
        ("starving?way=warped&batch=1", DataError, "for a picture of 224 x 224; give a smaller size"),
        ("square_alone?way=warped&size=40", DataError, "cannot take a picture of 40 x 40"),
        ("net?way=warped&size=32", OptionError, "context must be less than half of size 32, got 16"),
        ("net?way=warped&contrast=.5", OptionError, "option 'contrast' is not known; choose from .*context, batch"),
        ("net?way=sideways", OptionError, "way must be pooled or warped, got 'sideways'"),
        ("net?way=warped&batch=0", OptionError, "batch must be a whole number from 1 to 4096, got '0'"),
        ("net?batch=3", OptionError, "option 'batch' is not known; choose from "),
    ],
)
def test_what_cannot_be_warped_is_refused(text, error, sentence):
    with pytest.raises(error, match=sentence):
        open_extractor(f"torch:tiny_alexnet:{text}", device="cpu")


@pytest.mark.usefixtures("tiny")
def test_numbers_that_are_not_finite_are_refused():
    extractor = open_extractor("torch:tiny_alexnet:gives_nan?way=warped&size=16&context=2")
    with pytest.raises(NotFiniteError, match="output 'output' of the network must be finite, got NaN or infinity"):
        extractor(PICTURE, BOXES)
    assert extractor(PICTURE, np.empty((0, 4))).shape == (0, 3)


@pytest.mark.usefixtures("tiny")
def test_a_network_that_is_slow_on_the_processor_says_so(monkeypatch):
    monkeypatch.setattr(warped, "SLOW", 0.0)
    with pytest.warns(UserWarning, match=r"^network tiny_alexnet:net takes about \d+ ms .* s for 2,000 windows"):
        open_extractor(NET, device="cpu")


def test_a_network_on_a_gpu_is_not_measured(monkeypatch):
    monkeypatch.setattr(warped, "SLOW", 0.0)
    network = SimpleNamespace(
        name="far", device="cuda", runtime={"name": "torch"}, run_windows=lambda *_: {"output": np.zeros((64, 7))}
    )
    colours = Colours("rgb", (0, 0, 0), (1, 1, 1))
    assert warped.WarpedNetwork(network, "hash", colours=colours, warping=Warping()).dim == 7


def test_the_network_has_seen_the_context_so_settings_add_none():
    settings = NetworkSettings(contrast=0.5, store_context=True, sizes=(640,))
    for text in (NET, "torch:alexnet?weights=random"):
        assert not sees_context(text)
        assert completed(text, settings) == text
    assert sees_context("torch:tiny_alexnet:net")


def test_the_packages_own_network_runs_no_code_of_others():
    check_trusted(["torch:alexnet?weights=net.pth"], ())
    with pytest.raises(SettingsError, match="runs code of module 'tiny_alexnet'"):
        check_trusted([NET], ())


# AlexNet


def fc7_formula(state, square, layer):
    """Return a layer of AlexNet by its definition: after the rectification."""
    nn = torch.nn.functional
    found = nn.max_pool2d(nn.relu(nn.conv2d(square, *pair(state, "features.0"), stride=4, padding=2)), 3, 2)
    found = nn.max_pool2d(nn.relu(nn.conv2d(found, *pair(state, "features.3"), padding=2)), 3, 2)
    for name in ("features.6", "features.8", "features.10"):
        found = nn.relu(nn.conv2d(found, *pair(state, name), padding=1))
    found = nn.adaptive_avg_pool2d(nn.max_pool2d(found, 3, 2), 6).flatten(1)
    for name in ("classifier.1", "classifier.4")[: 1 if layer == "fc6" else 2]:
        before = nn.linear(found, *pair(state, name))
        found = nn.relu(before)
    return found, before


def pair(state, name):
    return state[f"{name}.weight"], state[f"{name}.bias"]


@pytest.mark.filterwarnings("ignore:network alexnet")  # that it is slow
@pytest.mark.parametrize("layer", ["fc6", "fc7"])
def test_alexnets_features_are_its_rectified_layer(layer):
    extractor = open_extractor(f"torch:alexnet?weights=random&seed=3&output={layer}&batch=2&size=227")
    assert extractor.dim == 4096
    described = extractor.describe()
    assert (described["network"], described["size"], described["context"]) == (f"alexnet:{layer}", 227, 16)
    torch.manual_seed(3)
    state = torch_network.alexnet(torch, "fc7").state_dict()
    with torch.no_grad():
        expected, before = fc7_formula(state, seen(BOXES[1], 227, 16), layer)
    (features,) = extractor(PICTURE, BOXES[1:2])
    np.testing.assert_allclose(features, expected[0].numpy(), atol=1e-4)
    assert features.min() == 0
    assert before.min() < -1e-3


@pytest.fixture
def small_layers(monkeypatch):
    """AlexNet with few channels, whose tensors have the same names."""
    nn = torch.nn

    def small(torch, layer):
        whole = nn.Sequential(
            nn.Dropout(), nn.Linear(108, 9), nn.ReLU(), nn.Dropout(), nn.Linear(9, 8), nn.ReLU(), nn.Linear(8, 4)
        )
        classifier = whole[: {"fc6": 3, "fc7": 6, "all": 7}[layer]]
        network = nn.Sequential()
        network.add_module("features", nn.Sequential(nn.Conv2d(3, 3, 3), nn.AdaptiveAvgPool2d((6, 6)), nn.Flatten()))
        network.add_module("classifier", classifier)
        return network

    monkeypatch.setattr(torch_network, "alexnet", small)
    return small


@pytest.mark.parametrize("ending", ["pth", "safetensors"])
@pytest.mark.parametrize(("layer", "dim"), [("fc6", 9), ("fc7", 8)])
def test_alexnets_weights_come_from_a_file_whatever_its_last_layers(small_layers, tmp_path, ending, layer, dim):
    torch.manual_seed(11)
    whole, path = small_layers(torch, "all").eval(), tmp_path / f"net.{ending}"
    if ending == "pth":
        torch.save(whole.state_dict(), path)
    else:
        from safetensors.torch import save_file

        save_file(whole.state_dict(), path)
    extractor = open_extractor(f"torch:alexnet?weights={path}&output={layer}&size=24&context=2")
    assert extractor.dim == dim
    with torch.no_grad():
        square = whole.features(seen(BOXES[1], 24, 2))
        expected = whole.classifier[: {"fc6": 3, "fc7": 6}[layer]](square)
    np.testing.assert_allclose(extractor(PICTURE, BOXES[1:2]), expected.numpy(), atol=1e-5)
    assert str(tmp_path) not in str(extractor.describe())


def test_alexnets_random_weights_follow_the_seed(small_layers):
    state = torch.get_rng_state()
    same, equal, other = (
        open_extractor(f"torch:alexnet?weights=random&size=24&context=2{more}") for more in ("", "&seed=0", "&seed=1")
    )
    assert torch.equal(torch.get_rng_state(), state)
    assert same.describe() == equal.describe()
    assert same.describe()["weights"] != other.describe()["weights"]
    np.testing.assert_array_equal(same(PICTURE, BOXES), equal(PICTURE, BOXES))


@pytest.mark.parametrize(
    ("query", "error", "sentence"),
    [
        ("", OptionError, "weights of alexnet must be named: weights=FILE, .* or weights=random"),
        ("?seed=1", OptionError, "weights of alexnet must be named"),
        ("?weights=random&way=pooled", OptionError, "way of alexnet must be warped, got 'pooled'"),
        ("?weights=random&output=fc8", OptionError, "output of alexnet must be fc6 or fc7, got 'fc8'"),
        ("?weights=nowhere.pth", FileNotFoundError, "nowhere.pth"),
    ],
)
def test_alexnet_asks_for_what_it_needs(small_layers, query, error, sentence):
    with pytest.raises(error, match=sentence):
        open_extractor(f"torch:alexnet{query}")


def test_alexnets_weights_of_another_network_are_refused(small_layers, tmp_path):
    state = small_layers(torch, "all").state_dict()
    torch.save({name: value for name, value in state.items() if name != "classifier.1.bias"}, tmp_path / "net.pth")
    with pytest.raises(DataError, match=r"weights .* do not fit: classifier\.1\.bias must have shape \(9,\), got none"):
        open_extractor(f"torch:alexnet?weights={tmp_path}/net.pth")
