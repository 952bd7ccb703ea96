"""Extraction by the workers of a cluster: each takes a shard through all of it, from the pictures to the file.

Workers see the same folders under the same paths. A worker opens the extractor once, and makes sure that it gives the
features that it gives here.
"""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any

from threadpoolctl import threadpool_limits

from lapsvm.catalog import ImageRecord
from lapsvm.cluster import worker_address
from lapsvm.errors import LapsvmError, SettingsError, ShardError
from lapsvm.features import Extractor, Projected, load_projection, settings_difference

from ..run.context import RunContext
from ..run.settings import FeatureSettings, Settings
from .extraction import AHEAD, SetExtraction
from .extractors import open_settings_extractor
from .integrity import ShardJob
from .prefetch import prefetched

_OPENING = Lock()


@dataclass(frozen=True)
class Plan:
    """What a worker must know of a set to make one of its shards; `projection` is a file, if features are projected."""

    settings: Settings
    device: str
    projection: Path | None
    provenance: dict[str, Any]


@dataclass(frozen=True)
class ShardTask:
    """A shard that a worker is to make."""

    plan: Plan
    path: Path
    records: tuple[ImageRecord, ...]


def extract_on_cluster(
    context: RunContext, work: SetExtraction, jobs: Sequence[ShardJob], title: str, counts: dict[str, Any]
) -> None:
    """Have a cluster make some shards of one set.

    Raises
    ------
    ShardError
        If a shard that a worker has written is not here.
    SettingsError
        If a worker's extractor gives other features.
    """
    cluster = context.cluster
    if cluster is None:
        raise TypeError("there must be a cluster")  # our own mistake, not the user's
    n_pictures = sum(len(records) for _, records in jobs)
    counts |= {"nothing_to_do": not jobs, "pictures": n_pictures, "windows": 0}
    projection = context.run.projection.absolute() if context.settings.features.pca else None
    plan = Plan(context.settings, context.device, projection, work.provenance)
    tasks = [ShardTask(plan, path.absolute(), tuple(records)) for path, records in jobs]
    ahead = AHEAD * sum(cluster.workers().values())
    with (
        context.reporter.bar(title, n_pictures, "pictures") as bar,
        closing(prefetched(cluster, make_shard, tasks, ahead)) as results,
    ):
        for task, (worker, n_windows) in results:
            if not task.path.is_file():
                raise ShardError(
                    f"shard {task.path} must be here once worker {worker} has written it, and is not; workers and this "
                    "machine must share the run folder."
                )
            counts["windows"] += n_windows
            bar.step(len(task.records), windows=n_windows)


def make_shard(task: ShardTask) -> tuple[str, int]:
    """Make a shard, in a worker; return the worker's address and the number of windows."""
    worker, plan = worker_address(), task.plan
    try:
        with _OPENING:
            extractor = _extractor(plan.settings.features, plan.device, plan.projection)
        work = SetExtraction(task.path.parent, task.records, plan.settings, extractor)
        difference = settings_difference(work.provenance, plan.provenance)
        if difference:
            raise SettingsError(f"it would make shards with {difference}.")
        threadpool_limits(1)  # for the rest of the process: others may be at work beside this
        measured = [work.measure(record) for record in task.records]
        work.store(task.path, task.records, measured)
    except LapsvmError as error:
        raise type(error)(f"worker {worker}: {error}") from None
    return worker, sum(len(picture.boxes) for picture in measured if picture is not None)


@lru_cache(maxsize=1)
def _extractor(settings: FeatureSettings, device: str, projection: Path | None) -> Extractor:
    """Return the extractor that settings name, opened once."""
    whole = open_settings_extractor(settings, device, settings.extractors)  # the user's own process has checked them
    return whole if projection is None else Projected(whole, load_projection(projection))
