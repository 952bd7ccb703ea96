"""Selective search of other packages, by stand-ins of the same form; and by the packages, where they are installed."""

import sys
import warnings
from importlib.util import find_spec
from types import SimpleNamespace

import cv2
import numpy as np
import pytest

from lapsvm.boxes import areas
from lapsvm.errors import DependencyError, OptionError
from lapsvm.testing.windows import ProposalLaws
from lapsvm.windows import METHODS, propose
from lapsvm.windows.methods import source_runtime

HAS_PACKAGE, HAS_CONTRIB = find_spec("selectivesearch") is not None, hasattr(cv2, "ximgproc")
needs_package = pytest.mark.skipif(not HAS_PACKAGE, reason="the package selectivesearch is not installed")
needs_contrib = pytest.mark.skipif(not HAS_CONTRIB, reason="OpenCV has no contrib modules")


def cells(image):
    """Yield made-up regions, smallest first: first and last pixel of the cells of growing lattices, and the picture."""
    height, width = image.shape[:2]
    for step in (8, 16, 32):
        for y in range(0, height, step):
            for x in range(0, width, step):
                yield x, y, min(x + step, width) - 1, min(y + step, height) - 1
    yield 0, 0, width - 1, height - 1


def selective_search(im_orig, scale=1.0, sigma=0.8, min_size=50):
    """Stand in for the package's only function: it warns, returns duplicates, and rectangles that lack a pixel."""
    warnings.warn("Applying `local_binary_pattern` to floating-point images may give unexpected results.", stacklevel=2)
    least = min_size if scale == 500 and sigma == 0.9 else 4 * min_size
    regions = [
        {"rect": (x1, y1, x2 - x1, y2 - y1), "size": (x2 - x1) * (y2 - y1), "labels": [0.0]}
        for x1, y1, x2, y2 in cells(im_orig)
        if (x2 - x1) * (y2 - y1) >= least
    ]
    return np.dstack([im_orig, im_orig[..., :1]]), regions + regions[-1:]


class Search:
    """Stand in for OpenCV's class: boxes in an order of its own, which no seed of NumPy reaches, rows x, y, w, h."""

    calls = iter(range(10**6))

    def setBaseImage(self, image):
        assert image.flags.c_contiguous
        self.image, self.lattice = image, None

    def switchToSingleStrategy(self):
        self.lattice = 1

    def switchToSelectiveSearchFast(self):
        self.lattice = 2

    def switchToSelectiveSearchQuality(self):
        self.lattice = 3

    def process(self):
        boxes = np.array([[x1, y1, x2 - x1 + 1, y2 - y1 + 1] for x1, y1, x2, y2 in cells(self.image)], np.int32)
        boxes = boxes[-len(boxes) * self.lattice // 3 :]
        return boxes[np.random.default_rng(next(self.calls)).permutation(len(boxes))]


@pytest.fixture
def package(monkeypatch):
    monkeypatch.setitem(sys.modules, "selectivesearch", SimpleNamespace(selective_search=selective_search))


@pytest.fixture
def contrib(monkeypatch):
    segmentation = SimpleNamespace(createSelectiveSearchSegmentation=Search)
    monkeypatch.setattr(cv2, "ximgproc", SimpleNamespace(segmentation=segmentation), raising=False)


def noise(height, width):
    return np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)


class TestOurs(ProposalLaws):
    def make(self):
        return METHODS["selective_search"]


class TestMixed(ProposalLaws):
    def make(self):
        return METHODS["mixed"]


class TestGrid(ProposalLaws):
    mode = "quality"

    def make(self):
        return METHODS["grid"]


@pytest.mark.usefixtures("package")
class TestPackage(ProposalLaws):
    def make(self):
        return METHODS["selectivesearch"]


@pytest.mark.usefixtures("contrib")
class TestOpenCV(ProposalLaws):
    def make(self):
        return METHODS["opencv"]


@needs_package
class TestInstalledPackage(ProposalLaws):
    def make(self):
        return METHODS["selectivesearch"]


@needs_contrib
class TestInstalledOpenCV(ProposalLaws):
    def make(self):
        return METHODS["opencv"]


