"""A network's outputs as maps: those that are maps, and the tokens of vision transformers.

A transformer gives one token per patch of the picture, row by row, after a few tokens that belong to no patch: a class
token (CLIP, DINOv2) or none (SigLIP), and registers. The number of tokens at known sizes of the input says how large
the patches are and how many tokens come before them.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import isqrt, lcm
from typing import Any

import numpy as np

from lapsvm.arrays import Array, Float32
from lapsvm.errors import DataError, OptionError
from lapsvm.features.extractors.networks import Network

MULTIPLE = 32  # of the sides of what a convolutional network sees: the strides of common backbones divide it
PATCHES = (8, 14, 16, 32)
PREFIXES = (0, 1, 2, 5)  # none; a class token; another one for distillation; a class token and four registers
MAX_PREFIX = 64
_PROBE = 224  # a multiple of every patch above
_HINT = "; give patch=P, prefix=K, or output=NAME of a map"
Shape = tuple[int, ...]


@dataclass(frozen=True)
class MapOutput:
    """An output of a network and where its map lies in the input.

    Attributes
    ----------
    name : str
    channels : int
    rows, columns : int
        Of the map for the size of the input that was tried.
    cell : tuple of 2 floats
        Height and width of a cell of the map in pixels of the input.
    patch : int or None
        Number that the sides of the input are multiples of; None for a convolutional network.
    prefix : int or None
        Number of tokens before those of the patches; None for an output that is a map.
    """

    name: str
    channels: int
    rows: int
    columns: int
    cell: tuple[float, float]
    patch: int | None = None
    prefix: int | None = None

    def read(self, value: Array, height: int, width: int) -> Float32:
        """Return the map of an input of this size, float32 of shape (channels, rows, columns).

        Raises
        ------
        DataError
            As `cells`.
        """
        return np.asarray(self.cells(value, height, width), dtype=np.float32)

    def cells(self, value: Any, height: int, width: int) -> Any:
        """Return the map of an input of this size, of the output's own kind: an array, or a tensor of torch.

        Raises
        ------
        DataError
            If the number of tokens is not that of the patches.
        """
        if self.prefix is None or self.patch is None:
            return value[0]
        rows, columns = height // self.patch, width // self.patch
        shape = tuple(value.shape)
        if shape[:2] != (1, self.prefix + rows * columns):
            raise DataError(
                f"output {self.name!r} must have {self.prefix} + {rows} x {columns} tokens for {height} x {width} "
                f"pixels, got shape {shape}."
            )
        return value[0, self.prefix :].T.reshape(self.channels, rows, columns)


def find_map_outputs(
    network: Network, wanted: Iterable[str | None], patch: int | None = None, prefix: int | None = None
) -> tuple[MapOutput, ...]:
    """Return a network's outputs that are maps or tokens of patches, found by running it on an empty input.

    Parameters
    ----------
    network : Network
    wanted : iterable of str or None
        Names of outputs; None: the only one with 4 dimensions, or without such the only one with 3.
    patch, prefix : int or None
        See `MapOutput`; None: found from the number of tokens.

    Raises
    ------
    OptionError
        If there is no such output, or none is chosen of several, or `patch` or `prefix` does not fit it.
    DataError
        If no output is a map or tokens.
    """
    probe = _Probe(network, patch)
    return tuple(_map_output(probe, _choose(probe.shapes, name), patch, prefix) for name in wanted)


def input_multiple(outputs: Iterable[MapOutput]) -> int:
    """Return the number that the sides of the input must be multiples of."""
    return lcm(*(output.patch or MULTIPLE for output in outputs))


class _Probe:
    """The shapes of a network's outputs at one size of its input, and at others if it accepts them."""

    def __init__(self, network: Network, patch: int | None) -> None:
        self._network, self.is_fixed = network, network.fixed_size is not None
        side = _PROBE if patch is None else patch * max(1, round(_PROBE / patch))
        self.size = network.fixed_size or (side, side)
        self.shapes = self.shapes_at(*self.size)

    def shapes_at(self, height: int, width: int) -> dict[str, Shape]:
        """Return the shape of every output that holds numbers, for an input of this size."""
        outputs = self._network.run(np.zeros((1, 3, height, width), dtype=np.float32))
        arrays = {name: value for name, value in outputs.items() if isinstance(value, np.ndarray)}
        return {name: value.shape for name, value in arrays.items() if value.dtype.kind in "fiu"}


