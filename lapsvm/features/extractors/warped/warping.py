"""Windows warped to one square with their context, as R-CNN warps them (Girshick et al., CVPR 2014, appendix A).

The window is enlarged so that, in the square, it has exactly ``context`` pixels on each side of it; its own proportions
are lost. A pixel of the square takes the picture's value at the place of its centre, bilinearly from the four nearest
pixels and without smoothing. Where the place lies outside of the picture, it takes the mean colour, 0 for the network.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lapsvm.arrays import Array, Float32, Float64
from lapsvm.errors import OptionError
from lapsvm.features.extractors.picture import Colours


class Samples(NamedTuple):
    """Where the pixels of warped windows lie along one side of the picture; each (n, size).

    A value is ``first`` times 1 - ``share`` plus ``second`` times ``share``, or nothing if not ``inside``.
    """

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    share: Float32
    inside: NDArray[np.bool_]


class Warping(NamedTuple):
    """The square that windows are warped to: its side, and how much of it is context on each side, in pixels."""

    size: int = 224
    context: int = 16

    def check(self) -> None:
        """Raise OptionError unless a pixel is left between the context."""
        if 2 * self.context >= self.size:
            raise OptionError(f"context must be less than half of size {self.size}, got {self.context}.")

    def samples(self, low: Float64, high: Float64, length: int) -> Samples:
        """Return where the pixels of windows from `low` to `high` (n,) lie on a side of `length` pixels."""
        margin = (high - low) * (self.context / (self.size - 2 * self.context))
        shares = (np.arange(self.size) + 0.5) / self.size
        places = (low - margin)[:, None] + (high - low + 2 * margin)[:, None] * shares
        inside = (places >= 0) & (places < length)
        nearest = np.clip(places - 0.5, 0, length - 1)  # from the edges of pixels to their centres
        first = np.floor(nearest).astype(np.int64)
        return Samples(first, np.minimum(first + 1, length - 1), (nearest - first).astype(np.float32), inside)

    def windows(self, boxes: Float64, height: int, width: int) -> tuple[Samples, Samples]:
        """Return the samples of boxes (n, 4) of a picture along its rows and along its columns."""
        return self.samples(boxes[:, 1], boxes[:, 3], height), self.samples(boxes[:, 0], boxes[:, 2], width)


class PlacedWindows(NamedTuple):
    """A picture on a device of torch's, float32 of shape (3, h, w), and tensors of the samples of its windows."""

    picture: Any
    rows: list[Any]
    columns: list[Any]


def placed_windows(
    torch: Any, pixels: Array, rows: Samples, columns: Samples, colours: Colours, device: str
) -> PlacedWindows:  # fmt: skip
    """Copy a picture (h, w, 3) and the samples of windows to a device."""
    channels = pixels.transpose(2, 0, 1)[:: 1 if colours.order == "rgb" else -1]
    picture = torch.from_numpy(channels.copy()).to(device).float()  # torch takes no array that is read-only
    down, across = ([torch.from_numpy(array).to(device) for array in axis] for axis in (rows, columns))
    return PlacedWindows(picture, down, across)


def warp(placed: PlacedWindows, chosen: slice, colours: Colours) -> Any:
    """Return some windows as the network sees them, a tensor (n, 3, size, size) on their device."""
    picture = placed.picture
    (top, bottom, lower, is_row), (left, right, further, is_column) = (
        [tensor[chosen] for tensor in samples] for samples in (placed.rows, placed.columns)
    )
    upper_row, lower_row = (
        _between(
            picture[:, edge[:, :, None], left[:, None, :]],
            picture[:, edge[:, :, None], right[:, None, :]],
            further[:, None, :],
        )
        for edge in (top, bottom)
    )
    windows = _between(upper_row, lower_row, lower[:, :, None])
    for channel, mean, scale in zip(windows, colours.mean, colours.scale, strict=True):
        channel.sub_(mean).mul_(scale)
    windows.mul_(is_row[:, :, None] & is_column[:, None, :])
    return windows.transpose(0, 1).contiguous()


def _between(first: Any, second: Any, share: Any) -> Any:
    """Return the values between two tensors; the first is overwritten. No operation is fused, so all devices agree."""
    return first.add_(second.sub_(first).mul_(share))
