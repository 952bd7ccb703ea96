"""The table of the files of a run: what each kind holds, who makes it, who makes it again, and what reads it whole."""

import shlex
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from re import sub

from lapsvm.detection import Detector
from lapsvm.errors import DataError, LapsvmError
from lapsvm.features import load_projection, read_shard
from lapsvm.files import read_regular
from lapsvm.inspection.threshold import AlarmThreshold
from lapsvm.objectness.good_pictures import read_good_pictures
from lapsvm.objectness.normal import read_normal_map

from ..run.checked_files import file_hash, read_checked, read_json
from ..run.folder import STAMP, RunFolder
from ..run.ownership import MARKER
from ..settings.settings import Settings
from .fold_models import FoldModels
from .held_out import HeldOut
from .history import read_history

Check = Callable[[Path], object]
check_shard: Check = partial(read_shard, mapped=True)  # every byte is read, none is kept
FINAL = "refine"
"""The stage that makes final models; in a run without refinement that is training."""
TRAINING = ("train", "tune", "refine")
FIRST = ("extract", "import")


@dataclass(frozen=True)
class Kind:
    """One kind of file of a run.

    Attributes
    ----------
    pattern : str
        Its path in the folder, with <set> and <class>.
    makers : str
        The verbs that write it, for the page on the run folder.
    contents : str
        Its content, for the page.
    check : callable or None
        Reads a file whole; LapsvmError if it is damaged.
    is_signed : bool
        Whether every byte of it has a checksum: `verify` reads it; of other kinds only `verify --repair` reads files.
    maker : str
        The stage that makes a lost file again in `lapsvm run`; "" if that makes none.
    advice : str
        How a file is made again that no stage of `lapsvm run` makes, with {out} and {path}.
    begins_anew : bool
        Whether the next command begins a lost file anew: what it held is gone.
    is_temporary : bool
        Whether the end of the work removes it: interrupted work resumes from it.
    outcome : tuple of (str, stages)
        Its name in the answer to `--json`, and the stages that list it; "" and no stage for a file that is not listed.
    """

    pattern: str
    makers: str
    contents: str
    check: Check | None = None
    is_signed: bool = False
    maker: str = ""
    advice: str = ""
    begins_anew: bool = False
    is_temporary: bool = False
    outcome: tuple[str, tuple[str, ...]] = ("", ())

    @property
    def glob(self) -> str:
        """The pattern of its paths in a run folder."""
        return sub("<[a-z]+>", "*", self.pattern)

    def files(self, run: RunFolder) -> list[Path]:
        """Return the files of the kind that a run has, sorted."""
        return sorted(path for path in run.path.glob(self.glob) if path.is_file())

    def place(self, run: RunFolder) -> Path:
        """Return its path, or of files of sets and classes the folder of all of them."""
        return run.path / self.pattern.split("/<")[0]


def _check_settings(path: Path) -> None:
    """Raise DataError unless a file holds the settings of a run."""
    try:
        Settings.read(path)
    except LapsvmError as error:
        raise DataError(f"{path} cannot be read: {error}") from None


def _check_table(path: Path) -> None:
    if not isinstance(read_json(path), dict):
        raise DataError(f"{path} is damaged: it is no JSON object.")


def _check_timings(path: Path) -> None:
    problems = list[str]()
    RunFolder(path.parent).timings(problems.append)
    if problems:
        raise DataError(f"{path} is damaged: it holds no times.")


def _check_page(path: Path) -> None:
    if not read_regular(path, "page").rstrip().endswith(b"</html>"):
        raise DataError(f"{path} is damaged: it has no end.")


def _check_progress(path: Path) -> None:
    if read_checked(path, lambda _: None) is None:
        raise DataError(f"{path} is damaged: its content does not match its checksum.")


def _check_stamp(path: Path) -> None:
    if _hashes(path) is None:
        raise DataError(f"{path} is damaged: it does not say what made the detections.")


