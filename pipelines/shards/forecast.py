"""What extraction and training will need: time, memory and disk, from some pictures that are measured before.

The measured pictures stay in memory for extraction, so an extractor sees them once.
"""

import shutil
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import numpy as np
from threadpoolctl import threadpool_limits

from lapsvm.bags.stores.memory import as_bytes
from lapsvm.bfloat16 import named_type
from lapsvm.boxes import whole_image
from lapsvm.catalog import ImageRecord
from lapsvm.detection.prepared import PreparedWindows
from lapsvm.features import Extractor

from ..context import Workspace
from ..run.dataset import RunData
from ..run.progress import roughly
from ..settings.settings import Settings
from .extraction import KeptPictures, fair_sample, prepare_record
from .objectness import ObjectnessRequest
from .placement import IMAGES_PER_SHARD
from .windows import pixels_unless_bad

SAMPLE = 4
"""Pictures that are measured, after one that opens the extractor."""

FEW = 20  # pictures that are extracted without a word
_LEARNING = 0.2  # of the recipe best, for each training picture and class, see docs/measurements/features.md
_BOX = 16  # bytes of a window's corners
_TRAINING = 1.5  # memory of training, over that of its windows: best windows are copied, files are mapped
_MODULES = 25_000_000  # bytes of what training imports
_WORKING = 6  # bytes of a feature of a shard that is put together: as it was computed, and as it is stored


@dataclass(frozen=True)
class Sample:
    """Means over measured pictures: seconds of wall time, windows, and bytes of a prepared picture."""

    seconds: float
    windows: float
    nbytes: float


@dataclass(frozen=True)
class Forecast:
    """What a command will need.

    Attributes
    ----------
    workspace : Workspace
    settings : Settings
    data : RunData
    stages : sequence of str
        All stages of the command.
    """

    workspace: Workspace
    settings: Settings
    data: RunData
    stages: Sequence[str]

    def features(
        self, extractor: Extractor, records: Sequence[ImageRecord], n_pictures: int, dim: int, *, room: int = 0,
        exact: bool = True,
    ) -> KeptPictures:  # fmt: skip
        """Report the time and memory of extraction and training; return the pictures that were measured.

        Parameters
        ----------
        extractor : Extractor
        records : sequence of ImageRecord
            Pictures of one set, some of which are measured.
        n_pictures : int
            How many pictures are to be extracted, of all sets.
        dim : int
            Number of stored features of a window.
        room : int, default 0
            The bytes of `records` that may be kept in memory, because a projection is fitted on them before.
        exact : bool, default True
            Whether `dim` is known, or may be less.
        """
        reporter, path = self.workspace.reporter, self.workspace.folder.path
        if reporter.quiet or self.workspace.cluster is not None or n_pictures <= FEW:
            return {}
        kept, sample = _measured(self.settings, self.workspace.threads, extractor, records)
        if sample is None:
            return {}
        row = dim * named_type(self.settings.features.dtype).itemsize + _BOX
        disk, free = n_pictures * sample.windows * row, _free(path)
        memory = self._memory(sample, row, dim, min(len(records) * sample.nbytes, room))
        most = "" if exact else "at most "
        needs = [
            f"about {self._times(sample, n_pictures)}",
            *([f"{most}{size_text(memory)} of memory"] if memory else []),
            f"{most}{size_text(disk)} of disk",
        ]
        reporter.say(f"before it starts, by {len(kept)} pictures: {', '.join(needs)} ({size_text(free)} free)")
        if disk > free:
            reporter.warn(
                f"the disk of {path} may become full: the shards need {most}{size_text(disk)}, and "
                f"{size_text(free)} are free; take another --out, fewer --max-windows, or fewer features (--pca)."
            )
        return kept

    def objectness(self, request: ObjectnessRequest, records: Sequence[ImageRecord]) -> None:
        """Report how long the objectness of those pictures that the request wants will take, by one of them."""
        workspace = self.workspace
        wanted = [record for record in records if request.wants(record.id)]
        if request.source is None or workspace.reporter.quiet or workspace.cluster is not None or len(wanted) <= FEW:
            return
        pixels = pixels_unless_bad(wanted[0], self.settings.data.skip_bad)
        if pixels is None:
            return
        start = time.perf_counter()
        request.measure(wanted[0].id, pixels, whole_image(*pixels.shape[:2])[None])
        text = roughly((time.perf_counter() - start) * len(wanted) / workspace.threads)
        workspace.reporter.say(
            f"before it starts, by 1 picture: about {text} more for the objectness of {len(wanted):,} pictures"
        )

    def _times(self, sample: Sample, n_pictures: int) -> str:
        """Return the time of extraction, and of later stages if the recipe is the one that was measured."""
        text = f"{roughly(sample.seconds * n_pictures)} for the features of {n_pictures:,} pictures"
        if {"train", "detect"} <= set(self.stages) and self.settings.features.pca and self.settings.refine.rounds:
            later = _LEARNING * self._n_training * len(self.data.classes)
            text += f" and {roughly(sample.seconds * later)} for training and detection"
        return text

    def _memory(self, sample: Sample, row: int, dim: int, prepared: float) -> float:
        """Return the bytes of memory that extraction or training needs at most; 0 where the system does not say."""
        resident = _resident()
        if not resident:
            return 0.0
        limit, n_windows = as_bytes(self.workspace.memory), sample.windows * self._n_training
        training = min(_TRAINING * n_windows * row, np.inf if limit is None else limit) + _MODULES
        shard = IMAGES_PER_SHARD * sample.windows * dim * _WORKING
        return resident + max(training if len(self.stages) > 1 else 0.0, shard + prepared)

    @property
    def _n_training(self) -> int:
        """Number of training pictures."""
        return len(self.data.records[self.settings.data.train_set])


