"""The table of options: every verb's parameters, help, checks and the page come from it."""

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from lapsvm.pipelines.cli.parsing import assigned_values
from lapsvm.pipelines.commands.verbs import app
from lapsvm.pipelines.settings.checks import check_settings
from lapsvm.pipelines.settings.option import Option, value_text
from lapsvm.pipelines.settings.options import OPTIONS, SETTINGS, options_of, settings_of, shown_in_help
from lapsvm.pipelines.settings.settings import Settings

from lapsvm.errors import OptionError
from lapsvm.settings import Range

ROOT = Path(__file__).parents[3]
VERBS = sorted(app.commands)
DRAWS_NOTHING = ("detect", "evaluate", "export", "report", "verify")


def flags(verb):
    return {flag for option in options_of(verb) for flag in option.flags.split("/")}


def test_every_setting_has_one_option():
    assert set(SETTINGS) == set(Settings().flat())
    fields = [option.field for option in OPTIONS if option.field and option.flags]
    assert len(set(fields)) == len(fields)


def test_every_default_keeps_its_rule():
    check_settings(Settings())
    for option in OPTIONS:
        if not option.field and isinstance(option.default, int | float | str):
            option.check(option.default)


@pytest.mark.parametrize("verb", VERBS)
def test_no_flag_of_a_verb_stands_twice(verb):
    given = [flag for option in options_of(verb) for flag in option.flags.split("/") if flag]
    assert len(set(given)) == len(given)
    names = [option.name for option in options_of(verb)]
    assert len(set(names)) == len(names)


def test_the_table_names_no_verb_that_is_not_there():
    named = {verb for option in OPTIONS for verb in (*option.verbs.split(), *option.main.split())}
    assert named - {"*"} == set(VERBS)


def test_an_option_that_one_verb_has_stands_in_its_file():
    files = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / "pipelines" / "commands").glob("*.py")}
    alone = [option for option in OPTIONS if option.verbs in files and option.flags != "--out"]
    assert len(alone) > 30
    assert [option.flag for option in alone if f'"{option.name}", "{option.flags}"' not in files[option.verbs]] == []


def test_the_committed_page_is_the_generated_one():
    script = runpy.run_path(str(ROOT / "docs" / "options_page.py"))
    assert script["PAGE"].read_text(encoding="utf-8") == script["options_page"]()


@pytest.mark.parametrize("verb", VERBS)
def test_help_shows_the_main_options_and_help_all_shows_every_one(command, verb):
    brief, full = command(verb, "--help").out, command(verb, "--help-all").out
    for option in options_of(verb):
        if option.flags:
            assert f"{option.flag} " in full.replace(",", " ").replace("/", " ").replace("\n", " ")
    for option in options_of(verb):
        panel = f"{option.panel}:\n"
        assert panel in full
        assert not shown_in_help(option, verb) or panel in brief
    hidden = [option for option in options_of(verb) if not shown_in_help(option, verb)]
    assert (f"{len(hidden)} more options: " in brief) == bool(hidden)
    assert "more options" not in full


def test_help_of_run_shows_at_most_20_options(command):
    shown = [option for option in options_of("run") if shown_in_help(option, "run")]
    assert 10 <= len(shown) <= 20
    helps = ("--help-settings", "--help-all", "--help")
    listed = [line.split()[0] for line in command("run", "--help").out.splitlines() if line.startswith("  --")]
    assert listed == [*(option.flag for option in shown), *helps]


def test_all_help_of_run_shows_at_most_40_options(command):
    assert sum(line.startswith("  --") for line in command("run", "--help-all").out.splitlines()) <= 40


def test_every_setting_can_be_set_by_its_name():
    assert set(settings_of("run")) == set(SETTINGS)
    for name, value in Settings().flat().items():
        if not isinstance(value, tuple) and value != "":
            assert assigned_values([f"{name}={value_text(value)}"], SETTINGS) == {name: value}


def test_settings_by_name_are_those_of_their_options(tmp_path):
    given = ["train.C=1,10", "refine.C=60", "train.path=true", "features.sizes=640,960", "windows.max_windows=5e2"]
    values = assigned_values([*given, "windows.source.files=a.mat", "windows.source.files=/b.mat"], settings_of("run"))
    files = (str(Path("a.mat").resolve()), "/b.mat")
    assert values == {
        "train.C": (1.0, 10.0), "refine.C": 60.0, "train.path": True, "features.sizes": (640, 960),
        "windows.max_windows": 500, "windows.source.files": files,
    }  # fmt: skip
    assert all(type(value) is type(Settings().flat()[name]) for name, value in values.items())


