"""Stage 2: one detector per class, all classes, folds and values of C and J side by side."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from lapsvm.arrays import Float64
from lapsvm.catalog import ImageRecord
from lapsvm.detection import Detector
from lapsvm.errors import ModelFileError, SettingsError, StageError
from lapsvm.features import Projection, ShardSet, open_shards, settings_difference
from lapsvm.latent import LatentSolution, Tally

from .checked_files import read_checked, with_checksum
from .fitting import SIDE_BY_SIDE, Constants, Wanted, fit_wanted
from .history import CONSTANTS, history_rows, write_history
from .importing import imported_content
from .kept_windows import Group, groups, kept_by
from .labels import Labels, hash_of, label_vector
from .projection import projection_of
from .run_files import is_of_another_program
from .scenery import scenery_image_aps, warnings_of
from .selection import Choice, check_folds, choose_constants
from .settings import TrainSettings
from .stages import Context
from .starts import check_start
from .training_bags import training_bags

PARTS = ("training", "data", "shards")
"""The parts of a model's provenance that decide how it comes out."""


@dataclass(frozen=True)
class ClassTask:
    """One class to learn."""

    name: str
    y: Labels
    provenance: dict[str, Any]
    path: Path


class Mean(NamedTuple):
    """The mean weights (d,) of several models, for which no objective, dual value or gap is known."""

    coef: Float64
    n_models: int


def train_classes(context: Context) -> None:
    """Train the classes whose model is not there yet.

    Raises
    ------
    StageError
        If nothing was extracted.
    SettingsError
        If models are there that were trained otherwise.
    """
    set_name = context.settings.data.train_set
    folder = context.run.shards(set_name)
    if not any(folder.glob("*.safetensors")):
        raise StageError(f"train needs shards, but {folder} holds none; run lapsvm extract first.")
    shards = open_shards(folder)
    tasks = class_tasks(context, shards)
    to_do = tasks if context.redo else _begun(context, tasks, [task for task in tasks if not is_done(task)])
    with context.timed("train") as counts:
        counts.update(nothing_to_do=not to_do, classes=len(to_do))
        if to_do:
            context.tally = Tally()
            _train(context, shards, to_do)
            counts.update(asdict(context.tally))
            if context.cluster is not None:
                counts.update(bytes_sent=context.cluster.sent, bytes_received=context.cluster.received)
        else:
            context.run.remove_training()


def _begun(context: Context, tasks: Sequence[ClassTask], to_do: Sequence[ClassTask]) -> Sequence[ClassTask]:
    """Return what an interrupted training had begun with, if what is left to do is a part of it, else what is left.

    Classes that share passes are trained together again, for near ties may fall otherwise in other company.
    """
    kept = read_checked(context.run.begun_file, context.reporter.say) if to_do else None
    if kept is None:
        return to_do
    begun = [task for task in tasks if _choice_key(task) in kept["keys"]]
    return begun if all(task in begun for task in to_do) else to_do


def class_tasks(context: Context, shards: ShardSet) -> list[ClassTask]:
    """Return the training of every class, with labels in the shards' order."""
    by_id = {record.id: record for record in context.data.records[context.settings.data.train_set]}
    missing = [image_id for image_id in shards.image_ids if image_id not in by_id]
    if missing:
        raise SettingsError(
            f"shards hold picture {missing[0]!r}, which is not in the training set; run extract --redo."
        )
    records = [by_id[image_id] for image_id in shards.image_ids]
    return [_task(context, shards, records, name) for name in context.data.classes]


def _task(context: Context, shards: ShardSet, records: Sequence[ImageRecord], name: str) -> ClassTask:
    """Return the task of one class."""
    y = label_vector(records, name)
    provenance = {
        "training": training_settings(context),
        "data": {
            "pictures": hash_of(shards.image_ids, shards.pixel_hashes),
            **labels_provenance(y),
            **imported_content(shards.headers),
            **kept_by(context.settings.train, name),
        },
        "shards": shards.provenance,
        "detection": asdict(context.settings.detect),
    }
    return ClassTask(name, y, provenance, context.trained_model(name))


