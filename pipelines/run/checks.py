"""The rules that the settings of a run keep: each its own, which the table of options holds, and those of several."""

import numpy as np

from lapsvm.errors import OptionError

from .options import SETTINGS
from .settings import (
    BASELINES,
    FILE,
    IMPORTED,
    DataSettings,
    RefineSettings,
    Settings,
    TrainSettings,
    WindowSettings,
)


def check_settings(settings: Settings) -> Settings:
    """Return the settings if every value keeps its rule.

    Raises
    ------
    OptionError, InputError
    """
    from lapsvm.latent import RankRisk

    for name, value in settings.flat().items():
        SETTINGS[name].check(value)
    _check_sets(settings.data)
    RankRisk(settings.train.loss)
    _check_windows(settings.windows)
    _check_training(settings.train, settings.windows.max_area)
    if settings.train.keep_by and settings.features.beside:
        raise OptionError("setting train.keep_by must not go with features.beside: its models are for other features.")
    _check_refinement(settings.refine)
    if settings.train.learner in BASELINES:
        _check_baseline(settings)
    return settings


def _check_baseline(settings: Settings) -> None:
    """Raise OptionError if a baseline is asked for what latent learners alone have."""
    train = settings.train
    for option, given, only in (
        ("--refine", settings.refine.rounds, 0),
        ("--set train.keep_windows", train.keep_windows, 0),
        ("--set train.multifold", train.multifold, 0),
    ):
        if given != only:
            raise OptionError(f"option {option} must be {only} with --learner {train.learner}, got {given}.")


def _check_windows(windows: WindowSettings) -> None:
    """Raise unless the method can propose windows, tried on a small picture."""
    from lapsvm.windows import propose

    if windows.max_windows < 1 and windows.method != IMPORTED:
        raise OptionError(f"option --max-windows must be 1 or more, got {windows.max_windows}.")
    if windows.method not in (FILE, IMPORTED):
        propose(np.zeros((16, 16, 3), dtype=np.uint8), windows.method, mode=windows.mode, max_area=windows.max_area)


def _check_training(train: TrainSettings, max_area: float) -> None:
    """Raise OptionError unless the options of latent training fit together."""
    if train.n_init > 1 and train.init != "random":
        raise OptionError(f"setting train.n_init must be 1, or more with --init random, got {train.n_init}.")
    if train.multifold == 1:
        raise OptionError("setting train.multifold must be 2 or more, or 0 for none, got 1.")
    if train.multifold and train.path:
        raise OptionError("setting train.path must not go with train.multifold, which starts anew for every C.")
    if train.init == "whole_image" and max_area < 1:
        raise OptionError(f"option --init whole_image needs a windows.max_area of 1, got {max_area:g}.")
    _check_kept(train)


def _check_kept(train: TrainSettings) -> None:
    """Raise OptionError unless the kept windows suffice for the other options."""
    if train.keep_windows and train.init == "centre":
        raise OptionError(
            "option --init centre needs all windows, for the central one may not be kept, got train.keep_windows "
            f"{train.keep_windows}."
        )
    if train.keep_by and (not train.keep_windows or train.init == "whole_image"):
        raise OptionError(
            "setting train.keep_by needs train.keep_windows, and another --init than whole_image, which may not be "
            f"kept; got train.keep_windows {train.keep_windows} and --init {train.init}."
        )


def check_choice(train: TrainSettings) -> None:
    """Raise OptionError if cross-validation would choose constants on windows that models of all labels selected.

    Its held-out pictures would not be held out: their labels influenced which windows they have.
    """
    if not train.needs_folds:
        return
    values = {"--C": train.C} | ({"--J": train.J, "--trim": train.trim} if train.learner == "latent_svm" else {})
    for option, given in values.items():
        if train.keep_by and len(set(given)) > 1:
            raise OptionError(
                "setting train.keep_by keeps windows by models that know the labels which cross-validation holds out, "
                f"so {option} must be one value, got {', '.join(f'{value:g}' for value in given)}."
            )


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
