"""The rules that the settings of a run keep."""

import math

import numpy as np

from lapsvm.arrays import check_positive
from lapsvm.errors import OptionError

from .limits import check_limits
from .settings import (
    CRITERIA,
    DTYPES,
    FILE,
    IMPORTED,
    INITS,
    LEARNERS,
    DataSettings,
    DetectSettings,
    FeatureSettings,
    RefineSettings,
    Settings,
    TrainSettings,
)


def check_settings(settings: Settings) -> Settings:
    """Return the settings if every value keeps its rule; rooms judge what is theirs, on the smallest example.

    Raises
    ------
    OptionError, InputError
    """
    from lapsvm.latent import RankRisk
    from lapsvm.latent.cccp.early import check_early
    from lapsvm.windows import propose

    check_limits(settings.flat())
    _check_choice("--learner", settings.train.learner, LEARNERS)
    _check_choice("--init", settings.train.init, INITS)
    _check_choice("--criterion", settings.train.criterion, CRITERIA)
    _check_choice("--dtype", settings.features.dtype, DTYPES)
    _check_sets(settings.data)
    RankRisk(settings.train.loss)
    windows = settings.windows
    if windows.max_windows < 1 and windows.method != IMPORTED:
        raise OptionError(f"option --max-windows must be 1 or more, got {windows.max_windows}.")
    if windows.method not in (FILE, IMPORTED):
        propose(np.zeros((16, 16, 3), dtype=np.uint8), windows.method, mode=windows.mode, max_area=windows.max_area)
    _check_features(settings.features)
    for value in settings.train.C:
        check_positive("C", value)
    for value in settings.train.J:
        check_positive("J", value)
    check_positive("tol", settings.train.tol)
    check_positive("top", settings.train.top)
    check_early(settings.train.anneal, settings.train.pace)
    _check_training(settings.train, windows.max_area)
    if settings.train.keep_by and settings.features.beside:
        raise OptionError("option --keep-by must not go with --beside: its models are for other features.")
    check_detection(settings.detect)
    _check_refinement(settings.refine)
    return settings


def check_detection(detect: DetectSettings) -> DetectSettings:
    """Return the settings of detection if every value keeps its rule; OptionError, InputError if not."""
    from lapsvm.detection import demote_scores

    if not 0 <= detect.nms_threshold <= 1:
        raise OptionError(f"option --nms must be between 0 and 1, got {detect.nms_threshold}.")
    if detect.max_detections < 1:
        raise OptionError(f"option --max-detections must be at least 1, got {detect.max_detections}.")
    demote_scores([0.0], detect.demotion)
    _check_vote(detect)
    return detect


def _check_vote(detect: DetectSettings) -> None:
    """Raise OptionError unless the temperature of voting is 0 or above, and its overlap in (0, 1]."""
    if not (math.isfinite(detect.vote) and detect.vote >= 0):
        raise OptionError(f"option --vote must be a finite number of at least 0, got {detect.vote:g}.")
    if not 0 < detect.vote_near <= 1:
        raise OptionError(f"option --vote-near must be above 0 and at most 1, got {detect.vote_near:g}.")


def _check_training(train: TrainSettings, max_area: float) -> None:
    """Raise OptionError unless the options of latent training fit together."""
    for value in train.ignored:
        if not 0 <= value < 1:
            raise OptionError(f"option --ignored must be at least 0 and below 1, got {value:g}.")
    if train.n_init < 1 or (train.n_init > 1 and train.init != "random"):
        raise OptionError(f"option --n-init must be 1, or more with --init random, got {train.n_init}.")
    if train.multifold < 0 or train.multifold == 1:
        raise OptionError(f"option --multifold must be 2 or more, or 0 for none, got {train.multifold}.")
    if train.multifold and train.path:
        raise OptionError("option --path must not go with --multifold, which begins anew for every C.")
    if train.candidates < 0:
        raise OptionError(f"option --train-candidates must be 1 or more, or 0 for none, got {train.candidates}.")
    if train.keep_windows < 0:
        raise OptionError(f"option --keep-windows must be 1 or more, or 0 for all, got {train.keep_windows}.")
    if train.init == "whole_image" and max_area < 1:
        raise OptionError(f"option --init whole_image needs a --max-area of 1, got {max_area:g}.")
    _check_kept(train)


