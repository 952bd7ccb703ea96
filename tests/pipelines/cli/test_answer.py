"""`--json`: one object on standard output of every verb, paths that are there, and a next command that is one."""

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from lapsvm.datasets.digits import open_digits
from lapsvm.pipelines.cli.answer import Outcome
from lapsvm.pipelines.commands.verbs import app
from lapsvm.pipelines.settings.options import options_of

from lapsvm.features import open_shards

VERBS = sorted(app.commands)
FINISHED = {
    "run": ["run", "--out", "{run}"],
    "extract": ["extract", "--out", "{run}"],
    "train": ["train", "--out", "{run}"],
    "tune": ["tune", "--out", "{run}", "--C", "1,10", "--folds", "2", "--redo"],
    "refine": ["refine", "--out", "{run}", "--refine", "1"],
    "detect": ["detect", "--out", "{run}"],
    "evaluate": ["evaluate", "--out", "{run}"],
    "report": ["report", "--out", "{run}", "--card"],
    "verify": ["verify", "--out", "{run}"],
    "threshold": ["threshold", "--out", "{run}", "--max-false-alarms", "0.3"],
    "export": ["export", "--out", "{run}", "--to", "{tmp}/boxes", "--format", "coco"],
    "compare": ["compare", "--out", "{tmp}/compared", "{run}", "{finished}", "--draws", "20"],
    "predict": ["predict", "--model", "{run}", "{picture}", "--draw", "{tmp}/drawn"],
    "review": ["review", "--out", "{run}", "--page", "{tmp}/page.html"],
}
"""Verb -> a command line on a finished run."""
MADE = {
    "run": {"run", "settings", "shards", "models", "history", "detections", "evaluation", "page"},
    "extract": {"run", "settings", "shards"},
    "train": {"run", "models", "history"},
    "tune": {"run", "models", "history", "tuning"},
    "refine": {"run", "models", "history"},
    "detect": {"run", "detections"},
    "evaluate": {"run", "evaluation"},
    "report": {"run", "page", "card"},
    "verify": set(),
    "threshold": {"threshold"},
    "export": {"annotations"},
    "compare": {"comparison"},
    "predict": {"drawings"},
    "review": {"page"},
}


def answer_of(result):
    """Return the object that a command printed, after the checks that every answer passes."""
    assert result.status == 0, result
    answer = json.loads(result.out)
    assert set(answer) == {"verb", "made", "figures", "next"}
    assert all(Path(path).is_absolute() and Path(path).exists() for path in answer["made"].values()), answer["made"]
    if answer["next"]:
        program, verb, *_ = shlex.split(answer["next"])
        assert program == "lapsvm"
        assert verb in VERBS
    return answer


def test_every_verb_takes_it_and_is_run_here():
    assert [verb for verb in VERBS if "--json" not in {option.flag for option in options_of(verb)}] == []
    assert {*FINISHED, "demo", "import"} == set(VERBS)


@pytest.mark.parametrize("verb", FINISHED)
def test_a_verb_answers_with_what_it_made_and_where(verb, run_copy, finished, digits, tmp_path, command):
    picture = next((digits / "JPEGImages").iterdir())
    places = {"run": run_copy, "finished": finished, "tmp": tmp_path, "picture": picture}
    answer = answer_of(command(*(word.format(**places) for word in FINISHED[verb]), "--json"))
    assert answer["verb"] == verb
    assert set(answer["made"]) == MADE[verb]
    assert answer["figures"]


@pytest.mark.parametrize("verb", ["report", "review"])
def test_the_next_command_runs_in_any_folder(verb, run_copy, command, tmp_path, monkeypatch):
    monkeypatch.chdir(run_copy.parent)
    places = {"run": run_copy.name, "tmp": tmp_path}
    answer = answer_of(command(*(word.format(**places) for word in FINISHED[verb]), "--json"))
    words = shlex.split(answer["next"])
    assert words[words.index("--out") + 1] == str(run_copy)


def test_an_import_answers(finished, digits, tmp_path, command):
    (tmp_path / "windows").mkdir()
    for shard in (one for name in ("trainval", "test") for one in open_shards(finished / "shards" / name).image_ids):
        arrays = {"boxes": np.array([[0, 0, 20, 20], [5, 5, 40, 40]]), "features": np.ones((2, 4), np.float32)}
        np.savez(tmp_path / "windows" / shard, **arrays)
    line = ["import", tmp_path / "windows", "--data", "voc", "--root", digits, "--classes", "six,three"]
    answer = answer_of(command(*line, "--out", tmp_path / "RUN", "--json"))
    assert answer["figures"]["features"]["test"] == {"pictures": 20, "windows": 40}
    assert answer["next"] == f"lapsvm train --out {tmp_path / 'RUN'}"


