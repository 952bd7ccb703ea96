"""The extractor ``efficientnet_lite0``: maps of EfficientNet-Lite0, averaged over windows."""

from typing import Any
from weakref import WeakValueDictionary

from lapsvm.errors import OptionError
from lapsvm.features.extractors.efficientnet.architecture import MAPS, onnx_network
from lapsvm.features.extractors.efficientnet.cache import cached
from lapsvm.features.extractors.efficientnet.checkpoint import read_legacy_checkpoint
from lapsvm.features.extractors.efficientnet.package import CHECKPOINT_SHA256, read_checkpoint_file
from lapsvm.features.extractors.networks import RuntimeNetwork
from lapsvm.features.extractors.pooled_network import OPTIONS, PooledNetwork
from lapsvm.features.extractors.specs import Machine, Spec, read_options, several

KIND = "efficientnet_lite0"
DEFAULT_MAPS = ("stride32", "stride16", "stride8")
_FILE = "efficientnet_lite0.onnx"
_FILE_SHA256 = "519f98a8e408275d6f9506a757fac1d36c9fd82a50db041269485d8eb3dcf9a9"
_OPTIONS = OPTIONS | {"output": several(*MAPS)}
_opened: WeakValueDictionary[int, RuntimeNetwork] = WeakValueDictionary()  # by threads, while an extractor uses it
_COLOURS: dict[str, Any] = {"order": "rgb", "mean": (127.0, 127.0, 127.0), "scale": 1 / 128}


def open_efficientnet(spec: Spec, machine: Machine) -> PooledNetwork:
    """Return the extractor that a spec asks for (see `open_extractor`).

    Raises
    ------
    OptionError
        If a file is given, or an option or its value is not known.
    DependencyError
        If the package with the weights, onnx or ONNX Runtime is not installed.
    DataError
        If the package holds other weights.
    WriteError
        If the network cannot be kept in the cache folder.
    """
    if spec.file is not None:
        raise OptionError(f"{KIND} takes no file, got {spec.file!r}.")
    options: dict[str, Any] = {"output": DEFAULT_MAPS} | _COLOURS | read_options(spec, _OPTIONS)
    return PooledNetwork(_network(machine.threads), CHECKPOINT_SHA256, name=KIND, **options)


def _network(threads: int) -> RuntimeNetwork:
    """Return the network, that of another extractor where there is one: those of several sizes share it."""
    network = _opened.get(threads)
    if network is None:
        network = _opened[threads] = RuntimeNetwork(KIND, network_file(), threads, extra="photos")
    return network


def network_file() -> bytes:
    """Return the network as an ONNX file, made from the package's checkpoint once and kept in the cache folder.

    Raises
    ------
    DependencyError, DataError, WriteError
        See `open_efficientnet`.
    """
    checkpoint = read_checkpoint_file()  # always: only the weights that are known are used
    return cached(_FILE, _FILE_SHA256, lambda: onnx_network(read_legacy_checkpoint(checkpoint)))
