"""Which pictures of a run have their windows' objectness measured, and the numbers that finished shards lack.

Only training pictures that are positive for a class are measured, because a saliency network takes about as long as
features. Labels decide that, no box does.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from lapsvm.arrays import Array, Float32
from lapsvm.catalog import ImageRecord, Pixels, pixel_hash
from lapsvm.errors import DataError, naming
from lapsvm.features import Shard, read_shard, settings_difference, write_shard
from lapsvm.features.shards.shard import OBJECTNESS
from lapsvm.objectness import ObjectnessSource, picture_objectness
from lapsvm.settings import IMPORTED, NO_SOURCE

from ..settings.settings import ObjectnessSettings
from .windows import pixels_unless_bad


@dataclass(frozen=True)
class ObjectnessRequest:
    """A source of objectness, and the pictures of a set whose windows it measures.

    Without a source nothing is measured, and stored numbers stay. Errors have its `name`.
    """

    source: ObjectnessSource | None = None
    pictures: AbstractSet[str] = frozenset()
    name: str = ""

    def wants(self, image_id: str) -> bool:
        """Return whether the windows of a picture are to be measured."""
        return self.source is not None and image_id in self.pictures

    def measure(self, image_id: str, pixels: Pixels, boxes: Array) -> Float32:
        """Return the objectness (n,) of a picture's windows (n, 4); the picture is one that the request wants."""
        if self.source is None:
            raise TypeError("a request without a source measures no picture")
        with naming(f"picture {image_id}: objectness {self.name!r}"):
            return picture_objectness(self.source, pixels, boxes)

    @cached_property
    def description(self) -> dict[str, Any]:
        """What shards record of the source."""
        return {} if self.source is None else self.source.describe()

    def is_source_of(self, shard: Shard) -> bool:
        """Return whether a shard has no objectness, or that of this source."""
        return shard.objectness is None or not settings_difference(
            shard.provenance.get(OBJECTNESS, {}), self.description
        )

    def unmeasured(self, shard: Shard, names: Mapping[str, str]) -> set[str] | None:
        """Return the pictures of a shard that are to be measured; None if the shard stays as it is.

        Without any, only numbers of another source are to be removed. `names` has the ids that pictures have now, where
        they have changed.
        """
        if self.source is None:
            return None
        is_current = self.is_source_of(shard)
        stored = unmeasured_pictures(shard) if is_current else shard.image_ids
        lacking = {names.get(image_id, image_id) for image_id in stored} & self.pictures
        return None if is_current and not lacking else lacking


NO_OBJECTNESS = ObjectnessRequest()


def unmeasured_pictures(shard: Shard) -> list[str]:
    """Return the pictures of a shard that have windows, and no objectness of these."""
    pictures = [picture for picture in shard.pictures() if picture.objectness is None]
    return [picture.image_id for picture in pictures if np.shape(picture.boxes)[0]]


def is_used(settings: ObjectnessSettings, measured: Mapping[str, Any] | None) -> bool:
    """Return whether refinement uses objectness, of which shards record what measured it; imported numbers count."""
    is_wanted = settings.source != NO_SOURCE or (measured or {}).get("kind") == IMPORTED
    return measured is not None and is_wanted and settings.weight > 0


def measure_stored(path: Path, records: Sequence[ImageRecord], request: ObjectnessRequest, skip_bad: bool) -> None:
    """Write a shard again with the objectness of some of its pictures, and without that of another source.

    Features keep their bytes. A picture that cannot be read raises ImageError or MissingError, or keeps no numbers if
    `skip_bad`. One with other pixels than its features were made of raises DataError.
    """
    numbers = _measured(path, records, request, skip_bad)
    shard = read_shard(path)
    if numbers or not request.is_source_of(shard):
        stored = {picture.image_id: picture.objectness for picture in shard.pictures()}
        kept = {name: one for name, one in stored.items() if one is not None and request.is_source_of(shard)}
        write_shard(path, shard.with_objectness(kept | numbers, request.description))


def _measured(
    path: Path, records: Sequence[ImageRecord], request: ObjectnessRequest, skip_bad: bool
) -> dict[str, Float32]:
    """Return picture -> objectness of its windows; the mapped file is closed at the end."""
    stored = {picture.image_id: picture for picture in read_shard(path, mapped=True, verify=False).pictures()}
    numbers = {}
    for record in records:
        picture, pixels = stored[record.id], pixels_unless_bad(record, skip_bad)
        if pixels is None:
            continue
        if pixel_hash(pixels) != picture.pixel_hash:
            raise DataError(
                f"picture {record.id} has other pixels than its features in {path} were made of; lapsvm verify "
                "--pictures --remove removes them, and lapsvm extract makes them again."
            )
        numbers[record.id] = request.measure(record.id, pixels, np.asarray(picture.boxes))
    return numbers
