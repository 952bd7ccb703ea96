"""Training tasks, one per class, and the detectors made from their solutions."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from lapsvm.arrays import Float64, Index
from lapsvm.catalog import ImageRecord
from lapsvm.detection import Detector
from lapsvm.errors import ModelFileError, SettingsError
from lapsvm.features import Projection, ShardSet, settings_difference
from lapsvm.latent import LatentSolution

from ..context import StoredRun
from ..run.dataset import Labels, content_hash, label_vector
from ..run.ownership import is_of_another_program
from ..settings.settings import Settings, TrainSettings
from ..shards.importing import imported_content
from ..verdicts.counting import denial
from ..verdicts.reviewed import ReviewedClass, Reviews, mended_labels, reviewed_by_class
from .fold_models import Groups

PARTS = ("training", "data", "shards")
"""The parts of a model's provenance that decide its weights."""


@dataclass(frozen=True)
class FitTask:
    """One class to learn; `objectness` is what measured it, as the model records it, where the shards are gone.

    `groups` are those of the pictures, see `run.groups`; by names alone where the shards are gone.
    """

    name: str
    y: Labels
    provenance: dict[str, Any]
    path: Path
    reviews: Reviews = field(default_factory=Reviews)
    objectness: Mapping[str, Any] | None = None
    groups: Groups = None


def fit_tasks(stored: StoredRun, shards: ShardSet) -> list[FitTask]:
    """Return the training task of every class, with labels in the shards' order."""
    by_id = stored.training_pictures
    if missing := [image_id for image_id in shards.image_ids if image_id not in by_id]:
        raise SettingsError(
            f"shards hold picture {missing[0]!r}, which is not in the training set; run lapsvm extract first."
        )
    records = [by_id[image_id] for image_id in shards.image_ids]
    ids = set(shards.image_ids)
    in_order = [record for image_id, record in by_id.items() if image_id in ids]
    reviewed = reviewed_by_class(stored.verdicts, shards, stored.data.classes)
    groups = stored.groups(stored.train_set, shards.image_ids, shards)
    tasks = [_class_task(stored, shards, records, in_order, of_class) for of_class in reviewed.values()]
    return [_with_groups(task, groups) for task in tasks]


def denied_tasks(train: TrainSettings, tasks: Sequence[FitTask]) -> dict[str, str]:
    """Return class -> why it cannot be learned, for those whose verdicts leave too few pictures (`denial`)."""
    mended = [task for task in tasks if task.reviews.labels_key]
    return {task.name: reason for task in mended if (reason := denial(train, task.y))}


def _class_task(
    stored: StoredRun, shards: ShardSet, records: Sequence[ImageRecord], in_order: Sequence[ImageRecord],
    reviewed: ReviewedClass,
) -> FitTask:  # fmt: skip
    """Return a task of pictures; `in_order` are the same ones in the data set's order, which needs no shards."""
    name = reviewed.name
    provenance = {
        "training": training_settings(stored.settings),
        "data": {
            "pictures": content_hash(shards.image_ids, shards.pixel_hashes),
            **labels_provenance(label_vector(in_order, name)),
            **imported_content(shards.headers),
        },
        "shards": shards.provenance,
        "detection": asdict(stored.settings.detect),
    }
    labels, reviews = mended_labels(reviewed, label_vector(records, name), shards.image_ids)
    if reviews.labels_key:
        provenance["verdicts"] = dict(reviews.labels_key)
    return FitTask(name, labels, provenance, stored.trained_model(name), reviews)


def _with_groups(task: FitTask, groups: Index) -> FitTask:
    """Return the task with the groups of its pictures; its provenance records them where a group has several."""
    if len(np.unique(groups)) == len(groups):
        return replace(task, groups=groups)
    data = {**task.provenance["data"], "groups": content_hash(groups.tolist())}
    return replace(task, groups=groups, provenance={**task.provenance, "data": data})


def labels_provenance(y: Labels) -> dict[str, Any]:
    """Return what a model's provenance records of the labels of its pictures."""
    return {"labels": content_hash(y.tolist()), "positives": int((y > 0).sum()), "negatives": int((y < 0).sum())}