def _check_result(path: Path) -> None:
    """Raise DataError unless a result file is the one that detection wrote; without a record of that any file is."""
    hashes = _hashes(path.with_name(STAMP))
    digest = file_hash(path, "result file")
    if hashes is not None and hashes.get(path.name) != digest:
        raise DataError(f"{path} is damaged or edited: it is not what lapsvm detect wrote.")


def _hashes(path: Path) -> dict[str, str] | None:
    """Return result file -> hash of the record of a set's detections; None if it is missing or damaged."""
    stamp = read_json(path)
    results = stamp.get("results") if isinstance(stamp, dict) else None
    return results if isinstance(results, dict) else None


KINDS = (
    Kind(
        "run.toml", "every stage", "resolved settings, versions, seed, files of networks", _check_settings, True,
        advice="lapsvm run --out {out}, with the options of the first command of the run, writes {path} again",
        outcome=("settings", FIRST),
    ),
    Kind(
        "shards/<set>/*.safetensors", "`extract`, `import`",
        "boxes, features and objectness of consecutive pictures ([format](features.md#shards))", check_shard, True,
        "extract", outcome=("shards", FIRST),
    ),
    Kind(
        "projection.safetensors", "`extract` with `--pca`", "principal components", load_projection, True, "extract",
    ),
    Kind(
        "normal.safetensors", "`extract` with `--objectness normal`",
        "the fit to pictures of no class ([objectness](objectness.md#normal))", read_normal_map, True, "extract",
    ),
    Kind(
        "projection-sums.safetensors", "the same, interrupted", "state of the fit; removed when it ends",
        is_temporary=True,
    ),
    Kind(
        "models/<class>.safetensors", "`train`, `tune`, `refine`",
        "weights, feature scale, provenance, how the model detects, the map to "
        "[probabilities](../explanation/probabilities.md)", Detector.load, True, FINAL, outcome=("models", TRAINING),
    ),
    Kind(
        "models/threshold.json", "`threshold`", "[from which probability a picture is not ok](#threshold)",
        AlarmThreshold.load, True,
        advice="lapsvm threshold --out {out} makes {path} again, by the same --max-false-alarms; without it pictures "
        "get no verdict",
    ),
    Kind(
        "models/good-pictures.memory", "`threshold`",
        "[what good pictures have](objectness.md#the-memory-of-good-pictures)", read_good_pictures, True,
        advice="lapsvm threshold --out {out} makes {path} again; without it no picture is unknown",
    ),
    Kind("first/<class>.safetensors", "`refine`", "the models before refinement", Detector.load, True, "train"),
    Kind(
        "folds/<class>.safetensors", "`train`, `tune`",
        "[the models before refinement that never saw a fold](#folds)", FoldModels.load, True, "train",
    ),
    Kind(
        "heldout/<class>.safetensors", "`train`, `tune`, `refine`",
        "[scores of pictures by models that did not see them](#heldout)", HeldOut.load, True, FINAL,
    ),
    Kind(
        "history.csv", "`train`, `tune`, `refine`",
        "one row per outer step of every training: objective, dual value, gap, calls, planes, changed windows, and "
        "`passes` and `seconds` since the trainings began", read_history, begins_anew=True,
        outcome=("history", TRAINING),
    ),
    Kind(
        "choices.json", "`train`, `tune`", "finished choices of an interrupted training; removed when the models are "
        "written", _check_progress, maker="train", is_temporary=True,
    ),
    Kind(
        "training/resume.json", "`train`, `tune`", "the classes that it trains together", _check_progress,
        maker="train", is_temporary=True,
    ),
    Kind(
        "training/*.answers", "`train`, `tune`, `refine`", "answers of its passes", maker="train", is_temporary=True,
    ),
    Kind(
        "tuning.json", "`tune`", "every candidate with its scores", _check_table,
        advice="lapsvm tune --out {out} makes {path} again", outcome=("tuning", ("tune",)),
    ),
    Kind(
        f"detections/<set>/{STAMP}", "`detect`", "the inputs of the result files, and their hashes", _check_stamp,
        maker="detect",
    ),
    Kind(
        "detections/<set>/comp3_det_<set>_<class>.txt", "`detect`",
        "VOC result files; the first line of a picture is its best box", _check_result, maker="detect",
        outcome=("detections", ("detect",)),
    ),
    Kind(
        "verdicts.jsonl", "`review`, `--verdicts`", "[what a person said of boxes](#verdicts-of-a-person)",
        advice="{path} holds what a person said, which no command makes again: copy it from elsewhere",
    ),
    Kind(
        "taught.jsonl", "`review --pictures`", "[new pictures, and what a person said of them](#new-pictures)",
        advice="{path} holds what a person said of new pictures, which no command makes again: copy it from a backup",
    ),
    Kind(
        "taught/<picture>/*", "`review --pictures --copy`", "copies of new pictures",
        advice="{path} is a picture that teaches, which no command makes again: copy it from a backup",
    ),
    Kind(
        "drawn.safetensors", "`refine`, `review`",
        "a [shard](features.md#shards) of the drawn boxes that no window covers; absent without such boxes",
        check_shard, True, "refine",
    ),
    Kind(
        "evaluation.json", "`evaluate`", "figures per set and class", _check_table, maker="evaluate",
        outcome=("evaluation", ("evaluate",)),
    ),
    Kind(
        "timings.json", "every stage",
        "seconds, CPU seconds, passes, bytes; `other` is the time of `run` outside of the stages, so the rows of one "
        "`run` add up to its wall time", _check_timings, begins_anew=True,
    ),
    Kind(
        "page/index.html", "`report`", "the [page](report.md)", _check_page, maker="report",
        outcome=("page", ("report",)),
    ),
    Kind("card.md", "`report --card`", "the card", maker="run"),
    Kind(
        MARKER, "every stage", "the files that lapsvm wrote",
        advice="without a whole {path} no file of the run is replaced: lapsvm run --out NEW --shards-from {out}, with "
        "the options of the first command of the run, makes it in another folder, from the same features",
    ),
)  # fmt: skip