def labels_provenance(y: Labels) -> dict[str, Any]:
    """Return what a model's provenance says of the labels of its pictures."""
    return {"labels": hash_of(y.tolist()), "positives": int((y > 0).sum()), "negatives": int((y < 0).sum())}


def training_settings(context: Context) -> dict[str, Any]:
    """Return the settings that decide how a model is trained."""
    return _relevant(context.settings.train) | {"seed": context.settings.seed, **_contrast(context)}


def _contrast(context: Context) -> dict[str, float]:
    """Return what training takes of the surroundings away, where they stand beside the windows."""
    features = context.settings.features
    return {"contrast": features.contrast} if features.beside else {}


def _relevant(settings: TrainSettings) -> dict[str, Any]:
    """Return the settings that the learner reads."""
    unused = {"latent_svm": ("loss",), "latent_rank_svm": ("J", "J_relative", "ignored")}[settings.learner]
    return {name: value for name, value in asdict(settings).items() if name not in (*unused, "keep_by")}


def is_done(task: ClassTask, parts: Sequence[str] = PARTS) -> bool:
    """Return whether a model is there and was trained the same way, as far as some parts of its provenance tell.

    Raises
    ------
    SettingsError
        If it was trained otherwise, or the file is another program's.
    """
    if not task.path.exists():
        return False
    if is_of_another_program(task.path):
        raise SettingsError(f"{task.path} is no detector of lapsvm, so it is not replaced; move it away.")
    try:
        stored = Detector.load(task.path).provenance
    except ModelFileError:
        return False  # damaged: it is trained again
    difference = training_difference(stored, task, parts)
    if difference:
        raise SettingsError(f"{task.path} was trained with {difference}; use another --out, or --redo to train again.")
    return True


def training_difference(stored: Mapping[str, Any], task: ClassTask, parts: Sequence[str] = PARTS) -> str:
    """Say how a model's provenance differs from what a task asks for; an empty text if it does not."""
    return settings_difference(_decisive(stored, parts), _decisive(task.provenance, parts))


def _decisive(provenance: Mapping[str, Any], parts: Sequence[str] = PARTS) -> dict[str, Any]:
    """Return what decides how a model comes out."""
    return {part: provenance.get(part, {}) for part in parts}


def _train(context: Context, shards: ShardSet, tasks: Sequence[ClassTask]) -> None:
    """Train classes side by side: choose constants where there is a choice, then train on the whole set."""
    context.run.files.check(task.path for task in tasks)
    check_folds(context.settings, {task.name: task.y for task in tasks})
    check_start(context.settings.train.init, shards)
    bags, scale, halves = training_bags(context, shards)
    parts = list(groups(context, shards, bags, scale, [task.name for task in tasks]))
    projection = projection_of(context.run, shards)
    scenery = scenery_image_aps(bags, {task.name: task.y for task in tasks}, context.settings.seed)
    if context.redo:  # everything is checked; from here on files are written
        context.run.remove_training()
    context.run.files.claim(task.path for task in tasks)
    _keep(context, context.run.begun_file, {"keys": [_choice_key(task) for task in tasks]})
    chosen = _chosen(context, parts, tasks)
    found = _fitted(context, parts, {task.name: Wanted(task.y, chosen[task.name].constants) for task in tasks})
    solutions = [found[task.name] for task in tasks]
    rows = [row for task in tasks for row in chosen[task.name].history]
    for task, solution in zip(tasks, solutions, strict=True):
        if not solution.coef.any():
            context.reporter.say(f"train: {task.name} ended at w = 0, which scores every window alike; raise --C.")
        rows += history_rows(task.name, "final", chosen[task.name].constants, solution)
    write_history(context, rows)
    context.save_settings()
    for task, solution in zip(tasks, solutions, strict=True):
        known = _known(chosen[task.name], scenery.get(task.name))
        for sentence in warnings_of(task.name, known):
            context.reporter.say(f"train: {sentence}")
        weights, factors = halves.unfold(solution.coef), halves.unfold_scale(scale)
        fitted_detector(task, known, replace(solution, coef=weights), factors, projection).save(task.path)
    context.run.remove_training()


