"""Score maps of pictures whose windows a run has stored: no network runs."""

from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

from lapsvm.detection import Detector, ScoredPicture, ScoreMap
from lapsvm.errors import InputError
from lapsvm.features import ShardSet
from lapsvm.settings import DetectSettings


@dataclass(frozen=True)
class StoredMaps:
    """Score maps of the pictures of one set.

    Attributes
    ----------
    shards : ShardSet
        The set's windows, with the features that the detectors were trained on.
    settings : DetectSettings
    """

    shards: ShardSet
    settings: DetectSettings

    @cached_property
    def _places(self) -> dict[str, tuple[int, int]]:
        """Picture -> the number of its shard, and its place in it."""
        headers = enumerate(self.shards.headers)
        return {name: (number, row) for number, header in headers for row, name in enumerate(header.image_ids)}

    def score_map(self, detector: Detector, image_id: str) -> ScoreMap | None:
        """Return where in a picture a detector's class scores; None if no window of it is stored, or has a pixel."""
        if image_id not in self._places:
            return None
        number, row = self._places[image_id]
        shard = self.shards.read(number)
        own = slice(int(shard.offsets[row]), int(shard.offsets[row + 1]))
        height, width = shard.sizes[row].tolist()
        scores = detector.score(shard.features[own])[:, None]
        picture = ScoredPicture((height, width), shard.boxes[own], scores, [detector], [self.settings])
        with suppress(InputError):
            return picture.score_map(detector.class_name)
        return None
