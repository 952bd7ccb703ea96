"""Shards from files of other programs, which hold windows and their features."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from lapsvm.arrays import Array, Float64
from lapsvm.bfloat16 import largest_number
from lapsvm.catalog import ImageRecord, pixel_hash
from lapsvm.errors import ExternalFileError, OptionError, SettingsError
from lapsvm.features import Block, ExternalWindows, PictureWindows, ShardHeader, open_shards
from lapsvm.features.extractors.blocks import block_record
from lapsvm.features.shards.shard import OBJECTNESS
from lapsvm.settings import IMPORTED

from ..run.dataset import RunData, content_hash
from ..run.folder import RunFolder
from ..settings.settings import FeatureSettings, Settings
from .annotated import annotated_boxes, equal_sentences
from .external import Counts, Sources, converted, counts_sentence, summed
from .jobs import ShardJobs
from .windows import pixels_unless_bad


@dataclass(frozen=True, eq=False)
class ImportedPicture(PictureWindows):
    """Windows of a picture, with the hash of what its file holds and the counts of rows left out."""

    content: str
    counts: Counts


class SetImport(ShardJobs[ImportedPicture]):
    """The shards of one set, made from external files; all windows must have as many features as `first`."""

    def __init__(
        self, run: RunFolder, set_name: str, data: RunData, settings: Settings, sources: Sources,
        first: ExternalWindows, redo: bool = False,
    ) -> None:  # fmt: skip
        dtype, records = settings.features.dtype, data.records[set_name]
        made_with = _provenance(sources, _dim(first), dtype)
        super().__init__(run.shards(set_name), records, made_with, dtype, settings.data.skip_bad, redo)
        self.dataset, self.set_name, self.sources, self.first = data.dataset, set_name, sources, first
        drops = settings.windows.source.drop_equal
        self.annotated: dict[str, Float64] = annotated_boxes(data.dataset, set_name) if drops else {}
        if drops and not self.annotated:
            raise OptionError(f"option --drop-equal-boxes needs the boxes of set {set_name!r}, which has none.")

    def check_content(self, header: ShardHeader, threads: int) -> None:
        """Raise SettingsError if the files hold other windows of a shard's pictures now."""
        with ThreadPoolExecutor(threads) as pool:
            hashes = pool.map(lambda image_id: self.sources.read(image_id)[0].content_hash, header.image_ids)
            if content_of(header) != content_hash(*hashes):
                raise SettingsError(
                    f"shard {header.path} was made from other content than {self.sources.description} has now; "
                    "use another --out, or --redo."
                )

    def picture_provenance(self, pictures: Sequence[ImportedPicture]) -> dict[str, Any]:
        """Return the hash of the imported content, the counts of rows left out, and where objectness comes from."""
        content = content_hash(*(picture.content for picture in pictures))
        imported = {"content": content, **summed([picture.counts for picture in pictures])}
        return {"imported": imported, OBJECTNESS: {"kind": IMPORTED}}

    def measure(self, record: ImageRecord) -> ImportedPicture | None:
        """Return the windows that the files hold of a picture; None if the picture is left out."""
        pixels = pixels_unless_bad(record, self.skip_bad)
        if pixels is None:
            return None
        windows, convention = self.sources.read(record.id)
        if _dim(windows) != _dim(self.first):
            raise ExternalFileError(
                f"{windows.where}: a window must have {_dim(self.first)} features as in {self.first.where}, "
                f"got {_dim(windows)}."
            )
        size = pixels.shape[0], pixels.shape[1]
        annotated = self.annotated.get(record.id, np.empty((0, 4)))
        used = converted(windows, convention, size, self.sources.settings.clip, annotated)
        features = _storable_features(windows, self.dtype)[used.rows]
        numbers = None if windows.objectness is None else windows.objectness[used.rows]
        return ImportedPicture(
            record.id, used.boxes, features, pixel_hash(pixels), size, windows.content_hash, used.counts,
            objectness=numbers,
        )  # fmt: skip

    def summary(self) -> Iterator[str]:
        """Yield sentences on the imported windows, and on windows equal to annotated boxes."""
        shards = open_shards(self.folder)
        size = f"{shards.n_images:,} pictures, {shards.n_windows:,} windows of {shards.dim:,} features"
        parts = filter(None, (size, imported_sentence(shards.headers)))
        yield f"{self.set_name}: {'; '.join(parts)}"
        yield from equal_sentences(self.dataset, self.set_name, shards, "--drop-equal-boxes leaves it out")


def content_of(header: ShardHeader) -> str:
    """Return the hash of the content that a shard was imported from; "" if it was extracted."""
    return str(header.provenance.get("imported", {}).get("content", ""))


def imported_sentence(headers: Sequence[ShardHeader]) -> str:
    """Return the counts of rows left out of some shards in words; "" for extracted ones."""
    return counts_sentence(summed([header.provenance.get("imported", {}) for header in headers]))


def imported_content(headers: Sequence[ShardHeader]) -> dict[str, str]:
    """Return the provenance entry of a model for imported features; empty for extracted ones."""
    contents = [content_of(header) for header in headers]
    return {"content": content_hash(*contents)} if any(contents) else {}


def _provenance(sources: Sources, dim: int, dtype: str) -> dict[str, Any]:
    """Return the provenance that all imported shards of a run share, without paths."""
    settings = sources.settings
    boxes = {"boxes": sources.conventions, "clip": settings.clip, "drop_equal": settings.drop_equal}
    extractor = {"kind": IMPORTED, "version": 1, **block_record([Block(dim)])}
    features = {"extractor": extractor, "dtype": dtype, "networks": FeatureSettings().networks.provenance()}
    return {"windows": {"method": IMPORTED, **boxes}, "features": features}


def _features(windows: ExternalWindows) -> Array:
    """Return the features of windows; ExternalFileError if there are none."""
    if windows.features is None:
        raise ExternalFileError(f"{windows.where} must hold features, got boxes alone.")
    return windows.features


def _dim(windows: ExternalWindows) -> int:
    return int(_features(windows).shape[1])


def _storable_features(windows: ExternalWindows, dtype: str) -> Array:
    """Return the features of windows; ExternalFileError if one overflows the type in which it is stored."""
    features = _features(windows)
    largest, limit = float(np.abs(features).max()), largest_number(dtype)
    if largest > limit:
        advice = "; give --set features.dtype=float32" if dtype == "float16" else ""
        raise ExternalFileError(
            f"{windows.where}: features must be at most {limit:g} in size to fit {dtype}, got {largest:g}{advice}."
        )
    return features
