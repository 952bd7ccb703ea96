"""False alarms wanted and got: the interval holds for exchangeable pictures, and a run's pictures are scored."""

import json
import shutil
from dataclasses import replace

import false_alarms
import numpy as np
import pytest
from lapsvm.pipelines.products.held_out import HeldOut

from lapsvm.catalog import open_dataset
from lapsvm.detection import Predictor
from lapsvm.errors import MissingError
from lapsvm.inspection import whole_pictures
from lapsvm.inspection.threshold import choose_threshold


def rows(known, new):
    """Return the cells of each row of the table, by what was wanted."""
    return {first: rest for first, *rest in false_alarms.rows(known, new)}


def test_the_interval_holds_for_new_pictures_like_the_held_out_ones():
    within = []
    for seed in range(400):
        rng = np.random.default_rng(seed)
        found = rows(rng.random(60), rng.random(200))
        within += [found[share][-1] == "yes" for share in ("5%", "10%", "20%")]
    assert 0.94 <= np.mean(within) <= 0.995


def test_pictures_unlike_the_held_out_ones_lie_beyond_it():
    rng = np.random.default_rng(0)
    assert rows(rng.random(60), 0.5 + rng.random(200))["5%"][-1] == "no"


def test_too_few_pictures_promise_nothing():
    found = rows(np.linspace(0, 1, 30), np.linspace(0, 1, 30))
    assert found["2%"][0] == "too few pictures"
    assert found["5%"][0] == 0


@pytest.fixture
def chosen(inspected, command, monkeypatch, tmp_path):
    """A finished run with a threshold, whose whole pictures count, for its best windows tell little."""
    monkeypatch.setattr(whole_pictures, "LEAST", 3)
    run, random = shutil.copytree(inspected, tmp_path / "RUN"), np.random.default_rng(1)
    for path in (run / "heldout").iterdir():
        held_out = HeldOut.load(path)
        replace(held_out, score=random.normal(0, 0.2, len(held_out.ids)) + 0.15 * held_out.y).save(path)
    assert command("threshold", "--out", run, "--max-false-alarms", "0.2").status == 0
    assert json.loads((run / "models/threshold.json").read_text())["pictures"]
    return run


def test_a_run_judges_new_pictures(chosen, inspected, product):
    files = sorted(product.glob("test/*/000.png"))
    found = false_alarms.new_probabilities(chosen, files)
    predictor = Predictor.open(chosen)
    assert found.tolist() == [predictor.decision(path).probability for path in files]
    assert ((found > 0) & (found < 1)).all()
    with pytest.raises(MissingError, match="has no threshold of its present models"):
        false_alarms.new_probabilities(inspected, files)


def test_held_out_pictures_are_those_of_the_threshold(chosen):
    stored = json.loads((chosen / "models/threshold.json").read_text())
    known = false_alarms.held_out(chosen)
    assert (int((known >= stored["probability"]).sum()), len(known)) == tuple(
        stored["held_out"]["ok"][key] for key in ("alarms", "of")
    )
    assert choose_threshold(known, 0.2) == stored["probability"]


def test_held_out_pictures_of_a_run_show_no_class(finished, digits):
    classes = [path.stem for path in (finished / "models").iterdir()]
    records = open_dataset("voc", digits, classes=classes).records("trainval")
    ok = [one for one in records if all(label == -1 for label in one.labels.values())]
    assert len(false_alarms.held_out(finished)) == len(ok)


def test_the_command_prints_a_table(chosen, product, capsys):
    with pytest.raises(SystemExit) as end:
        false_alarms.main([chosen, product / "test/good/003.png"])
    assert not end.value.code
    assert "| 20% | " in capsys.readouterr().out
