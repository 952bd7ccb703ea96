"""ONNX Runtime on a GPU: asked for where its list of providers has CUDA. A made-up list stands for that of a GPU."""

from types import SimpleNamespace

import numpy as np
import pytest

from lapsvm.errors import DataError
from lapsvm.features import open_extractor, settings_difference
from lapsvm.features.extractors import networks
from lapsvm.features.extractors.efficientnet import KIND, photos_installed
from lapsvm.objectness import open_objectness

onnxruntime = pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")

PICTURE = np.random.default_rng(0).integers(0, 256, (64, 96, 3), dtype=np.uint8)
REAL = onnxruntime.InferenceSession


class Sessions:
    """Takes the place of ONNX Runtime's sessions; runs all on the processor and says that it is a GPU."""

    def __init__(self, monkeypatch, listed, fails=None):
        self.asked, self.fails = [], fails
        monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: listed)
        monkeypatch.setattr(onnxruntime, "InferenceSession", self.open)
        monkeypatch.setattr(onnxruntime, "set_default_logger_severity", lambda level: None)

    def open(self, content, options, providers, **more):
        self.asked.append((providers, more))
        names = [name if isinstance(name, str) else name[0] for name in providers]
        if networks.CUDA in names and self.fails is not None:
            raise self.fails
        session = REAL(content, options, providers=[networks.CPU])
        return SimpleNamespace(
            run=session.run,
            get_inputs=session.get_inputs,
            get_outputs=session.get_outputs,
            get_providers=lambda: names,
        )

    @property
    def names(self):
        """The first provider of each session that was asked for."""
        return [providers[0] if isinstance(providers[0], str) else providers[0][0] for providers, _ in self.asked]


@pytest.fixture
def path(tmp_path, write_network):
    return write_network(tmp_path / "net.onnx", np.eye(3))


@pytest.fixture
def drivers(monkeypatch, tmp_path):
    """Say whether there is a driver."""

    def set_drivers(there):
        (tmp_path / "driver").touch()
        monkeypatch.setattr(networks, "NVIDIA", (str(tmp_path / "driver" if there else tmp_path / "nowhere"),))

    return set_drivers


WITH_CUDA = ["TensorrtExecutionProvider", networks.CUDA, networks.CPU]


@pytest.mark.parametrize(
    ("device", "listed", "driver", "first"),
    [
        ("cuda", WITH_CUDA, False, networks.CUDA),
        ("auto", WITH_CUDA, True, networks.CUDA),
        ("auto", WITH_CUDA, False, networks.CPU),
        ("cpu", WITH_CUDA, True, networks.CPU),
        ("cuda", ["AzureExecutionProvider", networks.CPU], True, networks.CPU),
        ("auto", [networks.CPU], True, networks.CPU),
    ],
)
def test_a_gpu_is_used_where_the_setting_and_the_list_say_so(path, monkeypatch, drivers, device, listed, driver, first):
    here = open_extractor(f"onnx:{path}", device="cpu")
    drivers(driver)
    sessions = Sessions(monkeypatch, listed)
    extractor = open_extractor(f"onnx:{path}", device=device)
    assert sessions.names == [first]
    assert extractor.describe()["runtime"].get("device") == ("cuda" if first == networks.CUDA else None)
    assert not settings_difference(here.describe(), extractor.describe())
    boxes = [[0, 0, 96, 64], [3, 4, 50, 60]]
    np.testing.assert_array_equal(extractor(PICTURE, boxes), here(PICTURE, boxes))
    if first == networks.CPU:
        assert sessions.asked == [([networks.CPU], {})]


def test_a_gpu_computes_whole_float32_numbers_and_the_rest_falls_to_the_processor(path, monkeypatch):
    sessions = Sessions(monkeypatch, WITH_CUDA)
    open_extractor(f"onnx:{path}", device="cuda")
    ((providers, more),) = sessions.asked
    assert providers == [(networks.CUDA, {"use_tf32": "0", "cudnn_conv_algo_search": "HEURISTIC"}), networks.CPU]
    assert more == {"enable_fallback": 0}  # ONNX Runtime's own prints to standard output


@pytest.mark.parametrize("error", [RuntimeError("CUDA failure 100"), ValueError("no such option")])
def test_a_gpu_that_fails_leaves_the_processor(path, monkeypatch, capfd, error):
    sessions = Sessions(monkeypatch, WITH_CUDA, error)
    extractor = open_extractor(f"onnx:{path}", device="cuda")
    assert sessions.names == [networks.CUDA, networks.CPU]
    assert "device" not in extractor.describe()["runtime"]
    assert capfd.readouterr() == ("", "")


def test_a_provider_that_cannot_start_leaves_the_processor(path, monkeypatch):
    """ONNX Runtime then gives a session without it."""
    sessions = Sessions(monkeypatch, WITH_CUDA)
    opened = sessions.open

    def without(content, options, providers, **more):
        return opened(content, options, [networks.CPU], **more)

    monkeypatch.setattr(onnxruntime, "InferenceSession", without)
    assert "device" not in open_extractor(f"onnx:{path}", device="cuda").describe()["runtime"]


def test_a_damaged_network_is_refused_with_the_processors_sentence(tmp_path, monkeypatch):
    (tmp_path / "net.onnx").write_bytes(b"")
    with pytest.raises(DataError, match="must be an ONNX file, got an empty file") as here:
        open_extractor(f"onnx:{tmp_path}/net.onnx", device="cpu")
    Sessions(monkeypatch, WITH_CUDA)
    with pytest.raises(DataError) as there:
        open_extractor(f"onnx:{tmp_path}/net.onnx", device="cuda")
    assert str(there.value) == str(here.value)


@pytest.mark.skipif(not photos_installed(), reason="the extra photos is not installed")
def test_networks_of_the_package_run_there_and_are_shared_by_device(monkeypatch):
    sessions = Sessions(monkeypatch, WITH_CUDA)
    there = [open_extractor(f"{KIND}?output=stride32&size={size}", device="cuda") for size in (64, 96)]
    here = open_extractor(f"{KIND}?output=stride32&size=64", device="cpu")
    assert sessions.names == [networks.CUDA, networks.CPU]
    assert there[0]._network is there[1]._network
    assert here._network is not there[0]._network
    open_objectness("u2netp?size=320", device="cuda")
    open_objectness("u2netp?size=320", device="cpu")
    assert sessions.names[2:] == [networks.CUDA, networks.CPU]
