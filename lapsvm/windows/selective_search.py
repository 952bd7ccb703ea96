"""Selective search (Uijlings, van de Sande, Gevers and Smeulders, IJCV 2013), compiled.

Per colour space the picture is smoothed and its edges are sorted once; every k segments from that one list. The
histograms are counted once, in the cells of the common refinement of the segmentations, and summed to regions. A
strategy is then one cheap grouping.
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

Whole = NDArray[np.int32]

REFERENCE_PIXELS = 500 * 375  # the size of picture for which k and min_size are given
LEVELS = 16  # the kernels count in 1/16 of a grey level
TEXTURE_STEP = 6  # a texture bin is 2 ** 6 such units wide
DIRECTIONS = 4  # each signed: the paper's eight
MAX_K = 100_000  # 16 k / size is still exact in single precision
MAX_REGIONS = 2**22  # unions have numbers below 2 ** 23, which the heap's keys hold
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
    """The regions of one segmentation, ready to be grouped."""

    counts: Whole
    sizes: Whole
    boxes: Whole
    pairs: Whole


def selective_search(image: Planes, mode: str | Mode, seed: int, threads: int) -> Whole:
    """Return the boxes of all strategies of a mode in the paper's order, without duplicates.

    Raises
    ------
    OptionError
        If there is no such mode, colour space or cue.
    InputError
        If a k of a `Mode` is no whole number >= 1, or it has no strategy.
    """
    return ranked(hierarchies(image, check_mode(mode), threads), seed)


def check_mode(mode: str | Mode) -> Mode:
    """Return the mode, looked up by its name, its parts checked."""
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


def hierarchies(image: Planes, mode: Mode, threads: int = 1) -> list[Whole]:
    """Return the boxes of each strategy, leaves first and unions in their order, whole picture last."""
    if threads == 1 or len(mode.spaces) == 1:
        return [boxes for space in mode.spaces for boxes in _space(image, space, mode)]
    with ThreadPoolExecutor(min(threads, len(mode.spaces))) as pool:
        per_space = pool.map(lambda space: _space(image, space, mode), mode.spaces)
        return [boxes for one_space in per_space for boxes in one_space]


def _space(image: Planes, space: str, mode: Mode) -> list[Whole]:
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


def segment(smoothed: NDArray[np.int16], ks: Sequence[int]) -> tuple[Whole, Whole]:
    """Return atoms (h, w), small parts that no segmentation splits, and the label of each for each k."""
    scale = min(1.0, float(np.sqrt(smoothed[0].size / REFERENCE_PIXELS)))
    least = [max(1, round(k * scale)) for k in ks]
    weights = _segmentation.edge_weights(smoothed)
    return _segmentation.segment(weights, np.array(ks, np.int32) * LEVELS, np.array(least, np.int32))


def describe(planes: Planes, smoothed: NDArray[np.int16], atoms: Whole, labels: Whole) -> Iterator[Leaves]:
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


def ranked(hierarchy: Sequence[Whole], seed: int) -> Whole:
    """Return all boxes in the paper's order (section 3.3): large regions first, blurred by chance.

    The j-th last region of a strategy gets the key j x u with u uniform in [0, 1); small keys come first.
    """
    boxes = np.concatenate(hierarchy)
    height = np.concatenate([np.arange(len(one), 0, -1) for one in hierarchy])
    order = np.argsort(height * np.random.default_rng(seed).random(len(boxes)), kind="stable")
    return boxes[order]
