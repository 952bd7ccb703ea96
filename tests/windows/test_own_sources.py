"""Sources of windows of other packages, found by their entry points, and the laws that they must keep."""

from types import SimpleNamespace

import numpy as np
import pytest

from lapsvm import catalog
from lapsvm.errors import InputError, NotFiniteError, OptionError, ShapeError
from lapsvm.testing.windows import ProposalLaws
from lapsvm.windows import METHODS, methods, propose
from lapsvm.windows.methods import source_runtime

PICTURE = np.random.default_rng(0).integers(0, 256, (60, 80, 3), dtype=np.uint8)


def halves(image, mode, seed, threads):
    """Return the left and the right half; the whole of a picture of one column."""
    height, width = image.shape[:2]
    middle = max(1, width // 2)
    return np.array([[0, 0, middle, height], [width - middle, 0, width, height]])


class TestHalves(ProposalLaws):
    def make(self):
        return halves


@pytest.fixture
def registered(monkeypatch):
    """Have entry points of the group be those that a test names."""

    class Point(SimpleNamespace):
        __hash__ = object.__hash__

    def register(**sources):
        dist = SimpleNamespace(name="numpy")
        points = [Point(name=name, load=lambda one=one: one, dist=dist) for name, one in sources.items()]
        monkeypatch.setattr(catalog, "entry_points", lambda group: points if group == "lapsvm.windows" else [])

    caches = methods._find_point, methods._load_source
    [one.cache_clear() for one in caches]
    yield register
    [one.cache_clear() for one in caches]


def test_a_source_is_found_by_its_name_with_every_argument(registered):
    seen = []
    registered(mine=lambda *given: (seen.append(given[1:]), halves(*given))[1])
    assert propose(PICTURE, "mine", mode="anything", seed=7, threads=2).tolist() == [[0, 0, 40, 60], [40, 0, 80, 60]]
    assert seen == [("anything", 7, 2)]
    assert source_runtime("mine") == {"name": "numpy", "version": np.__version__}


def test_a_source_of_no_package_is_recorded_without_one(registered, monkeypatch):
    registered(mine=halves)
    methods._find_point("mine").dist = None
    assert source_runtime("mine") == {}


def test_names_that_are_known_come_first(registered):
    registered(grid=halves)
    assert propose(PICTURE, "grid", max_windows=None).tolist() != propose(PICTURE, "grid", max_windows=2).tolist()


def test_an_unknown_name_is_refused_with_those_that_are_known(registered):
    registered(mine=halves)
    with pytest.raises(OptionError, match=r"^method 'yours' is not known; choose from .*grid, .*, mine\.$"):
        propose(PICTURE, "yours")


@pytest.mark.parametrize("method", [None, 3, ["grid"]])
def test_a_name_is_a_text(method):
    with pytest.raises(OptionError, match=r"^method must be a name, got "):
        propose(PICTURE, method)


def scattered(image, mode, seed, threads):
    """Return boxes that leave the picture, have no area, are fractional, or stand twice."""
    return [[-9, -9, 40, 90], [5, 5, 5, 40], [90, 0, 99, 60], [9.5, 9.5, 30.25, 50], [9, 9, 31, 50], [0, 0, 3, 60]]


def test_boxes_are_brought_to_whole_pixels_inside_the_picture_once_each(registered):
    registered(mine=scattered)
    assert propose(PICTURE, "mine").tolist() == [[0, 0, 40, 60], [9, 9, 31, 50]]
    assert propose(PICTURE, "mine", max_windows=1).tolist() == [[0, 0, 40, 60]]


def test_a_source_that_finds_nothing_gives_the_whole_picture(registered):
    registered(mine=lambda image, mode, seed, threads: np.empty((0, 4)))
    assert propose(PICTURE, "mine").tolist() == [[0, 0, 80, 60]]


@pytest.mark.parametrize(
    ("source", "error", "sentence"),
    [
        (None, InputError, "method 'mine' must be a function of a picture, .* got NoneType"),
        (lambda image: None, InputError, "method 'mine' must be a function of a picture, .* too many positional"),
        (lambda *_: np.zeros((2, 5)), ShapeError, r"windows of method 'mine' must have shape \(n, 4\), got \(2, 5\)"),
        (lambda *_: [[0, 0, np.nan, 9]], NotFiniteError, "windows of method 'mine' must be finite"),
        (lambda *_: ["box"], InputError, "windows of method 'mine' must be"),
    ],
)
def test_what_is_no_source_is_refused(registered, source, error, sentence):
    registered(mine=source)
    with pytest.raises(error, match=sentence):
        propose(PICTURE, "mine")


# every law finds its faults

CALLS = iter(range(1, 10**6))


def with_boxes(change):
    """Return a source whose boxes pass through `change(boxes, image, threads)`."""
    return lambda image, mode, seed, threads: change(halves(image, mode, seed, threads), image, threads)


def painting(boxes, image, threads):
    image[0, 0] = 1
    return boxes


def shifted_each_time(boxes, *_):
    return boxes + next(CALLS)


BROKEN = {
    "test_it_is_a_function_of_a_picture_a_mode_a_seed_and_threads": [None, lambda image: halves(image, "fast", 0, 1)],
    "test_boxes_are_whole_pixels_inside_the_picture": [
        with_boxes(lambda boxes, *_: boxes + 0.5),
        with_boxes(lambda boxes, *_: boxes - 1),
        with_boxes(lambda boxes, *_: boxes + 1),
        with_boxes(lambda boxes, *_: boxes * np.nan),
        with_boxes(lambda boxes, *_: boxes[:, :3]),
    ],
    "test_boxes_have_an_area": [with_boxes(lambda boxes, *_: boxes[:, [2, 3, 0, 1]])],
    "test_a_picture_has_the_same_boxes_each_time_and_is_not_changed": [
        with_boxes(painting),
        with_boxes(shifted_each_time),
    ],
    "test_the_number_of_threads_changes_nothing": [with_boxes(lambda boxes, image, threads: boxes[:threads])],
    "test_several_callers_get_what_one_gets": [with_boxes(shifted_each_time)],
}


def test_every_law_has_a_fault_that_it_finds():
    assert BROKEN.keys() == {name for name in dir(ProposalLaws) if name.startswith("test_")}


@pytest.mark.parametrize(("law", "fault"), [(law, fault) for law, faults in BROKEN.items() for fault in faults])
def test_the_laws_find_faults(law, fault):
    laws = ProposalLaws()
    laws.make = lambda: fault
    with pytest.raises((AssertionError, ShapeError, ValueError)):
        getattr(laws, law)()


def test_a_method_of_the_table_needs_no_entry_point(monkeypatch):
    monkeypatch.setitem(METHODS, "here", halves)
    assert len(propose(PICTURE, "here")) == 2
