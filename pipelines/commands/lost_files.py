"""What a run in its present state must have and has not: by the list of its files, and by the times of its stages."""

import shlex
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from lapsvm.errors import LapsvmError

from ..run.folder import STAMP, RunFolder
from ..run.ownership import MARKER
from ..settings.settings import IMPORTED, Settings

_UNTIL_TRAINING_ENDS = ("choices.json", "training/*", "projection-sums.safetensors")
"""Files from which interrupted work resumes; the end of the work removes them."""

_VERBS = {
    **dict.fromkeys(("shards", "projection.safetensors", "normal.safetensors"), "extract"),
    **dict.fromkeys(("first", "folds", "choices.json", "training"), "train"),
    "drawn.safetensors": "refine",
    "detections": "detect",
    "evaluation.json": "evaluate",
    "page": "report",
}
_OF_MODELS = ("models", "heldout")
OF_NEXT = ("history.csv", "timings.json")
"""Files to which the next training, or the next command, adds; what they held is gone."""

_OTHERS = {
    "run.toml": "lapsvm run --out {out}, with the options of the first command of the run, writes {path} again",
    MARKER: "without a whole {path} no file of the run is replaced: lapsvm run --out NEW --shards-from {out}, with the "
    "options of the first command of the run, makes it in another folder, from the same features",
    "threshold.json": "lapsvm threshold --out {out} makes {path} again, by the same --max-false-alarms; without it "
    "pictures get no decision",
    "tuning.json": "lapsvm tune --out {out} makes {path} again",
    "verdicts.jsonl": "{path} holds what a person said, which no command makes again: copy it from elsewhere",
}
"""What makes files that no stage of `lapsvm run` makes, by their names."""


def is_run(run: RunFolder) -> bool:
    """Return whether a folder without a whole list of its files is a run all the same."""
    kinds = ("shards/*/*.safetensors", "models/*.safetensors", "run.toml")
    return any(any(run.path.glob(kind)) for kind in kinds)


def lost_files(run: RunFolder) -> list[Path]:
    """Return the files that a run must have and that are not there, sorted.

    They are those that a command listed, and what stages have left by their times. Of a folder whose list is gone or
    damaged, the list is one of them.
    """
    listed = [path for path in run.files.lost("*") if not _is_temporary(run, path)]
    lost = {*listed, *_of_stages(run), *([run.files.marker] if is_run(run) and not run.files.is_marked else [])}
    if run.timings() or any(run.path.glob("*/*")):
        lost |= {path for path in [run.settings_file] if not path.is_file()}
    return sorted(lost)


def is_copy_without_shards(run: RunFolder, lost: Sequence[Path]) -> bool:
    """Return whether all that a run lacks is its shards, all of them: a finished run may be copied without any."""
    has_shards, has_models = (any(run.path.glob(kind)) for kind in ("shards/*/*.safetensors", "models/*.safetensors"))
    return has_models and not has_shards and all(path.relative_to(run.path).parts[0] == "shards" for path in lost)


def lost_sentences(run: RunFolder, lost: Sequence[Path]) -> list[str]:
    """Return a sentence on each lost file, or on each lost folder of several."""
    counts = Counter(path.parent for path in lost if path.parent != run.path and not path.parent.exists())
    groups = {path.parent if counts[path.parent] > 1 else path: counts[path.parent] for path in lost}
    folders = {path: f" with its {count:,} files" if count > 1 else "" for path, count in groups.items()}
    cause = "it was lost, or the command that makes it was interrupted"
    state = {path: "is damaged" if path.exists() else f"is not there: {cause}" for path in folders}  # a list may be
    return [f"{path}{which} {state[path]}." for path, which in folders.items()]


def how_made(run: RunFolder, lost: Sequence[Path]) -> str:
    """Return how the first lost file that `lapsvm run` alone does not make is made again, as the end of a sentence."""
    path = next((path for path in lost if path.name in _OTHERS), None)
    if path is None:
        some = [path for path in lost if path.name in OF_NEXT]
        return "lapsvm run makes only these again" if len(some) < len(lost) else "lapsvm verify --repair begins it anew"
    return _OTHERS[path.name].format(out=shlex.quote(str(run.path)), path=path)


def mending(run: RunFolder, damaged: Sequence[Path], remove: bool) -> str:
    """Return what to do about damaged files that stay, as the end of a sentence."""
    if run.settings_file in damaged:
        return f"mend it, or move it away: {how_made(run, [run.settings_file])}"
    if not run.files.is_marked:
        return how_made(run, [run.files.marker])
    verb = "threshold" if {*damaged} == {run.threshold_file} else "run"
    removal = f"verify with --remove, then {verb} again to make only these again"
    return f"move them away and {verb} again" if remove else removal


def _is_temporary(run: RunFolder, path: Path) -> bool:
    name = path.relative_to(run.path).as_posix()
    return any(fnmatchcase(name, pattern) for pattern in _UNTIL_TRAINING_ENDS)


def _of_stages(run: RunFolder) -> Iterator[Path]:
    """Yield what is not there of what finished stages leave: a file, or a folder of files."""
    stages = [name.partition(" ") for name in run.timings()]
    for stage, _, set_name in stages:
        if stage in ("extract", "import") and not run.files.is_marked and not run.has_shards(set_name):
            yield run.shards(set_name)
        if stage == "detect" and not run.files.is_marked and not (run.detections(set_name) / STAMP).is_file():
            yield run.detections(set_name) / STAMP
        trained = [run.models] if stage == "refine" else [run.models, run.first_models]
        if stage in ("train", "tune", "refine") and not run.files.is_marked and not any(map(_has_models, trained)):
            yield trained[-1]
        for name, path in (("evaluate", run.evaluation_file), ("report", run.page)):
            if stage == name and not path.is_file():
                yield path


def _has_models(folder: Path) -> bool:
    return any(folder.glob("*.safetensors"))


def made_by(run: RunFolder, path: Path) -> str:
    """Return the stage that makes a file of a run; "" for a file that no stage of `lapsvm run` makes."""
    name = path.relative_to(run.path).parts[0]
    settings = _settings(run)
    if path.name in (*_OTHERS, *OF_NEXT):
        return ""
    if name == "shards" and settings.windows.method == IMPORTED:
        return "import"
    if name in _OF_MODELS:
        return "refine" if settings.refine.rounds else "train"
    return _VERBS.get(name, "run")


def _settings(run: RunFolder) -> Settings:
    try:
        return run.settings()
    except LapsvmError:  # then nothing is known of how files were made
        return Settings()


def advice(run: RunFolder, gone: Collection[Path]) -> list[str]:
    """Return sentences on the commands that make files again which are not there; an empty list for none."""
    out = shlex.quote(str(run.path))
    notes = [f"{path} begins anew with the next command that adds to it." for path in gone if path.name in OF_NEXT]
    notes += [f"{_OTHERS[path.name].format(out=out, path=path)}." for path in gone if path.name in _OTHERS]
    stages = [stage for path in gone if (stage := made_by(run, path))]
    if stages:
        counts = ", ".join(f"{stages.count(stage):,} of {stage}" for stage in dict.fromkeys(stages))
        first = "lapsvm import with the same files, then " if "import" in stages else ""
        notes.append(f"{first}lapsvm run --out {out} makes again what is not there, and nothing else: {counts}.")
    return notes
