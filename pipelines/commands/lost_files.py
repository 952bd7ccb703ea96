"""What a run in its present state must have and has not: by the list of its files, and by the times of its stages."""

import shlex
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from lapsvm.errors import LapsvmError
from lapsvm.settings import IMPORTED

from ..products.table import FINAL, advice_for, begins_anew, kind_of
from ..run.folder import STAMP, RunFolder
from ..settings.settings import Settings


def is_run(run: RunFolder) -> bool:
    """Return whether a folder without a whole list of its files is a run all the same."""
    kinds = ("shards/*/*.safetensors", "models/*.safetensors", "run.toml")
    return any(any(run.path.glob(kind)) for kind in kinds)


def lost_files(run: RunFolder) -> list[Path]:
    """Return the files that a run must have and that are not there, sorted.

    They are those that a command listed, and what stages have left by their times. Of a folder whose list is gone or
    damaged, the list is one of them.
    """
    listed = [path for path in run.files.lost("*") if not ((kind := kind_of(run, path)) and kind.is_temporary)]
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
    if advice := next(filter(None, (advice_for(run, path) for path in lost)), ""):
        return advice
    is_anew = all(begins_anew(run, path) for path in lost)
    return "lapsvm verify --repair begins it anew" if is_anew else "lapsvm run makes only these again"


def mending(run: RunFolder, damaged: Sequence[Path], remove: bool) -> str:
    """Return the advice on damaged files that stay, as the end of a sentence."""
    if run.settings_file in damaged:
        return f"mend it, or move it away: {how_made(run, [run.settings_file])}"
    if not run.files.is_marked:
        return how_made(run, [run.files.marker])
    verb = "threshold" if {*damaged} == {run.threshold_file} else "run"
    removal = f"verify with --remove, then {verb} again to make only these again"
    return f"move them away and {verb} again" if remove else removal


def _of_stages(run: RunFolder) -> Iterator[Path]:
    """Yield the missing files, or folders of files, that finished stages leave."""
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
    kind = kind_of(run, path)
    if kind is None:
        return "run"
    settings = _settings(run)
    if kind.maker == "extract" and settings.windows.method == IMPORTED:
        return "import"
    return "train" if kind.maker == FINAL and not settings.refine.rounds else kind.maker


def _settings(run: RunFolder) -> Settings:
    try:
        return run.settings()
    except LapsvmError:  # then nothing is known of how files were made
        return Settings()


def advice(run: RunFolder, gone: Collection[Path]) -> list[str]:
    """Return sentences on the commands that make files again which are not there; an empty list for none."""
    notes = [f"{path} begins anew with the next command that adds to it." for path in gone if begins_anew(run, path)]
    notes += [f"{advice}." for path in gone if (advice := advice_for(run, path))]
    stages = [stage for path in gone if (stage := made_by(run, path))]
    if stages:
        counts = ", ".join(f"{stages.count(stage):,} of {stage}" for stage in dict.fromkeys(stages))
        first = "lapsvm import with the same files, then " if "import" in stages else ""
        out = shlex.quote(str(run.path))
        notes.append(f"{first}lapsvm run --out {out} makes again what is not there, and nothing else: {counts}.")
    return notes
