"""Score maps of pictures whose windows a run has stored: no network runs."""

from contextlib import suppress
from dataclasses import dataclass

import numpy as np

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

    def score_map(self, detector: Detector, image_id: str) -> ScoreMap | None:
        """Return where in a picture a detector's class scores; None if no window of it is stored, or has a pixel."""
        if image_id not in self.shards.places:
            return None
        stored = self.shards.picture(image_id)
        scores = detector.score(stored.features)[:, None]
        scored = ScoredPicture(stored.size, np.asarray(stored.boxes), scores, [detector], [self.settings])
        with suppress(InputError):
            return scored.score_map(detector.class_name)
        return None
