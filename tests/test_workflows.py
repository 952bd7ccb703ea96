"""What a public forge runs is what the Makefile has, and what a release needs has its version."""

import re
import tomllib
from itertools import chain
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
NAME = re.compile(r"^([A-Za-z0-9_.-]+)==(\S+)$", re.MULTILINE)
LOWER = re.compile(r"^([A-Za-z0-9_.-]+)(?:\[.*\])?(?:>=|==)([0-9.]+)")


def jobs(workflow):
    yaml = pytest.importorskip("yaml")
    return yaml.safe_load(workflow.read_text())["jobs"].values()


def targets():
    return set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_every_command_of_a_workflow_is_a_target_of_the_makefile(workflow):
    called = set()
    for job in jobs(workflow):
        matrix = job.get("strategy", {}).get("matrix", {})
        for step in job["steps"]:
            if "run" in step:
                make, target, *_ = step["run"].replace("${{ matrix.target }}", "MATRIX").split()
                assert make == "make"
                called |= set(matrix["target"]) if target == "MATRIX" else {target}
    assert called
    assert called <= targets()


def test_paths_of_tests_in_the_makefile_exist():
    named = re.findall(r"(?<![\w/])tests/[\w/.]+(?![\w/.%*])", (ROOT / "Makefile").read_text())
    assert len(named) > 20
    assert [name for name in named if not (ROOT / name).exists()] == []


EXTRAS = ("onnx", "photos", "coco", "dask")  # what make test-oldest installs: all but torch


def version(text):
    return tuple(int(part) for part in re.findall(r"\d+", text)[:3])


def test_the_oldest_versions_are_those_of_the_metadata():
    content = tomllib.loads((ROOT / "pyproject.toml").read_text())
    project, extras = content["project"], content["project"]["optional-dependencies"]
    tested = {name.lower(): text for name, text in NAME.findall((ROOT / "constraints-oldest.txt").read_text())}
    users = chain(project["dependencies"], *(extras[name] for name in ("onnx", "photos", "coco", "dask")))
    bounds = {match[1].lower(): match[2] for match in map(LOWER.match, users) if match}
    assert len(bounds) > 12
    for name, bound in bounds.items():
        assert version(tested[name])[: len(version(bound))] == version(bound), name


def test_the_tools_of_a_release_are_pinned():
    line = re.search(
        r"^\t\$\(PIP\) install -c constraints.txt (auditwheel .*)$", (ROOT / "Makefile").read_text(), re.MULTILINE
    )
    pinned = {name for name, _ in NAME.findall((ROOT / "constraints.txt").read_text())}
    assert set(line[1].split()) <= pinned
