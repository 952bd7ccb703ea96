"""Selective search of other packages as methods of `propose`: `selectivesearch`, and OpenCV's contrib modules.

Earlier systems took their windows from them. Both find less than ours and take longer; docs/reference/windows.md has
their faults and figures. Each is imported only where it is asked for.
"""

import warnings
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lapsvm.arrays import check_known
from lapsvm.boxes import areas
from lapsvm.errors import DependencyError, import_optional
from lapsvm.windows.colour import Planes

Int32 = NDArray[np.int32]


class Segmentation(NamedTuple):
    """Arguments of the package's `selective_search`: scale, blur in pixels, and least size of a region in pixels."""

    scale: float
    sigma: float
    min_size: int


SEGMENTATIONS = {"fast": Segmentation(500, 0.9, 10), "quality": Segmentation(1.0, 0.8, 50)}
"""Mode -> arguments: those of the package's example, and its defaults, which leave three times as many regions."""

STRATEGIES = {
    "single": "switchToSingleStrategy",
    "fast": "switchToSelectiveSearchFast",
    "quality": "switchToSelectiveSearchQuality",
}
"""Mode -> the method of OpenCV's class that chooses it."""

_INSTALL_ANEW = "pip install --force-reinstall --no-deps opencv-contrib-python-headless"
_WHOLE_GREYS = "Applying `local_binary_pattern` to floating-point images"


def selectivesearch(image: Planes, mode: object) -> Int32:
    """Return the boxes of the package `selectivesearch`, the regions that it merges last first.

    The package counts a region's sides from the first to the last pixel, so that they lack one; here they have it.

    Raises
    ------
    OptionError
        If the mode is neither "fast" nor "quality".
    DependencyError
        If the package is not installed.
    """
    check_known(f"mode {mode!r} of selectivesearch", mode, SEGMENTATIONS)
    package = _load_selectivesearch()
    # not within `catch_warnings`, which other threads would share; adding the same filter again changes nothing
    warnings.filterwarnings("ignore", _WHOLE_GREYS, UserWarning)
    _, regions = package.selective_search(image, **SEGMENTATIONS[str(mode)]._asdict())
    return _corners([region["rect"] for region in regions][::-1], 1)


def opencv(image: Planes, mode: object, seed: int) -> Int32:
    """Return the boxes of OpenCV's selective search in the paper's order, which the seed draws.

    OpenCV draws its order from a generator that no seed of OpenCV reaches, and puts small boxes first. The set of boxes
    depends on the picture alone, so they are sorted by area, and each takes its place times a random number.

    Raises
    ------
    OptionError
        If the mode is none of "single", "fast" and "quality".
    DependencyError
        If OpenCV lacks its contrib modules.
    """
    check_known(f"mode {mode!r} of opencv", mode, STRATEGIES)
    search = _contrib_segmentation().createSelectiveSearchSegmentation()
    search.setBaseImage(np.ascontiguousarray(image[:, :, ::-1]))
    getattr(search, STRATEGIES[str(mode)])()
    boxes = _corners(search.process(), 0)
    large_first = boxes[np.lexsort((*boxes.T, -areas(boxes)))]
    places = np.arange(1, len(boxes) + 1) * np.random.default_rng(seed).random(len(boxes))
    return large_first[np.argsort(places, kind="stable")]


def check_package(method: str) -> None:
    """Raise DependencyError unless the package that a method runs can be imported."""
    if method == "selectivesearch":
        _load_selectivesearch()
    elif method == "opencv":
        _contrib_segmentation()


def package_runtime(method: str) -> dict[str, str]:
    """Return name and version of the package that a method runs, as shards record them. {} if it runs none."""
    if method == "opencv":
        import cv2

        return {"name": "opencv", "version": str(cv2.__version__)}
    return installed_version("selectivesearch") if method == "selectivesearch" else {}


def installed_version(package: str) -> dict[str, str]:
    """Return name and version of a package. {} if it is not known."""
    try:
        return {"name": package, "version": version(package)}
    except PackageNotFoundError:
        return {}


def _load_selectivesearch() -> Any:
    """Return the package."""
    return import_optional("selectivesearch", "method 'selectivesearch' needs selectivesearch", "selectivesearch")


def _contrib_segmentation() -> Any:
    """Return OpenCV's module of selective search."""
    import cv2

    contrib: Any = getattr(cv2, "ximgproc", None)
    if not hasattr(contrib, "segmentation"):
        raise DependencyError(
            "method 'opencv' needs cv2.ximgproc, which only opencv-contrib-python-headless has; it takes the place of "
            f"opencv-python-headless: pip uninstall opencv-python-headless, then {_INSTALL_ANEW}."
        )
    return contrib.segmentation


def _corners(rectangles: Any, missing: int) -> Int32:
    """Return boxes of rectangles x, y, width, height, whose sides lack some pixels."""
    boxes = np.array(rectangles, dtype=np.int32).reshape(-1, 4)
    boxes[:, 2:] += boxes[:, :2] + missing
    return boxes
