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

__all__ = ["__version__"]
__version__: str


def __getattr__(name: str) -> Any:
    """Import a submodule, or read the version, on first access; reading the version is slow."""
    if name in submodules():
        from importlib import import_module

        return import_module(f"{__name__}.{name}")
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import version

    return version("lapsvm")


def submodules() -> set[str]:
    """Return the names of the files and folders beside this one, and of the rooms, which may lie in other folders."""
    from pkgutil import iter_modules

    here = {module.name for module in iter_modules(__path__) if not module.name.startswith("_")}
    return here | {"datasets", "pipelines"}


def __dir__() -> list[str]:
    """Return the names of the module, including submodules that are not imported yet."""
    return sorted({*globals(), *submodules(), *__all__})
