"""``--help-settings``: every setting with its default, rule and sentence, without a run, for people and programs."""

import json
import os
import subprocess
import sys

import pytest
from lapsvm.pipelines.cli.parsing import assigned_values
from lapsvm.pipelines.cli.settings_list import settings_text
from lapsvm.pipelines.commands.verbs import app
from lapsvm.pipelines.settings.options import SETTINGS, options_of, settings_of
from lapsvm.pipelines.settings.settings import Settings

from lapsvm.settings import Range

VERBS = [verb for verb in app.commands if "assignments" in {option.name for option in options_of(verb)}]


def test_the_verbs_that_set_settings_list_them():
    assert set(VERBS) == {"run", "extract", "import", "train", "tune", "refine", "detect", "predict"}


@pytest.mark.parametrize("verb", VERBS)
def test_every_setting_stands_once_with_its_sentence(command, verb):
    shown = command(verb, "--help-settings")
    assert (shown.status, shown.err) == (0, "")
    words = " ".join(shown.out.split())
    for name, option in settings_of(verb).items():
        assert words.count(f" {name}=") == 1
        assert option.help in words
        if isinstance(option.rule, Range):
            assert option.values_text() in words
    listed = [line for line in shown.out.splitlines() if line.startswith("  ") and line[2] != " "]
    assert len(listed) == len(settings_of(verb))


def test_it_fits_into_80_columns_and_fewer(command, monkeypatch):
    for columns in (200, 80, 60):
        monkeypatch.setenv("COLUMNS", str(columns))
        lines = command("run", "--help-settings").out.splitlines()
        assert max(map(len, lines)) <= min(columns, 80)


def test_groups_stand_together(command):
    heads = [line for line in command("run", "--help-settings").out.splitlines()[3:] if line.endswith(":")]
    assert heads == [f"{panel}:" for panel in dict.fromkeys(option.panel for option in SETTINGS.values())]


def test_a_default_is_what_set_takes():
    lines = [line.strip().split("  (")[0] for line in settings_text("run", SETTINGS).splitlines()]
    given = [line for line in lines if line.partition("=")[0] in SETTINGS and not line.endswith("=")]
    expected = {name: value for name, value in Settings().flat().items() if value not in ("", ())}
    assert assigned_values(given, SETTINGS) == expected


def test_a_flag_is_named_where_the_verb_has_it(command):
    assert (
        "train.trim=0.0  (number at least 0 and below 1, separated by commas, also"
        in command("tune", "--help-settings").out
    )
    assert "also --trim" not in command("run", "--help-settings").out


@pytest.mark.parametrize("words", [["--help-settings", "--json"], ["--json", "--help-settings"]])
def test_a_program_reads_them(command, words):
    answer = json.loads(command("run", *words).out)
    assert {key: answer[key] for key in ("verb", "made", "next")} == {"verb": "run", "made": {}, "next": None}
    rows = answer["figures"]["settings"]
    defaults = json.loads(json.dumps(Settings().flat()))
    assert {name: row["default"] for name, row in rows.items()} == defaults
    assert rows["refine.C"] == {
        "group": "Refinement", "default": 2.0, "values": "number greater than 0", "flag": None,
        "help": "The C of refinement.",
    }  # fmt: skip
    assert rows["features.dtype"]["values"] == "one of float16, float32, bfloat16"
    assert rows["train.path"]["values"] == "true or false"


def test_nothing_else_is_looked_at(command, tmp_path):
    listed = command("run", "--data", "nosuch", "--out", tmp_path / "RUN", "--help-settings")
    assert listed.status == 0
    assert not (tmp_path / "RUN").exists()


def test_a_program_that_reads_no_further_is_no_failure():
    """As in ``lapsvm ... | head``: nothing is said, whoever prints."""
    reader, writer = os.pipe()
    os.close(reader)
    for form in ([], ["--json"]):
        line = [sys.executable, "-m", "lapsvm", "run", "--help-settings", *form]
        ended = subprocess.run(line, stdout=writer, stderr=subprocess.PIPE, check=False)
        assert (ended.returncode, ended.stderr) == (120, b"")
    os.close(writer)