def _fitted(context: Context, parts: Sequence[Group], wanted: Mapping[str, Wanted]) -> dict[str, LatentSolution]:
    """Return the solution of every class."""
    found: dict[str, LatentSolution] = {}
    for bags, names in parts:
        found |= zip(names, fit_wanted(context, "train", [wanted[name] for name in names], bags, names), strict=True)
    return found


def _chosen(context: Context, parts: Sequence[Group], tasks: Sequence[ClassTask]) -> dict[str, Choice]:
    """Return every class's constants; what an interrupted training has chosen already is not chosen again."""
    by_name = {task.name: task for task in tasks}
    chosen = {} if context.redo else _kept_choices(context, tasks)
    for bags, names in batches(context.settings.train, parts):
        labels = {name: by_name[name].y for name in names if name not in chosen}
        chosen |= choose_constants(context, bags, labels) if labels else {}
        entries = {name: {"key": _choice_key(by_name[name]), **asdict(choice)} for name, choice in chosen.items()}
        _keep(context, context.run.choices_file, {"choices": entries})
    return chosen


def _keep(context: Context, path: Path, content: Mapping[str, Any]) -> None:
    """Write a file by which training continues if it is interrupted."""
    context.run.write(path, json.dumps(with_checksum(path, content)))


def batches(train: TrainSettings, parts: Sequence[Group]) -> Iterator[Group]:
    """Yield as many classes at a time as train side by side; their choice is kept if the next ones are interrupted."""
    hinge = train.learner == "latent_svm"
    parts_of_one = train.folds + (train.criterion == "agreement")
    paths = parts_of_one * train.n_init * (len(train.J) * len(train.ignored) if hinge else 1)
    size = max(1, SIDE_BY_SIDE // paths)
    for bags, names in parts:
        for first in range(0, len(names), size):
            yield bags, names[first : first + size]


def _kept_choices(context: Context, tasks: Sequence[ClassTask]) -> dict[str, Choice]:
    """Return the choices that an interrupted training made of the same settings and data."""
    kept = read_checked(context.run.choices_file, context.reporter.say)
    entries = {} if kept is None else kept["choices"]
    return {
        task.name: Choice(Constants(*entry["constants"]), entry["candidates"], entry["history"])
        for task in tasks
        if (entry := entries.get(task.name)) and entry["key"] == _choice_key(task)
    }


def _choice_key(task: ClassTask) -> str:
    """Return the hash of all that decides a choice."""
    return hash_of(json.dumps(_decisive(task.provenance), sort_keys=True))


def _known(choice: Choice, scenery: float | None) -> dict[str, Any]:
    """Return what a model's provenance says of its constants, and of what its pictures can teach."""
    return {**choice.constants.known(), **_held_out(choice.candidates), "scenery_image_ap": scenery}


def _held_out(candidates: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return how the candidates did in the folds: image-level AP, and agreement if that is the criterion."""
    constants = [{name: one[name] for name in CONSTANTS if name in one} for one in candidates]
    told = {
        f"held_out_{title}": [
            {**known, "folds": one[key]} for known, one in zip(constants, candidates, strict=True) if key in one
        ]
        for title, key in (("image_ap", "folds"), ("agreement", "agreement"))
    }
    return {name: entries for name, entries in told.items() if entries or name == "held_out_image_ap"}


def fitted_detector(
    task: ClassTask,
    known: dict[str, Any],
    solution: LatentSolution,
    scale: Float64,
    projection: Projection | None,
    mean: Mean | None = None,
) -> Detector:
    """Return the detector of a class; `known` is what its provenance says of its constants.

    With `mean` the weights are those of a mean of models, to which the solution's certificate does not belong: the
    provenance names it as that of the model before averaging.
    """
    certificate = {"objective": solution.objective, "dual": solution.dual, "duality_gap": solution.gap}
    if mean is not None:
        certificate = {"averaged_models": mean.n_models, "certificate": None, "before_averaging": certificate}
    result = {**known, **certificate, "cccp_steps": len(solution.history), "calls": solution.n_calls}
    coef = solution.coef if mean is None else mean.coef
    whole = None if projection is None else projection.unfold(coef * scale)
    return Detector(task.name, coef, solution.intercept, scale, task.provenance | {"result": result}, whole)
