"""Networks run by torch: factories of one's own, both ways to the windows, weights, devices and what is refused."""

import logging
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from lapsvm.errors import DataError, DependencyError, MissingError, NotFiniteError, OptionError
from lapsvm.features import open_extractor, reference, settings_difference

torch = pytest.importorskip("torch", reason="torch is not installed")

PICTURE = np.random.default_rng(0).integers(0, 256, (96, 128, 3), dtype=np.uint8)
BOXES = np.array([[0, 0, 128, 96], [32, 32, 96, 96], [3.5, 5, 100.5, 41.25], [120, 90, 140, 200]], dtype=np.float64)
MEAN, STD = 255 * np.array([0.485, 0.456, 0.406]), 255 * np.array([0.229, 0.224, 0.225])
FACTORIES = """
import torch
from torch import nn

TEXT = "no factory"


class Colours(nn.Module):
    '''The mean of 32 x 32 pixels through a weight, cell by cell.'''

    def __init__(self, bias=0.0):
        super().__init__()
        self.mix = nn.Conv2d(3, 5, 1)
        nn.init.constant_(self.mix.bias, bias)

    def forward(self, batch):
        return self.mix(nn.functional.avg_pool2d(batch, 32))


def colours():
    return Colours()


def with_weights(weights=None):
    net = Colours()
    if weights is not None:
        net.load_state_dict(torch.load(weights, weights_only=True))
    return nn.Sequential(net, nn.ReLU())


def vectors():
    return nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(12, 7))


class Named(Colours):
    def forward(self, batch):
        found = super().forward(batch)
        return {"low": found, "high": -found, "flat": found.mean((2, 3)), "note": "none"}


def named():
    return Named()


class Hungry(nn.Module):
    '''Runs out of memory with more than `most` pictures at once.'''

    most, seen = 3, []

    def forward(self, batch):
        self.seen.append(len(batch))
        if len(batch) > self.most:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return batch.mean((2, 3))


def hungry():
    Hungry.most, Hungry.seen = 3, []
    return Hungry()


class Starving(Hungry):
    def forward(self, batch):
        if batch.abs().sum() > 0:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return batch.mean((2, 3)) if TEXT == "vector" else nn.functional.avg_pool2d(batch, 32)


def starving():
    return Starving()


class Gives(nn.Module):
    def __init__(self, what):
        super().__init__()
        self.what = what

    def forward(self, batch):
        return self.what(batch)


def gives_nothing():
    return Gives(lambda batch: None)


def gives_a_number():
    return Gives(lambda batch: batch.mean())


def gives_nan():
    return Gives(lambda batch: nn.functional.avg_pool2d(batch, 32) * (float("nan") if batch.any() else 1))


def fails_inside():
    return nn.Conv2d(4, 5, 1)


def fails():
    raise KeyError("no such thing")


def no_module():
    return 3
"""


@pytest.fixture
def nets(tmp_path, monkeypatch):
    """The module of tiny factories, importable as `tiny_nets`."""
    (tmp_path / "tiny_nets.py").write_text(FACTORIES)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "tiny_nets", raising=False)
    import tiny_nets

    yield tiny_nets
    sys.modules.pop("tiny_nets", None)


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
    text = "torch:tiny_nets:colours?size=128&cells=1x1,2x2&flip=yes&contrast=.3&order=bgr&mean=1,2,3&scale=1/100"
    extractor = open_extractor(text)
    assert extractor.dim == 25
    described = extractor.describe()
    assert (described["cells"], described["flip"], described["contrast"], described["order"]) == (
        "1x1,2x2",
        True,
        0.3,
        "bgr",
    )
    assert extractor(PICTURE, BOXES).shape == (4, 25)


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


def test_flipped_warped_features_do_not_change_with_a_mirror(nets):
    plain, flip = (
        open_extractor(f"torch:tiny_nets:vectors?way=warped&size=32&context=2&flip={flip}") for flip in ("no", "yes")
    )
    mirrored = BOXES.copy()
    mirrored[:, [0, 2]] = 128 - BOXES[:, [2, 0]]
    expected = (plain(PICTURE, BOXES) + plain(PICTURE[:, ::-1], mirrored)) / 2
    np.testing.assert_array_equal(flip(PICTURE, BOXES), expected)
    np.testing.assert_array_equal(flip(PICTURE[:, ::-1], mirrored), expected)
    assert "flip True instead of False" in settings_difference(flip.describe(), plain.describe())


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
    with pytest.raises(OptionError, match="output must be one with 4 dimensions, got 'flat'"):
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


