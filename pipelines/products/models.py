"""The models of a run, one per class: the tasks that decide them, their files, and the detectors made from solutions.

Every stage that reads models gets them here: they are compared with the tasks that the settings ask for.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from lapsvm.arrays import Float64, Index
from lapsvm.catalog import ImageRecord
from lapsvm.detection import Detector
from lapsvm.errors import ModelFileError, SettingsError
from lapsvm.features import Projection, ShardSet
from lapsvm.latent import LatentSolution

from ..context import StoredRun, open_run_shards
from ..run.dataset import Labels, content_hash, label_vector
from ..run.folder import RunFolder
from ..run.groups import Groups
from ..run.ownership import is_of_another_program
from ..settings.settings import ObjectnessSettings, Settings, TrainSettings
from ..shards.importing import imported_content
from ..shards.objectness import is_used
from ..verdicts.counting import denial
from ..verdicts.reviewed import ReviewedClass, Reviews, mended_labels, reviewed_by_class
from .product import Product, State, unmet

PARTS = ("training", "data", "shards")
"""The parts of a model's provenance that decide its weights."""
_FOLLOWED = ("pictures", "labels", "groups")
"""The entries of "data" that a model follows: a data set may grow, and its labels may be mended."""
_ORIGIN = "{path} was trained with"
_ADVICE = "use another --out, or --redo to train again"