def kind_of(run: RunFolder, path: Path) -> Kind | None:
    """Return the kind of a file or folder of a run by its path; None for a file of no kind."""
    name = path.relative_to(run.path).as_posix()
    exact = (kind for kind in KINDS if fnmatchcase(name, kind.glob))
    beside = (kind for kind in KINDS if kind.glob.split("/")[0] == name.split("/")[0])
    return next(exact, None) or next(beside, None)


def begins_anew(run: RunFolder, path: Path) -> bool:
    """Return whether the next command begins a lost file anew."""
    kind = kind_of(run, path)
    return kind is not None and kind.begins_anew


def stored_files(run: RunFolder, *, is_signed: bool) -> Iterator[tuple[Path, Check]]:
    """Yield the files of a run of one sort, signed or not, with the function that reads each.

    Of signed ones only the settings and files that lapsvm wrote, or may have: nothing is known without the list.
    """
    for kind in KINDS:
        if kind.check is None or kind.is_signed != is_signed:
            continue
        for path in kind.files(run):
            if not is_signed or path == run.settings_file or run.files.lists(path) or not run.files.is_marked:
                yield path, kind.check


def listed_places(run: RunFolder, stages: AbstractSet[str]) -> dict[str, Path]:
    """Return name -> path of the files and folders that the answer to some stages lists."""
    return {name: kind.place(run) for kind in KINDS for name, of in [kind.outcome] if stages & {*of}}


def advice_for(run: RunFolder, path: Path) -> str:
    """Return how a file is made again that no stage of `lapsvm run` makes, as the end of a sentence; "" for others."""
    kind = kind_of(run, path)
    return "" if kind is None else kind.advice.format(out=shlex.quote(str(run.path)), path=path)


def page_table() -> str:
    """Return the table of the page on the run folder, as Markdown."""
    rows = [f"| `{kind.pattern}` | {kind.makers} | {kind.contents} |" for kind in KINDS]
    return "\n".join(["| file | written by | contents |", "|---|---|---|", *rows]) + "\n"
