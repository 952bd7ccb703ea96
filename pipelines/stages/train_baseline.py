"""Stage 2 for the baselines."""

from collections.abc import Sequence
from pathlib import Path

from lapsvm.errors import LapsvmError, SettingsError
from lapsvm.evaluation import write_json
from lapsvm.features import ShardSet
from lapsvm.nn import load_heads

from ..fitting.baselines.heads import HeadPictures, Record, fit_heads
from ..fitting.baselines.mi_svm import fit_mi_svm
from ..fitting.tasks import FitTask, files_of_other_learners, has_other_data, is_done, training_difference
from ..fitting.training_bags import training_bags
from ..run.context import RunContext
from ..run.settings import HEADS
from ..shards.projection import projection_of


def is_trained(context: RunContext, tasks: Sequence[FitTask]) -> bool:
    """Return whether a baseline is there, trained the same way.

    Raises SettingsError if it was trained with other settings.
    """
    if context.settings.train.learner not in HEADS:
        return all(is_done(task) for task in tasks)
    path = context.run.heads
    if not path.is_file():
        return False
    try:
        stored = load_heads(path).provenance
    except LapsvmError:  # a damaged file is replaced
        return False
    if any(task.name in stored and has_other_data(stored[task.name], task) for task in tasks):
        return False
    differences = [training_difference(stored.get(task.name, {}), task) for task in tasks]
    if any(differences):
        raise SettingsError(
            f"{path} was trained with {next(filter(None, differences))}; use another --out, or --redo to train again."
        )
    return set(stored) == {task.name for task in tasks}


def train_baseline(context: RunContext, shards: ShardSet, tasks: Sequence[FitTask]) -> None:
    """Train a baseline on all classes, and write its models and baseline.json."""
    heads = context.settings.train.learner in HEADS
    files = [context.run.heads] if heads else [task.path for task in tasks]
    context.run.files.check([*files, context.run.baseline_file])
    bags, scale, pairs = training_bags(context, shards)
    if heads:
        pictures = HeadPictures(bags, shards, scale)
        trained, more = fit_heads(context.settings.train, tasks, pictures, context.reporter)
        _prepare(context, files)
        trained.save(context.run.heads)
        _save_record(context, more)
        return
    projection = projection_of(context.run, shards)
    detectors, more = fit_mi_svm(context.settings.train, tasks, bags, scale, pairs, projection, context.reporter)
    _prepare(context, files)
    for detector, path in zip(detectors, files, strict=True):
        detector.save(path)
    _save_record(context, more)


def _prepare(context: RunContext, files: Sequence[Path]) -> None:
    """Remove what another kind of learner has left, and claim the files that a baseline writes."""
    context.run.remove(files_of_other_learners(context))
    context.save_settings()
    context.run.files.claim([*files, context.run.baseline_file])


def _save_record(context: RunContext, more: Record) -> None:
    train = context.settings.train
    write_json(context.run.baseline_file, {"method": train.learner, "seed": train.head_seed, **more})
