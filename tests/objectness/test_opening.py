"""Sources of objectness by name, and sources of one's own."""

from types import SimpleNamespace

import numpy as np
import pytest

from lapsvm import catalog
from lapsvm.errors import InputError, NotFiniteError, OptionError, SettingsError, ShapeError
from lapsvm.objectness import open_described, open_objectness, picture_objectness
from lapsvm.testing.objectness import ObjectnessLaws

PICTURE = np.zeros((20, 30, 3), np.uint8)


class Centre:
    """One region, the middle third of the picture's sides, without a map."""

    def describe(self):
        return {"kind": "centre", "share": 1 / 3}

    def regions(self, pixels):
        height, width = pixels.shape[:2]
        return np.array([[width / 3, height / 3, width * 2 / 3, height * 2 / 3]])


class Returns:
    """A source that returns what it is given."""

    def __init__(self, found):
        self.found = found

    def describe(self):
        return {}

    def regions(self, pixels):
        return self.found


@pytest.fixture
def registered(monkeypatch):
    """Have entry points of the group be those that a test names."""

    def register(**makers):
        points = [SimpleNamespace(name=name, load=lambda make=make: make) for name, make in makers.items()]
        monkeypatch.setattr(catalog, "entry_points", lambda group: points if group == "lapsvm.objectness" else [])

    return register


class TestSourceOfOnesOwn(ObjectnessLaws):
    def make(self):
        return Centre()


def test_none_is_no_source():
    assert open_objectness("none") is None


def test_a_source_of_ones_own_is_found(registered):
    registered(centre=Centre)
    source = open_objectness("centre", device="cpu")
    assert isinstance(source, Centre)
    assert picture_objectness(source, PICTURE, [[10, 20 / 3, 20, 40 / 3], [0, 0, 5, 5]]).tolist() == [1, 0]


def test_names_that_are_known_come_first(registered):
    registered(none=Centre, u2netp=Centre)
    assert open_objectness("none") is None


@pytest.mark.parametrize("text", ["u2net", "", "None", "centr", "normals", ":none", "onnx-2:a"])
def test_an_unknown_name_is_refused_with_those_that_are_known(registered, text):
    registered(centre=Centre, other=Centre)
    with pytest.raises(
        OptionError,
        match=r"^objectness '.*' is not known; choose from none, u2netp, onnx, auto, normal, centre, other\.$",
    ):
        open_objectness(text)


def test_what_must_be_fitted_cannot_be_opened():
    with pytest.raises(OptionError, match=r"objectness 'normal' must be fitted, by a run or by lapsvm\.objectness"):
        open_objectness("normal")


@pytest.mark.parametrize("text", ["auto", "auto?size=3"])
def test_auto_is_resolved_by_runs(text):
    with pytest.raises(OptionError, match=r"objectness 'auto' must be resolved by a run; name a source, or none\."):
        open_objectness(text)


@pytest.mark.parametrize("text", [None, 3, b"none", ["none"]])
def test_what_is_no_text_is_refused(text):
    with pytest.raises(InputError, match="objectness must be named by a text, got"):
        open_objectness(text)


def test_an_unknown_device_is_refused():
    with pytest.raises(OptionError, match="device must be one of auto, cpu, cuda, got 'tpu'"):
        open_objectness("none", device="tpu")


@pytest.mark.parametrize("text", ["centre?size=3", "centre:file", "none?size=3", "none:file", "centre:"])
def test_a_name_alone_takes_no_options(registered, text):
    registered(centre=Centre)
    with pytest.raises(OptionError, match=f"^objectness '{text[:4]}.*': {text[:4]}.* takes no file and no options"):
        open_objectness(text)


def test_a_maker_that_needs_arguments_is_refused(registered):
    registered(mine=lambda size: Centre())
    with pytest.raises(OptionError, match="objectness 'mine': mine must be made without arguments: missing a required"):
        open_objectness("mine")


@pytest.mark.parametrize("made", [None, 3, SimpleNamespace(regions=len), SimpleNamespace(describe=len)])
def test_what_is_no_source_is_refused(registered, made):
    registered(mine=lambda: made)
    with pytest.raises(InputError, match="objectness 'mine' must have methods describe and regions, got"):
        open_objectness("mine")


@pytest.mark.parametrize(
    ("found", "error"),
    [
        ([[0, 0, 5]], ShapeError),
        ([[0, 0, np.nan, 5]], NotFiniteError),
        (None, InputError),
        ("text", InputError),
    ],
)
def test_regions_of_a_source_are_checked(found, error):
    with pytest.raises(error, match="regions must"):
        picture_objectness(Returns(found), PICTURE, [[0, 0, 5, 5]])


def test_a_source_may_find_nothing():
    assert picture_objectness(Returns([]), PICTURE, [[0, 0, 5, 5]]).tolist() == [0]
    assert picture_objectness(Returns([[0, 0, 5, 5]]), PICTURE, []).shape == (0,)