def _choose(shapes: Mapping[str, Shape], wanted: str | None) -> str:
    """Return the name of the output that is the map."""
    maps = [name for name, shape in shapes.items() if len(shape) == 4]
    tokens = [name for name, shape in shapes.items() if len(shape) == 3]
    shown = ", ".join(f"{name} {shape}" for name, shape in shapes.items()) or "none of numbers"
    if wanted is not None and wanted not in maps + tokens:
        raise OptionError(f"output must be one with 4 dimensions, or 3 for tokens, got {wanted!r}; there are {shown}.")
    candidates = maps or tokens
    if not candidates:
        raise DataError(f"the network needs an output with 4 dimensions, or 3 for tokens; there are {shown}.")
    if wanted is None and len(candidates) > 1:
        raise OptionError(f"output must be chosen, as in output={candidates[0]}; there are {shown}.")
    return wanted or candidates[0]


def _map_output(probe: _Probe, name: str, patch: int | None, prefix: int | None) -> MapOutput:
    """Return an output as a map."""
    shape, (height, width) = probe.shapes[name], probe.size
    if 0 in shape:
        raise DataError(f"output {name!r} must not be empty, got shape {shape} for {height} x {width} pixels.")
    if len(shape) == 4:
        return _plain_map(probe, name, patch, prefix)
    patch, prefix = _token_grid(probe, name, patch, prefix)
    rows, columns = height // patch, width // patch
    return MapOutput(name, shape[2], rows, columns, (float(patch), float(patch)), patch, prefix)


def _plain_map(probe: _Probe, name: str, patch: int | None, prefix: int | None) -> MapOutput:
    """Return an output with 4 dimensions; a cell of 14 pixels shows a transformer whose tokens were reshaped."""
    (height, width), (_, channels, rows, columns) = probe.size, probe.shapes[name]
    if prefix is not None:
        raise OptionError(f"prefix must not be given: output {name!r} is a map, not tokens, got {prefix}.")
    if patch is not None and (rows, columns) != (height // patch, width // patch):
        got = f"output {name!r} is a map of {rows} x {columns} cells for {height} x {width} pixels"
        raise OptionError(f"patch must be the side of a cell, but {got}, got {patch}.")
    cell = (height / rows, width / columns) if patch is None else (float(patch), float(patch))
    divisor = next((known for known in PATCHES if cell == (known, known) and MULTIPLE % known), None)
    return MapOutput(name, channels, rows, columns, cell, patch or divisor)


def _token_grid(probe: _Probe, name: str, patch: int | None, prefix: int | None) -> tuple[int, int]:
    """Return the side of the patches and the number of tokens before them."""
    height, width = probe.size
    count = probe.shapes[name][1]
    if probe.shapes[name][0] != 1:
        raise DataError(f"output {name!r} must have shape (1, tokens, channels), got {probe.shapes[name]}.")
    fits = list(_fits(probe, name, patch, prefix))
    fits = [fit for fit in fits if height % fit[0] == width % fit[0] == 0] or fits
    if len(fits) == 1:
        return fits[0]
    sentence = f"output {name!r} has {count} tokens for {height} x {width} pixels"
    if fits:
        both = " or ".join(f"patch={side} with prefix={before}" for side, before in fits)
        raise OptionError(f"patch and prefix must be given, because {sentence}: {both}.")
    given = [f"{key}={value}" for key, value in (("patch", patch), ("prefix", prefix)) if value is not None]
    asked = f" with {' and '.join(given)}" if given else f" after {', '.join(map(str, PREFIXES[:-1]))} or 5 others"
    raise DataError(f"{sentence}, which is no grid of patches{asked}{_HINT}.")


def _fits(probe: _Probe, name: str, patch: int | None, prefix: int | None) -> Iterator[tuple[int, int]]:
    """Yield the sides of patches and numbers of tokens before them that explain the number of tokens."""
    (height, width), count = probe.size, probe.shapes[name][1]
    if not probe.is_fixed:
        yield from _grown(probe, name, patch, prefix)
        return
    usual = [side for side in range(1, min(height, width) + 1) if side in PATCHES or height % side == width % side == 0]
    for side in (patch,) if patch else usual:
        before = count - (height // side) * (width // side)
        allowed = (prefix,) if prefix is not None else range(MAX_PREFIX + 1) if patch else PREFIXES
        if before in allowed and before < count:
            yield side, before


def _grown(probe: _Probe, name: str, patch: int | None, prefix: int | None) -> Iterator[tuple[int, int]]:
    """Yield the explanations of how the tokens of a square input grow when its height is doubled."""
    height, width = probe.size
    count = probe.shapes[name][1]
    cells = probe.shapes_at(2 * height, width)[name][1] - count
    rows = isqrt(max(cells, 0))
    if rows == 0 or rows * rows != cells or height % rows or count < cells:
        return
    grid = height // rows, count - cells
    if patch in (None, grid[0]) and prefix in (None, grid[1]):
        yield grid
