"""The settings of a run: what the command line, a run folder's ``run.toml`` and the defaults resolve to.

Later wins: defaults, then the ``run.toml`` that is there, then the options of the command line.
"""

import math
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import tomli_w

from lapsvm.arrays import check_positive
from lapsvm.errors import OptionError, SettingsError
from lapsvm.files import NOT_PARSED, read_regular

from .limits import check_limits, shown

LEARNERS = ("latent_rank_svm", "latent_svm")
INITS = ("mean", "whole_image", "centre", "random")
CRITERIA = ("image_ap", "agreement")
DTYPES = ("float16", "float32", "bfloat16")
FILE, IMPORTED = "file", "imported"  # sources of windows that are no methods: files of other programs


@dataclass(frozen=True)
class DataSettings:
    """Which pictures, and which of their classes."""

    name: str = ""
    root: str = ""
    classes: tuple[str, ...] = ()
    train_set: str = "trainval"
    test_set: str = "test"
    skip_bad: bool = False


@dataclass(frozen=True)
class SourceSettings:
    """Files of other programs with windows, and perhaps features, and how to read them; see `lapsvm.features.foreign`.

    "" and -1 are what is usual in files of that kind. With ``clip`` boxes are cut to the picture; with ``drop_equal``
    those go that are an annotated object's.
    """

    files: tuple[str, ...] = ()
    format: str = ""
    boxes: str = ""
    base: int = -1
    edges: str = ""
    boxes_name: str = ""
    features_name: str = ""
    clip: bool = False
    drop_equal: bool = False


@dataclass(frozen=True)
class WindowSettings:
    """How windows are proposed: by a method of `lapsvm.windows`, or "file", or "imported" with their features."""

    method: str = "selective_search"
    mode: str = "fast"
    max_windows: int = 2000
    max_area: float = 1.0
    source: SourceSettings = field(default_factory=SourceSettings)


@dataclass(frozen=True)
class FeatureSettings:
    """What is measured in a window, and how it is stored.

    ``pca`` is how many principal components of each extractor's features are kept; below 1 the share of their variance,
    0 leaves them as they are. The rest is for networks whose text does not say otherwise: ``contrast`` is how much of a
    window's surroundings is taken away, in the features, or with ``beside`` in training, where refinement sees both
    parts; ``sizes`` are the longest sides at which a network sees each picture, side by side.
    """

    extractors: tuple[str, ...] = ("hog",)
    dtype: str = "float16"
    pca: float = 0.0
    contrast: float = 0.0
    beside: bool = False
    sizes: tuple[int, ...] = ()


@dataclass(frozen=True)
class TrainSettings:
    """Learner and its constants; several values of C, J and ignored are compared by cross-validation.

    With ``J_relative`` the values of J are multiples of a class's labelled pictures per positive one. With ``path``
    several values of C are trained from the largest downwards, each begun where the one before ended. Of every picture
    the ``keep_windows`` best windows take part, all for 0: the first ones, or those best-scored by the models of the
    run folder ``keep_by``. ``multifold`` is the number of parts for relocalisation, 0 for none. ``anneal`` and ``pace``
    are those of `lapsvm.latent.LatentProblem`, ``candidates`` is that of `lapsvm.latent.fit_many`. ``criterion`` is
    what cross-validation compares, ``margin`` how far below the best a candidate counts as good as that (see
    `lapsvm.pipelines.selection`).
    """

    learner: str = "latent_rank_svm"
    loss: str = "ap"
    C: tuple[float, ...] = (0.1, 1.0, 10.0, 100.0)
    J: tuple[float, ...] = (1.0,)
    J_relative: bool = False
    ignored: tuple[float, ...] = (0.0,)
    path: bool = False
    tol: float = 0.001
    init: str = "mean"
    n_init: int = 1
    multifold: int = 0
    top: float = 1.0
    anneal: float = 0.0
    pace: float = 1.0
    candidates: int = 20
    keep_windows: int = 0
    keep_by: str = ""
    folds: int = 3
    criterion: str = "image_ap"
    margin: float = 0.0


