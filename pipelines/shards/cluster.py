"""Extraction on a cluster: each worker makes whole shards, from the pictures to the file.

Workers see the same folders under the same paths. A worker opens the extractor, and the source of objectness, once and
checks that it describes itself as ours does.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any

from threadpoolctl import threadpool_limits

from lapsvm.catalog import ImageRecord
from lapsvm.cluster import Cluster, this_worker
from lapsvm.errors import LapsvmError, SettingsError, ShardError
from lapsvm.features import Extractor, Projected, load_projection, settings_difference
from lapsvm.features.extractors.extractor import open_sized_extractor
from lapsvm.objectness import ObjectnessSource, open_objectness
from lapsvm.settings import NORMAL

from ..context import Workspace
from ..run.folder import RunFolder
from ..settings.settings import FeatureSettings, ObjectnessSettings, Settings
from .extraction import SetExtraction
from .jobs import Picture, ShardJobs, count_windows
from .normal import stored_normal_map
from .objectness import NO_OBJECTNESS, ObjectnessRequest, measure_stored
from .placement import ShardJob
from .prefetch import PREFETCHED, Result, prefetched

_OPENING = Lock()


@dataclass(frozen=True)
class ShardTask:
    """A shard for a worker to make, or to add objectness to.

    `projection` is a file, if features are projected. `objectness` describes the source of objectness, which `run` may
    hold, and `measured` are the pictures that it measures.
    """

    settings: Settings
    device: str
    run: Path
    projection: Path | None
    provenance: dict[str, Any]
    objectness: dict[str, Any]
    measured: AbstractSet[str]
    path: Path
    records: tuple[ImageRecord, ...]


def extract_on_cluster(
    cluster: Cluster, workspace: Workspace, settings: Settings, shards: ShardJobs[Picture], jobs: Sequence[ShardJob],
    title: str, counts: dict[str, Any],
) -> None:  # fmt: skip
    """Make some shards of one set on the cluster.

    Raises ShardError if a shard that a worker wrote is not here, SettingsError if a worker's extractor differs.
    """
    n_pictures = sum(len(records) for _, records in jobs)
    counts |= {"nothing_to_do": not jobs, "pictures": n_pictures, "windows": 0}
    with (
        workspace.reporter.bar(title, n_pictures, "pictures") as bar,
        closing(_results(cluster, make_shard, _tasks(workspace, settings, shards, jobs))) as results,
    ):
        for task, (worker, n_windows) in results:
            if n_windows and not task.path.is_file():  # without windows, all of its pictures are left out
                raise ShardError(
                    f"shard {task.path} is missing after worker {worker} wrote it; workers and this machine must share "
                    "the run folder."
                )
            counts["windows"] += n_windows
            bar.step(len(task.records), windows=n_windows)


def measure_on_cluster(
    cluster: Cluster, workspace: Workspace, settings: Settings, shards: ShardJobs[Picture], title: str
) -> None:
    """Measure the objectness that some shards of one set lack on the cluster.

    Raises SettingsError if a worker's source of objectness differs.
    """
    tasks = _tasks(workspace, settings, shards, shards.unmeasured)
    with (
        workspace.reporter.bar(title, len(tasks), "shards") as bar,
        closing(_results(cluster, measure_shard, tasks)) as results,
    ):
        for _ in results:
            bar.step()


def _tasks(
    workspace: Workspace, settings: Settings, shards: ShardJobs[Picture], jobs: Sequence[ShardJob]
) -> list[ShardTask]:
    """Return the tasks of some shards."""
    run, device, described = workspace.folder, workspace.device, shards.objectness.description
    projection = run.projection.absolute() if settings.features.pca else None
    common = (settings, device, run.path.absolute(), projection, shards.provenance, described)
    wanted = [frozenset(record.id for record in records if shards.objectness.wants(record.id)) for _, records in jobs]
    return [
        ShardTask(*common, measured, path.absolute(), tuple(records))
        for (path, records), measured in zip(jobs, wanted, strict=True)
    ]


def _results(
    cluster: Cluster, work: Callable[[ShardTask], Result], tasks: Sequence[ShardTask]
) -> Generator[tuple[ShardTask, Result], None, None]:
    """Return the tasks with their results; ClusterError if there is no worker, and none comes for long."""
    return prefetched(cluster, work, tasks, PREFETCHED * sum(cluster.wait_for_workers().values()))


def make_shard(task: ShardTask) -> tuple[str, int]:
    """Make a shard in a worker; return the worker's address and the number of windows."""
    with _in_worker() as worker:
        with _OPENING:
            extractor = _extractor(task.settings.features, task.device, task.projection)
        request = _request(task)
        shards = SetExtraction(task.path.parent, task.records, task.settings, extractor, objectness=request)
        if difference := settings_difference(shards.provenance, task.provenance):
            raise SettingsError(f"it would make shards with {difference}.")
        threadpool_limits(1)  # for the rest of the process: other tasks may run at the same time
        measured = [shards.measure(record) for record in task.records]
        if any(picture is not None for picture in measured):
            shards.store(task.path, task.records, measured)
    return worker, count_windows(measured)


def measure_shard(task: ShardTask) -> str:
    """Add objectness to a shard in a worker; return the worker's address."""
    with _in_worker() as worker:
        request = _request(task)
        threadpool_limits(1)
        measure_stored(task.path, task.records, request, task.settings.data.skip_bad)
    return worker


@contextmanager
def _in_worker() -> Iterator[str]:
    """Yield the worker's address; an expected failure names it."""
    worker, _ = this_worker()
    try:
        yield worker
    except LapsvmError as error:
        raise type(error)(f"worker {worker}: {error}") from None


def _request(task: ShardTask) -> ObjectnessRequest:
    """Return the request of a task; SettingsError if the source is another one here."""
    if not task.measured and not task.objectness:
        return NO_OBJECTNESS
    with _OPENING:
        request = ObjectnessRequest(_source_of(task), task.measured, task.settings.objectness.source)
    if difference := settings_difference(request.description, task.objectness):
        raise SettingsError(f"it would measure objectness with {difference}.")
    return request


def _source_of(task: ShardTask) -> ObjectnessSource | None:
    """Return the source of objectness of a task; a normal map is read again, because it may be another one by now."""
    if task.settings.objectness.source == NORMAL:
        return stored_normal_map(RunFolder(task.run), _whole(task.settings.features, task.device))
    return _source(task.settings.objectness, task.device)


@lru_cache(maxsize=1)
def _source(settings: ObjectnessSettings, device: str) -> ObjectnessSource | None:
    """Return the source of objectness that the settings name, opened once."""
    return open_objectness(settings.source, device=device)


@lru_cache(maxsize=1)
def _extractor(settings: FeatureSettings, device: str, projection: Path | None) -> Extractor:
    """Return the extractor that the settings name, opened once."""
    extractor = _whole(settings, device)
    return extractor if projection is None else Projected(extractor, load_projection(projection))


def _whole(settings: FeatureSettings, device: str) -> Extractor:
    """Open the extractor without a projection; the main process has checked that it may run its code."""
    return open_sized_extractor(settings.extractors, settings.networks, device, named=settings.extractors)
