"""A run names pictures that show nothing before it computes features, and predicts nothing in them."""

import json

import numpy as np
import pytest
from PIL import Image

from lapsvm.catalog import Nothing

QUICK = ["--extractor", "hog", "--windows", "grid", "--max-windows", "5", "--recipe", "plain"]
QUICK += ["--C", "1", "--jobs", "1"]
NOISE = np.random.default_rng(0).integers(0, 256, (36, 48, 4), dtype=np.uint8)
HIDDEN = Image.fromarray(NOISE)
HIDDEN.putalpha(0)
KINDS = {
    "transparent": (HIDDEN, Nothing.TRANSPARENT),
    "plain": (Image.new("RGB", (48, 36), (9, 90, 200)), Nothing.PLAIN),
    "8 bits in 16": (Image.fromarray(NOISE[..., 0].astype(np.uint16)), Nothing.NARROW),
}


def fill(root, empty=None, count=4):
    """Write pictures of noise, a bright square in those of the class, and where `empty` is given two of it in each."""
    rng = np.random.default_rng(1)
    for name in ("disc", "background"):
        (root / name).mkdir(parents=True)
        for number in range(count):
            pixels = rng.integers(90, 140, (48, 64, 3)).astype(np.uint8)
            if name == "disc":
                pixels[10:30, 20:44] = (220, 40, 40)
            Image.fromarray(pixels).save(root / name / f"{number}.png")
        for number in range(2 if empty else 0):
            empty.save(root / name / f"empty{number}.png")
    return root


@pytest.mark.parametrize("kind", ["transparent", "plain", "8 bits in 16"])
def test_a_run_names_them_and_does_not_advise_to_delete_equal_ones(tmp_path, command, kind):
    root = fill(tmp_path / "data", KINDS[kind][0])
    done = command("run", "--data", "folder", "--root", root, "--out", tmp_path / "RUN", *QUICK)
    said = " ".join(done.err.split())
    assert done.status == 0
    reason = KINDS[kind][1].reason
    assert f"pictures: 4 of 12: {reason}: " in said
    assert "disc/empty0, disc/empty1" in said
    assert said.index(reason) < said.index("train:") if "train:" in said else True
    assert "same pixels" not in said
    assert "same pixels" not in " ".join(command("extract", "--out", tmp_path / "RUN").err.split())


@pytest.mark.parametrize("kind", ["transparent", "plain"])
def test_a_run_on_nothing_else_is_refused(tmp_path, refused, kind):
    root = fill(tmp_path / "data", KINDS[kind][0])
    for path in root.glob("*/?.png"):
        path.unlink()
    told = refused("run", "--data", "folder", "--root", root, "--out", tmp_path / "RUN", *QUICK)
    assert "no picture of the training set shows anything" in told
    assert KINDS[kind][1].reason in told


@pytest.mark.parametrize("kind", ["transparent"])
def test_what_shows_nothing_has_no_probability(tmp_path, command, kind):
    root = fill(tmp_path / "data")
    line = ["run", "--data", "folder", "--root", root, "--out", tmp_path / "RUN", *QUICK, "--folds", "2"]
    assert command(*line).status == 0
    KINDS[kind][0].save(tmp_path / "empty.png")
    done = command("predict", "--model", tmp_path / "RUN", tmp_path / "empty.png", root / "disc" / "0.png")
    empty, disc = json.loads(done.out)
    assert {one["probability"] for one in empty["detections"]} == {0.0}
    assert max(one["probability"] for one in disc["detections"]) > 0
    assert KINDS[kind][1].reason in " ".join(done.err.split())