@pytest.mark.usefixtures("package", "contrib")
@pytest.mark.parametrize("method", ["selectivesearch", "opencv"])
@pytest.mark.parametrize("mode", ["fast", "quality"])
@pytest.mark.parametrize("shape", [(1, 1), (1, 300), (50, 70), (100, 61)], ids=str)
def test_proposed_boxes_are_distinct_inside_and_limited(method, mode, shape):
    boxes = propose(noise(*shape), method, mode=mode, max_windows=9)
    assert (boxes.dtype, boxes.shape[1]) == (np.float32, 4)
    assert 1 <= len(boxes) <= 9
    assert (boxes[:, :2] >= 0).all()
    assert (boxes[:, 2:] <= shape[::-1]).all()
    assert (boxes[:, :2] < boxes[:, 2:]).all()
    assert len(np.unique(boxes, axis=0)) == len(boxes)


@pytest.mark.usefixtures("package")
def test_the_packages_boxes_reach_their_last_pixel_and_come_from_the_last_merged_one():
    boxes = propose(noise(50, 70), "selectivesearch", min_side=0)
    assert boxes[0].tolist() == [0, 0, 70, 50]
    expected = [[x1, y1, x2 + 1, y2 + 1] for x1, y1, x2, y2 in cells(noise(50, 70)) if (x2 - x1) * (y2 - y1) >= 10]
    assert boxes.tolist() == expected[::-1]


@pytest.mark.usefixtures("package")
def test_the_packages_modes_are_its_example_and_its_defaults(monkeypatch):
    seen = []
    spy = SimpleNamespace(selective_search=lambda image, **options: (seen.append(options), selective_search(image))[1])
    monkeypatch.setitem(sys.modules, "selectivesearch", spy)
    for mode in ("fast", "quality"):
        propose(noise(20, 20), "selectivesearch", mode=mode)
    assert seen == [
        {"scale": 500, "sigma": 0.9, "min_size": 10},
        {"scale": 1.0, "sigma": 0.8, "min_size": 50},
    ]


@pytest.mark.usefixtures("contrib")
def test_opencvs_order_depends_on_the_seed_alone():
    image = noise(90, 120)
    boxes = propose(image, "opencv", seed=3, max_windows=None)
    np.testing.assert_array_equal(propose(image, "opencv", seed=3, max_windows=None), boxes)
    other = propose(image, "opencv", seed=4, max_windows=None)
    assert not np.array_equal(other, boxes)
    np.testing.assert_array_equal(np.unique(other, axis=0), np.unique(boxes, axis=0))
    first, last = np.array_split(areas(boxes), 2)
    assert first.mean() > last.mean()


@pytest.mark.usefixtures("contrib")
def test_opencvs_modes_are_its_strategies_and_it_sees_bgr(monkeypatch):
    counts = [len(propose(noise(64, 64), "opencv", mode=mode)) for mode in ("single", "fast", "quality")]
    assert counts == sorted(set(counts))
    seen = []
    monkeypatch.setattr(Search, "setBaseImage", lambda self, image: (seen.append(image), setattr(self, "image", image)))
    image = noise(8, 9)
    propose(image, "opencv")
    np.testing.assert_array_equal(seen[0], image[:, :, ::-1])


@pytest.mark.usefixtures("package", "contrib")
@pytest.mark.parametrize(
    ("method", "modes"), [("selectivesearch", "fast, quality"), ("opencv", "single, fast, quality")]
)
def test_an_unknown_mode_is_refused(method, modes):
    with pytest.raises(OptionError, match=f"^mode 'slow' of {method} is not known; choose from {modes}\\.$"):
        propose(noise(9, 9), method, mode="slow")


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "selectivesearch", None)
    with pytest.raises(DependencyError, match=r"method 'selectivesearch' needs selectivesearch.*\[selectivesearch\]"):
        propose(noise(9, 9), "selectivesearch")


@pytest.mark.parametrize("contents", [None, SimpleNamespace()])
def test_missing_contrib_modules_are_named(monkeypatch, contents):
    monkeypatch.setattr(cv2, "ximgproc", contents, raising=False)
    with pytest.raises(DependencyError, match=r"method 'opencv' needs cv2\.ximgproc.*opencv-contrib-python-headless"):
        propose(noise(9, 9), "opencv")


def test_shards_record_what_proposed_their_windows():
    assert source_runtime("opencv") == {"name": "opencv", "version": cv2.__version__}
    assert source_runtime("mixed") == {}
    assert source_runtime("selectivesearch").keys() == ({"name", "version"} if HAS_PACKAGE else set())
