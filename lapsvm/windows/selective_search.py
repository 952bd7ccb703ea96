"""Selective search (Uijlings, van de Sande, Gevers and Smeulders, IJCV 2013), compiled.

For each colour space, the picture is smoothed and its edges are sorted once for all k. Histograms are computed once, in
the cells of the common refinement of the segmentations, and summed to regions. Each strategy is then one grouping.
`lapsvm.windows.ordering` orders the boxes of all strategies.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lapsvm._ext import grouping as _grouping
from lapsvm._ext import regions as _regions
from lapsvm._ext import segmentation as _segmentation
from lapsvm.arrays import check_known
from lapsvm.errors import InputError, OptionError
from lapsvm.windows.colour import SPACES, Planes
from lapsvm.windows.ordering import Evidence, by_coverage, default_min_side

Int32 = NDArray[np.int32]

REFERENCE_PIXELS = 500 * 375  # the picture size to which k and min_size refer
LEVELS = 16  # the kernels use units of 1/16 grey level
TEXTURE_STEP = 6  # a texture bin is 2 ** 6 such units wide
DIRECTIONS = 4  # signed differences, which correspond to the paper's eight directions
LEAST_LONGER_SIDE = 320  # pixels to which a picture is reduced at most
MAX_K = 100_000  # 16 k / size is exact in single precision
MAX_REGIONS = 2**22  # the heap's keys hold region numbers below 2 ** 23
CUES = {"C": 1, "T": 2, "S": 4, "F": 8}


@dataclass(frozen=True)
class Mode:
    """A set of strategies: every colour space with every k with every sum of cues.

    Attributes
    ----------
    spaces : tuple of str
        Of "hsv", "lab", "rgi", "h", "i".
    ks : tuple of int
        Scales of the segmentation in grey levels x pixels, also the least size of a region in pixels, for a picture
        of 500 x 375.
    cues : tuple of str
        Letters of C (colour), T (texture), S (size), F (fill).
    scale : float, default 1.0
        The picture's sides are reduced by this factor, in (0, 1], but the longer one not below 320 pixels; the boxes
        are enlarged to whole pixels of the picture.
    """

    spaces: tuple[str, ...]
    ks: tuple[int, ...]
    cues: tuple[str, ...]
    scale: float = 1.0


MODES = {
    "single": Mode(("hsv",), (100,), ("CTSF",)),
    "fast": Mode(("hsv", "lab"), (80, 160, 320, 640), ("CTSF", "TSF", "F", "S"), scale=2 / 3),
    "quality": Mode(("hsv", "lab", "rgi", "h", "i"), (50, 100, 150, 300), ("CTSF", "TSF", "F", "S")),
}


class Space(NamedTuple):
    """The boxes of each strategy of a colour space, the pixels of their regions, and their evidence for the order."""

    hierarchies: list[Int32]
    sizes: list[Int32]
    evidence: Evidence


class Regions(NamedTuple):
    """The regions of one segmentation, the input of grouping."""

    counts: Int32
    sizes: Int32
    boxes: Int32
    pairs: Int32


def selective_search(image: Planes, mode: str | Mode, threads: int) -> Int32:
    """Return the boxes of all strategies of a mode, those that cover likely objects first, the smallest last.

    Raises
    ------
    OptionError
        If the mode, a colour space or a cue is unknown.
    InputError
        If a k of a `Mode` is not a whole number >= 1, its scale not in (0, 1], or it has no strategy.
    """
    mode = check_mode(mode)
    seen = _reduced(image, mode.scale)
    share = seen.size / image.size  # regions have so many pixels less
    smaller = replace(mode, ks=tuple(max(1, round(k * share)) for k in mode.ks))
    spaces = searched_spaces(seen, smaller, threads)
    every = np.concatenate([boxes for space in spaces for boxes in space.hierarchies])
    sizes = np.concatenate([sizes for space in spaces for sizes in space.sizes])
    least = default_min_side(*image.shape[:2]) * (max(seen.shape) / max(image.shape))
    boxes = by_coverage(every, sizes, [space.evidence for space in spaces], least)
    return boxes if seen is image else enlarged(boxes, seen.shape, image.shape)


def _reduced(image: Planes, scale: float) -> Planes:
    """Return the picture with its sides times `scale`, each pixel the mean over its area; the same if it is small."""
    height, width = image.shape[:2]
    factor = max(scale, LEAST_LONGER_SIDE / max(height, width))
    if factor >= 1:
        return image
    import cv2

    size = max(1, round(width * factor)), max(1, round(height * factor))
    return np.asarray(cv2.resize(image, size, interpolation=cv2.INTER_AREA))


def enlarged(boxes: Int32, seen: tuple[int, ...], full: tuple[int, ...]) -> Int32:
    """Return boxes of a reduced picture in the pixels of the full one, each edge rounded half up."""
    (height, width), (full_height, full_width) = seen[:2], full[:2]
    sizes, full_sizes = np.array([width, height] * 2, np.int64), np.array([full_width, full_height] * 2, np.int64)
    return np.asarray((2 * boxes * full_sizes + sizes) // (2 * sizes), dtype=np.int32)


def check_mode(mode: str | Mode) -> Mode:
    """Return the checked mode, looked up if it is a name."""
    if isinstance(mode, str):
        check_known(f"mode {mode!r} of selective_search", mode, MODES)
        return MODES[mode]
    if not isinstance(mode, Mode) or not (mode.spaces and mode.ks and mode.cues):
        raise InputError(f"mode must be a name or a Mode with spaces, ks and cues, got {mode!r}.")
    _check_strategies(mode)
    if not isinstance(mode.scale, int | float) or not 0 < mode.scale <= 1:
        raise InputError(f"scale must be greater than 0 and at most 1, got {mode.scale!r}.")
    return mode


def _check_strategies(mode: Mode) -> None:
    """Raise unless colour spaces, cues and k are known and in range."""
    for space in mode.spaces:
        check_known(f"colour space {space!r}", space, SPACES)
    for cues in mode.cues:
        if not cues or set(cues) - set(CUES):
            raise OptionError(f"cues must be letters of {''.join(CUES)}, got {cues!r}.")
    for k in mode.ks:
        if not isinstance(k, int) or not 1 <= k <= MAX_K:
            raise InputError(f"k must be a whole number from 1 to {MAX_K}, got {k!r}.")


def searched_spaces(image: Planes, mode: Mode, threads: int) -> list[Space]:
    """Return the regions of each colour space, in order, by up to `threads` threads."""
    with ThreadPoolExecutor(min(threads, len(mode.spaces))) as pool:
        return list(pool.map(lambda space: _space(image, space, mode), mode.spaces))


def _space(image: Planes, space: str, mode: Mode) -> Space:
    """Return the boxes of every strategy of one colour space, and the segmentation with the greatest k."""
    planes = SPACES[space](image)
    pixels = image.shape[0] * image.shape[1]
    smoothed = _segmentation.smooth(planes)
    edges = _segmentation.edge_weights(smoothed)
    if pixels == 1:
        only = np.ones(1, np.int32)
        return Space([np.array([[0, 0, 1, 1]], np.int32)], [only], Evidence(np.zeros((1, 1), np.int32), edges))
    atoms, labels = segment(edges, mode.ks)
    start, _ = _regions.bins(len(planes))
    groups = [
        _grouping.group(*leaves, len(planes), DIRECTIONS, start, pixels, sum(CUES[cue] for cue in cues))[1:]
        for leaves in describe(planes, smoothed, atoms, labels)
        for cues in mode.cues
    ]
    boxes, sizes = map(list, zip(*groups, strict=True))
    return Space(boxes, sizes, Evidence(labels[int(np.argmax(mode.ks))][atoms], edges))


def segment(weights: NDArray[np.uint16], ks: Sequence[int]) -> tuple[Int32, Int32]:
    """Return atoms (h, w), which no segmentation splits, and each atom's label for each k."""
    scale = min(1.0, float(np.sqrt(weights[0].size / REFERENCE_PIXELS)))
    least = [max(1, round(k * scale)) for k in ks]
    return _segmentation.segment(weights, np.array(ks, np.int32) * LEVELS, np.array(least, np.int32))


def describe(planes: Planes, smoothed: NDArray[np.int16], atoms: Int32, labels: Int32) -> Iterator[Regions]:
    """Yield the regions of each segmentation; the pixels are counted once, in the common refinement."""
    cell_of_atom, count = _regions.refine(labels)
    cells = cell_of_atom[atoms]
    counts = _regions.describe(cells, count, planes, smoothed, TEXTURE_STEP)
    sizes, boxes = _regions.extents(cells, count)
    pairs = _regions.neighbours(cells, count)
    owner = np.empty(count, np.int32)
    for label in labels:
        owner[cell_of_atom] = label
        n_regions = int(label.max()) + 1
        if n_regions > MAX_REGIONS:
            raise InputError(f"k must be so large that at most {MAX_REGIONS} regions are left, got {n_regions}.")
        yield Regions(*_regions.pool(owner, n_regions, counts, sizes, boxes, pairs))
