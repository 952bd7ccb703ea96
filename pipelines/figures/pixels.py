"""How well score maps find the pixels of objects, where masks of these are known."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np

from lapsvm.arrays import Array, Float64
from lapsvm.catalog import Dataset
from lapsvm.detection import Detector, ScoredPicture, score_many
from lapsvm.errors import InputError
from lapsvm.evaluation import ClassHits, MeasuredClass, PixelCounts, map_peak
from lapsvm.features import ShardSet
from lapsvm.pictures.masks import Mask, read_mask
from lapsvm.settings import DetectSettings

from .evaluation import SetEvaluation

MasksOf = Callable[[str], Mapping[str, Path | None] | None]


class SetMaps(NamedTuple):
    """The maps of each class over the masks of a set, and of all classes as one, None without probabilities."""

    classes: dict[str, "MapFigures"]
    any_class: "MapFigures | None"


@dataclass(frozen=True)
class MaskedPicture:
    """The windows of a picture whose mask is known, scored by some detectors.

    Attributes
    ----------
    image_id : str
    scored : ScoredPicture
        By detectors without a calibration, so that maps are of scores.
    mask : (h, w) bool
    shown : frozenset of str
        The classes of the mask.
    """

    image_id: str
    scored: ScoredPicture
    mask: Mask
    shown: frozenset[str]

    def map_of(self, detector: Detector) -> Array | None:
        """Return the scores of a class at every pixel, (h, w); None where no window contains one."""
        try:
            return self.scored.score_map(detector.class_name).values
        except InputError:
            return None

    def mask_of(self, names: Sequence[str]) -> Mask:
        """Return the pixels of some classes."""
        return self.mask if self.shown.intersection(names) else np.zeros_like(self.mask)


class MapFigures:
    """Pixel figures of one class, or of several as one, over the pictures that are added."""

    def __init__(self) -> None:
        self.counts = PixelCounts()
        self._pointed: dict[str, bool] = {}

    def add(self, image_id: str, values: Array | Float64, mask: Mask) -> None:
        """Add a picture: its map and its mask, which is empty where it shows no object."""
        self.counts.add(values, mask)
        if mask.any():
            self._pointed[image_id] = bool(mask[map_peak(values)])

    @property
    def hits(self) -> ClassHits:
        """The pictures in which the map points at an object."""
        return ClassHits(tuple(self._pointed), np.array([*self._pointed.values()], np.bool_))

    def measured(self, of_class: MeasuredClass) -> MeasuredClass:
        """Return a measured class with its maps."""
        return replace(of_class, map_pointing=self.hits, pixels=self.counts)


def set_maps(
    dataset: Dataset, shards: ShardSet | None, evaluation: SetEvaluation, detectors: Mapping[str, Detector],
    settings: DetectSettings,
) -> SetMaps | None:  # fmt: skip
    """Compare the maps of a set's stored windows with its masks; None without masks, shards or a detector.

    All pixels of pictures whose mask is known count, also of those that show no object. A picture whose mask is black,
    or of another size, is left out. For all classes as one a pixel has the highest probability of any class.
    """
    masks_of: MasksOf = getattr(dataset, "masks", lambda _: None)
    masks = masks_of(evaluation.name)
    if masks is None or shards is None or set(detectors) != set(evaluation.detections):
        return None
    of_class, of_any = {one: MapFigures() for one in detectors}, MapFigures()
    calibrations = [one.calibration for one in detectors.values() if one.calibration is not None]
    calibrated = len(calibrations) == len(detectors)
    for picture in _masked_pictures(shards, evaluation, masks, list(detectors.values()), settings):
        maps = [picture.map_of(one) for one in detectors.values()]
        known = [one for one in maps if one is not None]
        if len(known) < len(maps):
            continue
        for one, values in zip(detectors, known, strict=True):
            of_class[one].add(picture.image_id, values, picture.mask_of([one]))
        if calibrated:
            logits = [of.slope * own + of.offset for own, of in zip(known, calibrations, strict=True)]
            of_any.add(picture.image_id, np.max(logits, axis=0), picture.mask_of(list(detectors)))
    return SetMaps(of_class, of_any if calibrated else None)


def _masked_pictures(
    shards: ShardSet,
    evaluation: SetEvaluation,
    masks: Mapping[str, Path | None],
    detectors: Sequence[Detector],
    settings: DetectSettings,
) -> Iterator[MaskedPicture]:
    """Yield the pictures of a set whose mask is known and fits, with their scored windows."""
    plain, rules = [replace(one, calibration=None) for one in detectors], [settings] * len(detectors)
    for picture in chain.from_iterable(shard.pictures() for shard in shards):
        boxes, mask = np.asarray(picture.boxes), _mask(masks, picture.image_id, picture.size)
        if mask is None or not len(boxes):
            continue
        scored = ScoredPicture(picture.size, boxes, score_many(plain, picture.features), plain, rules)
        record = evaluation.records.get(picture.image_id)
        shown = frozenset(one.class_name for one in plain if record and record.labels.get(one.class_name) == 1)
        yield MaskedPicture(picture.image_id, scored, mask, shown)


def _mask(masks: Mapping[str, Path | None], image_id: str, size: tuple[int, int]) -> Mask | None:
    """Return the mask of a picture, an empty one where it shows no object.

    None where it is not known: there is no file, or it is black or of another size.
    """
    if image_id not in masks:
        return None
    path = masks[image_id]
    if path is None:
        return np.zeros(size, np.bool_)
    mask = read_mask(path)
    return mask if mask.shape == size and mask.any() else None