@pytest.mark.parametrize(
    ("verb", "text", "words"),
    [
        ("run", "refine.c=60", "option --set names no setting of this verb, got 'refine.c'; did you mean refine.C?"),
        ("run", "refine", "option --set must be NAME=VALUE, got 'refine'."),
        ("run", "refine.C=0", "setting refine.C must be a finite number greater than 0, got 0."),
        ("run", "refine.top=x", "setting refine.top must be a number, got 'x'."),
        ("run", "windows.max_side=99.5", "setting windows.max_side must be a whole number, got '99.5'."),
        ("run", "train.path=yes", "setting train.path must be true or false, got 'yes'."),
        ("run", "features.sizes=64,x", "setting features.sizes must be numbers separated by commas, got 'x'."),
        ("refine", "refine.surroundings=1", "got 'refine.surroundings'; did you mean refine.context_share?"),
        ("run", "features.beside=true", "got 'features.beside'; did you mean features.store_context?"),
        ("run", "x=1", "got 'x'; --help-settings lists them."),
        ("train", "windows.mode=fast", "option --set names no setting of this verb, got 'windows.mode'"),
        ("predict", "refine.C=1", "option --set names no setting of this verb, got 'refine.C'"),
    ],
)
def test_a_wrong_setting_is_one_sentence(refused, tmp_path, verb, text, words):
    where = ["--model", tmp_path, tmp_path] if verb == "predict" else ["--out", tmp_path / "RUN"]
    assert words in refused(verb, *where, "--set", text)
    assert not (tmp_path / "RUN").exists()


@pytest.mark.parametrize(
    ("verbs", "flag"),
    [
        (DRAWS_NOTHING, "--seed"),
        (("import", "detect", "evaluate", "report", "verify", "compare", "export"), "--device"),
        (("evaluate", "report", "export"), "--jobs"),
        (("evaluate", "report", "verify", "compare", "predict", "export"), "--redo"),
        (("detect", "report", "evaluate", "predict"), "--memory"),
    ],
)
def test_no_verb_takes_an_option_that_it_ignores(refused, tmp_path, verbs, flag):
    for verb in verbs:
        assert flag not in flags(verb)
        assert re.search(f"No such option:? '?{flag}", refused(verb, flag, "1", "--out", tmp_path))


@pytest.mark.parametrize(
    ("rule", "inside", "outside", "words"),
    [
        (Range(0, above=True), (1e-9, 5), (0, -1, float("nan"), float("inf")), "a finite number greater than 0"),
        (Range(0), (0, 5.0), (-0.1, float("inf")), "a finite number of at least 0"),
        (Range(0, 1), (0, 1), (-0.1, 1.1, float("nan")), "from 0 to 1"),
        (Range(0, 1, below=True), (0, 0.9), (1,), "at least 0 and below 1"),
        (Range(0, 1, above=True), (0.1, 1), (0,), "above 0 and at most 1"),
    ],
)
def test_a_rule_says_what_it_takes(rule, inside, outside, words):
    option = Option("x", "--x", float, "", rule=rule)
    for value in inside:
        option.check(value)
    for value in outside:
        with pytest.raises(OptionError, match=f"^option --x must be {words}, got "):
            option.check(value)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "evaluate needs --out RUN, or --root VOCDIR and --results DIR, or --coco FILE and --results FILE."),
        (["--results", "x"], "evaluate needs --out RUN, or"),
        (["--out", "x", "--results", "y"], "option --results does not go with --out: evaluate needs --out RUN"),
        (["--out", "x", "--root", "y"], "evaluate needs a run folder, but x holds no run.toml"),
        (["--out", "x", "--coco", "y"], "option --coco does not go with --out"),
        (["--out", "x", "--iou", "0.7"], "option --iou does not go with --out"),
        (["--out", "x", "--set", "val"], "option --set does not go with --out"),
        (["--coco", "x"], "option --coco needs --results"),
        (["--coco", "x", "--results", "y", "--boxes", "z"], "option --boxes does not go with --coco"),
        (["--root", "x"], "option --root needs --results"),
        (["--coco", "x", "--results", "y", "--set", "test"], "option --set does not go with --coco"),
        (["--root", "x", "--results", "y", "--metrics", "coco"], "option --metrics does not go with --root"),
        (["--coco", "x", "--results", "y", "--iou", "2"], "option --iou must be above 0 and at most 1, got 2."),
    ],
)
def test_the_forms_of_evaluate_do_not_mix(refused, arguments, words):
    assert words in refused("evaluate", *arguments)


def completed(words, number):
    about = {"_LAPSVM_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(number)}
    line = [Path(sys.executable).parent / "lapsvm"]
    said = subprocess.run(line, env=os.environ | about, capture_output=True, text=True, check=True).stdout
    return [one.removeprefix("plain,") for one in said.split()]


def test_a_shell_completes_verbs_options_and_values():
    assert {"export", "extract"} == set(completed("lapsvm ex", 1))
    assert set(completed("lapsvm detect --n", 2)) == {"--nms"}
    assert set(completed("lapsvm detect --set detect.box", 3)) == {"detect.box_voting=", "detect.box_voting_iou="}
    assert completed("lapsvm train --learner latent_s", 3) == ["latent_svm"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_are_printed(command, shell):
    assert "_LAPSVM_COMPLETE" in command("--show-completion", shell).out
