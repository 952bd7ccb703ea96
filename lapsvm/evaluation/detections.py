"""Detections of one class over a set of pictures."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import overload

import numpy as np
from numpy.typing import ArrayLike

from lapsvm.arrays import Index, as_floats, check_finite, check_same_length
from lapsvm.boxes import as_boxes


class ImageIds(Sequence[str]):
    """The picture of each of n detections: a sequence of str, equal to a tuple of the same, that stores each id once.

    Parameters
    ----------
    names : sequence of str
        Different ids; some may be the id of no detection.
    places : ndarray of shape (n,), intp
        The place of each detection's id in `names`.
    """

    def __init__(self, names: Sequence[str], places: Index):
        self.names, self.places = tuple(names), places

    @classmethod
    def of(cls, image_ids: Iterable[str]) -> "ImageIds":
        """Return ids as this type, unchanged if they are."""
        if isinstance(image_ids, ImageIds):
            return image_ids
        known: dict[str, int] = {}
        places = np.fromiter((known.setdefault(image, len(known)) for image in image_ids), dtype=np.intp)
        return cls(tuple(known), places)

    def __len__(self) -> int:
        return len(self.places)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> "ImageIds": ...
    def __getitem__(self, index: int | slice) -> "str | ImageIds":
        return self.taken(index) if isinstance(index, slice) else self.names[self.places[index]]

    def __iter__(self) -> Iterator[str]:
        return map(self.names.__getitem__, self.places.tolist())

    def __eq__(self, other: object) -> bool:
        return tuple(self) == tuple(other) if isinstance(other, ImageIds | tuple) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))

    def taken(self, rows: Index | slice) -> "ImageIds":
        """Return the ids of some detections, by their indices."""
        return ImageIds(self.names, self.places[rows])

    def distinct(self) -> list[str]:
        """Return every id that a detection has, once."""
        return [self.names[number] for number in np.unique(self.places).tolist()]

    def numbers_in(self, numbers: Mapping[str, int]) -> Index:
        """Return the number of each detection's picture, -1 for a picture without one."""
        return np.array([numbers.get(name, -1) for name in self.names], dtype=np.intp)[self.places]


class Detections:
    """Detections of one class over a set of pictures, in file order.

    Parameters
    ----------
    image_ids : sequence of n str
        The picture of each detection; stored as `ImageIds`.
    scores : array-like of shape (n,)
        Larger scores are more confident; stored as float64.
    boxes : array-like of shape (n, 4)
        x1, y1, x2, y2; 0-based, half-open; stored unchanged as float64. Inverted boxes are allowed and match nothing.

    Raises
    ------
    ShapeError
        If the three differ in length, or a shape is wrong.
    NotFiniteError
        If a score or a coordinate is NaN or infinite.
    """

    def __init__(self, image_ids: Iterable[str], scores: ArrayLike, boxes: ArrayLike):
        self.image_ids = ImageIds.of(image_ids)
        self.scores, self.boxes = as_floats("scores", scores, 1), as_boxes(boxes)
        check_finite("boxes", self.boxes)
        check_same_length("scores", self.scores, "boxes", self.boxes)
        check_same_length("image_ids", self.image_ids, "scores", self.scores)

    def __len__(self) -> int:
        return len(self.image_ids)

    def order(self) -> Index:
        """Return the indices of the detections from best to worst; equal scores stay in file order."""
        return np.argsort(-self.scores, kind="stable")

    def taken(self, rows: Index) -> "Detections":
        """Return some detections, by their indices."""
        return Detections(self.image_ids.taken(rows), self.scores[rows], self.boxes[rows])

    def best_scores(self) -> dict[str, float]:
        """Return picture -> score of its best detection, for the pictures that have one."""
        best = np.full(len(self.image_ids.names), -np.inf)
        np.maximum.at(best, self.image_ids.places, self.scores)
        pairs = zip(self.image_ids.names, best.tolist(), strict=True)
        return {image: score for image, score in pairs if score > -np.inf}

    @classmethod
    def from_images(cls, images: Iterable[tuple[str, ArrayLike, ArrayLike]]) -> "Detections":
        """Join the detections of several pictures.

        Parameters
        ----------
        images : iterable of (image id, boxes (k, 4), scores (k,))

        Returns
        -------
        Detections
            In the given order.
        """
        pictures = [(image, as_boxes(boxes), as_floats("scores", scores, 1)) for image, boxes, scores in images]
        return cls(
            tuple(chain.from_iterable([image] * len(scores) for image, _, scores in pictures)),
            np.concatenate([np.empty(0), *(scores for _, _, scores in pictures)]),
            np.concatenate([np.empty((0, 4)), *(boxes for _, boxes, _ in pictures)]),
        )