class Runs:
    """What a pickle could do if it were let."""

    def __reduce__(self):
        return (print, ("this ran",))


def test_nothing_in_a_file_of_weights_is_run(nets, tmp_path, capsys):
    path = tmp_path / "evil.pth"
    torch.save({"mix.weight": Runs()}, path)
    with pytest.raises(DataError, match=r"weights .*evil\.pth are no state dict that can be read"):
        open_extractor(f"torch:tiny_nets:colours?weights={path}")
    path.write_bytes(pickle.dumps(Runs()))
    with pytest.raises(DataError, match="are no state dict that can be read"):
        open_extractor(f"torch:tiny_nets:colours?weights={path}")
    assert "this ran" not in capsys.readouterr().out


@pytest.mark.parametrize("name", ["junk.pth", "junk.safetensors"])
@pytest.mark.parametrize("content", [b"", b"junk", b"\x00" * 64])
def test_a_file_that_holds_no_weights_is_named(nets, tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=rf"weights .*{name} are no state dict that can be read: [^\n]*\.$"):
        open_extractor(f"torch:tiny_nets:colours?weights={tmp_path}/{name}")


def test_weights_that_do_not_fit_are_told_by_name_and_shape(nets, tmp_path):
    path = tmp_path / "net.pth"
    text = f"torch:tiny_nets:colours?weights={path}"
    for state, sentence in (
        ({"mix.weight": torch.zeros(5, 3, 1, 1)}, r"mix.bias must have shape \(5,\), got none"),
        (
            {"mix.weight": torch.zeros(5, 3, 1, 1), "mix.bias": torch.zeros(6)},
            r"mix.bias must have shape \(5,\), got shape \(6,\)",
        ),
        ({**nets.Colours().state_dict(), "more": torch.zeros(1)}, r"more must not be there, got shape \(1,\)"),
    ):
        torch.save(state, path)
        with pytest.raises(DataError, match=sentence):
            open_extractor(text)
    for wrong in ([1, 2], {"epoch": 3}):
        torch.save(wrong, path)
        with pytest.raises(DataError, match=r"must be a state dict, names with tensors, got (list|dict)"):
            open_extractor(text)


@pytest.mark.parametrize(
    ("text", "error", "sentence"),
    [
        ("torch", OptionError, "torch must be followed by PACKAGE.MODULE:FACTORY or alexnet, got ''"),
        ("torch:tiny_nets", OptionError, "followed by PACKAGE.MODULE:FACTORY or alexnet, got 'tiny_nets'"),
        ("torch:no_such_nets:make", OptionError, "module no_such_nets cannot be found; install it, or put its folder"),
        ("torch:tiny_nets.deep:make", OptionError, r"module tiny_nets\.deep cannot be found"),
        ("torch:broken_nets:make", OptionError, "module broken_nets cannot be imported: it is not ready"),
        ("torch:tiny_nets:absent", OptionError, "absent of module tiny_nets must be callable, got no such name"),
        ("torch:tiny_nets:TEXT", OptionError, "TEXT of module tiny_nets must be callable, got str"),
        ("torch:tiny_nets:fails", DataError, "factory tiny_nets:fails failed with KeyError: 'no such thing'"),
        ("torch:tiny_nets:Gives", DataError, "factory tiny_nets:Gives failed with TypeError"),
        ("torch:tiny_nets:no_module", DataError, r"must give a torch\.nn\.Module, got int"),
        ("torch:tiny_nets:vectors", DataError, r"needs an output with 4 dimensions; there are output \(1, 7\)"),
        ("torch:tiny_nets:gives_nothing", DataError, "must give a tensor or several, got NoneType"),
        ("torch:tiny_nets:gives_a_number?way=warped", DataError, r"a row of numbers for each window; .* output \(\)"),
        ("torch:tiny_nets:fails_inside", DataError, "cannot take a picture of 224 x 224"),
        ("torch:tiny_nets:colours?weights=absent.pth", MissingError, r"weights absent\.pth are not there"),
        ("torch:tiny_nets:colours?way=whole", OptionError, "way must be pooled or warped, got 'whole'"),
        ("torch:tiny_nets:colours?context=16", OptionError, "option 'context' is not known; choose from weights"),
        ("torch:tiny_nets:vectors?way=warped&cells=2x2", OptionError, "option 'cells' is not known"),
        ("torch:tiny_nets:vectors?way=warped&size=32&context=16", OptionError, "context must be less than half .* 32"),
        ("torch:tiny_nets:vectors?way=warped&batch=0", OptionError, "batch must be a whole number from 1"),
    ],
)
def test_what_cannot_be_opened_is_one_sentence(nets, tmp_path, text, error, sentence):
    (tmp_path / "broken_nets.py").write_text("raise RuntimeError('it is not\\n ready')")
    with pytest.raises(error, match=sentence) as raised:
        open_extractor(text)
    assert "\n" not in str(raised.value)
    assert str(raised.value).endswith(".")


