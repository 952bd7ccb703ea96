"""Shards from pictures: windows are proposed and their features extracted."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lapsvm.catalog import ImageRecord, pixel_hash
from lapsvm.features import Extractor, PictureWindows

from ..run.settings import Settings
from .extractors import network_settings
from .jobs import ShardJobs
from .windows import pixels_unless_bad, window_boxes, windows_provenance


def provenance(settings: Settings, extractor: Extractor) -> dict[str, Any]:
    """Return what decides the numbers in a shard, without paths or times."""
    windows = windows_provenance(settings.windows) | {"seed": settings.seed}
    features = {"extractor": extractor.describe(), "dtype": settings.features.dtype}
    return {"windows": windows, "features": features | {"networks": network_settings(settings.features)}}


class SetExtraction(ShardJobs[PictureWindows]):
    """The shards of one set of pictures, made by an extractor; `redo` and `source` as for `ShardJobs`."""

    def __init__(
        self, folder: Path, records: Sequence[ImageRecord], settings: Settings, extractor: Extractor,
        redo: bool = False, source: Path | None = None,
    ) -> None:  # fmt: skip
        made_with, dtype = provenance(settings, extractor), settings.features.dtype
        super().__init__(folder, records, made_with, dtype, settings.data.skip_bad, redo, source)
        self.settings, self.extractor = settings, extractor

    def measure(self, record: ImageRecord) -> PictureWindows | None:
        """Read a picture, propose windows and extract their features; None if the picture is left out."""
        pixels = pixels_unless_bad(record, self.skip_bad)
        if pixels is None:
            return None
        boxes = window_boxes(pixels, self.settings.windows, self.settings.seed, record.id)
        height, width = pixels.shape[:2]
        return PictureWindows(record.id, boxes, self.extractor(pixels, boxes), pixel_hash(pixels), (height, width))
