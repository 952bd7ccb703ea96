"""Training tasks: one per class, and the detector that comes out."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from lapsvm.arrays import Float64
from lapsvm.catalog import ImageRecord
from lapsvm.detection import Detector
from lapsvm.errors import ModelFileError, SettingsError
from lapsvm.features import Projection, ShardSet, settings_difference
from lapsvm.latent import LatentSolution

from ..run.context import RunContext
from ..run.dataset import Labels, content_hash, label_vector
from ..run.files import is_of_another_program
from ..run.settings import TrainSettings
from ..shards.importing import imported_content
from .window_subset import kept_by

PARTS = ("training", "data", "shards")
"""The parts of a model's provenance that decide how it comes out."""


@dataclass(frozen=True)
class FitTask:
    """One class to learn."""

    name: str
    y: Labels
    provenance: dict[str, Any]
    path: Path


class Mean(NamedTuple):
    """The mean weights (d,) of several models, for which no objective, dual value or gap is known."""

    coef: Float64
    n_models: int


def fit_tasks(context: RunContext, shards: ShardSet) -> list[FitTask]:
    """Return the training of every class, with labels in the shards' order."""
    by_id = {record.id: record for record in context.data.records[context.settings.data.train_set]}
    missing = [image_id for image_id in shards.image_ids if image_id not in by_id]
    if missing:
        raise SettingsError(
            f"shards hold picture {missing[0]!r}, which is not in the training set; run extract --redo."
        )
    records = [by_id[image_id] for image_id in shards.image_ids]
    return [_task(context, shards, records, name) for name in context.data.classes]


def _task(context: RunContext, shards: ShardSet, records: Sequence[ImageRecord], name: str) -> FitTask:
    """Return the task of one class."""
    y = label_vector(records, name)
    provenance = {
        "training": training_settings(context),
        "data": {
            "pictures": content_hash(shards.image_ids, shards.pixel_hashes),
            **labels_provenance(y),
            **imported_content(shards.headers),
            **kept_by(context.settings.train, name),
        },
        "shards": shards.provenance,
        "detection": asdict(context.settings.detect),
    }
    return FitTask(name, y, provenance, context.trained_model(name))


def labels_provenance(y: Labels) -> dict[str, Any]:
    """Return what a model's provenance says of the labels of its pictures."""
    return {"labels": content_hash(y.tolist()), "positives": int((y > 0).sum()), "negatives": int((y < 0).sum())}


def training_settings(context: RunContext) -> dict[str, Any]:
    """Return the settings that decide how a model is trained."""
    return _relevant(context.settings.train) | {"seed": context.settings.seed, **_contrast(context)}


def _contrast(context: RunContext) -> dict[str, float]:
    """Return what training takes of the surroundings away, where they stand beside the windows."""
    features = context.settings.features
    return {"contrast": features.contrast} if features.beside else {}


def _relevant(settings: TrainSettings) -> dict[str, Any]:
    """Return the settings that the learner reads."""
    unused = {"latent_svm": ("loss",), "latent_rank_svm": ("J", "J_relative", "ignored")}[settings.learner]
    return {name: value for name, value in asdict(settings).items() if name not in (*unused, "keep_by")}


def is_done(task: FitTask, parts: Sequence[str] = PARTS) -> bool:
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


def training_difference(stored: Mapping[str, Any], task: FitTask, parts: Sequence[str] = PARTS) -> str:
    """Say how a model's provenance differs from what a task asks for; an empty text if it does not."""
    return settings_difference(_decisive(stored, parts), _decisive(task.provenance, parts))


def _decisive(provenance: Mapping[str, Any], parts: Sequence[str] = PARTS) -> dict[str, Any]:
    """Return what decides how a model comes out."""
    return {part: provenance.get(part, {}) for part in parts}


def fitted_detector(
    task: FitTask,
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
