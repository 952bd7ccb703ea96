"""The extractor that the guide writes trains, with and without a projection, and predicts."""

import json
import re
from pathlib import Path

import pytest

from lapsvm.detection import Detector
from lapsvm.features import Block, open_shards, recorded_blocks
from lapsvm.testing.extractors import ExtractorLaws

GUIDE = Path(__file__).parents[3] / "docs" / "howto" / "extending" / "extend.md"


def example():
    """Return the class of the guide."""
    (text,) = re.findall(r"^```python\n(.*?class MeanColour:.*?)^```", GUIDE.read_text("utf-8"), re.M | re.S)
    names = {}
    exec(compile(text, str(GUIDE), "exec"), names)  # noqa: S102 - our own text
    return names["MeanColour"]


class TestMeanColour(ExtractorLaws):
    def make(self):
        return example()()


@pytest.mark.parametrize(("options", "dim"), [((), 3), (("--pca", "2"), 2)])
def test_it_runs_end_to_end(digits, fast_network, command, tmp_path, entry_point, options, dim):
    entry_point("lapsvm.extractors", "mean_colour", example)
    out, line = tmp_path / "RUN", ["--data", "voc", "--root", digits, *fast_network, "--quiet"]
    done = command("run", *line, "--extractor", "mean_colour", "--out", out, *options)
    assert (done.status, done.err) == (0, "")
    recorded = open_shards(out / "shards" / "trainval").provenance["features"]["extractor"]
    assert recorded_blocks(recorded) == (Block(dim),)
    assert recorded.get("of", recorded)["kind"] == "mean_colour"
    assert len(Detector.load(out / "models" / "six.safetensors").coef) == dim
    entries = json.loads((out / "evaluation.json").read_text())["sets"]["test"]["mean"]
    assert 0 <= entries["image_ap"] <= 1
    picture = next((digits / "JPEGImages").iterdir())
    predicted = command("predict", "--model", out / "models", picture)
    assert predicted.status == 0
    assert json.loads(predicted.out)
