"""Selective search of other packages, with corrections of their known errors.

docs/reference/windows.md compares the packages.
"""

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lapsvm.errors import DependencyError, OptionError, install_extra
from lapsvm.windows.colour import Planes

OPENCV_MODES = {
    "single": "switchToSingleStrategy",
    "fast": "switchToSelectiveSearchFast",
    "quality": "switchToSelectiveSearchQuality",
}
PACKAGE_MODES = {"fast": {"scale": 500, "sigma": 0.9, "min_size": 10}, "quality": {}}


def opencv(image: Planes, mode: object, seed: int, threads: int) -> NDArray[Any]:  # noqa: ARG001
    """Return the boxes of OpenCV's ximgproc in reverse order, because it returns the smallest segments first.

    The order depends on C's ``rand()`` and may differ between calls; the set of boxes does not.

    Raises
    ------
    DependencyError
        If the installed OpenCV has no ``cv2.ximgproc`` (only the contrib wheels do).
    OptionError
        If the mode is unknown.
    """
    _check_mode("opencv", mode, OPENCV_MODES)
    import cv2

    contrib: Any = getattr(cv2, "ximgproc", None)
    if not hasattr(contrib, "segmentation"):
        raise DependencyError(
            "method 'opencv' needs opencv-contrib-python-headless in place of opencv-python-headless: "
            f"OpenCV {cv2.__version__} as installed has no cv2.ximgproc."
        )
    if image.shape[0] * image.shape[1] == 1:
        return np.empty((0, 4))
    search = contrib.segmentation.createSelectiveSearchSegmentation()
    search.setBaseImage(np.ascontiguousarray(image[:, :, ::-1]))  # OpenCV reads BGR
    getattr(search, OPENCV_MODES[str(mode)])()
    boxes = _corners(np.asarray(search.process(), dtype=np.float64))
    return boxes[::-1]


def selectivesearch(image: Planes, mode: object, seed: int, threads: int) -> NDArray[Any]:  # noqa: ARG001
    """Return the boxes of the package ``selectivesearch``, large ones first.

    The package returns widths that are one pixel too small, and leaves first; this function corrects both. Mode "fast"
    uses fewer initial segments (scale 500, sigma 0.9, min_size 10), "quality" the package's defaults.

    Raises
    ------
    DependencyError
        If the package is not installed.
    OptionError
        If the mode is unknown.
    """
    _check_mode("selectivesearch", mode, PACKAGE_MODES)
    try:
        import selectivesearch as package
    except ImportError:
        raise DependencyError(
            f"method 'selectivesearch' needs the package of that name: {install_extra('selectivesearch')}."
        ) from None
    if min(image.shape[:2]) < 2:
        return np.empty((0, 4))  # its texture code fails on a picture of one row
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # each call warns of local binary patterns of floating-point data
        _, regions = package.selective_search(image, **PACKAGE_MODES[str(mode)])
    extents = np.array([region["rect"] for region in regions], dtype=np.float64).reshape(-1, 4)
    return _corners(extents + np.array([0, 0, 1, 1]))[::-1]


def _check_mode(method: str, mode: object, known: Any) -> None:
    """Raise OptionError unless the method has that mode."""
    if not isinstance(mode, str) or mode not in known:
        raise OptionError(f"mode {mode!r} of {method} is not known; choose from {', '.join(known)}.")


def _corners(boxes: NDArray[Any]) -> NDArray[Any]:
    """Convert x, y, width, height to x1, y1, x2, y2."""
    return np.concatenate([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]], axis=1)
