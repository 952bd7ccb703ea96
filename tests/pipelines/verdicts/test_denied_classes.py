"""Verdicts that leave a class without positive pictures, or with too few: it is left out by name, others go on."""

import json

import numpy as np
import pytest
from lapsvm.pipelines.context import RunContext
from lapsvm.pipelines.settings.settings import TrainSettings
from lapsvm.pipelines.verdicts.counting import denial

from lapsvm.detection import Predictor


def deny(run, name, leave=0):
    """Return a file of verdicts by which all positive pictures of a class but some do not show it."""
    context = RunContext.opened(run, "test", quiet=True)
    shown = [one.id for one in context.data.records["trainval"] if one.labels[name] == 1]
    path = run.parent / "verdicts.jsonl"
    said = ({"picture": picture, "class": name, "verdict": "absent"} for picture in shown[leave:])
    path.write_text("".join(json.dumps(one) + "\n" for one in said))
    return path


def data_of(digits, fast):
    return ["--data", "voc", "--root", digits, *fast]


def test_the_other_classes_of_a_finished_run_go_on(run_copy, command, refused, made):
    before = made(run_copy, "models/three*", "heldout/three*")
    path = deny(run_copy, "six", leave=1)  # of the two that two folds need
    assert command("review", "--out", run_copy, "--merge", path).status == 0
    assert command("evaluate", "--out", run_copy, "--quiet").status == 0  # nothing is trained yet: all is as it was
    result = command("run", "--out", run_copy)
    assert result.status == 0, result.err
    said = " ".join(result.err.split())
    assert "class six is left out: it has 1 positive and" in said
    assert "after its verdicts, and training needs 2 of both" in said
    assert made(run_copy, "models/three*", "heldout/three*") == before
    assert not list(run_copy.rglob("*six*"))
    assert [one.class_name for one in Predictor.open(run_copy).detectors] == ["three"]
    export = ["export", "--to", run_copy.parent / "X", "--format", "coco"]
    for verb, *more in (["evaluate"], ["report"], ["run"], ["verify"], export):
        assert command(verb, "--out", run_copy, *more).status == 0
    assert list(json.loads((run_copy / "evaluation.json").read_text())["sets"]["test"]["classes"]) == ["three"]
    told = json.loads(command("run", "--out", run_copy, "--quiet", "--json").out)["figures"]
    assert told["skipped"]["six"].startswith("has 1 positive and")
    page = ["--page", run_copy.parent / "page.html"]
    assert "class of the run (three)" in refused("review", "--out", run_copy, "--class", "six", *page)


def test_a_class_comes_back_with_its_pictures(run_copy, finished, command, made):
    path = deny(run_copy, "six")
    for verdict in ("absent", "none"):
        path.write_text(path.read_text().replace("absent", verdict))
        assert command("review", "--out", run_copy, "--merge", path).status == 0
        assert command("run", "--out", run_copy, "--quiet").status == 0
        assert (run_copy / "models" / "six.safetensors").exists() == (verdict == "none")
    assert made(run_copy, "detections/*/*.txt") == made(finished, "detections/*/*.txt")


def test_a_new_run_with_such_verdicts_learns_the_other_class(finished, run_copy, digits, fast, tmp_path, command, made):
    path, out = deny(run_copy, "six"), tmp_path / "NEW"
    result = command("run", *data_of(digits, fast), "--out", out, "--shards-from", finished, "--verdicts", path)
    assert result.status == 0, result.err
    assert "class six is left out" in result.err
    assert list(made(out, "models/*")) == ["models/three.safetensors"]


def test_refinement_goes_on_without_the_class(finished, run_copy, digits, tmp_path, command, made):
    out = tmp_path / "NEW"
    data = ["--data", "voc", "--root", digits, "--shards-from", finished, "--classes", "six,three", "--windows", "grid"]
    data += ["--max-windows", "60", "--extractor", "hog", "--C", "10", "--refine", "1", "--out", out, "--quiet"]
    assert command("run", *data).status == 0
    path = deny(run_copy, "three")
    assert command("run", "--out", out, "--verdicts", path).status == 0
    assert list(made(out, "models/*", "first/*")) == ["models/six.safetensors", "first/six.safetensors"]


def test_no_class_is_left(run_copy, command, refused):
    for name in ("six", "three"):
        assert command("review", "--out", run_copy, "--merge", deny(run_copy, name)).status == 0
    said = refused("run", "--out", run_copy, "--quiet")
    assert "no class can be learned: six has no positive and" in said
    assert "three has no positive and" in said
    assert (run_copy / "models" / "six.safetensors").exists()


@pytest.mark.parametrize(
    ("C", "labels", "expected"),
    [
        ((1.0,), [1, -1, 0], ""),
        ((1.0,), [-1, -1], "has no positive and 2 negative pictures after its verdicts, and training needs 1 of both"),
        ((1.0,), [1, 0], "has 1 positive and no negative pictures after its verdicts, and training needs 1 of both"),
        ((1.0, 2.0), [1, 1, -1, -1], ""),
        (
            (1.0, 2.0),
            [1, -1, -1],
            "has 1 positive and 2 negative pictures after its verdicts, and training needs 2 of both",
        ),
    ],
)
def test_what_training_needs(C, labels, expected):
    assert denial(TrainSettings(C=C, folds=2), np.array(labels, dtype=np.int8)) == expected