class ModelFile(Product):
    """The file of a model, whose inputs are a provenance; it follows data and verdicts."""

    def deciding(self, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the parts of a provenance that decide a model's weights."""
        return decisive(inputs)

    def changed(self, recorded: Mapping[str, Any]) -> list[str]:
        """Return which of data and verdicts differ; a model that records no data says nothing of them."""
        then, now = recorded.get("data") or {}, self.inputs.get("data", {})
        compared = [name for name in _FOLLOWED if name in now or name == "groups"] if then else []
        differing = ["data"] if any(then.get(name) != now.get(name) for name in compared) else []
        is_mended = recorded.get("verdicts", {}) != self.inputs.get("verdicts", {})
        return [*differing, *(["verdicts"] if is_mended else [])]

    def is_to_make(self, advice: str = _ADVICE) -> bool:
        """Return whether the model is to be made; SettingsError if another program or other settings made it."""
        if self.path.exists() and is_of_another_program(self.path):
            raise SettingsError(f"{self.path} is no detector of lapsvm and is not replaced; move it away.")
        return super().is_to_make(advice)


@dataclass(frozen=True)
class FitTask:
    """One class to learn; `objectness` is the source that the model records, where the shards are gone.

    `groups` are those of the pictures, see `run.groups`; by names alone where the shards are gone.
    """

    name: str
    y: Labels
    provenance: dict[str, Any]
    path: Path
    reviews: Reviews = field(default_factory=Reviews)
    objectness: Mapping[str, Any] | None = None
    groups: Groups = None

    @property
    def product(self) -> ModelFile:
        """The file of the model."""
        return ModelFile(self.path, self.provenance, lambda path: Detector.load(path).provenance, _ORIGIN)

    def state(self) -> State:
        """Return the state of the model."""
        return self.product.state()

    @property
    def maker(self) -> str:
        """The verb that makes the model."""
        return "refine" if is_refinement(self.provenance) else "train"


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
    """Return class -> why it cannot be learned, for classes whose verdicts leave too few pictures (`denial`)."""
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
    """Return the provenance entries for the labels of a model's pictures."""
    return {"labels": content_hash(y.tolist()), "positives": int((y > 0).sum()), "negatives": int((y < 0).sum())}


def training_settings(settings: Settings) -> dict[str, Any]:
    """Return the settings that decide how a model is trained."""
    train, features = settings.train, settings.features
    unused = {"latent_svm": ("loss",), "latent_rank_svm": ("J", "J_relative", "trim")}[train.learner]
    relevant = {name: value for name, value in asdict(train).items() if name not in unused}
    return relevant | {"seed": settings.seed} | ({"contrast": features.contrast} if features.store_context else {})


def trained_tasks(stored: StoredRun, shards: ShardSet | None) -> list[FitTask]:
    """Return the task of every class's trained model, and in it the file that holds the model.

    Without shards, as in a copy of a run, the inputs that shards decide are assumed to be as the models record them.
    """
    if shards is None:
        return [_without_shards(stored, name) for name in stored.data.classes]
    return [replace(task, path=trained_file(stored.folder, task)) for task in fit_tasks(stored, shards)]


def training_shards(run: RunFolder, settings: Settings) -> ShardSet | None:
    """Return the shards of the training set; None if they are gone."""
    name = settings.data.train_set
    return open_run_shards(run, settings, name) if run.has_shards(name) else None


def final_task(
    run: RunFolder, settings: Settings, trained: FitTask, planned: Mapping[str, Any] | None = None
) -> FitTask:
    """Return the task of a class's final model: that of its trained model, or of refinement of it.

    The trained model is assumed to be unchanged if it is missing or damaged. `planned` is the source by which the
    command is about to measure objectness; without it that of the shards counts.
    """
    if not settings.refine.rounds:
        return trained
    final = run.model(trained.name)
    model = stored_detector(trained.path)
    first = (stored_provenance(final).get("training") or {}).get("first") if model is None else weights_hash(model)
    refinement = {"refine": asdict(settings.refine), "first": first}
    shards = training_shards(run, settings)
    measured = planned or (trained.objectness if shards is None else shards.objectness)
    training = trained.provenance["training"] | refinement | _objectness(settings.objectness, measured)
    verdicts = {**trained.reviews.labels_key, **trained.reviews.boxes_key}
    changed = {"training": training, **({"verdicts": verdicts} if verdicts else {})}
    return replace(trained, provenance=trained.provenance | changed, path=final)


def _objectness(settings: ObjectnessSettings, measured: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the provenance entry for the objectness that refinement uses; empty without any."""
    if not is_used(settings, measured):
        return {}
    used = {"source": measured, "weight": settings.weight, "classes": list(settings.classes)}
    return {"objectness": used}


def trained_file(run: RunFolder, task: FitTask) -> Path:
    """Return the file of a class's trained model, which a run without refinement wrote as the final one.

    If both kinds are there, the one made by the run's settings is returned.
    """
    final = run.model(task.name)
    if not final.exists() or is_of_another_program(final) or is_refinement(stored_provenance(final)):
        return task.path
    state = replace(task, path=final).product.compared(stored_provenance(final))
    return final if not state.sentence or not task.path.exists() else task.path


def _without_shards(stored: StoredRun, name: str) -> FitTask:
    """Return the task of a class by the data set, and by what its models record of the shards, which are gone."""
    settings, records, run = stored.settings, stored.data.records[stored.train_set], stored.folder
    y = label_vector(records, name)
    data = {} if settings.data.skip_bad else labels_provenance(y)
    groups = stored.groups(stored.train_set, [record.id for record in records], None)
    provenance = {"training": training_settings(settings), "data": data}
    task = FitTask(name, y, provenance, stored.trained_model(name), groups=groups)
    task = replace(task, path=trained_file(run, task))
    recorded = stored_provenance(task.path if task.path.exists() else run.model(name))
    unchanged = {"data": {**recorded.get("data", {}), **data}, "shards": recorded.get("shards", {})}
    refined = stored_provenance(run.model(name)).get("training") or {}
    source = (refined.get("objectness") or {}).get("source")
    return replace(task, provenance=provenance | unchanged, objectness=source)


def load_detectors(stored: StoredRun, stage: str, tasks: Sequence[FitTask] | None = None) -> list[Detector]:
    """Return the detectors of some tasks, by default the final one of every class of the run.

    Raises StageError if one is missing, or was made with other settings than the run has now.
    """
    if tasks is None:
        folder, settings = stored.folder, stored.settings
        trained = trained_tasks(stored, training_shards(folder, settings))
        tasks = [final_task(folder, settings, task) for task in trained]
        for task in trained if settings.refine.rounds else ():
            _check_origin(task, stored_detector(task.path), stage)
    detectors = []
    for task in tasks:
        if not task.path.is_file():
            raise unmet(stage, f"a model of {task.name!r}", f"{task.path} is not there", task.maker)
        detectors.append(Detector.load(task.path))
        _check_origin(task, detectors[-1], stage)
    return detectors


def _check_origin(task: FitTask, detector: Detector | None, stage: str) -> None:
    """Raise StageError if the model of a task, if there is one, was made with other settings."""
    state = None if detector is None else task.product.compared(detector.provenance)
    if state is not None and state.sentence:
        raise state.refusal(stage, "models by the run's settings", f"{task.maker} --redo")


def trained_classes(stored: StoredRun, stage: str) -> Mapping[str, Detector]:
    """Return class -> its detector."""
    return {detector.class_name: detector for detector in load_detectors(stored, stage)}


def model_hashes(run: RunFolder, classes: Iterable[str]) -> dict[str, str]:
    """Return class -> the hash of the weights that score it."""
    return {name: weights_hash(Detector.load(run.model(name))) for name in classes}


def available_detectors(run: RunFolder, classes: Iterable[str]) -> dict[str, Detector]:
    """Return class -> the final detector, without classes whose file is missing or damaged."""
    found = {name: stored_detector(run.model(name)) for name in classes}
    return {name: detector for name, detector in found.items() if detector is not None}


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


def weights_hash(detector: Detector) -> str:
    """Return the hash of a model's weights, for the provenance of models that depend on it."""
    return content_hash(detector.coef.tolist(), np.asarray(detector.scale).tolist(), detector.intercept)


def of_model(path: Path, model: Detector, owner: Callable[[Path], Any]) -> Product:
    """Return the product of a file that belongs to the weights of one model; `owner` returns the hash that it has."""
    return Product(path, {"model": weights_hash(model)}, lambda file: {"model": owner(file)})


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