@dataclass(frozen=True)
class RefineSettings:
    """Self-training after training, see `lapsvm.latent.refine`; no rounds, no refinement.

    ``candidates`` is how many windows of each negative picture take part, the best by the model that a round begins
    with; 0 is all. With ``rivals`` the windows that training chose for the other classes of a picture are negatives.
    With ``average`` the detector is the mean of the models of all pictures and of all but a fold.
    """

    rounds: int = 0
    C: float = 30.0
    near: float = 0.7
    far: float = 0.3
    apart: float = 0.0
    top: float = 1.0
    folds: int = 3
    candidates: int = 0
    rivals: bool = False
    average: bool = False


@dataclass(frozen=True)
class DetectSettings:
    """How scores become detections."""

    nms_threshold: float = 0.3
    max_detections: int = 100
    demotion: float = 0.0
    vote: float = 0.0
    vote_near: float = 0.4


@dataclass(frozen=True)
class Settings:
    """All settings of a run."""

    data: DataSettings = field(default_factory=DataSettings)
    windows: WindowSettings = field(default_factory=WindowSettings)
    features: FeatureSettings = field(default_factory=FeatureSettings)
    train: TrainSettings = field(default_factory=TrainSettings)
    refine: RefineSettings = field(default_factory=RefineSettings)
    detect: DetectSettings = field(default_factory=DetectSettings)
    seed: int = 0

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a ``run.toml``."""
        return cls().with_values(cls.values_in(path), source=str(path))

    @staticmethod
    def values_in(path: Path) -> dict[str, Any]:
        """Return dotted name -> value of a TOML file; its tables [versions] and [command] are for people.

        Raises
        ------
        SettingsError
            If it is no TOML.
        """
        try:
            tables = tomllib.loads(read_regular(path, "settings file").decode("utf-8"))
            known = {name: value for name, value in tables.items() if name not in ("versions", "command")}
            return dict(_flat(known))
        except NOT_PARSED as error:
            raise SettingsError(f"settings file {path} is not valid TOML: {error}.") from None

    def toml(self, **notes: Mapping[str, Any]) -> str:
        """Return the settings as TOML, with `notes` as further tables."""
        return tomli_w.dumps({**asdict(self), **notes})

    def with_values(self, values: Mapping[str, Any], source: str = "the command line") -> Self:
        """Return a copy in which dotted names such as ``train.C`` have new values; None leaves a value as it is."""
        changed = self
        for name, value in values.items():
            if value is not None:
                changed = _with_value(changed, name, value, source)
        return changed

    def flat(self) -> dict[str, Any]:
        """Return dotted name -> value."""
        return dict(_flat(asdict(self)))


def _flat(tables: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield dotted names and values."""
    for name, value in tables.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _with_value(settings: Any, name: str, value: Any, source: str) -> Any:
    """Return a copy of a settings object with one dotted name changed."""
    head, _, rest = name.partition(".")
    if head not in {entry.name for entry in fields(settings)}:
        raise OptionError(f"setting {name!r} in {source} is not known.")
    old = getattr(settings, head)
    if is_dataclass(old) != bool(rest):
        raise OptionError(f"setting {name!r} in {source} must be a {'table' if is_dataclass(old) else 'value'}.")
    new = _with_value(old, rest, value, source) if rest else _as_kind_of(old, value, name, source)
    return replace(settings, **{head: new})


def _as_kind_of(old: Any, value: Any, name: str, source: str) -> Any:
    """Return `value` in the type of the default it replaces."""
    if isinstance(old, tuple):
        items = value if isinstance(value, list | tuple) else (value,)
        example = 0.0 if name in ("C", "J", "ignored") else 0 if name == "sizes" else ""
        return tuple(_as_kind_of(example, item, name, source) for item in items)
    if isinstance(old, float) and type(value) is int and abs(value) < 2**63:
        return float(value)
    if type(value) is not type(old):
        raise OptionError(f"setting {name!r} in {source} must be a {type(old).__name__}, got {shown(value)}.")
    return value


def check_settings(settings: Settings) -> Settings:
    """Return the settings if every value keeps its rule; rooms judge what is theirs, on the smallest example.

    Raises
    ------
    OptionError, InputError
    """
    from lapsvm.latent import RankRisk
    from lapsvm.latent.early import check_early
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
    from lapsvm.detection import demoted

    if not 0 <= detect.nms_threshold <= 1:
        raise OptionError(f"option --nms must be between 0 and 1, got {detect.nms_threshold}.")
    if detect.max_detections < 1:
        raise OptionError(f"option --max-detections must be at least 1, got {detect.max_detections}.")
    demoted([0.0], detect.demotion)
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
