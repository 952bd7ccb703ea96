"""The settings of a run, resolved from the command line, a run folder's ``run.toml`` and the defaults.

Later wins: defaults, then the ``run.toml`` that is there, then the options of the command line. Each setting is
declared once, here or in `lapsvm.settings`; checks, flags, help, ``--help-settings`` and docs/reference/options.md
follow from its field. The metadata of a field are those of `lapsvm.settings.setting`, and

kind : type
    Path for text that names a file or folder; else the type of the value, or of its items.
repeated : bool
    Whether an option gives one item and stands several times; else it gives all, separated by commas.
flag, main : str
    The flags of its own option, and the verbs whose ``--help`` shows that ("*": all); without flags ``--set`` alone.
panel, verbs : str
    Where help shows it, and the verbs that take it, its flag or ``--set``; else those of its table. `run` takes all by
    ``--set``.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Self, get_args

import tomli_w

from lapsvm.errors import OptionError, SettingsError
from lapsvm.settings import (
    AT_LEAST_0,
    COUNT,
    INITS,
    MAX_NUMBER,
    NO_SOURCE,
    POSITIVE,
    SHARE,
    DetectSettings,
    NetworkSettings,
    ProposalSettings,
    Range,
    current_names,
    setting,
)
from lapsvm.texts.reading import read_toml
from lapsvm.texts.sentences import shown

from .limits import MAX_SEED, MAX_SIZE

LEARNERS = ("latent_rank_svm", "latent_svm")
DTYPES = ("float16", "float32", "bfloat16")

BEGIN = "run extract"
OF_ROOT = "run extract import train tune refine detect report threshold compare export verify review"


def table(panel: str, verbs: str, main: str = "", **of: Mapping[str, str]) -> dict[str, Any]:
    """Return the metadata of a table of settings: defaults for all fields, and overrides `of` fields by name."""
    return {"panel": panel, "verbs": verbs, "main": main, "of": of}


# fmt: off
@dataclass(frozen=True)
class DataSettings:
    """The pictures, and the classes to learn; only evaluation reads ``boxes``."""

    name: str = setting("", "voc, folder, csv, coco, imagefolder, mvtec, digits, plates, or a data set of your own.",
        flag="--data", main="*")
    root: str = setting("", "The folder of the data set; for a later verb, if the data have moved.", kind=Path,
        flag="--root", verbs=OF_ROOT, main="run extract import")
    classes: tuple[str, ...] = setting((), "The classes, as in a,b,c; all by default.", flag="--classes", main="*")
    train_set: str = setting("trainval", "The set to train on.", flag="--train-set")
    test_set: str = setting("test", "The set to test on; none where there is none.", flag="--test-set")
    skip_bad: bool = setting(False, "Leave out pictures that cannot be read.", flag="--skip-bad", main="*")
    boxes: str = setting("", "A COCO file, or a folder of VOC annotations, with boxes of some pictures, for "
        "evaluation alone.", kind=Path, flag="--boxes", verbs="run extract import evaluate report", main="evaluate")
    group: str = setting("", "A regular expression: pictures with the same match in their names stay in one fold.",
        flag="--group")


@dataclass(frozen=True)
class SourceSettings:
    """Files of other programs with windows, and perhaps features, and how to read them.

    See `lapsvm.features.external.windows`. "" and -1 stand for the usual convention of the file's format.
    """

    files: tuple[str, ...] = setting((), "Files or folders with windows of another program, for import with their "
        "features; several for several sets.", kind=Path, repeated=True, flag="--proposals", panel="Windows",
        verbs=BEGIN, main="")
    format: str = setting("", "npz, npy, json or mat; by default the suffix decides.", flag="--format")
    boxes: str = setting("", "The order of a box's numbers: xyxy, yxyx or xywh; by default what is usual in the "
        "format.", flag="--box-order")
    base: int = setting(-1, "The number of the first pixel, 0 or 1; -1: what is usual in the format.", Range(-1, 1),
        flag="--base")
    edges: str = setting("", "inclusive: x2, y2 are a box's last pixels; exclusive: the ones after them.",
        flag="--edges")
    boxes_name: str = setting("", "The name of the array of boxes.", flag="--boxes-name")
    features_name: str = setting("", "The name of the array of features.", flag="--features-name", verbs="import")
    objectness_name: str = setting("", "The name of the array of objectness.", verbs="import")
    clip: bool = setting(False, "Cut boxes that reach out of the picture.", flag="--clip/--no-clip")
    drop_equal: bool = setting(False, "Leave out boxes that equal an annotated object's.",
        flag="--drop-equal-boxes/--keep-equal-boxes", verbs="import")


@dataclass(frozen=True)
class WindowSettings(ProposalSettings):
    """How windows are proposed: by a method of `lapsvm.windows`, or "file", or "imported" with their features."""

    source: SourceSettings = field(
        default_factory=SourceSettings, metadata=table("External files", "extract import", main="import")
    )


@dataclass(frozen=True)
class FeatureSettings:
    """The features of a window, and their storage; some are for networks (see `NetworkSettings`)."""

    extractors: tuple[str, ...] = setting(("hog",), "auto, efficientnet_lite0, hog, onnx:FILE, "
        "torch:MODULE:FACTORY or torch:alexnet; several are concatenated. Where a run begins the default is auto: the "
        "network with the extra photos, else hog.", repeated=True, flag="--extractor", main="*")
    dtype: str = setting("float16", "The type of stored features.", DTYPES, verbs="run extract import")
    pca: float = setting(0.0, "The principal components kept of each extractor's features; below 1 the share of "
        "their variance, 0 for no projection.", AT_LEAST_0, flag="--pca", main="extract")
    contrast: float = setting(0.0, "The share of the features of a window's context that is subtracted from its own, "
        "for networks.", SHARE)
    store_context: bool = setting(False, "Store the features of the context next to the window's: training subtracts, "
        "and refinement uses both.")
    sizes: tuple[int, ...] = setting((), "The longest sides at which networks see a picture, as in 640,960.",
        Range(1, MAX_SIZE), flag="--sizes", main="extract")

    @property
    def networks(self) -> NetworkSettings:
        """The settings for all networks."""
        return NetworkSettings(self.contrast, self.store_context, self.sizes)


@dataclass(frozen=True)
class ObjectnessSettings:
    """Objectness: how much windows stand out, whatever their class, and its weight in refinement.

    ``source`` says what measures it, see `lapsvm.objectness`. Where refinement chooses a positive picture's window, one
    that stands out fully is ahead of one that does not by ``weight`` standard deviations of the picture's scores.
    Classes use it as far as what they are chosen by stands out (`fitting.refining.prior`).
    """

    source: str = setting(NO_SOURCE, "What measures how much windows stand out, in positive pictures: auto, none, "
        "u2netp, onnx:FILE, normal or a source of your own. Where a run begins the default is auto: u2netp with a "
        "network, refinement and the extra photos, else none.", flag="--objectness", main="*")
    weight: float = setting(2.0, "How much what stands out counts where refinement chooses windows, in standard "
        "deviations of scores; 0 for not at all.", AT_LEAST_0, verbs="run refine")
    classes: tuple[str, ...] = setting((), "The classes that use what stands out, in full, and no others; by default "
        "their windows decide.", verbs="run refine")


@dataclass(frozen=True)
class TrainSettings:
    """Learner and its constants; several values of C, J and trim are compared by cross-validation.

    With ``path`` several values of C are trained from the largest downwards. ``candidates`` is that of
    `lapsvm.latent.fit_many`; for ``margin`` see `lapsvm.pipelines.fitting.selection`.
    """

    learner: str = setting("latent_rank_svm", "The learner.", LEARNERS, flag="--learner", main="*")
    loss: str = setting("ap", "The loss of latent_rank_svm: ap, ndcg, auc, mrr, pos_at_top, partial_auc (up to .1 of "
        "false alarms; partial_auc@.05: up to .05), zero_one.", flag="--loss", main="*")
    C: tuple[float, ...] = setting((0.1, 1.0, 10.0, 100.0), "The weight of the loss; cross-validation chooses one of "
        "several.", POSITIVE, flag="--C", main="*")
    J: tuple[float, ...] = setting((1.0,), "The weight of positives in latent_svm; cross-validation chooses one of "
        "several.", POSITIVE, flag="--J", main="tune")
    J_relative: bool = setting(False, "Multiply J by a class's labelled pictures per positive one.")
    trim: tuple[float, ...] = setting((0.0,), "The share of each negative's most confusing windows that latent_svm "
        "leaves out; cross-validation chooses one of several.", Range(0, 1, below=True), flag="--trim",
        verbs="train tune", main="tune")
    path: bool = setting(False, "Start the training at each C from the result at the next larger one; tune does.")
    tol: float = setting(0.001, "The relative duality gap at which training stops.", POSITIVE, flag="--tol",
        verbs="train tune", main="train tune")
    init: str = setting("mean", "Where training starts: the mean of a picture's windows, the whole image, or a "
        "random window.", INITS, flag="--init", verbs="train tune", main="train")
    top: float = setting(1.0, "The number of windows whose mean represents a positive picture; below 1 a share.",
        POSITIVE)
    candidates: int = setting(20, "The number of candidate windows per picture between passes over all windows; 0 "
        "for passes only.", COUNT)
    folds: int = setting(3, "The number of folds for held-out scores and for the choice of constants; tune takes 5.",
        Range(2, MAX_NUMBER), flag="--folds", main="train tune")
    margin: float = setting(0.0, "Take the smallest C that is at most this far below the best in cross-validation.",
        Range(0, 1, below=True), flag="--margin", verbs="train tune", main="tune")

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

    With ``box_voting`` a round begins with the windows nearest to the chosen ones after box voting, chosen by scores
    smoothed by ``score_smoothing``. ``candidates`` are the best by the model that a round begins with.
    """

    rounds: int = setting(0, "The rounds of self-training after training.", COUNT, flag="--refine", main="*")
    C: float = setting(2.0, "The C of refinement.", POSITIVE, flag="--refine-C", verbs="refine", main="refine")
    pos_iou: float = setting(0.7, "The least IoU with the chosen window of a positive window.", SHARE)
    neg_iou: float = setting(0.4, "The IoU with the chosen window below which a window is negative.", SHARE)
    neg_min_iou: float = setting(0.1, "The least IoU with the chosen window of a negative window: below it there may "
        "be another object.", SHARE)
    neg_part_iou: float = setting(0.1, "The IoU from which a window inside the chosen one is no negative: it may be "
        "the object.", SHARE)
    top: float = setting(5.0, "The number of positive windows whose mean represents a picture; below 1 a share.",
        POSITIVE)
    candidates: int = setting(300, "The number of windows of a negative picture; 0 for all.", COUNT)
    box_voting: bool = setting(True, "Begin a round with the windows nearest to the voted boxes, not with the best "
        "ones.")
    score_smoothing: float = setting(0.5, "The score smoothing of refine.box_voting; 0 for none.", SHARE)
    context_share: float = setting(0.8, "The share that the weights of windows' context keep after refinement, and "
        "in refine.box_voting.", SHARE)


