"""Windows that a person drew where the run has none, with features: a small shard beside those of the run.

The shard holds the drawn boxes of the present verdicts alone. A picture whose boxes and pixels are as they were keeps
its features, so unchanged verdicts compute nothing, and an interrupted command goes on with the next pictures.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lapsvm.arrays import Float32, Float64
from lapsvm.catalog import ImageRecord
from lapsvm.detection.prepared import prepare_windows
from lapsvm.errors import LapsvmError, MissingError, SettingsError, ShardError
from lapsvm.features import (
    Extractor,
    PictureWindows,
    Projected,
    ShardSet,
    assemble_shard,
    read_shard,
    recorded_description,
    settings_difference,
    write_shard,
)
from lapsvm.settings import IMPORTED

from ..context import Workspace
from ..settings.settings import Settings
from ..shards.extraction import chosen_provenance
from ..shards.prefetch import on_threads
from ..shards.windows import UnusableError, run_pixels
from .product import Product
from .projection import projection_of

STORED_AT_ONCE = 32
"""Pictures after which the shard is written."""

Drawn = dict[str, PictureWindows]
"""Picture -> its drawn windows."""


@dataclass(frozen=True, eq=False)
class DrawnShard:
    """The drawn windows of a run, with features.

    Attributes
    ----------
    workspace : Workspace
    settings : Settings
    shards : ShardSet
        The training set's.
    records : mapping of picture to ImageRecord
        The training set's.
    open_extractor : callable
        Returns the extractor of the settings, without a projection.
    """

    workspace: Workspace
    settings: Settings
    shards: ShardSet
    records: Mapping[str, ImageRecord]
    open_extractor: Callable[[], Extractor]

    def windows(self, wanted: Mapping[str, Float32]) -> Drawn:
        """Return windows of pictures with features; what is missing is computed and stored.

        Pictures are left out, in a sentence that says why, if they or the run's extractor cannot be read any more.

        Parameters
        ----------
        wanted : mapping of picture to (m, 4), float32
            Boxes in pixels, inside the picture.
        """
        run, shards = self.workspace.folder, self.shards
        if not wanted:
            run.remove([run.drawn_windows])
            return {}
        hashes = shards.hashes
        stored = self._stored()
        found = {name: one for name, one in stored.items() if name in wanted and _is_current(one, wanted[name], hashes)}
        missing = [name for name in wanted if name not in found]
        if missing:
            run.files.claim([run.drawn_windows])
            for done, one in enumerate(self._measured(missing, wanted, hashes), start=1):
                found[one.image_id] = one
                if not done % STORED_AT_ONCE:
                    self._store(found)
        if found and (missing or len(found) < len(stored)):
            self._store(found)
            found = self._stored()  # features as they are stored, now and later
        return found

    def _stored(self) -> Drawn:
        """Return the windows in the shard; empty if it is not there, damaged, or was made by other settings."""
        run = self.workspace.folder
        try:
            shard = read_shard(run.drawn_windows) if run.files.owns(run.drawn_windows) else None
        except (MissingError, ShardError):
            return {}
        if shard is None:
            return {}
        product = Product(run.drawn_windows, self.shards.provenance, lambda _: shard.provenance)
        if not product.compared(shard.provenance).is_current:
            return {}
        return {picture.image_id: picture for picture in shard.pictures()}

    def _store(self, found: Drawn) -> None:
        """Write the shard, in the order of the run's pictures, so that equal verdicts give equal bytes."""
        shards = self.shards
        pictures = [found[name] for name in shards.image_ids if name in found]
        write_shard(self.workspace.folder.drawn_windows, assemble_shard(pictures, shards.provenance, shards.dtype))

    def _measured(
        self, missing: Sequence[str], wanted: Mapping[str, Float32], hashes: Mapping[str, str]
    ) -> Iterator[PictureWindows]:
        """Yield the drawn windows of the pictures that can be read, and say which could not."""
        try:
            extractor = self._extractor()
        except LapsvmError as error:
            self._say_lost(missing, str(error))
            return
        records, lost = [self.records[name] for name in missing], {}

        def measure(record: ImageRecord) -> PictureWindows | str:
            digest = hashes[record.id]
            try:
                pixels = run_pixels(record, digest)
            except UnusableError as error:
                return str(error)
            picture = prepare_windows(pixels, wanted[record.id], self.settings.windows.max_side, extractor)
            return PictureWindows(record.id, picture.boxes, picture.features(), digest, picture.size)

        reporter, threads = self.workspace.reporter, self.workspace.threads
        with on_threads(reporter, "drawn boxes", measure, records, threads) as (_, results):
            for record, one in results:
                if isinstance(one, str):
                    lost[record.id] = one
                else:
                    yield one
        if lost:
            self._say_lost(list(lost), next(iter(lost.values())))

    def _extractor(self) -> Extractor:
        """Return the extractor that made the shards; SettingsError if there is none, or it is another one now."""
        if self.settings.windows.method == IMPORTED:
            raise SettingsError("the features of the run were imported.")
        whole, projection = self.open_extractor(), projection_of(self.workspace.folder, self.shards)
        extractor = whole if projection is None else Projected(whole, projection)
        now = chosen_provenance(self.settings) | {"extractor": recorded_description(extractor)}
        if difference := settings_difference(self.shards.provenance["features"], now):
            raise SettingsError(f"the run's features were made with {difference}.")
        return extractor

    def _say_lost(self, pictures: Sequence[str], reason: str) -> None:
        self.workspace.reporter.say(
            f"refine: no features for the boxes drawn in {len(pictures)} pictures, such as {pictures[0]} "
            f"({reason.rstrip('.')}); their nearest windows are used instead"
        )


def as_windows(boxes: Float64, size: tuple[int, int]) -> Float32:
    """Return drawn boxes (n, 4) as windows of a picture of this height and width: in whole pixels, none empty."""
    height, width = size
    limits = np.array([width, height, width, height])
    corners = np.clip(np.round(boxes), 0, limits)
    low = np.minimum(corners[:, :2], limits[:2] - 1)
    return np.column_stack([low, np.maximum(corners[:, 2:], low + 1)]).astype(np.float32)


def _is_current(stored: PictureWindows, boxes: Float32, hashes: Mapping[str, str]) -> bool:
    return stored.pixel_hash == hashes[stored.image_id] and np.array_equal(stored.boxes, boxes)
