"""Features of windows warped to a network's input, one by one, as R-CNN does (R. Girshick et al., CVPR 2014).

A window is enlarged about its centre so that, in the square of ``size`` pixels to which it is warped, exactly
``context`` pixels on every side show its surroundings (section 2.1 and appendix A of the paper). Its aspect ratio is
not preserved. A pixel of the square is interpolated linearly between the four nearest pixels of the picture, without
smoothing, as in R-CNN; outside of the picture it is the mean colour, which becomes 0.
"""

import logging
from collections.abc import Iterator
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lapsvm.arrays import Array, Float32, Float64
from lapsvm.errors import DataError, NotFiniteError, OptionError
from lapsvm.features.extractors.network_extractor import NetworkExtractor
from lapsvm.features.extractors.picture import Colours, clip_boxes
from lapsvm.features.extractors.specs import (
    choice,
    one_or_three_numbers,
    one_or_three_positive_numbers,
    whole_number,
    word,
)
from lapsvm.features.extractors.torch_network import TorchNetwork, load_torch

_LOG = logging.getLogger("lapsvm")
OPTIONS = {
    "output": word,
    "order": choice("rgb", "bgr"),
    "mean": one_or_three_numbers,
    "scale": one_or_three_positive_numbers,
    "size": whole_number(8, 2048),
    "context": whole_number(0, 1024),
    "batch": whole_number(1, 65536),
    "norm": choice("l2", "none"),
}


class WarpedNetwork(NetworkExtractor):
    """A network's output for each window, warped to a square.

    Parameters
    ----------
    network : TorchNetwork
        An output of shape (n, d), or (n, channels, rows, columns), which is read row by row as one of d numbers.
    weights : str
        Hash of its weights.
    name : str
        Name of the network.
    colours : Colours
    output : str, optional
        Which output; by default the only one.
    size : int, default 224
        Side of the square, in pixels.
    context : int, default 16
        Pixels of the square on every side that show what surrounds the window, less than half of its side.
    batch : int, default 64
        Windows per batch; when memory runs out it is halved, and the log says so.
    norm : "none" or "l2"
        Whether each window's features are normalised to length 1.

    Raises
    ------
    OptionError
        If there is no such output, or several to choose from, or the context is too wide.
    DataError
        If the network cannot take such a square, or the output is of another shape.
    """

    def __init__(
        self,
        network: TorchNetwork,
        weights: str,
        name: str,
        colours: Colours,
        *,
        output: str | None = None,
        size: int = 224,
        context: int = 16,
        batch: int = 64,
        norm: str = "none",
    ) -> None:
        if 2 * context >= size:
            raise OptionError(f"context must be less than half of the size {size}, got {context}.")
        super().__init__(network, weights, colours, norm)
        self._torch_network, self._name, self._size, self._context = network, name, size, context
        self._first_batch = self._batch = batch
        self._shrinking = Lock()
        outputs = network.run(np.zeros((1, 3, size, size), dtype=np.float32))
        self._output = _vector_output({key: np.shape(value) for key, value in outputs.items()}, output)
        self._dim = int(outputs[self._output].size)

    @property
    def blocks(self) -> tuple[int, ...]:
        """One part: ``(dim,)``."""
        return (self._dim,)

    def describe(self) -> dict[str, Any]:
        """Return everything that the features depend on."""
        return {
            **self._description("warped-network", 1),
            "network": self._name,
            "output": self._output,
            "size": self._size,
            "context": self._context,
            "runtime": {**self._network.runtime, "batch": self._first_batch},
        }

    def _measure(self, pixels: Array, boxes: ArrayLike) -> Float32:
        windows = clip_boxes(boxes, *pixels.shape[:2])
        features = np.zeros((len(windows), self.dim), dtype=np.float32)
        with_area = np.flatnonzero((windows[:, 2:] > windows[:, :2]).all(axis=1))
        enlarged = enlarge(windows[with_area], self._size, self._context)
        for part, rows in self._in_batches(self._colours(pixels), enlarged):
            features[with_area[part]] = rows
        if not np.isfinite(features).all():
            raise NotFiniteError(f"output {self._output!r} of the network must be finite, got NaN or infinity.")
        return self._normalised(features)

    def squares(self, pixels: Array, boxes: ArrayLike) -> Float32:
        """Return the network's input for each window, float32 of shape (n, 3, size, size)."""
        enlarged = enlarge(clip_boxes(boxes, *pixels.shape[:2]), self._size, self._context)
        with self._torch_network.running():
            picture = load_torch("warping").from_numpy(self._colours(pixels)).to(self._torch_network.device)
            return np.asarray(warp_windows(picture, enlarged, self._size).cpu().numpy())

    def _in_batches(self, picture: Float32, enlarged: Float64) -> Iterator[tuple[slice, Float32]]:
        """Yield batches of windows as slices with their features; smaller ones after memory has run out."""
        start = 0
        while start < len(enlarged):
            part = slice(start, min(start + self._batch, len(enlarged)))
            rows = self._forward(picture, enlarged[part])
            if rows is None:
                self._shrink(part.stop - part.start)
                continue
            yield part, rows
            start = part.stop

    def _forward(self, picture: Float32, enlarged: Float64) -> Float32 | None:
        """Return the features of some windows; None if memory has run out."""
        torch, network = load_torch("warping"), self._torch_network
        try:
            with network.running():
                squares = warp_windows(torch.from_numpy(picture).to(network.device), enlarged, self._size)
            output = network.forward(squares)[self._output]
            rows = np.asarray(output.flatten(1).float().cpu().numpy())
        except torch.OutOfMemoryError:
            return None
        if rows.shape != (len(enlarged), self.dim):
            raise DataError(
                f"network {network.name} must give a row of {self.dim} numbers for each window, got shape {rows.shape} "
                f"for {len(enlarged)} windows."
            )
        return rows

    def _shrink(self, failed: int) -> None:
        """Halve the batch, and log it.

        Raises
        ------
        DataError
            If even one window is too many.
        """
        network = self._torch_network
        if network.device == "cuda":
            load_torch("warping").cuda.empty_cache()
        if failed == 1:
            raise DataError(
                f"network {network.name} needs more memory than device {network.device} has for one window; "
                "use another device."
            )
        with self._shrinking:
            if self._batch < failed:  # another thread has shrunk it already
                return
            self._batch = failed // 2
        _LOG.warning(
            "device %s ran out of memory with %d windows at once; going on with %d.",
            network.device,
            failed,
            failed // 2,
        )


