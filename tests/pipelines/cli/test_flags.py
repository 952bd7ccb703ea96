"""The library names parameters, and the command line puts its flags in their place."""

import ast
import re
from pathlib import Path

import pytest
from lapsvm.pipelines.cli.flags import with_flags

ROOT = Path(__file__).parents[3]
OTHERS = ("pip install", "cp -l")  # commands of other programs


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("the parameter per_class must be 1", "--per-class must be 1"),
        ("give the parameter threshold or the parameter per_class.", "give --threshold or --per-class."),
        ("by the parameter train_set, or by the parameter format_name", "by --train-set, or by --format"),
        ("the parameter nosuch stays", "the parameter nosuch stays"),
        ("parameters of a network, a parameter per_class", "parameters of a network, a parameter per_class"),
    ],
)
def test_a_flag_stands_for_a_parameter(message, expected):
    assert with_flags(message) == expected


def test_an_error_of_the_library_names_flags_on_the_command_line(finished, refused, tmp_path):
    line = ("export", "--out", finished, "--to", tmp_path / "o", "--format", "coco")
    said = refused(*line, "--per-class", "2", "--threshold", ".5")
    assert said == "lapsvm: --threshold and --per-class exclude each other, got both.\n"


def docstrings(tree):
    """Return the docstrings of a module, by identity."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef)
    owners = [node for node in ast.walk(tree) if isinstance(node, kinds) and node.body]
    return {id(node.body[0].value) for node in owners if isinstance(node.body[0], ast.Expr)}


@pytest.mark.parametrize("room", ["lapsvm", "datasets"])
def test_no_text_of_the_library_names_a_flag(room):
    found = []
    for path in sorted((ROOT / room).rglob("*.py")):
        if {"pipelines", "datasets"} & set(path.relative_to(ROOT / room).parts):
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        left_out = docstrings(tree)
        for node in ast.walk(tree):
            is_text = isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in left_out
            if is_text and re.search(r"(?<![\w-])--[a-z]", node.value) and not node.value.startswith(OTHERS):
                found.append(f"{path.name}: {node.value}")
    assert found == []
