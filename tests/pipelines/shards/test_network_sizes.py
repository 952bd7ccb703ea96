"""A network must not be asked to see more pixels than pictures are reduced to."""

import re

import numpy as np
import pytest
from lapsvm.pipelines.run.settings import Settings
from lapsvm.pipelines.shards.extractors import check_sizes
from PIL import Image

from lapsvm.errors import OptionError


def settings(*extractors, sizes=(), max_side=2048):
    return Settings().with_values(
        {"features.extractors": extractors, "features.sizes": sizes, "windows.max_side": max_side}
    )


def test_sizes_up_to_the_side_of_reduced_pictures_are_allowed():
    check_sizes(settings("onnx:net.onnx", sizes=(640, 2048)))
    check_sizes(settings("onnx:net.onnx", sizes=(3000,), max_side=3000))
    check_sizes(settings("onnx:net.onnx?size=640", sizes=(3000,)))
    check_sizes(settings("hog", sizes=(3000,)))
    check_sizes(settings("hog?size=48", max_side=47))


def test_larger_sizes_are_refused_with_the_option_that_helps():
    said = "option --sizes must be at most --max-side, to which pictures are reduced before the network sees them, got "
    for text in ("onnx:net.onnx", "efficientnet_lite0", "torch:alexnet?way=pooled"):
        with pytest.raises(OptionError, match=re.escape(f"{said}3000 and 2048; --max-side 3000 keeps their detail.")):
            check_sizes(settings("hog", text, sizes=(640, 3000)))
    with pytest.raises(OptionError, match=re.escape("size of extractor 'onnx:net.onnx?size=2100' must be at most")):
        check_sizes(settings("onnx:net.onnx?size=2100", sizes=(640,)))


def test_the_command_line_is_refused_before_a_picture_is_opened(tmp_path, refused):
    for name in ("a", "b"):
        (tmp_path / "data" / name).mkdir(parents=True)
        Image.fromarray(np.zeros((8, 8, 3), dtype=np.uint8)).save(tmp_path / "data" / name / "1.png")
    (tmp_path / "data" / "a" / "cut.png").write_bytes(b"")
    line = ["--data", "folder", "--root", tmp_path / "data", "--out", tmp_path / "RUN", "--extractor", "onnx:net.onnx"]
    assert "option --sizes must be at most --max-side" in refused("extract", *line, "--sizes", "640,3000")
    assert not (tmp_path / "RUN").exists()
