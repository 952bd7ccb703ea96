"""Extraction on a cluster: each worker makes whole shards, from the pictures to the file.

Workers see the same folders under the same paths. A worker opens the extractor once and checks that it describes itself
as ours does.
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
from lapsvm.cluster import Cluster, this_worker
from lapsvm.errors import LapsvmError, SettingsError, ShardError
from lapsvm.features import Extractor, Projected, load_projection, settings_difference
from lapsvm.features.extractors.extractor import open_sized_extractor

from ..run.context import RunContext
from ..run.settings import FeatureSettings, Settings
from .extraction import SetExtraction
from .jobs import Picture, ShardJobs, count_windows
from .placement import ShardJob
from .prefetch import PREFETCHED, prefetched

_OPENING = Lock()


@dataclass(frozen=True)
class ShardTask:
    """A shard for a worker to make; `projection` is a file, if features are projected."""

    settings: Settings
    device: str
    projection: Path | None
    provenance: dict[str, Any]
    path: Path
    records: tuple[ImageRecord, ...]


def extract_on_cluster(
    context: RunContext, cluster: Cluster, shards: ShardJobs[Picture], jobs: Sequence[ShardJob], title: str,
    counts: dict[str, Any],
) -> None:  # fmt: skip
    """Make some shards of one set on the cluster.

    Raises ShardError if a shard that a worker wrote is not here, SettingsError if a worker's extractor differs.
    """
    n_pictures = sum(len(records) for _, records in jobs)
    counts |= {"nothing_to_do": not jobs, "pictures": n_pictures, "windows": 0}
    projection = context.run.projection.absolute() if context.settings.features.pca else None
    common = (context.settings, context.device, projection, shards.provenance)
    tasks = [ShardTask(*common, path.absolute(), tuple(records)) for path, records in jobs]
    n_started = PREFETCHED * sum(cluster.workers().values())
    with (
        context.reporter.bar(title, n_pictures, "pictures") as bar,
        closing(prefetched(cluster, make_shard, tasks, n_started)) as results,
    ):
        for task, (worker, n_windows) in results:
            if n_windows and not task.path.is_file():  # without windows, all of its pictures are left out
                raise ShardError(
                    f"shard {task.path} is missing after worker {worker} wrote it; workers and this machine must share "
                    "the run folder."
                )
            counts["windows"] += n_windows
            bar.step(len(task.records), windows=n_windows)


def make_shard(task: ShardTask) -> tuple[str, int]:
    """Make a shard in a worker; return the worker's address and the number of windows."""
    worker, _ = this_worker()
    try:
        with _OPENING:
            extractor = _extractor(task.settings.features, task.device, task.projection)
        shards = SetExtraction(task.path.parent, task.records, task.settings, extractor)
        if difference := settings_difference(shards.provenance, task.provenance):
            raise SettingsError(f"it would make shards with {difference}.")
        threadpool_limits(1)  # for the rest of the process: other tasks may run at the same time
        measured = [shards.measure(record) for record in task.records]
        if any(picture is not None for picture in measured):
            shards.store(task.path, task.records, measured)
    except LapsvmError as error:
        raise type(error)(f"worker {worker}: {error}") from None
    return worker, count_windows(measured)


@lru_cache(maxsize=1)
def _extractor(settings: FeatureSettings, device: str, projection: Path | None) -> Extractor:
    """Return the extractor that the settings name, opened once."""
    texts = settings.extractors
    extractor = open_sized_extractor(texts, settings.networks, device, named=texts)  # the main process has checked them
    return extractor if projection is None else Projected(extractor, load_projection(projection))