def training_settings(settings: Settings) -> dict[str, Any]:
    """Return the settings that decide how a model is trained."""
    train, features = settings.train, settings.features
    unused = {"latent_svm": ("loss",), "latent_rank_svm": ("J", "J_relative", "trim")}[train.learner]
    relevant = {name: value for name, value in asdict(train).items() if name not in unused}
    return relevant | {"seed": settings.seed} | ({"contrast": features.contrast} if features.store_context else {})


def is_done(task: FitTask) -> bool:
    """Return whether there is a model trained the same way, on the same pictures, labels and verdicts of a person.

    Raises SettingsError if it was trained with other settings, or the file is another program's.
    """
    if task.path.exists() and is_of_another_program(task.path):
        raise SettingsError(f"{task.path} is no detector of lapsvm and is not replaced; move it away.")
    detector = stored_detector(task.path)
    if detector is None:
        return False
    stored = detector.provenance
    if has_other_data(stored, task) or has_other_verdicts(stored, task):
        return False
    if difference := training_difference(stored, task):
        raise SettingsError(f"{task.path} was trained with {difference}; use another --out, or --redo to train again.")
    return True


def has_other_data(stored: Mapping[str, Any], task: FitTask) -> bool:
    """Return whether a model's provenance records other pictures, labels or groups than those of a task."""
    then, now = stored.get("data") or {}, task.provenance["data"]
    changed = any(then.get(name) != now[name] for name in ("pictures", "labels") if name in now)
    return bool(then) and (changed or then.get("groups") != now.get("groups"))


def has_other_verdicts(stored: Mapping[str, Any], task: FitTask) -> bool:
    """Return whether a model's provenance records other verdicts of a person than those of a task."""
    return bool(stored.get("verdicts", {}) != task.provenance.get("verdicts", {}))


def stored_detector(path: Path) -> Detector | None:
    """Return a model; None if it is missing or damaged, because training replaces it."""
    try:
        return Detector.load(path) if path.is_file() else None
    except ModelFileError:
        return None


def stored_provenance(path: Path) -> Mapping[str, Any]:
    """Return the provenance of a model; nothing if it is missing or damaged."""
    detector = stored_detector(path)
    return {} if detector is None else detector.provenance


def is_refinement(provenance: Mapping[str, Any]) -> bool:
    """Return whether a provenance is that of a refined model."""
    return "refine" in (provenance.get("training") or {})


def training_difference(stored: Mapping[str, Any], task: FitTask) -> str:
    """Return how a model's provenance differs from that of a task; "" if it does not."""
    return settings_difference(decisive(stored), decisive(task.provenance))


def weights_hash(detector: Detector) -> str:
    """Return the hash of a model's weights, for the provenance of models that depend on it."""
    return content_hash(detector.coef.tolist(), np.asarray(detector.scale).tolist(), detector.intercept)


def decisive(provenance: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parts of a provenance that decide a model's weights."""
    return {part: provenance.get(part, {}) for part in PARTS}


def fitted_detector(
    task: FitTask, result: dict[str, Any], solution: LatentSolution, scale: Float64, projection: Projection | None,
    *, is_certified: bool = True,
) -> Detector:  # fmt: skip
    """Return the detector of a class; its provenance contains `result` and the certificate of the solution.

    The certificate is left out if `is_certified` is False: the solution's weights are not those that its training
    found, because the model keeps a share of the weights of the context.
    """
    certificate: dict[str, Any] = {"objective": solution.objective, "dual": solution.dual, "duality_gap": solution.gap}
    if not is_certified:
        certificate = {"certificate": None}
    cost = {"cccp_steps": len(solution.history), "calls": solution.n_calls}
    unfolded = None if projection is None else projection.unfold(solution.coef * scale)
    provenance = task.provenance | {"result": {**result, **certificate, **cost}}
    return Detector(task.name, solution.coef, solution.intercept, scale, provenance, unfolded)
