"""Selective search (Uijlings, van de Sande, Gevers and Smeulders, IJCV 2013), compiled.

For each colour space, the picture is smoothed and its edges are sorted once for all k. Histograms are computed once, in
the cells of the common refinement of the segmentations, and summed to regions. Each strategy is then one grouping.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lapsvm._ext import grouping as _grouping
from lapsvm._ext import regions as _regions
from lapsvm._ext import segmentation as _segmentation
from lapsvm.errors import InputError, OptionError
from lapsvm.windows.colour import SPACES, Planes

Int32 = NDArray[np.int32]

REFERENCE_PIXELS = 500 * 375  # the picture size to which k and min_size refer
LEVELS = 16  # the kernels use units of 1/16 grey level
TEXTURE_STEP = 6  # a texture bin is 2 ** 6 such units wide
DIRECTIONS = 4  # signed differences, which correspond to the paper's eight directions
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
    """

    spaces: tuple[str, ...]
    ks: tuple[int, ...]
    cues: tuple[str, ...]


MODES = {
    "single": Mode(("hsv",), (100,), ("CTSF",)),
    "fast": Mode(("hsv", "lab"), (50, 100, 200, 400), ("CTSF", "TSF")),
    "quality": Mode(("hsv", "lab", "rgi", "h", "i"), (50, 100, 150, 300), ("CTSF", "TSF", "F", "S")),
}


class Leaves(NamedTuple):
    """The regions of one segmentation, the input of grouping."""

    counts: Int32
    sizes: Int32
    boxes: Int32
    pairs: Int32


def selective_search(image: Planes, mode: str | Mode, seed: int, threads: int) -> Int32:
    """Return the boxes of all strategies of a mode in the paper's order, without duplicates.

    Raises
    ------
    OptionError
        If the mode, a colour space or a cue is unknown.
    InputError
        If a k of a `Mode` is not a whole number >= 1, or it has no strategy.
    """
    return ranked(hierarchies(image, check_mode(mode), threads), seed)


def check_mode(mode: str | Mode) -> Mode:
    """Return the checked mode, looked up if it is a name."""
    if isinstance(mode, str):
        if mode not in MODES:
            raise OptionError(f"mode {mode!r} of selective_search is not known; choose from {', '.join(MODES)}.")
        return MODES[mode]
    if not isinstance(mode, Mode) or not (mode.spaces and mode.ks and mode.cues):
        raise InputError(f"mode must be a name or a Mode with spaces, ks and cues, got {mode!r}.")
    for space in mode.spaces:
        if space not in SPACES:
            raise OptionError(f"colour space {space!r} is not known; choose from {', '.join(SPACES)}.")
    for cues in mode.cues:
        if not cues or set(cues) - set(CUES):
            raise OptionError(f"cues must be letters of {''.join(CUES)}, got {cues!r}.")
    for k in mode.ks:
        if not isinstance(k, int) or not 1 <= k <= MAX_K:
            raise InputError(f"k must be a whole number from 1 to {MAX_K}, got {k!r}.")
    return mode


def hierarchies(image: Planes, mode: Mode, threads: int = 1) -> list[Int32]:
    """Return the boxes of each strategy: leaves, then unions in merging order, the complete picture last."""
    if threads == 1 or len(mode.spaces) == 1:
        return [boxes for space in mode.spaces for boxes in _space(image, space, mode)]
    with ThreadPoolExecutor(min(threads, len(mode.spaces))) as pool:
        per_space = pool.map(lambda space: _space(image, space, mode), mode.spaces)
        return [boxes for hierarchy in per_space for boxes in hierarchy]


def _space(image: Planes, space: str, mode: Mode) -> list[Int32]:
    """Return the boxes of every strategy of one colour space."""
    planes = SPACES[space](image)
    pixels = image.shape[0] * image.shape[1]
    if pixels == 1:
        return [np.array([[0, 0, 1, 1]], np.int32)]
    smoothed = _segmentation.smooth(planes)
    atoms, labels = segment(smoothed, mode.ks)
    start, _ = _regions.bins(len(planes))
    return [
        _grouping.group(*leaves, len(planes), DIRECTIONS, start, pixels, sum(CUES[cue] for cue in cues))[1]
        for leaves in describe(planes, smoothed, atoms, labels)
        for cues in mode.cues
    ]


def segment(smoothed: NDArray[np.int16], ks: Sequence[int]) -> tuple[Int32, Int32]:
    """Return atoms (h, w), which no segmentation splits, and each atom's label for each k."""
    scale = min(1.0, float(np.sqrt(smoothed[0].size / REFERENCE_PIXELS)))
    least = [max(1, round(k * scale)) for k in ks]
    weights = _segmentation.edge_weights(smoothed)
    return _segmentation.segment(weights, np.array(ks, np.int32) * LEVELS, np.array(least, np.int32))


def describe(planes: Planes, smoothed: NDArray[np.int16], atoms: Int32, labels: Int32) -> Iterator[Leaves]:
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
        yield Leaves(*_regions.pool(owner, n_regions, counts, sizes, boxes, pairs))


def ranked(hierarchy: Sequence[Int32], seed: int) -> Int32:
    """Return all boxes in the paper's order (section 3.3): large regions first, with randomised order.

    The j-th last region of a strategy gets the key j x u with u uniform in [0, 1); small keys come first.
    """
    boxes = np.concatenate(hierarchy)
    height = np.concatenate([np.arange(len(strategy), 0, -1) for strategy in hierarchy])
    order = np.argsort(height * np.random.default_rng(seed).random(len(boxes)), kind="stable")
    return boxes[order]
