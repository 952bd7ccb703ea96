"""lapsvm (latent AP-SVM): object detectors from image-level labels, trained on average precision itself.

``import lapsvm`` imports nothing else; a room, such as ``lapsvm.models``, is imported when it is first asked for.
"""

from typing import Any

ROOMS = (
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
    "testing",
    "windows",
)
__all__ = ["__version__"]
__version__: str


def __getattr__(name: str) -> Any:
    """Return a room, or the version: reading that takes longer than all else that this import does."""
    if name in ROOMS:
        from importlib import import_module

        return import_module(f"{__name__}.{name}")
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import version

    return version("lapsvm")


def __dir__() -> list[str]:
    """Return the names of the module, those that are not imported yet included."""
    return sorted({*globals(), *ROOMS, *__all__})
