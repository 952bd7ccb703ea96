"""Shards from pictures: windows are proposed and their features extracted."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lapsvm.catalog import ImageRecord, Pixels, pixel_hash
from lapsvm.detection.prepared import PreparedWindows, prepare_windows
from lapsvm.errors import naming
from lapsvm.features import Extractor, PictureWindows, ShardHeader, recorded_description
from lapsvm.features.shards.shard import OBJECTNESS
from lapsvm.settings import FILE

from ..run.progress import Reporter
from ..settings.settings import Settings
from .jobs import ShardJobs
from .objectness import NO_OBJECTNESS, ObjectnessRequest
from .placement import stored_pictures
from .prefetch import on_threads
from .windows import pixels_unless_bad, window_boxes, windows_provenance

SAMPLED = 60
"""Windows of a picture that stand for all of them."""
KeptPictures = dict[str, tuple[PreparedWindows, str]]
"""Image id -> a picture that is ready for its features, and the hash of its pixels."""


def provenance(settings: Settings, extractor: Extractor) -> dict[str, Any]:
    """Return the provenance of a shard: every input of its numbers, without paths or times."""
    chosen = chosen_provenance(settings)
    windows = windows_provenance(settings.windows) | {"seed": settings.seed}
    return {"windows": windows, "features": chosen | {"extractor": recorded_description(extractor)}}


def chosen_provenance(settings: Settings) -> dict[str, Any]:
    """Return the part of `provenance` that the settings of features decide alone."""
    return {"dtype": settings.features.dtype, "networks": settings.features.networks.provenance()}


class SetExtraction(ShardJobs[PictureWindows]):
    """The shards of one set of pictures, made by an extractor; `redo` and `source` as for `ShardJobs`.

    `kept` are pictures of the set that the extractor has seen already.
    """

    keeps = True

    def __init__(
        self, folder: Path, records: Sequence[ImageRecord], settings: Settings, extractor: Extractor,
        redo: bool = False, source: Path | None = None, objectness: ObjectnessRequest = NO_OBJECTNESS,
    ) -> None:  # fmt: skip
        made_with, dtype = provenance(settings, extractor), settings.features.dtype
        super().__init__(folder, records, made_with, dtype, settings.data.skip_bad, redo, source)
        self.settings, self.extractor, self.objectness = settings, extractor, objectness
        self.kept = KeptPictures()

    def renames(self, headers: Mapping[Path, ShardHeader], reporter: Reporter, threads: int) -> dict[str, str]:
        """Return the id of each stored picture that is gone -> the id of a new picture with the same pixels.

        None if windows come from files, which know a picture by its id.
        """
        ids, stored = {record.id for record in self.records}, stored_pictures(headers)
        gone = {digest: image_id for image_id, digest in stored.items() if image_id not in ids}
        may_be = gone and self.settings.windows.method != FILE
        new = [record for record in self.records if record.id not in stored] if may_be else []
        found = {}
        with on_threads(reporter, "compare pictures", self._pixel_hash, new, threads) as (_, results):
            for record, digest in results:
                if digest in gone:
                    found[gone.pop(digest)] = record.id
        return found

    def _pixel_hash(self, record: ImageRecord) -> str:
        pixels = pixels_unless_bad(record, self.skip_bad)
        return "" if pixels is None else pixel_hash(pixels)

    def measure(self, record: ImageRecord) -> PictureWindows | None:
        """Read a picture, propose windows and extract their features; None if the picture is left out.

        A kept picture is removed from `kept`. It is read again for its objectness alone: that takes a hundredth of the
        time of a saliency network, which the pictures of a projection that are not kept would see in vain.
        """
        pixels = pixels_unless_bad(record, self.skip_bad) if self.objectness.wants(record.id) else None
        found = self.kept.pop(record.id, None) or prepare_record(record, self.settings, self.extractor, pixels)
        if found is None:
            return None
        picture, digest = found
        numbers = None if pixels is None else self.objectness.measure(record.id, pixels, picture.boxes)
        with naming(f"picture {record.id}"):
            features = picture.features()
        return PictureWindows(record.id, picture.boxes, features, digest, picture.size, objectness=numbers)

    def picture_provenance(self, pictures: Sequence[PictureWindows]) -> dict[str, Any]:  # noqa: ARG002 - of all alike
        """Return the description of the objectness source; a shard without objectness does not record it."""
        return {OBJECTNESS: self.objectness.description}


def fair_sample(picture: PreparedWindows) -> slice:
    """Return which windows of a picture stand for all: they are sorted by quality, so every n-th is a fair sample."""
    step = max(1, len(picture.boxes) // SAMPLED)
    return slice(0, step * SAMPLED, step)


def prepare_record(
    record: ImageRecord, settings: Settings, extractor: Extractor, pixels: Pixels | None = None
) -> tuple[PreparedWindows, str] | None:
    """Return a picture with its windows, ready for their features, and the hash of its pixels, which are read if None.

    None if the picture cannot be read and is left out.
    """
    if pixels is None:
        pixels = pixels_unless_bad(record, settings.data.skip_bad)
    if pixels is None:
        return None
    with naming(f"picture {record.id}"):
        boxes = window_boxes(pixels, settings.windows, settings.seed, record.id)
        return prepare_windows(pixels, boxes, settings.windows.max_side, extractor), pixel_hash(pixels)
