"""Stage 2: one detector per class; all classes, folds and values of C and J are trained side by side."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import NamedTuple

import numpy as np

from lapsvm.arrays import Float64, Index
from lapsvm.bags import Bags
from lapsvm.errors import OptionError
from lapsvm.features import Projection, ShardSet
from lapsvm.latent import LatentSolution, PassCounts
from lapsvm.report.next_steps import PARTS_TELL, parts_tell

from ..context import RunContext, Workspace
from ..fitting.fit import FitRequest, Trainer, batches, fit_requests
from ..fitting.history import history_rows
from ..fitting.interrupted import Interrupted
from ..fitting.selection import Choice, check_folds, choose_constants, undecided_message
from ..fitting.training_bags import ContextPairs, training_bags, window_boxes
from ..products.fold_models import FoldModels, fold_numbers, seen_labels
from ..products.held_out import BoxModel, ScoredPictures, calibrated, is_to_learn
from ..products.history import write_history
from ..products.models import FitTask, denied_tasks, fit_tasks, fitted_detector, weights_hash
from ..products.parts import count_telling
from ..products.projection import projection_of
from ..products.shards import finished_shards
from ..run.dataset import Labels
from ..run.progress import Reporter
from ..settings.settings import Settings


def run(context: RunContext) -> None:
    """Train the classes that have no model yet, and leave out those that verdicts leave with too few pictures.

    Raises StageError if there are no shards, SettingsError if there are models trained with other settings.
    """
    run, settings = context.run, context.settings
    shards = finished_shards(run, settings, context.data, "train", context.train_set)
    tasks = fit_tasks(context.stored, shards)
    if denied := denied_tasks(settings.train, tasks):
        context.leave_out(denied)
        tasks = [task for task in tasks if task.name not in denied]
    to_do: Sequence[FitTask] = [task for task in tasks if context.redo or is_to_learn(run, settings, task)]
    if not context.redo:
        to_do = Interrupted(run, context.reporter).joined(tasks, to_do)
    _say_notes(context.reporter, tasks, to_do)
    with context.timed("train") as counts:
        counts.update(nothing_to_do=not to_do, classes=len(to_do))
        if to_do:
            training = Training(context.workspace, settings, shards, to_do, PassCounts(), context.redo)
            training.learn(context.save_settings)
            counts.update(training.counts)
        else:
            run.remove_training()
    gone = [path for name in denied for path in run.models_of(name)]
    run.remove(gone)
    run.files.forget(gone)


def _say_notes(reporter: Reporter, tasks: Sequence[FitTask], to_do: Sequence[FitTask]) -> None:
    """Report which classes are trained again because their data changed, and which verdicts do not count."""
    changed = [task.name for task in to_do if "data" in task.state().followed]
    if changed:
        reporter.say(f"train: pictures, labels or groups have changed; trained again: {', '.join(changed)}")
    for note in (note for task in tasks for note in task.reviews.notes):
        reporter.warn(f"train: {note}")


class TrainingWindows(NamedTuple):
    """The windows that training sees, the scale of their features, and how models of them become stored ones."""

    bags: Bags
    scale: Float64
    pairs: ContextPairs
    projection: Projection | None
    pictures: ScoredPictures


class TrainedClass(NamedTuple):
    """The solutions of a class, of all pictures first, then without each fold; its choice and its folds."""

    solutions: Sequence[LatentSolution]
    choice: Choice
    fold: Index


@dataclass(frozen=True)
class Training:
    """The training of some classes of a run, on passes that they share.

    Attributes
    ----------
    workspace : Workspace
    settings : Settings
    shards : ShardSet
        The training set's.
    tasks : sequence of FitTask
    passes : PassCounts
        Counts the passes.
    redo : bool
        Whether nothing of an interrupted training is used.
    """

    workspace: Workspace
    settings: Settings
    shards: ShardSet
    tasks: Sequence[FitTask]
    passes: PassCounts
    redo: bool

    def learn(self, save_settings: Callable[[], None]) -> None:
        """Choose constants where there are candidates, train all classes side by side, and write their models."""
        run = self.workspace.folder
        windows = self._windows()
        if self.redo:  # everything is checked; from here on files are written
            run.remove_training()
        run.files.claim(task.path for task in self.tasks)
        Interrupted(run, self.workspace.reporter).begin(self.tasks)
        trained = self._trained(windows.bags)
        save_settings()
        for task in self.tasks:
            self._save(task, trained[task.name], windows)
        run.remove_training()

    @property
    def counts(self) -> dict[str, int]:
        """The passes, and the bytes that a cluster has moved, for the timings of the run."""
        cluster = self.workspace.cluster
        moved = {} if cluster is None else {"bytes_sent": cluster.sent, "bytes_received": cluster.received}
        return {**asdict(self.passes), **moved}

    def _windows(self) -> TrainingWindows:
        """Return the windows to train on, after every check."""
        run, shards = self.workspace.folder, self.shards
        run.files.check(task.path for task in self.tasks)
        check_folds(self.settings, {task.name: task.y for task in self.tasks}, self.tasks[0].groups)
        if self.settings.train.init == "whole_image":
            _check_whole_image(shards)
        bags, scale, pairs = training_bags(self.workspace, self.settings, shards)
        pictures = ScoredPictures(bags, window_boxes(shards), shards.image_ids)
        return TrainingWindows(bags, scale, pairs, projection_of(run, shards), pictures)

    def _trained(self, bags: Bags) -> dict[str, TrainedClass]:
        """Return the solutions of every class, and write their history."""
        run, reporter = self.workspace.folder, self.workspace.reporter
        trainer = Trainer(self.settings, reporter, run, self.shards.provenance, self.passes)
        choices = self._choices(trainer, bags)
        folds = {task.name: fold_numbers(self.settings, task.y, task.groups) for task in self.tasks}
        requests = {task.name: _requests(task.y, folds[task.name], choices[task.name]) for task in self.tasks}
        solutions = _solutions(trainer, bags, requests)
        rows = [row for task in self.tasks for row in choices[task.name].history]
        for name, (request, *_) in requests.items():
            rows += history_rows(name, "final", request.constants, solutions[name][0])
        write_history(run, rows, reporter.say)
        return {name: TrainedClass(solutions[name], choices[name], folds[name]) for name in requests}

    def _choices(self, trainer: Trainer, bags: Bags) -> dict[str, Choice]:
        """Return the choice of every class; choices that an interrupted training has stored are not made again."""
        interrupted = Interrupted(self.workspace.folder, self.workspace.reporter)
        by_name = {task.name: task for task in self.tasks}
        choices = {} if self.redo else interrupted.choices(self.tasks)
        train, names = self.settings.train, list(by_name)
        grid = len(train.J) * len(train.trim) if train.learner == "latent_svm" else 1
        for part in batches(len(names), train.folds * grid):
            new = {name: by_name[name].y for name in names[part] if name not in choices}
            choices |= choose_constants(trainer, bags, new, self.tasks[0].groups) if new else {}
            interrupted.store(self.tasks, choices)
        return choices

    def _save(self, task: FitTask, trained: TrainedClass, windows: TrainingWindows) -> None:
        """Write the model of a class and its fold models; final models are calibrated on held-out scores."""
        (solution, *of_folds), choice, fold = trained
        result = {**choice.constants.known(), "held_out_image_ap": choice.candidates}
        self._say_weaknesses(task, solution, choice)
        if of_folds:
            coefs, smoothing = [solved.coef for solved in of_folds], self.settings.detect.score_smoothing
            result["telling_parts"] = count = count_telling(windows.pictures, task.y, fold, coefs, smoothing)
            if parts_tell(count, int(((fold > 0) & (task.y > 0)).sum())) and not task.reviews.known:
                self.workspace.reporter.say(f"train: {task.name}: {PARTS_TELL}")
        pairs, scale = windows.pairs, windows.scale
        unfolded = replace(solution, coef=pairs.unfold(solution.coef))
        detector = fitted_detector(task, result, unfolded, pairs.unfold_scale(scale), windows.projection)
        if of_folds:
            stored = np.stack([pairs.unfold(one.coef * scale) for one in of_folds], axis=1)
            path = self.workspace.folder.fold_models(task.name)
            self.workspace.folder.files.claim([path])
            FoldModels(fold, stored, weights_hash(detector)).save(path)
        if not self.settings.refine.rounds:  # which has held-out scores of its own
            models = [BoxModel(one.coef) for one in trained.solutions]
            detector = calibrated(self.workspace, self.settings, task, detector, windows.pictures, fold, models)
        detector.save(task.path)

    def _say_weaknesses(self, task: FitTask, solution: LatentSolution, choice: Choice) -> None:
        """Report a class whose weights are zero, and one whose candidates are all perfect."""
        if not solution.coef.any():
            self.workspace.reporter.say(
                f"train: {task.name} ended at w = 0, which scores every window alike; raise --C."
            )
        if sentence := undecided_message(task.name, choice.candidates):
            self.workspace.reporter.say(f"train: {sentence}")


def _requests(y: Labels, fold: Index, choice: Choice) -> list[FitRequest]:
    """Return the trainings of a class: with all labels, then without those of each fold."""
    of_folds = zip(seen_labels(y, fold), choice.of_folds, strict=True)
    return [FitRequest(y, choice.constants), *(FitRequest(*pair) for pair in of_folds)]


def _check_whole_image(shards: ShardSet) -> None:
    """Raise OptionError if a picture has no window of the whole picture: an imported one may lack it."""
    for shard in shards:
        whole = np.hstack([np.zeros_like(shard.sizes), shard.sizes[:, ::-1]])
        differs = (shard.boxes[shard.offsets[:-1]] != whole).any(axis=1)
        if differs.any():
            image_id = shard.image_ids[int(np.argmax(differs))]
            raise OptionError(
                f"option --init whole_image needs a window of the whole picture, but picture {image_id!r} has none."
            )


def _solutions(
    trainer: Trainer, bags: Bags, requests: Mapping[str, Sequence[FitRequest]]
) -> dict[str, list[LatentSolution]]:
    """Return the solutions of the requests of every class, trained side by side."""
    together = [request for own in requests.values() for request in own]
    classes = [name for name, own in requests.items() for _ in own]
    found = iter(fit_requests(trainer, "train", together, bags, classes))
    return {name: list(islice(found, len(own))) for name, own in requests.items()}
