"""Pictures with their windows, ready to give the features: what extraction and prediction share.

A large picture is reduced for the proposals, and less so for the extractor. Boxes are those of the picture itself, in
whole pixels.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from lapsvm.arrays import Array, Float32, Float64
from lapsvm.catalog import Pixels, check_pixels, read_image
from lapsvm.detection.detector import Detector, score_many, unscaled_weights
from lapsvm.errors import InputError
from lapsvm.features import Concatenation, Extractor
from lapsvm.features.extractors.blocks import split_blocks
from lapsvm.features.extractors.extractor import prepared
from lapsvm.features.extractors.maps.prepared import PreparedPicture, PreparedProjection
from lapsvm.pictures.reading import pillow_pixels
from lapsvm.windows.proposals import reduced, scales_of


def as_pixels(picture: Any) -> Pixels:
    """Return a picture as 8-bit RGB, uint8 of shape (h, w, 3).

    Parameters
    ----------
    picture : str, Path, PIL.Image.Image or ndarray
        An array must be (h, w, 3) uint8 RGB; the others are read by the rules of `lapsvm.catalog.read_image`.

    Raises
    ------
    MissingError, ImageError
        As `lapsvm.catalog.read_image`.
    InputError, ShapeError
        If it is none of these, or an array is no picture.
    """
    from PIL import Image

    if isinstance(picture, str | Path):
        return read_image(picture)
    if isinstance(picture, Image.Image):
        return pillow_pixels(picture)
    if not isinstance(picture, np.ndarray):
        kinds = "a path, a picture of Pillow, or an array (h, w, 3) of uint8"
        raise InputError(f"a picture must be {kinds}, got {type(picture).__name__}.")
    check_pixels(picture)
    return picture


@dataclass(frozen=True)
class PreparedWindows:
    """A picture and its windows.

    Attributes
    ----------
    boxes : ndarray of shape (n, 4), float32
        In pixels of the picture.
    size : tuple of int
        Its height and width.
    seen : PreparedPicture
        What the extractor knows of it.
    seen_boxes : ndarray of shape (n, 4)
        The windows in the picture as the extractor sees it.
    """

    boxes: Array
    size: tuple[int, int]
    seen: PreparedPicture
    seen_boxes: Array

    def features(self, windows: slice = slice(None)) -> Float32:
        """Return the features of all windows, or of some, (n, d)."""
        return self.seen(self.seen_boxes[windows])

    def projected(self, components: Sequence[Float32]) -> "PreparedWindows":
        """Return the same windows with features that are multiplied by components."""
        return replace(self, seen=PreparedProjection(self.seen, components))


def prepare_windows(pixels: Pixels, boxes: Array, max_side: int, extractor: Extractor) -> PreparedWindows:
    """Return a picture with its windows (n, 4), prepared for an extractor that sees at most `max_side` pixels."""
    seen = reduced(pixels, max_side)
    return PreparedWindows(boxes, pixels.shape[:2], prepared(extractor, seen), _seen_boxes(boxes, pixels, seen))


def _seen_boxes(boxes: Array, pixels: Pixels, seen: Pixels) -> Array:
    """Return boxes of a picture in the picture as the extractor sees it."""
    return boxes if seen is pixels else np.asarray(boxes / scales_of(pixels, seen))


def propose_and_prepare(
    pixels: Pixels, propose: Callable[[], Array], max_side: int, extractor: Extractor, threads: int
) -> PreparedWindows:
    """Return the prepared windows of `propose`, proposed while the extractor's parts see the picture."""
    if threads == 1:
        return prepare_windows(pixels, propose(), max_side, extractor)
    seen = reduced(pixels, max_side)
    parts = extractor.parts if isinstance(extractor, Concatenation) else (extractor,)
    with ThreadPoolExecutor(threads) as pool:
        prepares = [pool.submit(prepared, single, seen) for single in reversed(parts)]  # later sizes are larger
        boxes = pool.submit(propose).result()
        pictures = [future.result() for future in reversed(prepares)]
    joined = extractor.joined(pictures) if isinstance(extractor, Concatenation) else pictures[0]
    return PreparedWindows(boxes, pixels.shape[:2], joined, _seen_boxes(boxes, pixels, seen))


def window_scores(picture: PreparedWindows, detectors: Sequence[Detector], extractor: Extractor) -> Float64:
    """Return the scores (n, k) of k detectors of unprojected features, as `score_many` but for rounding.

    Pooling is linear, so the maps times the weights are pooled: k channels in place of hundreds.
    """
    k, blocks = len(detectors), extractor.blocks
    with np.errstate(invalid="ignore", over="ignore"):  # such scores are computed otherwise, below
        parts = zip(split_blocks(unscaled_weights(detectors).astype(np.float32), blocks), blocks, strict=True)
        components = [
            np.hstack(np.split(component, 2)) if block.has_context else component for component, block in parts
        ]
        pooled = picture.projected(components).features()
    pieces = np.split(pooled, np.cumsum([4 * k if block.has_context else k for block in blocks])[:-1], axis=1)
    scores = np.tile([detector.intercept for detector in detectors], (len(pooled), 1))
    for piece, block in zip(pieces, blocks, strict=True):
        scores += piece[:, :k]
        if block.has_context:  # window and context were each multiplied by the weights of both
            scores += piece[:, -k:]
    if np.isfinite(scores).all():
        return scores
    return score_many(detectors, picture.features())  # in float64, or says what is wrong
