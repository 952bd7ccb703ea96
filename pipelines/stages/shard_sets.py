"""The shards of every set that a command makes: checking what is there, claiming, making and measuring."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lapsvm.errors import SettingsError
from lapsvm.features import open_shards

from ..context import StoredRun, Workspace
from ..fitting.selection import check_folds
from ..products.models import FitTask, denied_tasks, final_task, is_refinement, stored_provenance, trained_tasks
from ..shards.jobs import Picture, ShardJobs, make_shards, measure_shards
from ..shards.placement import ShardJob

ToDo = Mapping[str, list[ShardJob]]


@dataclass(frozen=True)
class ShardSets:
    """The shards of every set of a run, by the command that makes them.

    Attributes
    ----------
    stored : StoredRun
    workspace : Workspace
    sets : mapping of set to ShardJobs
    stages : sequence of str
        All stages of the command.
    redo : bool
        Whether models are made again by any settings.
    """

    stored: StoredRun
    workspace: Workspace
    sets: Mapping[str, ShardJobs[Any]]
    stages: Sequence[str]
    redo: bool

    def claim(self, others: Sequence[Path] = ()) -> ToDo:
        """Return the shards to make in each set, after every check; list them and `others` as files of the run.

        Raises SettingsError if shards or models were made with other settings, or a file to write is another program's.
        """
        run, reporter, threads = self.stored.folder, self.workspace.reporter, self.workspace.threads
        to_do = {name: jobs.to_do(reporter, f"check {name}", threads) for name, jobs in self.sets.items()}
        kept = [path for name, jobs in self.sets.items() for path in jobs.carried_over(to_do[name])]
        old = [path for jobs in self.sets.values() for path in jobs.stale()]
        self._check_models(shards_are_done=not (any(to_do.values()) or kept or old))
        new = [*(path for jobs in to_do.values() for path, _ in jobs), *kept, *others]
        new += [path for jobs in self.sets.values() for path, _ in jobs.unmeasured]
        run.files.check([*old, *new])  # the last check: from here on files are written
        run.remove(old)
        run.files.claim(new)
        for name, jobs in self.sets.items():
            self._say_changes(name, jobs)
        return to_do

    def _say_changes(self, set_name: str, jobs: ShardJobs[Picture]) -> None:
        """Report how the pictures of a set differ from those with features; an interrupted command has no new ones."""
        timings = self.stored.folder.timings()
        were_finished = not {f"extract {set_name}", f"import {set_name}"}.isdisjoint(timings)
        if jobs.placement.stored and jobs.placement.changes and (were_finished or jobs.source is not None):
            self._say(f"set {set_name}: {jobs.placement.changes}; the features of the others are kept")

    def _say(self, line: str) -> None:
        self.workspace.reporter.say(line)

    def make(self, set_name: str, title: str, to_do: Sequence[ShardJob]) -> None:
        """Copy, change and make the shards of one set, here or on the cluster."""
        run, jobs, workspace = self.stored.folder, self.sets[set_name], self.workspace
        for path in jobs.carried_over(to_do):
            jobs.carry_over(path)
        with run.timed(title, self._say) as counts:
            if workspace.cluster is None:
                make_shards(jobs, to_do, title, counts, workspace.reporter, workspace.threads)
            else:
                from ..shards.cluster import extract_on_cluster

                extract_on_cluster(workspace.cluster, workspace, self.stored.settings, jobs, to_do, title, counts)
        run.files.forget(run.lost_shards(set_name))  # all that belong in it are there now

    def measure(self, set_name: str) -> None:
        """Measure the objectness that the shards of one set lack, here or on the cluster; each is written once."""
        jobs, workspace = self.sets[set_name], self.workspace
        count, title = sum(len(records) for _, records in jobs.unmeasured), f"objectness {set_name}"
        if not jobs.unmeasured:
            return
        self._say(f"set {set_name}: the objectness of {count:,} pictures is measured; their features are kept")
        with self.stored.folder.timed(title, self._say) as counts:
            counts["pictures"] = count
            if workspace.cluster is None:
                measure_shards(jobs, title, workspace.reporter, workspace.threads)
            else:
                from ..shards.cluster import measure_on_cluster

                measure_on_cluster(workspace.cluster, workspace, self.stored.settings, jobs, title)

    def _check_models(self, *, shards_are_done: bool) -> None:
        """Raise SettingsError if there are models made with other settings, unless they are made again (--redo).

        Other pictures or labels of the same training set are no other settings: models are then trained again. With
        `shards_are_done` models are compared with the shards, too. Raises OneClassError if a class has too few pictures
        for training.
        """
        stored, run, settings = self.stored, self.stored.folder, self.stored.settings
        tasks = trained_tasks(stored, open_shards(run.shards(stored.train_set)) if shards_are_done else None)
        if "train" in self.stages and tasks:
            denied = denied_tasks(settings.train, tasks)  # which training leaves out
            labels = {task.name: task.y for task in tasks if task.name not in denied}
            check_folds(settings, labels, tasks[0].groups)
        before = run.settings().data.train_set
        planned = self.sets[stored.train_set].objectness.description if "refine" in self.stages else {}
        for task in tasks if not self.redo else ():
            _check_train_set(task, before, stored.train_set)
            task.product.is_to_make()
            if settings.refine.rounds and is_refinement(stored_provenance(run.model(task.name))):
                final_task(run, settings, task, planned).product.is_to_make()


def _check_train_set(task: FitTask, before: str, now: str) -> None:
    """Raise SettingsError if a model was trained on another set of the run."""
    if task.path.exists() and before != now:
        raise SettingsError(
            f"{task.path} was trained with data.train_set {before!r} instead of {now!r}; use another --out, or --redo "
            "to train again."
        )