BROKEN = {
    "test_it_is_a_source": [SimpleNamespace(regions=len)],
    "test_its_description_is_plain_json_without_paths_and_does_not_change": [
        {"description": {"file": "/home/me/net.onnx"}},
        {"description": {"files": [{"C:\\net.onnx": 1}]}},
        {"description": {"size": (3, 3)}},
        {"description": {"size": np.float32(3)}},
    ],
    "test_regions_are_boxes_inside_the_picture": [
        {"boxes": [[0, 0, 9999, 1]]},
        {"boxes": [[-1, 0, 1, 1]]},
        {"boxes": [[0, 0, np.nan, 1]]},
        {"boxes": [[0, 0, 0, 1]]},
    ],
    "test_a_map_covers_the_picture_with_numbers_from_0_to_1": [
        {"cells": np.zeros((3, 3))},
        {"cells": np.full((3, 3), np.nan, np.float32)},
        {"cells": np.full((3, 3), 1.5, np.float32)},
        {"cells": np.zeros((1, 3, 3), np.float32)},
        {"cells": np.zeros((0, 3), np.float32)},
    ],
}


class Broken:
    """A source with one fault."""

    def __init__(self, description=None, boxes=(), cells=None):
        self.description, self.boxes, self.cells = description or {}, boxes, cells

    def describe(self):
        return self.description

    def regions(self, pixels):
        return np.array(self.boxes, dtype=np.float64).reshape(-1, 4)

    def map(self, pixels):
        return self.cells


@pytest.mark.parametrize(("law", "fault"), [(law, fault) for law, faults in BROKEN.items() for fault in faults])
def test_the_laws_find_faults(law, fault):
    laws = ObjectnessLaws()
    laws.make = lambda: Broken(**fault) if isinstance(fault, dict) else fault
    with pytest.raises((AssertionError, TypeError)):
        getattr(laws, law)()


def drifting():
    """A source whose regions change from call to call."""
    rng = np.random.default_rng(0)
    source = Centre()
    source.regions = lambda pixels: rng.random((1, 2)).repeat(2, axis=0).reshape(1, 4) / 9 + [[0, 0, 0.5, 0.5]]
    return source


def painting():
    """A source that changes the picture."""
    source = Centre()

    def regions(pixels):
        pixels[0, 0] = 1
        return np.empty((0, 4))

    source.regions = regions
    return source


@pytest.mark.parametrize("make", [drifting, painting])
def test_the_laws_find_sources_that_drift_or_paint(make):
    laws, source = ObjectnessLaws(), make()
    laws.make = lambda: source
    with pytest.raises((AssertionError, ValueError)):
        laws.test_a_picture_has_the_same_regions_each_time_and_is_not_changed()


# the source of a description


def test_a_description_and_a_text_open_the_same_source(path):
    text = f"onnx:{path}?size=32"
    described = open_objectness(text).describe()
    assert open_described(described, text).describe() == described
    other = described | {"runtime": {"name": "onnxruntime", "version": "0.1"}}
    assert open_described(other, text).describe() == described


def test_a_source_of_ones_own_is_opened_by_its_text(registered):
    registered(centre=Centre)
    assert isinstance(open_described(Centre().describe(), "centre"), Centre)


def test_a_description_alone_names_u2netp_only(path):
    with pytest.raises(SettingsError, match=r"^only u2netp is known by its description; name the source"):
        open_described(open_objectness(f"onnx:{path}").describe())


@pytest.mark.parametrize("text", ["none", "centre"])
def test_a_text_of_another_source_is_refused(path, registered, text):
    registered(centre=Centre)
    with pytest.raises(SettingsError, match=rf"^objectness '{text}' must be the source that is described"):
        open_described(open_objectness(f"onnx:{path}").describe(), text)


def test_what_differs_is_named(path):
    described = open_objectness(f"onnx:{path}?size=32").describe()
    with pytest.raises(SettingsError, match=r"size \[32, 32\] instead of \[64, 64\]\.$"):
        open_described(described, f"onnx:{path}?size=64")


@pytest.mark.parametrize("text", ["u2netp", "u2netp?size=64"])
def test_u2netp_is_known_by_its_description(u2netp, text):
    described = open_objectness(text).describe()
    assert open_described(described).describe() == described
    assert open_described(described, "another").describe() == described


def test_the_network_of_u2netp_with_other_settings_needs_its_text(u2netp):
    described = u2netp.describe() | {"stretch": False}
    with pytest.raises(SettingsError, match="only u2netp is known"):
        open_described(described)


@pytest.mark.parametrize("size", ["320", [], [31, 31], [64, 96], [None], ["64&x=1"]])
def test_sizes_that_u2netp_cannot_have_are_refused(u2netp, size):
    described = u2netp.describe() | {"size": size}
    with pytest.raises((SettingsError, OptionError), match="size"):
        open_described(described)
