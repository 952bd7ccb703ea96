"""What remains of a picture at another exposure, size or compression: where it becomes brighter or darker."""

import numpy as np
from numpy.typing import NDArray

SIDE = 32


def brightness_steps(pixels: NDArray[np.uint8]) -> bytes:
    """Return the larger half of the steps of brightness from each cell of a grid to the next, by their signs.

    Parameters
    ----------
    pixels : uint8 RGB array of shape (h, w, 3)

    Returns
    -------
    bytes
        1, 0 or -1 as int8, `SIDE` squared of them. Exposure and contrast change the steps, and hardly their signs.
    """
    from PIL import Image

    grey = Image.fromarray(pixels).convert("L").resize((SIDE + 1, SIDE), Image.Resampling.BOX)
    steps = np.diff(np.asarray(grey, dtype=np.int16), axis=1)
    sizes = np.abs(steps)
    return np.where(sizes > np.median(sizes), np.sign(steps), 0).astype(np.int8).tobytes()
