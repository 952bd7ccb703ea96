"""Rank losses and layerwise learning for torch, which is imported when one of them is."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from lapsvm.errors import import_optional

if TYPE_CHECKING:
    from lapsvm.nn.functional import RankInfo, rank_hinge_loss
    from lapsvm.nn.layerwise import LayerwiseSVM
    from lapsvm.nn.modules import DirectLoss, RankHingeLoss, RankRampLoss
    from lapsvm.nn.two_pass import two_pass_backward

_FILES = ("functional", "modules", "two_pass", "layerwise")  # each imports torch

__all__ = [
    "DirectLoss",
    "LayerwiseSVM",
    "RankHingeLoss",
    "RankInfo",
    "RankRampLoss",
    "rank_hinge_loss",
    "two_pass_backward",
]


def __getattr__(name: str) -> Any:
    """Import a rank loss on first access, and torch with it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import_optional("torch", f"{name} needs torch", "torch")
    files = (import_module(f"{__name__}.{file}") for file in _FILES)
    return next(getattr(file, name) for file in files if hasattr(file, name))


def __dir__() -> list[str]:
    """Return the names of the module, including those that are not imported yet."""
    return sorted({*globals(), *__all__})
