"""lapsvm (latent AP-SVM): object detectors from image-level labels, trained on average precision itself.

``import lapsvm`` is cheap: subpackages such as ``lapsvm.models`` are imported on first access.
"""

import os
from importlib.machinery import EXTENSION_SUFFIXES
from typing import Any

_FOLDER = os.path.dirname(__file__)
if not any(name.endswith(tuple(EXTENSION_SUFFIXES)) for name in os.listdir(os.path.join(_FOLDER, "_ext"))):
    raise ImportError(
        f"{_FOLDER} is the source of lapsvm without its compiled kernels; start Python in another folder to use the "
        "installed lapsvm, or give pip install -e . in the folder of the source."
    )

SUBMODULES = (
    "arrays",
    "bags",
    "bfloat16",
    "blas",
    "boxes",
    "catalog",
    "cluster",
    "coco_files",
    "datasets",
    "detection",
    "errors",
    "evaluation",
    "features",
    "files",
    "latent",
    "model_files",
    "models",
    "nn",
    "optim",
    "pipelines",
    "ranking",
    "report",
    "settings",
    "testing",
    "voc_files",
    "windows",
)
__all__ = ["__version__"]
__version__: str


def __getattr__(name: str) -> Any:
    """Import a submodule, or read the version, on first access; reading the version is slow."""
    if name in SUBMODULES:
        from importlib import import_module

        return import_module(f"{__name__}.{name}")
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import version

    return version("lapsvm")


def __dir__() -> list[str]:
    """Return the names of the module, including submodules that are not imported yet."""
    return sorted({*globals(), *SUBMODULES, *__all__})
