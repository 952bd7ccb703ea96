"""The settings of a run: what the command line, a run folder's ``run.toml`` and the defaults resolve to.

Later wins: defaults, then the ``run.toml`` that is there, then the options of the command line.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Self, get_args

import tomli_w

from lapsvm.errors import OptionError, SettingsError
from lapsvm.settings import DetectSettings, NetworkSettings, ProposalSettings
from lapsvm.texts.reading import read_toml

from .limits import shown

LEARNERS = ("latent_rank_svm", "latent_svm")
INITS = ("mean", "whole_image", "random")
DTYPES = ("float16", "float32", "bfloat16")
FILE, IMPORTED = "file", "imported"  # sources of windows that are no methods: files of other programs

NO_SOURCE = "none"  # of objectness
NORMAL = "normal"  # the source of objectness that is fitted to negative pictures


@dataclass(frozen=True)
class DataSettings:
    """Which pictures, and which of their classes.

    ``boxes`` is a COCO file or a folder of VOC annotations with boxes of some pictures, which only evaluation reads.
    """

    name: str = ""
    root: str = ""
    classes: tuple[str, ...] = ()
    train_set: str = "trainval"
    test_set: str = "test"
    skip_bad: bool = False
    boxes: str = ""


@dataclass(frozen=True)
class SourceSettings:
    """Files of other programs with windows, and perhaps features, and how to read them.

    See `lapsvm.features.external.windows`.

    "" and -1 stand for the usual convention of the file's format. With ``clip`` boxes are cut to the picture; with
    ``drop_equal`` boxes that equal an annotated object's are left out.
    """

    files: tuple[str, ...] = ()
    format: str = ""
    boxes: str = ""
    base: int = -1
    edges: str = ""
    boxes_name: str = ""
    features_name: str = ""
    objectness_name: str = ""
    clip: bool = False
    drop_equal: bool = False


@dataclass(frozen=True)
class WindowSettings(ProposalSettings):
    """How windows are proposed: by a method of `lapsvm.windows`, or "file", or "imported" with their features."""

    source: SourceSettings = field(default_factory=SourceSettings)


@dataclass(frozen=True)
class FeatureSettings:
    """What is measured in a window, and how it is stored.

    ``pca`` is how many principal components of each extractor's features are kept; below 1 the share of their variance,
    0 leaves them as they are. The rest is for networks, see `lapsvm.settings.NetworkSettings`.
    """

    extractors: tuple[str, ...] = ("hog",)
    dtype: str = "float16"
    pca: float = 0.0
    contrast: float = 0.0
    beside: bool = False
    sizes: tuple[int, ...] = ()

    @property
    def networks(self) -> NetworkSettings:
        """The settings for all networks."""
        return NetworkSettings(self.contrast, self.beside, self.sizes)


@dataclass(frozen=True)
class ObjectnessSettings:
    """How much windows stand out, whatever their class, and what refinement makes of it.

    ``source`` says what measures it, see `lapsvm.objectness`. Where refinement chooses a positive picture's window, one
    that stands out fully is ahead of one that does not by ``weight`` standard deviations of the picture's scores; 0
    leaves it out. Classes use it as far as what they are chosen by stands out (`fitting.refining.prior`); if there are
    ``classes``, these alone use it, in full.
    """

    source: str = NO_SOURCE
    weight: float = 2.0
    classes: tuple[str, ...] = ()


@dataclass(frozen=True)
class TrainSettings:
    """Learner and its constants; several values of C, J and trim are compared by cross-validation.

    With ``J_relative`` the values of J are multiples of a class's labelled pictures per positive one. With ``path``
    several values of C are trained from the largest downwards, each begun where the one before ended. ``candidates`` is
    that of `lapsvm.latent.fit_many`. ``margin`` is how far below the best a candidate of cross-validation counts as
    good as that (see `lapsvm.pipelines.fitting.selection`).
    """

    learner: str = "latent_rank_svm"
    loss: str = "ap"
    C: tuple[float, ...] = (0.1, 1.0, 10.0, 100.0)
    J: tuple[float, ...] = (1.0,)
    J_relative: bool = False
    trim: tuple[float, ...] = (0.0,)
    path: bool = False
    tol: float = 0.001
    init: str = "mean"
    top: float = 1.0
    candidates: int = 20
    folds: int = 3
    margin: float = 0.0

    @property
    def needs_folds(self) -> bool:
        """Whether folds are trained to choose constants: there are several candidates."""
        constants = (self.C, self.J, self.trim) if self.learner == "latent_svm" else (self.C,)
        return any(len(set(values)) > 1 for values in constants)

    @property
    def least_pictures(self) -> int:
        """How many positive, and negative, pictures a class needs: one for each fold where folds choose constants."""
        return self.folds if self.needs_folds else 1


@dataclass(frozen=True)
class RefineSettings:
    """Self-training after training, see `lapsvm.latent.refine`; no rounds, no refinement.

    ``candidates`` is how many windows of each negative picture take part, the best by the model that a round begins
    with; 0 is all.
    With ``box_voting`` a round begins with the windows nearest to the chosen ones after box voting, chosen by scores
    smoothed by ``score_smoothing``. ``surroundings`` is the share that the weights of windows' surroundings keep after
    the last round, and where ``box_voting`` chooses windows.
    """

    rounds: int = 0
    C: float = 2.0
    pos_iou: float = 0.7
    neg_iou: float = 0.4
    neg_min_iou: float = 0.1
    neg_part_iou: float = 0.1
    top: float = 5.0
    candidates: int = 300
    box_voting: bool = True
    score_smoothing: float = 0.5
    surroundings: float = 0.8


@dataclass(frozen=True)
class Settings:
    """All settings of a run."""

    data: DataSettings = field(default_factory=DataSettings)
    windows: WindowSettings = field(default_factory=WindowSettings)
    features: FeatureSettings = field(default_factory=FeatureSettings)
    objectness: ObjectnessSettings = field(default_factory=ObjectnessSettings)
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
        tables = read_toml(path, "settings file", SettingsError)
        known = {name: value for name, value in tables.items() if name not in ("versions", "command")}
        try:
            return dict(_flat(known))
        except RecursionError:
            raise SettingsError(f"settings file {path} must not nest tables deeper than settings are.") from None

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
    kinds = {entry.name: (*get_args(entry.type), str)[0] for entry in fields(settings)}
    if head not in kinds:
        raise OptionError(f"setting {name!r} in {source} is not known.")
    old = getattr(settings, head)
    if is_dataclass(old) != bool(rest):
        raise OptionError(f"setting {name!r} in {source} must be a {'table' if is_dataclass(old) else 'value'}.")
    new = _with_value(old, rest, value, source) if rest else _as_kind_of(old, value, name, source, kinds[head])
    return replace(settings, **{head: new})


def _as_kind_of(old: Any, value: Any, name: str, source: str, kind: type = str) -> Any:
    """Return `value` in the type of the value it replaces; `kind` is that of the items of a tuple."""
    if isinstance(old, tuple):
        items = value if isinstance(value, list | tuple) else (value,)
        return tuple(_as_kind_of(kind(), item, name, source) for item in items)
    if isinstance(old, float) and type(value) is int and abs(value) < 2**63:
        return float(value)
    if type(value) is not type(old):
        raise OptionError(f"setting {name!r} in {source} must be a {type(old).__name__}, got {shown(value)}.")
    return value
