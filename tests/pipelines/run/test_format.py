"""The written format of a run folder: a validator that uses none of our code agrees with what we write and verify."""

import ast
import runpy
import sys
from pathlib import Path

import pytest
from lapsvm.pipelines.verdicts.verdict import Verdict, append_verdicts

from lapsvm.features import open_shards

ROOT = Path(__file__).parents[3]
VALIDATOR = ROOT / "examples" / "validate_run.py"
OF_PYTHON = {"hashlib", "json", "math", "struct", "sys", "tomllib", "pathlib"}


@pytest.fixture
def validated(capsys, monkeypatch):
    """Return a function that validates a run as a program of its own does; it returns the exit status and lines."""

    def validated(run):
        monkeypatch.setattr(sys, "argv", [str(VALIDATOR), str(run)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            runpy.run_path(str(VALIDATOR), run_name="__main__")
        said = capsys.readouterr()
        assert said.err == ""
        return ended.value.code or 0, said.out.splitlines()

    return validated


def test_the_validator_uses_none_of_our_code():
    imports = [
        node for node in ast.walk(ast.parse(VALIDATOR.read_text())) if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    names = {getattr(node, "module", None) or node.names[0].name for node in imports}
    assert names == OF_PYTHON | {"numpy"}


def test_a_finished_run_keeps_the_format(run_copy, validated):
    append_verdicts(run_copy / "verdicts.jsonl", [Verdict("a", "six", "boxes", ((1.0, 2.0, 3.0, 4.0),))])
    with (run_copy / "verdicts.jsonl").open("a") as file:
        file.write('{"picture": "b"')  # the power fails
    status, lines = validated(run_copy)
    assert (status, lines[-1][-16:]) == (0, " 0 rules broken."), lines


def test_a_run_with_refinement_components_bfloat16_and_little_memory_keeps_it(
    digits, fast, tmp_path, command, validated
):
    extras = ["--refine", "1", "--pca", "8", "--set=features.dtype=bfloat16", "--memory", "10K"]
    line = ["run", "--data", "voc", "--root", digits, "--out", tmp_path / "RUN", "--quiet", *fast, *extras]
    assert command(*line).status == 0
    assert open_shards(tmp_path / "RUN" / "shards" / "trainval").dtype == "bfloat16"
    assert command("verify", "--out", tmp_path / "RUN", "--quiet").status == 0
    assert validated(tmp_path / "RUN")[0] == 0


@pytest.mark.parametrize("version", ["0.1.0", "0.2.0"])
def test_files_of_released_versions_keep_it(version, validated):
    assert validated(ROOT / "tests" / "compatibility" / version)[0] == 0


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("shards/trainval/0000001.safetensors", -2),
        ("models/six.safetensors", 300),
        ("heldout/six.safetensors", -2),
        ("folds/six.safetensors", 300),
        ("detections/test/comp3_det_test_six.txt", -2),
    ],
)
def test_it_finds_the_damage_that_verify_finds(run_copy, command, validated, name, place):
    path = run_copy / name
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)
    status, lines = validated(run_copy)
    assert status == 1
    assert any(str(path if path.suffix != ".txt" else path.parent) in line for line in lines)
    assert str(path) in command("verify", "--out", run_copy, "--repair").err


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("evaluation.json", "{}"),
        ("run.toml", "="),
        (".lapsvm-files", "other 1\n"),
        ("verdicts.jsonl", '{"verdict": 1}\n'),
    ],
)
def test_it_names_other_files_that_break_a_rule(run_copy, validated, name, content):
    (run_copy / name).write_text(content)
    status, lines = validated(run_copy)
    assert status == 1
    assert any(name in line for line in lines)


def test_an_empty_folder_is_no_run(tmp_path, validated):
    assert validated(tmp_path)[0] == 1
