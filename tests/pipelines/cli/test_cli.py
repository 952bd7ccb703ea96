"""The command line: help, one-line failures, contracts of the verbs."""

import json
import os
import platform
import pydoc
import re
import subprocess
import sys

import pytest
from lapsvm.pipelines.commands.verbs import app

VERBS = ["compare", "demo", "detect", "evaluate", "extract", "predict", "report", "run", "train", "tune"]
DOORS = ["photographs", "defects", "bags and losses"]


@pytest.mark.parametrize("verb", VERBS)
def test_help_shows_a_real_example(command, verb):
    result = command(verb, "--help")
    assert result.status == 0
    assert f"lapsvm {verb} " in result.out.replace("\n", " ")


def test_help_lists_every_verb(command):
    listing = command("--help").out
    assert [verb for verb in VERBS if f" {verb} " not in listing] == []


def test_without_arguments_it_says_in_five_lines_what_it_is_and_where_to_begin(command):
    said = command()
    about, doors, more = said.out.rstrip("\n").split("\n\n")
    assert (said.status, said.err) == (0, "")
    assert len(about.splitlines()) == 5
    assert max(map(len, said.out.splitlines())) <= 80
    assert [line.split("  ")[0] for line in doors.splitlines() if line[0] != " "] == DOORS
    for line in re.findall(r"lapsvm ((?:run|threshold) .*)", doors):
        verb, *options = line.split()
        flags = {flag for parameter in app.commands[verb].params for flag in parameter.opts}
        assert {word for word in options if word.startswith("--")} <= flags
    assert pydoc.locate(doors.split()[-1])
    assert "lapsvm demo" in more
    assert "lapsvm --help" in more


def test_help_imports_no_heavy_library(tmp_path):
    code = (
        "import sys\n"
        "from lapsvm.pipelines.commands.verbs import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "print([m for m in ('numpy', 'torch', 'cv2', 'rich', 'onnxruntime', 'sklearn') if m in sys.modules])\n"
    )
    line = [sys.executable, "-c", code]
    out = subprocess.run(line, capture_output=True, text=True, check=True, cwd=tmp_path).stdout
    assert out.splitlines()[-1] == "[]"


def test_version(command):
    import lapsvm

    assert command("--version").out.strip() == lapsvm.__version__


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["train", "--out", "{tmp}/none"], "lapsvm run makes one"),
        (["detect", "--out", "{tmp}/none"], "lapsvm run makes one"),
        (["run", "--data", "voc", "--root", "{tmp}/none", "--out", "{tmp}/o"], "{tmp}/none"),
        (["run", "--data", "nosuch", "--root", "{digits}", "--out", "{tmp}/o"], "'nosuch' is not known"),
        (["run", "--data", "voc", "--root", "{digits}", "--out", "{tmp}/o", "--classes", "zebra"], "zebra"),
        (["run", "--data", "voc", "--root", "{digits}", "--out", "{tmp}/o", "--C", "0"], "C must be"),
        (["run", "--data", "voc", "--root", "{digits}", "--out", "{tmp}/o", "--C", "a"], "--C must be numbers"),
        (["run", "--data", "voc", "--root", "{digits}", "--out", "{tmp}/o", "--jobs", "0"], "--jobs"),
        (["run", "--data", "voc", "--root", "{digits}", "--out", "{tmp}/o", "--loss", "aq"], "'aq'"),
        (["run", "--data", "voc", "--root", "{digits}", "--out", "{tmp}/o", "--learner", "svm"], "'svm'"),
        (["run", "--data", "voc", "--root", "{digits}", "--out", "{tmp}/o", "--set=train.init=best"], "'best'"),
        (["run", "--data", "voc", "--root", "{digits}", "--out", "{tmp}/o", "--set=train.tol=-1"], "tol"),
        (["run", "--data", "voc", "--root", "{digits}", "--out", "{tmp}/o", "--nms", "2"], "nms"),
        (["run", "--data", "voc", "--root", "{digits}", "--out", "{tmp}/o", "--set=features.dtype=int8"], "int8"),
        (["run", "--data", "voc", "--root", "{digits}", "--out", "{tmp}/o", "--windows", "magic"], "magic"),
        (["run", "--data", "voc", "--root", "{digits}", "--out", "{tmp}/o", "--set=windows.mode=slow"], "slow"),
        (["run", "--data", "voc", "--root", "{digits}", "--out", "{tmp}/o", "--extractor", "sift"], "sift"),
        (["run", "--data", "voc", "--root", "{digits}", "--out", "{tmp}/o", "--extractor", "onnx:{tmp}/n"], "{tmp}/n"),
        (["run", "--data", "voc", "--root", "{digits}", "--out", "{tmp}/o", "--train-set", "all"], "'all'"),
        (["run", "--data", "voc", "--root", "{digits}", "--out", "{tmp}/o", "--device", "tpu"], "--device"),
        (["run", "--out", "{tmp}/o"], "--data"),
        (["run", "--nosuch"], "--nosuch"),
        (["run"], "--out"),
        (["fly"], "fly"),
        (["evaluate"], "--out"),
        (["evaluate", "--root", "{digits}", "--results", "{tmp}"], "no result file"),
        (["predict", "--model", "{tmp}/none.safetensors", "{tmp}/a.jpg"], "none.safetensors"),
    ],
)
def test_a_failure_is_one_line(refused, digits, tmp_path, arguments, words):
    values = {"tmp": tmp_path, "digits": digits}
    assert words.format(**values) in refused(*[argument.format(**values) for argument in arguments])
    assert not (tmp_path / "o" / "models").exists()