@pytest.mark.slow
def test_the_demo_answers(tmp_path, command, monkeypatch):
    for name, count in (("n_train", 60), ("n_test", 30)):  # a quarter of the demo's pictures
        monkeypatch.setitem(open_digits.__kwdefaults__, name, count)
    answer = answer_of(command("demo", "--out", tmp_path / "demo", "--json", "--quiet"))
    assert set(answer["made"]) == MADE["run"]
    assert answer["figures"]["sets"]["test"]["mean"]["ap_area"] > 0.3


@pytest.mark.slow
def test_the_demo_on_drawn_photographs_answers_with_its_threshold_next(tmp_path, command, monkeypatch):
    pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
    monkeypatch.setattr("lapsvm.datasets.plates.DEFECTS", 6)
    answer = answer_of(command("demo", "--photos", "--out", tmp_path / "demo", "--json", "--quiet"))
    assert answer["figures"]["sets"]["test"]["mean"]["image_ap"] > 0.8
    assert answer["next"].startswith("lapsvm threshold")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["demo", "demo-pictures"]


def test_figures_are_those_of_the_files(finished, run_copy, command):
    answer = answer_of(command("evaluate", "--out", run_copy, "--json"))
    stored = json.loads((finished / "evaluation.json").read_text())["sets"]
    for name, entry in answer["figures"]["sets"].items():
        assert {key: stored[name][key] for key in entry} == entry
    trained = answer_of(command("train", "--out", run_copy, "--json"))["figures"]["training"]
    assert {name: one["C"] in (1, 10) for name, one in trained.items()} == {"six": True, "three": True}


def test_text_goes_to_standard_error_and_quiet_leaves_none(run_copy, command):
    plain = command("evaluate", "--out", run_copy)
    assert "test set" in plain.out
    told = command("evaluate", "--out", run_copy, "--json")
    assert "test set" in told.err
    answer_of(told)
    quiet = command("evaluate", "--out", run_copy, "--quiet", "--json")
    assert quiet.err == ""
    answer_of(quiet)


@pytest.mark.parametrize("more", [["--json"], ["--json", "--iou", "0.5"], ["--json", "-"], ["--json=-"]])
def test_figures_of_result_files_go_to_standard_output_without_a_file(more, finished, digits, tmp_path, command):
    line = ["evaluate", "--root", digits, "--results", finished / "detections/test"]
    assert command(*line, "--json", tmp_path / "figures.json").status == 0
    answer = answer_of(command(*line, *more))
    assert answer["figures"] == json.loads((tmp_path / "figures.json").read_text())
    assert answer["made"] == {}


def test_predictions_are_those_of_the_list(finished, digits, command):
    line = ["predict", "--model", finished, next((digits / "JPEGImages").iterdir())]
    answer = answer_of(command(*line, "--json"))
    assert answer["figures"] == {"pictures": json.loads(command(*line).out), "left_out": {}}


def test_a_failure_prints_a_line_and_no_object(tmp_path, command):
    failed = command("report", "--out", tmp_path / "none", "--json")
    assert failed.status == 2
    assert failed.out == ""
    assert failed.err.count("\n") == 1


def test_a_served_review_answers_before_it_is_interrupted(run_copy):
    line = [sys.executable, "-m", "lapsvm", "review", "--out", run_copy, "--no-browser", "--json"]
    served = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ)
    try:
        lines = [served.stdout.readline()]
        while lines[-1] not in ("}\n", ""):
            lines.append(served.stdout.readline())
        answer = json.loads("".join(lines))
        assert answer["figures"]["address"].startswith("http://127.0.0.1:")
        assert answer["next"] == f"lapsvm run --out {run_copy}"
    finally:
        served.send_signal(signal.SIGINT)
        rest, _ = served.communicate(timeout=60)
    assert rest == ""
    assert served.returncode == 130


def test_paths_with_spaces_are_words_of_the_next_command(tmp_path):
    entry = Outcome({"run": tmp_path / "a b"}, {}, ("lapsvm", "train", "--out", "a b")).entry("extract")
    assert shlex.split(entry["next"]) == ["lapsvm", "train", "--out", "a b"]
    assert Outcome().entry("verify") == {"verb": "verify", "made": {}, "figures": {}, "next": None}
