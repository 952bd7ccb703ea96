"""The text of an extractor is read strictly."""

import numpy as np
import pytest

from lapsvm.errors import InputError, OptionError
from lapsvm.features import Block, open_extractor
from lapsvm.features.extractors.specs import (
    number,
    one_or_three_numbers,
    one_or_three_positive_numbers,
    parse_spec,
    whole_number,
)


@pytest.mark.parametrize(
    ("text", "kind", "file", "options"),
    [
        ("hog", "hog", None, {}),
        ("hog?size=32&bins=9", "hog", None, {"size": "32", "bins": "9"}),
        ("onnx:a/b.onnx", "onnx", "a/b.onnx", {}),
        ("onnx:C:\\net.onnx?output=x=y", "onnx", "C:\\net.onnx", {"output": "x=y"}),
        ("onnx:what?.onnx?size=64", "onnx", "what?.onnx", {"size": "64"}),
        ("onnx:", "onnx", "", {}),
    ],
)
def test_a_spec_comes_apart(text, kind, file, options):
    spec = parse_spec(text)
    assert (spec.kind, spec.file, spec.options, spec.text) == (kind, file, options, text)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("hog?", r"extractor 'hog\?': an option must read key=value, got ''"),
        ("hog?size", "got 'size'"),
        ("hog?size=", "got 'size='"),
        ("hog?=3", "got '=3'"),
        ("hog?size=8&&bins=3", "got ''"),
        ("hog?size=8&size=9", "option 'size' must stand once, got it twice"),
        ("", "extractor '' is not known; choose from hog, onnx, torch"),
        ("HOG", "extractor 'HOG' is not known"),
        ("sift", "extractor 'sift' is not known"),
        ("onnx", r"extractor 'onnx': a file must be named, as in onnx:network\.onnx"),
        ("onnx-cv2:net.onnx", "extractor 'onnx-cv2:net.onnx' is not known"),
    ],
)
def test_a_spec_that_breaks_a_rule_is_one_sentence(text, sentence):
    with pytest.raises(OptionError, match=sentence):
        open_extractor(text)


@pytest.mark.parametrize(("text", "value"), [("3", 3.0), ("-1e-2", -0.01), ("1/127.5", 1 / 127.5), ("-2/8", -0.25)])
def test_numbers(text, value):
    assert number(text) == pytest.approx(value, rel=1e-15)


REFUSED = {
    (number, "a finite number"): "|nan|inf|1/0|1/2/3|1/|/2|1/nan|a|1,2|1e400|1/inf",
    (one_or_three_positive_numbers, "one finite number greater than 0, or three with commas between them"):
        "0|-1|nan|x|1,2|1,0,2",
    (one_or_three_numbers, "one finite number, or three with commas"): "1,2|1,2,3,4|1,,3||a,b,c",
    (whole_number(1, 10), "a whole number from 1 to 10"): "0|11|-3|3.0|| 3|３|x",
}  # fmt: skip


@pytest.mark.parametrize(
    ("read", "rule", "text"), [(*pair, text) for pair, texts in REFUSED.items() for text in texts.split("|")]
)
def test_what_is_no_such_number_is_refused(read, rule, text):
    with pytest.raises(ValueError, match=rule):
        read(text)


def test_one_number_stands_for_three():
    assert one_or_three_numbers("127.5") == (127.5, 127.5, 127.5)
    assert one_or_three_numbers("104,117,123") == (104.0, 117.0, 123.0)


def test_no_spec_and_no_threads_are_refused():
    with pytest.raises(InputError, match="an extractor needs at least one spec, got none"):
        open_extractor([])
    for threads in (0, -1, 1.5, True):
        with pytest.raises(InputError, match="threads must be a whole number of 1 or more"):
            open_extractor("hog", threads=threads)


def test_several_specs_stand_side_by_side():
    pixels = np.random.default_rng(0).integers(0, 256, (40, 50, 3), dtype=np.uint8)
    boxes = [[0, 0, 50, 40], [3, 4, 20, 30]]
    both = open_extractor(["hog?size=16", "hog?size=24&cell=12"])
    assert both.blocks == (Block(36), Block(36))
    assert both.dim == 72
    np.testing.assert_array_equal(both(pixels, boxes)[:, :36], open_extractor("hog?size=16")(pixels, boxes))
    np.testing.assert_array_equal(both(pixels, boxes)[:, 36:], open_extractor("hog?size=24&cell=12")(pixels, boxes))
    assert both.describe()["parts"]["1"] == open_extractor("hog?size=24&cell=12").describe()
    assert both(pixels, []).shape == (0, 72)
    assert open_extractor(["hog"]).describe() == open_extractor("hog").describe()
