"""Tables of runs: an ablation with one change at a time, and repetitions of a run."""

import json
import shutil

import ablation as variants
import numpy as np
import pytest
from lapsvm.pipelines.run.folder import RunFolder
from lapsvm.pipelines.settings.checks import check_settings
from lapsvm.pipelines.settings.recipes import BEST
from lapsvm.pipelines.settings.settings import Settings
from repetitions import parse_row
from rows import Row, rows_markdown, rows_table

from lapsvm.errors import OptionError, StageError

from ..calls import status_of

MEASURES = {"ap_11point", "ap_area", "corloc", "pointing", "image_ap"}


@pytest.fixture(scope="module")
def ablation(finished, tmp_path_factory):
    out = tmp_path_factory.mktemp("ablation") / "DIR"
    table = variants.run(finished, out, ["unchanged", "top-1", "top-20", "no-demotion"], 2, 50, quiet=True)
    return out, table


def test_settings_that_the_run_has_already_are_left_out(ablation):
    _, table = ablation
    assert [row["name"] for row in table["rows"]] == ["unchanged", "top-20", "2 random starts"]


def test_an_unchanged_run_has_the_runs_own_figures_and_models(ablation, finished, made):
    out, table = ablation
    means = json.loads((finished / "evaluation.json").read_text())["sets"]
    figures = {name: figure["value"] for name, figure in table["rows"][0]["measures"].items()}
    assert figures.keys() == MEASURES
    assert figures["ap_area"] == pytest.approx(means["test"]["mean"]["ap_area"])
    assert figures["corloc"] == pytest.approx(means["trainval"]["mean"]["corloc"])
    assert made(out / "unchanged", "models/*", "detections/*/*.txt") == made(finished, "models/*", "detections/*/*.txt")
    assert RunFolder(out / "unchanged").timings()["train"] == RunFolder(finished).timings()["train"]


def test_a_row_of_several_runs_is_their_mean(ablation):
    _, table = ablation
    for figure in table["rows"][2]["measures"].values():
        assert len(figure["values"]) == 2
        assert figure["value"] == pytest.approx(np.mean(figure["values"]))
        assert figure["low"] <= figure["high"]
        assert figure["difference"]["difference"] == pytest.approx(
            figure["value"] - table["rows"][0]["measures"][_measure_of(table, figure)]["value"]
        )


def _measure_of(table, figure):
    return next(name for name, other in table["rows"][2]["measures"].items() if other is figure)


def test_the_files_say_what_is_printed(ablation):
    out, table = ablation
    assert json.loads((out / "variants.json").read_text()) == json.loads(json.dumps(table))
    text = (out / "variants.md").read_text()
    assert text == rows_markdown(table)
    assert "| top-20 " in text
    assert ", sd " in text


def test_a_second_call_keeps_finished_variants(ablation, finished, made):
    out, table = ablation
    before = made(out, "*/models/*", "*/timings.json")
    again = variants.run(finished, out, ["unchanged", "top-20"], 2, 50, quiet=True)
    assert made(out, "*/models/*") == {name: one for name, one in before.items() if "models" in name}
    assert [row["measures"] for row in again["rows"]] == [row["measures"] for row in table["rows"]]


def test_every_variant_keeps_the_rules_of_settings_in_the_best_recipe():
    best = Settings().with_values(BEST)
    for values in variants.VARIANTS.values():
        check_settings(best.with_values(values))


def test_a_run_without_refinement_has_no_variants_of_it():
    rows = variants.variant_rows(Settings(), list(variants.VARIANTS), 0)
    assert not any(key.startswith("refine.") for row in rows for key in row[0].values if row[0].name != "hinge")


def test_the_same_run_twice_does_not_differ_from_itself(finished, tmp_path):
    other = shutil.copytree(finished, tmp_path / "OTHER")
    table = rows_table([Row("first", [finished]), Row("second", [other])], 20)
    for figure in table["rows"][1]["measures"].values():
        assert figure["difference"]["difference"] == 0
        assert figure["difference"]["low"] == -figure["difference"]["high"]
        assert (figure["difference"]["high"] == 0) == (0 < figure["value"] < 1)


@pytest.mark.parametrize("text", ["", "name=", "=RUN", "RUN"])
def test_a_row_needs_a_name_and_a_run(text):
    with pytest.raises(OptionError, match="option --row must be NAME=RUN,RUN"):
        parse_row(text)


def test_an_unknown_variant_is_refused_in_one_line(finished, tmp_path, capsys):
    assert status_of(variants.main, "--run", finished, "--out", tmp_path / "D", "--variants", "none") == 2
    line = capsys.readouterr().err
    assert line.startswith("lapsvm: option --variants must name some of unchanged, ")
    assert line.endswith(", got 'none'.\n")


def test_refusals(finished, tmp_path):
    with pytest.raises(OptionError, match="option --out must be a folder for several runs"):
        variants.run(finished, finished, ["unchanged"], 0, 10, quiet=True)
    with pytest.raises(StageError, match=r"an ablation needs a run folder"):
        variants.run(tmp_path / "nothing", tmp_path / "D", ["unchanged"], 0, 10, quiet=True)