def test_predict_agrees_with_the_run(finished, digits, command):
    from lapsvm.evaluation import read_results

    found = read_results(finished / "detections" / "test", "test")["six"]
    image_id = found.image_ids[0]
    result = command(
        "predict", "--model", finished / "models" / "six.safetensors", digits / "JPEGImages" / f"{image_id}.jpg"
    )
    best = json.loads(result.out)[0]["detections"][0]
    assert best["score"] == pytest.approx(found.scores[0], rel=2e-3)  # the run's features were stored as float16
    assert best["box"] == found.boxes[0].tolist()


def test_evaluate_reads_anybodys_result_files(finished, digits, tmp_path, command):
    (tmp_path / "voc" / "ImageSets" / "Main").mkdir(parents=True)
    (tmp_path / "voc" / "Annotations").symlink_to(digits / "Annotations")
    (tmp_path / "voc" / "ImageSets" / "Main" / "test.txt").write_bytes(
        (digits / "ImageSets/Main/test.txt").read_bytes()
    )
    results = finished / "detections" / "test"
    figures = tmp_path / "figures.json"
    result = command("evaluate", "--root", tmp_path / "voc", "--set", "test", "--results", results, "--json", figures)
    assert result.status == 0
    table = json.loads(figures.read_text())
    own = json.loads((finished / "evaluation.json").read_text())["sets"]["test"]
    for name, row in table["classes"].items():
        assert row == {key: own["classes"][name][key] for key in ("ap_11point", "ap_area", "npos")}
    assert table["mean"] == {key: own["mean"][key] for key in ("ap_11point", "ap_area")}
    others = table["missing"]
    assert {"zero", "eight"} <= set(others)
    assert not {"six", "three"} & set(others)
    assert f"mean over 2 of {2 + len(others)} classes" in result.out
    assert f"{results} has no result file of {', '.join(others)}; means are without them" in result.err


def test_a_run_in_use_is_told(run_copy, digits, refused, fast):
    from lapsvm.pipelines.run.folder import RunFolder

    for line in (["run", "--data", "voc", "--root", digits, *fast], ["detect"], ["verify"]):
        with RunFolder(run_copy).lock("lapsvm train"):
            said = refused(*line, "--out", run_copy)
        holder = f"is in use by process {os.getpid()} on {platform.node()} (lapsvm train, since 20"
        assert f"run folder {run_copy} {holder}" in said


def test_a_killed_run_holds_nothing_and_leaves_nothing_in_the_way(run_copy, command):
    (run_copy / ".lock").write_text("process 1 on elsewhere (lapsvm run, since long ago)")
    for path in ("timings.json", "page/index.html", "models/six.safetensors", "shards/test/0000000.safetensors"):
        place = run_copy / path
        (place.parent / f".{place.name}.0123abcd.partial").write_bytes(b"half")
    assert command("run", "--out", run_copy, "--quiet").status == 0
    assert not list(run_copy.rglob("*.partial"))


def test_temporary_files_of_other_programs_stay(run_copy, command):
    names = [".file.0123abcd.partial", ".timings.json.0123.partial", "mine.partial", ".timings.json.0123abcd.part"]
    others = [run_copy / folder / name for folder in ("", "models", "page", "detections/test") for name in names]
    for path in others:
        path.write_bytes(b"mine")
    assert command("run", "--out", run_copy, "--quiet").status == 0
    assert {path.read_bytes() for path in others} == {b"mine"}