@dataclass(frozen=True)
class Settings:
    """All settings of a run; the settings of `lapsvm.settings` get their flags here."""

    data: DataSettings = field(default_factory=DataSettings, metadata=table("Data", "run extract import"))
    windows: WindowSettings = field(default_factory=WindowSettings, metadata=table(
        "Windows", BEGIN,
        method={"flag": "--windows", "main": "extract"}, max_windows={"flag": "--max-windows", "main": "*"},
    ))
    features: FeatureSettings = field(default_factory=FeatureSettings, metadata=table("Features", BEGIN))
    objectness: ObjectnessSettings = field(default_factory=ObjectnessSettings, metadata=table("Objectness", BEGIN))
    train: TrainSettings = field(default_factory=TrainSettings, metadata=table("Training", "run train tune"))
    refine: RefineSettings = field(default_factory=RefineSettings, metadata=table("Refinement", "run refine"))
    detect: DetectSettings = field(default_factory=DetectSettings, metadata=table(
        "Detection", "run detect predict",
        nms_threshold={"flag": "--nms", "main": "detect predict"},
        max_detections={"flag": "--max-detections", "verbs": "run detect", "main": "detect"},
    ))
    seed: int = setting(0, "The seed of everything random.", Range(0, MAX_SEED), flag="--seed", panel="Machine",
        verbs="run extract import train tune refine predict demo", main="*")

    # fmt: on
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
            return dict(_flat(current_names(known)))
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
    """Return `value` in the type of the value it replaces; `kind` is the type of a tuple's items."""
    if isinstance(old, tuple):
        items = value if isinstance(value, list | tuple) else (value,)
        return tuple(_as_kind_of(kind(), item, name, source) for item in items)
    if isinstance(old, float) and type(value) is int and abs(value) < 2**63:
        return float(value)
    if type(value) is not type(old):
        raise OptionError(f"setting {name!r} in {source} must be a {type(old).__name__}, got {shown(value)}.")
    return value
