"""Features of windows that a network sees one by one, each warped to the same square: the way of R-CNN.

R. Girshick, J. Donahue, T. Darrell, J. Malik, "Rich Feature Hierarchies for Accurate Object Detection and Semantic
Segmentation", CVPR 2014. The network runs as often as there are windows, so this is far slower than a map of the whole
picture (`lapsvm.features.PooledNetwork`): it is there for the papers' own features.
"""

import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from lapsvm.arrays import Array, Float32, Float64
from lapsvm.catalog import check_pixels
from lapsvm.errors import DataError, NotFiniteError, OptionError
from lapsvm.features.extractors import specs
from lapsvm.features.extractors.blocks import Block, block_record
from lapsvm.features.extractors.picture import Colours, clip_boxes, l2_normalise
from lapsvm.features.extractors.warped.warping import Samples, Warping

BATCH = 64
OPTIONS: Mapping[str, Callable[[str], Any]] = {
    "output": str,
    "order": specs.choice("rgb", "bgr"),
    "mean": specs.one_or_three_numbers,
    "scale": specs.one_or_three_positive_numbers,
    "size": specs.whole_number(1, 1024),
    "context": specs.whole_number(0, 511),
    "batch": specs.whole_number(1, 4096),
    "norm": specs.choice("l2", "none"),
}
SLOW = 0.005
"""Seconds of one processor thread for a window above which the user is warned."""

WINDOWS = 2000  # of a picture, in the warning


class WindowNetwork(Protocol):
    """A network that sees windows of a picture; several threads may run it at once (`TorchNetwork`)."""

    name: str
    device: str
    runtime: dict[str, str]

    def run_windows(
        self, pixels: Array, rows: Samples, columns: Samples, colours: Colours, batch: int, output: str | None
    ) -> dict[str, Array]:
        """Return an output by name, or every output, for windows of a picture in batches."""


class WarpedNetwork:
    """A network's numbers for each window, warped to a square with its context.

    Every batch has the same number of windows, some of them repeated, because the rounding of a product may depend on
    it: so a window has the same bits in any company.

    Parameters
    ----------
    network : WindowNetwork
    weights : str
        Hash of the network's weights.
    colours : Colours
        The network's input is ``(pixels - mean) * scale``; what lies outside of the picture is 0 after that.
    warping : Warping
        Side of the square, 224 by default, and the context in it, 16 pixels.
    output : str, optional
        The output with the numbers, (n, d); by default the only such one.
    batch : int, default 64
        Windows at a time.
    norm : "none" or "l2"
        Whether each window's numbers are divided by their length.

    Raises
    ------
    OptionError
        If the context leaves nothing of the square, or there is no such output, or none is chosen of several.
    DataError
        If the network does not take the square, or gives no numbers (n, d).

    Warns
    -----
    UserWarning
        If a window takes more than 5 ms on the processor, with the time that was measured.
    """

    def __init__(
        self, network: WindowNetwork, weights: str, *, colours: Colours, warping: Warping, output: str | None = None,
        batch: int = BATCH, norm: str = "none",
    ) -> None:  # fmt: skip
        warping.check()
        self._network, self._weights, self._colours, self._warping = network, weights, colours, warping
        self._batch, self._norm = batch, norm
        self.dim, self._output = self._probe(output)

    @property
    def blocks(self) -> tuple[Block, ...]:
        """One block, without context: the network has seen it."""
        return (Block(self.dim),)

    def describe(self) -> dict[str, Any]:
        """Return everything that the features depend on."""
        return {
            "kind": "warped-network",
            "version": 1,
            **block_record(self.blocks),
            "network": self._network.name,
            "engine": self._network.runtime["name"],
            "weights": self._weights,
            **self._colours.describe(),
            **self._warping._asdict(),
            "output": self._output,
            "norm": self._norm,
            "runtime": {**self._network.runtime, "batch": self._batch},
        }

    def __call__(self, pixels: Array, boxes: ArrayLike) -> Float32:
        """Return the features of windows, float32 of shape (n, dim) (see `Extractor`)."""
        check_pixels(pixels)
        windows = clip_boxes(boxes, *pixels.shape[:2])
        features = np.zeros((len(windows), self.dim), dtype=np.float32)
        left = np.flatnonzero(windows[:, 2] > windows[:, 0])
        if len(left):
            rows = self._run(pixels, windows[left], self._output)[self._output]
            features[left] = rows.reshape(-1, self.dim)[: len(left)]
        if not np.isfinite(features).all():
            raise NotFiniteError(f"output {self._output!r} of the network must be finite, got NaN or infinity.")
        return l2_normalise(features) if self._norm == "l2" else features

    def _run(self, pixels: Array, windows: Float64, output: str | None = None) -> dict[str, Array]:
        """Return an output, or every output, for windows, the last of which are repeated to a whole batch."""
        begin = (len(windows) - 1) // self._batch * self._batch
        last = np.resize(np.arange(begin, len(windows)), self._batch)
        batches = windows[np.concatenate([np.arange(begin), last])]
        samples = self._warping.windows(batches, *pixels.shape[:2])
        return self._network.run_windows(pixels, *samples, self._colours, self._batch, output)

    def _probe(self, output: str | None) -> tuple[int, str]:
        """Return the number of features and the output with them, by one batch, whose time may be worth a warning."""
        picture = np.zeros((self._warping.size, self._warping.size, 3), dtype=np.uint8)
        start = time.thread_time()
        outputs = self._run(picture, np.array([[0.0, 0.0, *picture.shape[:2]]]))
        if self._network.device == "cpu":
            self._warn_if_slow((time.thread_time() - start) / self._batch)
        sizes = {name: _row_size(array, self._batch) for name, array in outputs.items()}
        fitting = [name for name, size in sizes.items() if size]
        if not fitting:
            shapes = ", ".join(f"{name} {array.shape}" for name, array in outputs.items())
            raise DataError(
                f"network {self._network.name} must give numbers (n, d) for n windows, got {shapes} for {self._batch}."
            )
        chosen = fitting[0] if output is None and len(fitting) == 1 else output
        if chosen is None:
            raise OptionError(f"output must be chosen, as in output={fitting[0]}; there are {', '.join(fitting)}.")
        if chosen not in fitting:
            raise OptionError(f"output must be one with numbers (n, d), {' or '.join(fitting)}, got {chosen!r}.")
        return sizes[chosen], chosen

    def _warn_if_slow(self, seconds: float) -> None:
        """Warn if a window takes long on a thread of the processor."""
        if seconds > SLOW:
            warnings.warn(
                f"network {self._network.name} takes about {1e3 * seconds:.0f} ms of a processor's thread for a "
                f"window, {seconds * WINDOWS:,.0f} s for {WINDOWS:,} windows of a picture; a GPU is faster "
                "(device cuda), and so is a map of the whole picture (way=pooled).",
                stacklevel=2,
            )


def _row_size(array: Array, count: int) -> int:
    """Return how many numbers an output has for each of `count` windows. 0 if it is no (n, d), nor (n, d, 1, 1)."""
    is_rows = array.ndim >= 2 and len(array) == count and set(array.shape[2:]) <= {1}
    return array.shape[1] if is_rows else 0