def _check_kept(train: TrainSettings) -> None:
    """Raise OptionError unless everything that is asked for can be told from the windows that are kept."""
    if train.keep_windows and train.init == "centre":
        raise OptionError(
            "option --init centre needs all windows, for the central one may not be kept, got --keep-windows "
            f"{train.keep_windows}."
        )
    if train.keep_by and (not train.keep_windows or train.init == "whole_image"):
        raise OptionError(
            "option --keep-by needs --keep-windows, and another --init than whole_image, which may not be kept; got "
            f"--keep-windows {train.keep_windows} --init {train.init}."
        )
    if not 0 <= train.margin < 1:
        raise OptionError(f"option --margin must be at least 0 and below 1, got {train.margin:g}.")
    if train.keep_by and train.criterion == "agreement":
        raise OptionError("option --criterion agreement must not go with --keep-by, which hides where windows lie.")


def check_choice(train: TrainSettings) -> None:
    """Raise OptionError if constants are to be chosen on windows that were kept by models which know all labels.

    The held-out pictures of cross-validation would not be held out: their labels had a part in which windows they have.
    """
    values = {"--C": train.C} | ({"--J": train.J, "--ignored": train.ignored} if train.learner == "latent_svm" else {})
    for option, given in values.items():
        if train.keep_by and len(set(given)) > 1:
            raise OptionError(
                "option --keep-by keeps windows by models that know the labels which cross-validation holds out, so "
                f"{option} must be one value, got {', '.join(f'{value:g}' for value in given)}."
            )


def _check_features(features: FeatureSettings) -> None:
    """Raise unless the settings of all networks keep their rules."""
    if features.pca:
        check_positive("pca", features.pca)
    if not 0 <= features.contrast <= 1:
        raise OptionError(f"option --contrast must be between 0 and 1, got {features.contrast}.")
    if any(size < 1 for size in features.sizes):
        raise OptionError(f"option --sizes must be numbers of pixels, got {min(features.sizes)}.")


def _check_refinement(refine: RefineSettings) -> None:
    """Raise unless the constants of refinement keep their rules."""
    check_positive("refine-C", refine.C)
    check_positive("refine-top", refine.top)
    for option, value in (("--refine", refine.rounds), ("--candidates", refine.candidates)):
        if value < 0:
            raise OptionError(f"option {option} must be 0 or more, got {value}.")
    if refine.folds < 2:
        raise OptionError(f"option --refine-folds must be 2 or more, got {refine.folds}.")
    limits = (refine.apart, refine.far, refine.near)
    if not 0 <= limits[0] < limits[1] <= limits[2] <= 1:
        got = ", ".join(f"{limit:g}" for limit in limits)
        raise OptionError(f"options --apart, --far and --near must be 0 <= apart < far <= near <= 1, got {got}.")


def _check_sets(data: DataSettings) -> None:
    """Raise OptionError unless the sets are two, and can name a folder each."""
    for option, name in (("--train-set", data.train_set), ("--test-set", data.test_set)):
        if not name.isprintable() or not name.strip(".") or "/" in name or "\\" in name:
            raise OptionError(f"option {option} must be a name without '/' and '\\', got {name!r}.")
    if data.train_set == data.test_set:
        raise OptionError(f"options --train-set and --test-set must name two sets, got {data.test_set!r} for both.")


def _check_choice(option: str, value: str, choices: tuple[str, ...]) -> None:
    """Raise OptionError unless `value` is one of `choices`."""
    if value not in choices:
        raise OptionError(f"option {option} must be one of {', '.join(choices)}, got {value!r}.")
