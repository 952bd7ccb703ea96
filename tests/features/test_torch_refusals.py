"""Networks of torch that are refused, in one sentence each; devices, and memory that runs out."""

import pickle
import subprocess
import sys

import numpy as np
import pytest

from lapsvm.errors import DataError, DependencyError, MissingError, NotFiniteError, OptionError
from lapsvm.features import open_extractor, settings_difference

torch = pytest.importorskip("torch", reason="torch is not installed")

PICTURE = np.random.default_rng(0).integers(0, 256, (96, 128, 3), dtype=np.uint8)
BOXES = np.array([[0, 0, 128, 96], [32, 32, 96, 96], [3.5, 5, 100.5, 41.25], [120, 90, 140, 200]], dtype=np.float64)


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


def quantised(tensor):
    return torch.quantize_per_tensor(tensor, 0.1, 0, torch.qint8)


@pytest.mark.filterwarnings("ignore")  # of torch, on kinds of tensors that it may drop
@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda one: one.to_sparse(), "must hold plain tensors of numbers, got the sparse tensor mix.weight"),
        (lambda one: one.to("meta"), "must hold plain tensors of numbers, got the meta tensor mix.weight"),
        (quantised, "must hold plain tensors of numbers, got the quantised tensor mix.weight"),
        (lambda one: one.to(torch.int8), "do not fit: mix.weight must be of type float32, got int8"),
        (lambda one: one.to(torch.bool), "do not fit: mix.weight must be of type float32, got bool"),
        (lambda one: one.to(torch.complex64), "do not fit: mix.weight must be of type float32, got complex64"),
    ],
)
def test_tensors_without_plain_numbers_are_refused(nets, tmp_path, change, sentence):
    path, state = tmp_path / "net.pth", nets.Colours().state_dict()
    torch.save({**state, "mix.weight": change(state["mix.weight"])}, path)
    with pytest.raises(DataError, match=rf"weights .*net\.pth {sentence}\.$"):
        open_extractor(f"torch:tiny_nets:colours?weights={path}")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_weights_of_other_precisions_are_taken(nets, tmp_path, dtype):
    path = tmp_path / "net.pth"
    torch.save({name: one.to(dtype) for name, one in nets.Colours().state_dict().items()}, path)
    assert open_extractor(f"torch:tiny_nets:colours?weights={path}")(PICTURE, BOXES).dtype == np.float32


def test_a_factory_that_makes_a_network_without_numbers_is_refused(nets, monkeypatch):
    monkeypatch.setattr(nets, "colours", lambda: nets.Colours().to("meta"))
    with pytest.raises(DataError, match="network tiny_nets:colours must hold plain tensors of numbers, got the meta"):
        open_extractor("torch:tiny_nets:colours")


@pytest.mark.parametrize("name", ["junk.pth", "junk.safetensors"])
@pytest.mark.parametrize("content", [b"", b"junk", b"\x00" * 64])
def test_a_file_that_holds_no_weights_is_named(nets, tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    rule = "are no state dict that can be read:|must be a state dict of tensors, got an empty file;"
    with pytest.raises(DataError, match=rf"weights .*{name} ({rule}) [^\n]*\.$"):
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
        ("torch", OptionError, "torch must be followed by PACKAGE.MODULE:FACTORY, got ''"),
        ("torch:tiny_nets", OptionError, "followed by PACKAGE.MODULE:FACTORY, got 'tiny_nets'"),
        ("torch:no_such_nets:make", OptionError, "module no_such_nets cannot be found; install it, or put its folder"),
        ("torch:tiny_nets.deep:make", OptionError, r"module tiny_nets\.deep cannot be found"),
        ("torch:broken_nets:make", OptionError, "module broken_nets cannot be imported: it is not ready"),
        ("torch:tiny_nets:absent", OptionError, "absent of module tiny_nets must be callable, got no such name"),
        ("torch:tiny_nets:TEXT", OptionError, "TEXT of module tiny_nets must be callable, got str"),
        ("torch:tiny_nets:fails", DataError, "factory tiny_nets:fails failed with KeyError: 'no such thing'"),
        ("torch:tiny_nets:Gives", DataError, "factory tiny_nets:Gives failed with TypeError"),
        ("torch:tiny_nets:no_module", DataError, r"must give a torch\.nn\.Module, got int"),
        (
            "torch:tiny_nets:vectors",
            DataError,
            r"an output with 4 dimensions, or 3 for tokens; there are output \(1, 7\)",
        ),
        ("torch:tiny_nets:gives_nothing", DataError, "must give a tensor or several, got NoneType"),
        ("torch:tiny_nets:fails_inside", DataError, "cannot take a picture of 224 x 224"),
        ("torch:tiny_nets:colours?weights=absent.pth", MissingError, r"file of weights absent\.pth is not there"),
        ("torch:tiny_nets:colours?context=16", OptionError, "context must be none or appended, got '16'"),
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


def test_memory_that_is_too_small_for_a_picture_is_a_sentence(nets):
    pooled = open_extractor("torch:tiny_nets:starving?size=96", device="cpu")
    with pytest.raises(
        DataError,
        match=r"^network tiny_nets:starving needs more memory than device cpu has for a picture of 64 x 96; give",
    ):
        pooled(PICTURE, BOXES)


def test_a_device_is_there_or_refused(nets, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert open_extractor("torch:tiny_nets:colours").describe()["runtime"]["device"] == "cpu"
    with pytest.raises(OptionError, match="device cuda needs a GPU that torch can use, and there is none"):
        open_extractor("torch:tiny_nets:colours", device="cuda")
    with pytest.raises(OptionError, match="device must be one of auto, cpu, cuda, got 'tpu'"):
        open_extractor("hog", device="tpu")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no GPU here")
def test_a_gpu_gives_what_the_processor_gives(nets):
    here, there = (open_extractor("torch:tiny_nets:colours?size=128", device=name) for name in ("cpu", "cuda"))
    np.testing.assert_allclose(there(PICTURE, BOXES), here(PICTURE, BOXES), atol=1e-4)
    assert not settings_difference(here.describe(), there.describe())


def test_without_torch_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(DependencyError, match=r'torch:a\.b:c. needs torch, .* pip install "\.\[torch\]"'):
        open_extractor("torch:a.b:c")
    assert open_extractor("hog", device="cpu").dim == 900


def test_torch_is_not_imported_before_a_network_is_opened():
    code = (
        "import sys, lapsvm.features, lapsvm.pipelines.commands.verbs, lapsvm.pipelines.shards.extraction;"
        "lapsvm.features.open_extractor('hog'); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


IN_FORWARD = (
    "import sys\nimport torch\nclass make(torch.nn.Module):\n    def forward(self, batch):\n        sys.exit(0)"
)


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (IN_FORWARD, "0"),
        ("import sys\nsys.exit()", "None"),
        ("import sys\ndef make():\n    sys.exit(3)", "3"),
        ("def __getattr__(name):\n    raise SystemExit(0)", "0"),
        ("import torch\nclass make(torch.nn.Module):\n    def state_dict(self):\n        raise SystemExit('x')", "'x'"),
    ],
)
def test_code_that_ends_the_program_is_one_sentence(tmp_path, monkeypatch, code, status):
    (tmp_path / "quitting_nets.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "quitting_nets", raising=False)
    with pytest.raises(DataError, match=rf"^(extractor|network) .* ended with SystemExit\({status}\)"):
        open_extractor("torch:quitting_nets:make")(PICTURE, BOXES)
