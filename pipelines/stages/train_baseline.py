"""Stage 2 for the baselines."""

from collections.abc import Sequence
from typing import Any

from lapsvm.errors import LapsvmError, SettingsError
from lapsvm.evaluation import write_json
from lapsvm.features import ShardSet
from lapsvm.nn import load_heads

from ..fitting.baselines.heads import fit_heads
from ..fitting.baselines.mi_svm import fit_mi_svm
from ..fitting.tasks import FitTask, files_of_other_learners, is_done, training_difference
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
    differences = [training_difference(stored.get(task.name, {}), task) for task in tasks]
    if any(differences):
        raise SettingsError(
            f"{path} was trained with {next(filter(None, differences))}; use another --out, or --redo to train again."
        )
    return set(stored) == {task.name for task in tasks}


def train_baseline(context: RunContext, shards: ShardSet, tasks: Sequence[FitTask]) -> None:
    """Train a baseline on all classes, and write its models and baseline.json."""
    train, run = context.settings.train, context.run
    heads = train.learner in HEADS
    files = [run.heads] if heads else [task.path for task in tasks]
    run.files.check([*files, run.baseline_file])
    bags, scale, halves = training_bags(context, shards)
    record: dict[str, Any] = {"method": train.learner, "seed": train.head_seed}
    if heads:
        trained, more = fit_heads(context, tasks, bags, scale)
    else:
        detectors, more = fit_mi_svm(context, tasks, bags, scale, halves, projection_of(run, shards))
    run.remove(files_of_other_learners(context))
    context.save_settings()
    run.files.claim([*files, run.baseline_file])
    if heads:
        trained.save(run.heads)
    else:
        for detector, path in zip(detectors, files, strict=True):
            detector.save(path)
    write_json(run.baseline_file, record | dict(more))
