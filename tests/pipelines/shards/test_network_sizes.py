"""A network must not be asked to see more pixels than pictures are reduced to."""

import re

import numpy as np
import pytest
from lapsvm.pipelines.settings.settings import Settings
from lapsvm.pipelines.stages import extract
from lapsvm.pipelines.stages.data_checks.sides import check_sizes
from PIL import Image

from lapsvm.errors import OptionError
from lapsvm.features import open_extractor


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
    said = "option --sizes must be at most windows.max_side, to which pictures are reduced before the network sees them"
    advice = "got 3000 and 2048; --set windows.max_side=3000 keeps their detail."
    for text in ("onnx:net.onnx", "efficientnet_lite0", "torch:a.b:c"):
        with pytest.raises(OptionError, match=re.escape(f"{said}, {advice}")):
            check_sizes(settings("hog", text, sizes=(640, 3000)))
    with pytest.raises(OptionError, match=re.escape("size of extractor 'onnx:net.onnx?size=2100' must be at most")):
        check_sizes(settings("onnx:net.onnx?size=2100", sizes=(640,)))


@pytest.mark.parametrize("size", ["x", "9" * 5000])
def test_a_size_that_is_none_is_refused_by_its_own_rule(size):
    check_sizes(settings(f"onnx:net.onnx?size={size}", sizes=(3000,)))
    with pytest.raises(OptionError, match="size must be a whole number from 4 to 512"):
        open_extractor(f"hog?size={size}")


def test_shards_of_an_older_run_are_not_asked_for_their_sizes(run_copy, command, monkeypatch):
    def refuse(*_):
        raise OptionError("too large")

    monkeypatch.setattr(extract, "check_sizes", refuse)
    assert command("extract", "--out", run_copy, "--quiet").status == 0
    assert "too large" in command("extract", "--out", run_copy, "--quiet", "--redo").err


def test_the_command_line_is_refused_before_a_picture_is_opened(tmp_path, refused):
    for name in ("a", "b"):
        (tmp_path / "data" / name).mkdir(parents=True)
        Image.fromarray(np.zeros((8, 8, 3), dtype=np.uint8)).save(tmp_path / "data" / name / "1.png")
    (tmp_path / "data" / "a" / "cut.png").write_bytes(b"")
    line = ["--data", "folder", "--root", tmp_path / "data", "--out", tmp_path / "RUN", "--extractor", "onnx:net.onnx"]
    assert "option --sizes must be at most windows.max_side" in refused("extract", *line, "--sizes", "640,3000")
    assert not (tmp_path / "RUN").exists()