def enlarge(windows: Float64, size: int, context: int) -> Float64:
    """Return the windows (n, 4) enlarged about their centres until `context` of `size` pixels surround them."""
    centres = (windows[:, :2] + windows[:, 2:]) / 2
    halves = (windows[:, 2:] - windows[:, :2]) / 2 * (size / (size - 2 * context))
    return np.hstack([centres - halves, centres + halves])


def warp_windows(picture: Any, windows: Float64, size: int) -> Any:
    """Return windows of a picture warped to squares.

    Parameters
    ----------
    picture : tensor of shape (3, h, w), float32
        What is outside of it counts as 0.
    windows : ndarray of shape (n, 4), float64
        With area, in pixels.
    size : int

    Returns
    -------
    tensor of shape (n, 3, size, size), float32
        On the picture's device.
    """
    torch = load_torch("warping")
    height, width = picture.shape[1:]
    places = (np.arange(size) + 0.5) / size
    across = windows[:, :1] + places * (windows[:, 2:3] - windows[:, :1])
    down = windows[:, 1:2] + places * (windows[:, 3:] - windows[:, 1:2])
    # the sampler counts from -1, the left edge, to 1, the right edge; its border repeats the outermost pixels
    x, y = (
        torch.from_numpy((2 * place / side - 1).astype(np.float32)).to(picture.device)
        for place, side in ((across, width), (down, height))
    )
    shape = len(windows), size, size
    grid = torch.stack([x[:, None, :].expand(shape), y[:, :, None].expand(shape)], dim=-1)
    squares = torch.nn.functional.grid_sample(
        picture[None].expand(len(windows), -1, -1, -1),
        grid,
        mode="bilinear",
        padding_mode="border",
        align_corners=False,
    )
    inside = (x.abs() <= 1)[:, None, None, :] & (y.abs() <= 1)[:, None, :, None]
    return squares.mul_(inside)


def _vector_output(shapes: dict[str, tuple[int, ...]], wanted: str | None) -> str:
    """Return the name of the output whose numbers are the features."""
    shown = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
    if wanted is not None and wanted not in shapes:
        raise OptionError(f"output must be one of the network's, got {wanted!r}; there are {shown}.")
    if wanted is None and len(shapes) > 1:
        raise OptionError(f"output must be chosen, as in output={next(iter(shapes))}; there are {shown}.")
    name = wanted or next(iter(shapes))
    if len(shapes[name]) < 2 or shapes[name][0] != 1 or 0 in shapes[name]:
        raise DataError(f"the network must give a row of numbers for each window; for one window there are {shown}.")
    return name