def projected_dim(extractor: Extractor, pca: float) -> int:
    """Return how many features a projection keeps; at most, if `pca` is a share of the variance."""
    return sum(min(size, int(pca)) if pca >= 1 else size for block in extractor.blocks for size in block.pieces)


def size_text(count: float) -> str:
    """Return a number of bytes as 0.4 MB, 527 MB or 1.2 GB, by powers of 1000."""
    if count >= 1e9:
        return f"{count / 1e9:,.1f} GB"
    return f"{count / 1e6:.{0 if count >= 1e7 else 1}f} MB"


def _measured(
    settings: Settings, threads: int, extractor: Extractor, records: Sequence[ImageRecord]
) -> tuple[KeptPictures, Sample | None]:
    """Return some pictures, spread over all, and their means; None if hardly any of them can be read."""
    count = 1 + max(SAMPLE, 2 * threads)
    chosen = [records[index] for index in np.linspace(0, len(records) - 1, min(count, len(records))).astype(int)]

    def measure(record: ImageRecord) -> tuple[ImageRecord, tuple[PreparedWindows, str] | None, float]:
        found = prepare_record(record, settings, extractor)
        if found is None:
            return record, None, 0.0
        start = time.perf_counter()
        n_timed = len(found[0].features(fair_sample(found[0])))
        rest = (len(found[0].boxes) / n_timed - 1) * (time.perf_counter() - start) if n_timed else 0.0
        return record, found, rest

    with threadpool_limits(1), ThreadPoolExecutor(threads) as pool:
        first = measure(chosen[0])
        start = time.perf_counter()
        others = list(pool.map(measure, chosen[1:]))
        seconds = time.perf_counter() - start
    good = [(record, found, rest) for record, found, rest in (first, *others) if found is not None]
    kept: KeptPictures = {record.id: found for record, found, _ in good}
    if len(good) < 2:
        return kept, None
    rest = sum(rest for _, _, rest in others) / min(threads, len(others))
    pictures = [windows for _, (windows, _), _ in good]
    windows, nbytes = fmean(len(one.boxes) for one in pictures), fmean(one.seen.nbytes for one in pictures)
    return kept, Sample((seconds + rest) / len(others), windows, nbytes)


def _free(path: Path) -> int:
    """Return the free bytes of the disk of a folder that may not be there yet."""
    there = next(folder for folder in (path.absolute(), *path.absolute().parents) if folder.exists())
    return shutil.disk_usage(there).free


def _resident() -> int:
    """Return the bytes of memory that this process has; 0 where the system does not say."""
    try:
        fields = Path("/proc/self/status").read_text(encoding="ascii").split("VmRSS:")
        return 1024 * int(fields[1].split()[0])
    except (OSError, ValueError, IndexError):
        return 0
