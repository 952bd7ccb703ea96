"""The pictures of a rehearsal: official ids and labels, real pictures as they are, mixtures for the others."""

import os
import runpy
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("psutil", reason="psutil comes with dask, which is not installed")

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def script():
    return runpy.run_path(str(ROOT / "benchmarks/pictures/voc_rehearsal.py"))


def test_a_mixture_is_drawn_by_its_number(script, tmp_path):
    for number in range(3):
        noise = np.random.default_rng(number).integers(0, 256, (60, 80, 3), dtype=np.uint8)
        Image.fromarray(noise).save(tmp_path / f"{number}.jpg")
    sources = sorted(tmp_path.glob("*.jpg"))
    one, again, other = (np.asarray(script["mixture"](number, sources, (50, 40))) for number in (1, 1, 2))
    assert one.shape == (40, 50, 3)
    np.testing.assert_array_equal(one, again)
    assert (one != other).any()


def test_the_data_set_is_in_voc_layout(script, tmp_path):
    data = os.environ.get("LAPSVM_TEST_DATA")
    if not data:
        pytest.skip("LAPSVM_TEST_DATA names no folder of real data")
    script["write_pictures"](Path(data), tmp_path, 0.002)
    ids = {name: (tmp_path / f"ImageSets/Main/{name}.txt").read_text().split() for name in ("trainval", "test")}
    assert [len(members) for members in ids.values()] == [10, 10]
    for one in [*ids["trainval"], *ids["test"]]:
        with Image.open(tmp_path / f"JPEGImages/{one}.jpg") as picture:
            assert f"<width>{picture.width}<" in (tmp_path / f"Annotations/{one}.xml").read_text()
    people = (tmp_path / "ImageSets/Main/person_test.txt").read_text().splitlines()
    assert [line.split()[0] for line in people] == ids["test"]