def test_a_map_that_is_not_finite_is_refused(nets):
    extractor = open_extractor("torch:tiny_nets:gives_nan?size=128")
    with pytest.raises(NotFiniteError, match="output 'output' of the network must be finite"):
        extractor(PICTURE, BOXES)
    warped = open_extractor("torch:tiny_nets:gives_nan?way=warped&size=32&context=2")
    with pytest.raises(NotFiniteError, match="must be finite"):
        warped(PICTURE, BOXES)


def test_the_batch_is_halved_when_memory_runs_out_and_the_features_stay(nets, caplog):
    windows = np.tile(BOXES[:3], (9, 1))[:26] + np.linspace(0, 5, 26)[:, None]
    extractor = open_extractor("torch:tiny_nets:hungry?way=warped&size=16&context=2&batch=16")
    with caplog.at_level(logging.WARNING, logger="lapsvm"):
        found = extractor(PICTURE, windows)
    assert nets.Hungry.seen == [1, 16, 8, 4] + [2] * 13  # the first is the trial at opening
    assert [record.getMessage() for record in caplog.records] == [
        f"device cpu ran out of memory with {n} windows at once; going on with {n // 2}." for n in (16, 8, 4)
    ]
    nets.Hungry.most = 100
    again = open_extractor("torch:tiny_nets:hungry?way=warped&size=16&context=2&batch=16")
    nets.Hungry.most = 100
    np.testing.assert_allclose(again(PICTURE, windows), found, atol=1e-6)
    assert extractor.describe() == again.describe()
    nets.Hungry.seen.clear()
    extractor(PICTURE, windows[:4])
    assert nets.Hungry.seen == [2, 2]  # it stays small


def test_memory_that_is_too_small_for_one_window_or_picture_is_a_sentence(nets):
    pooled = open_extractor("torch:tiny_nets:starving?size=96")
    with pytest.raises(DataError, match="needs more memory than device cpu has for a picture of 64 x 96; give"):
        pooled(PICTURE, BOXES)
    nets.TEXT = "vector"
    warped = open_extractor("torch:tiny_nets:starving?way=warped&size=32&context=2&batch=4")
    with pytest.raises(DataError, match="needs more memory than device cpu has for one window"):
        warped(PICTURE, BOXES)


def test_a_device_is_there_or_refused(nets, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert open_extractor("torch:tiny_nets:colours").describe()["runtime"]["device"] == "cpu"
    with pytest.raises(OptionError, match="device cuda needs a GPU that torch can use, and there is none"):
        open_extractor("torch:tiny_nets:colours", device="cuda")
    with pytest.raises(OptionError, match="device must be one of auto, cpu, cuda, got 'tpu'"):
        open_extractor("hog", device="tpu")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no GPU here")
def test_a_gpu_gives_what_the_processor_gives(nets):
    for query in ("size=128", "way=warped&size=64"):
        here, there = (open_extractor(f"torch:tiny_nets:colours?{query}", device=name) for name in ("cpu", "cuda"))
        np.testing.assert_allclose(there(PICTURE, BOXES), here(PICTURE, BOXES), atol=1e-4)
        assert not settings_difference(here.describe(), there.describe())


def test_without_torch_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(DependencyError, match=r'torch:a\.b:c. needs torch, .* pip install "lapsvm\[torch\]"'):
        open_extractor("torch:a.b:c")
    assert open_extractor("hog", device="cpu").dim == 900


def test_torch_is_not_imported_before_a_network_is_opened():
    code = (
        "import sys, lapsvm.features, lapsvm.pipelines.cli, lapsvm.pipelines.extract;"
        "lapsvm.features.open_extractor('hog'); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
