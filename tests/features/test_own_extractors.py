"""Extractors of other packages, found by their entry points, and the laws that they must keep."""

from types import SimpleNamespace

import numpy as np
import pytest

from lapsvm import catalog
from lapsvm.catalog import check_pixels
from lapsvm.errors import InputError, OptionError
from lapsvm.features import HOG, Block, Concatenation, PooledNetwork, Projected, Projection, open_extractor
from lapsvm.features.extractors.picture import clip_boxes
from lapsvm.testing.extractors import ExtractorLaws


class Sides:
    """The sides of each window, in pixels, times a factor."""

    def __init__(self, factor="1"):
        self.factor, self.dim, self.blocks = float(factor), 2, (Block(2),)

    def describe(self):
        return {"kind": "sides", "factor": self.factor}

    def __call__(self, pixels, boxes):
        check_pixels(pixels)
        windows = clip_boxes(boxes, *pixels.shape[:2])
        return ((windows[:, 2:] - windows[:, :2]) * self.factor).astype(np.float32)


class TwoMaps:
    """A network with two maps of made-up channels."""

    runtime, fixed_size = {"name": "made up", "version": "1"}, None

    def run(self, batch):
        wide = np.concatenate([batch, np.sin(3 * batch), np.abs(batch) * 2], axis=1)
        return {"fine": wide[:, :7, ::4, ::4], "coarse": wide[:, :, ::8, ::8] + np.float32(0.3)}


def network(**options):
    return PooledNetwork(TwoMaps(), "hash", output=("fine", "coarse"), size=96, **options)


class TestSides(ExtractorLaws):
    def make(self):
        return Sides("3")


class TestHOG(ExtractorLaws):
    def make(self):
        return HOG()


class TestPooledNetwork(ExtractorLaws):
    def make(self):
        return network(contrast=0.5)


class TestConcatenation(ExtractorLaws):
    def make(self):
        return Concatenation([HOG(16), network(context="appended"), Sides()])


class TestProjected(ExtractorLaws):
    def make(self):
        components = tuple(np.eye(size, 3, dtype=np.float32) for size in (7, 9))
        return Projected(network(context="appended"), Projection(components, (1.0, 1.0), (True, True)))


@pytest.fixture
def registered(monkeypatch):
    """Have entry points of the group be those that a test names."""

    def register(**makers):
        points = [SimpleNamespace(name=name, load=lambda make=make: make) for name, make in makers.items()]
        monkeypatch.setattr(catalog, "entry_points", lambda group: points if group == "lapsvm.extractors" else [])

    return register


def test_an_extractor_is_found_by_its_name(registered):
    registered(sides=Sides)
    assert open_extractor("sides").factor == 1
    assert open_extractor("sides?factor=2.5").factor == 2.5
    both = open_extractor(["hog?size=16", "sides"])
    assert both.blocks == (Block(36), Block(2))


def test_names_that_are_known_come_first(registered):
    registered(hog=Sides)
    assert isinstance(open_extractor("hog"), HOG)


def test_an_unknown_name_is_refused_with_those_that_are_known(registered):
    registered(sides=Sides)
    with pytest.raises(OptionError, match=r"^extractor 'size' is not known; .*hog.*sides"):
        open_extractor("size")


def example():
    return Sides("2")


def needy(size):
    return Sides(size)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("sides?size=3", "got an unexpected keyword argument 'size'; its options are factor"),
        ("sides:file", "sides takes no file, got 'file'"),
        ("needy", "missing a required argument: 'size'; its options are size"),
        ("bare?a=b", "got an unexpected keyword argument 'a'; its options are none"),
    ],
)
def test_options_that_do_not_fit_are_refused(registered, text, why):
    registered(sides=Sides, needy=needy, bare=example)
    with pytest.raises(OptionError) as refused:
        open_extractor(text)
    assert str(refused.value) == f"extractor {text!r}: {why}."


def changed(**attributes):
    """Return an extractor with other attributes."""
    made = Sides()
    for name, value in attributes.items():
        setattr(made, name, value)
    return made


@pytest.mark.parametrize(
    ("made", "rule"),
    [
        (None, r"extractor 'mine' must have dim, blocks, describe\(\) and a call with pixels and boxes, got NoneType"),
        (SimpleNamespace(dim=2, blocks=(Block(2),)), "extractor 'mine' must have dim, blocks"),
        (changed(blocks=(2,)), r"blocks of extractor 'mine' must be one or more lapsvm\.features\.Block, got \(2,\)"),
        (changed(blocks=()), r"must be one or more lapsvm\.features\.Block, got \(\)"),
        (changed(blocks=None), r"must be one or more lapsvm\.features\.Block, got None"),
        (changed(blocks=(Block(3),)), "must have sizes of at least 1 that sum to its dim 2, got"),
        (changed(blocks=(Block(2), Block(0))), "must have sizes of at least 1 that sum to its dim 2, got"),
        (changed(dim=3, blocks=(Block(3, has_context=True),)), "must have an even size where they have context, got"),
    ],
)
def test_what_is_no_extractor_is_refused(registered, made, rule):
    registered(mine=lambda: made)
    with pytest.raises(InputError, match=rule):
        open_extractor("mine")


