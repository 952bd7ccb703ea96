"""Every promise names tests that exist."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "promises.md").read_text("utf-8")
PROMISES, REST = PAGE.split("## Important notes")
NOTES = REST.split("\n## ")[0]
TEST = re.compile(r"`(tests/[\w/.]+\.py)::(test_\w+)`")


RULE = re.compile(r"\|[-|]+")


def rows(text):
    """Return the cells of every row of the tables of a text, without their heads, which have a rule below."""
    lines = text.splitlines()
    pairs = zip(lines, [*lines[1:], ""], strict=True)
    kept = [
        line for line, below in pairs if line.startswith("|") and not (RULE.fullmatch(line) or RULE.fullmatch(below))
    ]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in kept]


def test_every_promise_names_a_test():
    found = rows(PROMISES)
    assert len(found) > 20
    assert [row for row in found if not TEST.search(row[-1])] == []


def test_the_tests_exist():
    for path, name in TEST.findall(PAGE):
        functions = [
            node for node in ast.parse((ROOT / path).read_text("utf-8")).body if isinstance(node, ast.FunctionDef)
        ]
        assert name in {one.name for one in functions}, (path, name)


def test_important_notes_name_released_versions_and_a_way_out():
    released = set(re.findall(r"^## ([\d.]+)", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE))
    for versions, fault, repair in rows(NOTES):
        assert set(versions.split(", ")) <= released
        assert fault
        assert repair
