"""The rules of the settings of a run: the rule of each, from the table of options, and rules for several."""

import numpy as np

from lapsvm.errors import OptionError
from lapsvm.names.patterns import check_pattern
from lapsvm.settings import FILE, IMPORTED

from .options import SETTINGS
from .settings import DataSettings, RefineSettings, Settings, WindowSettings


def check_settings(settings: Settings) -> Settings:
    """Return the settings if every value keeps its rule.

    Raises
    ------
    OptionError, InputError
    """
    from lapsvm.ranking.losses import as_loss

    for name, value in settings.flat().items():
        SETTINGS[name].check(value)
    _check_sets(settings.data)
    check_pattern("option --group", settings.data.group)
    as_loss(settings.train.loss)
    _check_windows(settings.windows)
    if settings.train.init == "whole_image" and settings.windows.max_area < 1:
        raise OptionError(
            f"option --init whole_image needs a windows.max_area of 1, got {settings.windows.max_area:g}."
        )
    _check_refinement(settings.refine)
    return settings


def _check_windows(windows: WindowSettings) -> None:
    """Raise unless the method can propose windows, tried on a small picture."""
    from lapsvm.windows import propose

    if windows.max_windows < 1 and windows.method != IMPORTED:
        raise OptionError(f"option --max-windows must be 1 or more, got {windows.max_windows}.")
    if windows.method not in (FILE, IMPORTED):
        propose(np.zeros((16, 16, 3), dtype=np.uint8), windows.method, mode=windows.mode, max_area=windows.max_area)


def _check_refinement(refine: RefineSettings) -> None:
    """Raise OptionError unless the overlaps of refinement are in order."""
    limits = (refine.neg_min_iou, refine.neg_iou, refine.pos_iou)
    if not 0 <= limits[0] < limits[1] <= limits[2] <= 1:
        got = ", ".join(f"{limit:g}" for limit in limits)
        rule = "settings refine.neg_min_iou, neg_iou and pos_iou must be 0 <= neg_min_iou < neg_iou <= pos_iou <= 1"
        raise OptionError(f"{rule}, got {got}.")


def _check_sets(data: DataSettings) -> None:
    """Raise OptionError unless the sets are two, and can name a folder each."""
    for option, name in (("--train-set", data.train_set), ("--test-set", data.test_set)):
        if not name.isprintable() or not name.strip(".") or "/" in name or "\\" in name:
            raise OptionError(f"option {option} must be a name without '/' and '\\', got {name!r}.")
    if data.train_set == data.test_set:
        raise OptionError(f"options --train-set and --test-set must name two sets, got {data.test_set!r} for both.")