# every law finds its faults


def recalled(change):
    """Return an extractor whose features pass through `change(features, pixels, boxes)`."""
    made = Sides()

    class Changed(Sides):
        def __call__(self, pixels, boxes):
            return change(made(pixels, boxes), pixels, boxes)

    return Changed()


class Lenient(Sides):
    """An extractor that checks nothing."""

    def __call__(self, pixels, boxes):
        return np.zeros((len(boxes), 2), np.float32)


def painting(features, pixels, boxes):
    pixels[0, 0] = 1
    return features


def preparing(prepare):
    """Return an extractor that prepares pictures in its own way."""
    return changed(prepare=prepare)


class Prepared:
    """A picture whose features are shifted, or whose products are doubled."""

    nbytes = 0

    def __init__(self, pixels, shift=0.0, factor=1.0, nbytes=0):
        self.pixels, self.shift, self.factor, self.nbytes = pixels, shift, factor, nbytes

    def __call__(self, boxes):
        return Sides()(self.pixels, boxes) + np.float32(self.shift)

    def project(self, boxes, components):
        return self.factor * Sides()(self.pixels, boxes) @ components[0]


CALLS = iter(range(1, 10**6))
BROKEN = {
    "test_it_is_an_extractor": [SimpleNamespace(dim=2, blocks=(Block(2),), describe=dict)],
    "test_its_blocks_have_all_of_its_features": [changed(blocks=(2,)), changed(blocks=(Block(1),))],
    "test_its_description_is_plain_json_without_paths_and_does_not_change": [
        changed(describe=lambda: {"file": "/home/me/net.onnx"}),
        changed(describe=lambda: {"size": (3, 3)}),
        changed(describe=lambda: {"call": next(CALLS)}),
    ],
    "test_files_can_record_its_description_and_its_blocks": [
        changed(describe=lambda: {"blocks": 7}),
        changed(blocks=[(2, False)]),
    ],
    "test_features_are_finite_float32_one_row_a_window": [
        recalled(lambda features, *_: features.astype(np.float64)),
        recalled(lambda features, *_: features[:, :1]),
        recalled(lambda features, *_: features[1:]),
        recalled(lambda features, *_: features / np.float32(0)),
    ],
    "test_a_window_without_area_in_the_picture_has_zeros": [recalled(lambda features, *_: features + 1)],
    "test_a_window_has_the_same_bits_in_any_order_and_company": [
        recalled(lambda features, *_: features - features.mean(axis=0)),
        recalled(lambda features, *_: features[np.lexsort(features.T)]),
    ],
    "test_a_picture_has_the_same_features_each_time_and_is_not_changed": [
        recalled(lambda features, *_: features + np.float32(next(CALLS))),
        recalled(painting),
    ],
    "test_a_view_of_a_picture_has_the_features_of_its_copy": [
        recalled(lambda features, pixels, _: features + np.float32(pixels.strides[0])),
    ],
    "test_several_threads_get_what_one_gets": [recalled(lambda features, *_: features + np.float32(next(CALLS)))],
    "test_a_prepared_picture_gives_the_same_features_and_their_products": [
        preparing(lambda pixels: Prepared(pixels, shift=1.0)),
        preparing(lambda pixels: Prepared(pixels, factor=2.0)),
        preparing(lambda pixels: Prepared(pixels, nbytes=-1)),
    ],
    "test_what_is_no_picture_or_no_box_is_refused": [Lenient()],
}


def test_every_law_has_a_fault_that_it_finds():
    assert BROKEN.keys() == {name for name in dir(ExtractorLaws) if name.startswith("test_")}


@pytest.mark.filterwarnings("ignore:divide by zero", "ignore:invalid value", "ignore:Mean of empty slice")
@pytest.mark.parametrize(("law", "fault"), [(law, fault) for law, faults in BROKEN.items() for fault in faults])
def test_the_laws_find_faults(law, fault):
    laws = ExtractorLaws()
    laws.make = lambda: fault
    with pytest.raises((AssertionError, InputError, ValueError, AttributeError)):
        getattr(laws, law)()


def test_a_good_prepared_picture_passes():
    laws = ExtractorLaws()
    laws.make = lambda: preparing(Prepared)
    laws.test_a_prepared_picture_gives_the_same_features_and_their_products()
