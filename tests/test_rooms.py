"""``import lapsvm`` is fast, and every room is an attribute of it."""

import json
import pkgutil
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
from lapsvm.pipelines.context import StoredRun, Workspace

import lapsvm

HEAVY = ("numpy", "torch", "cv2", "sklearn", "scipy", "dask")
PUBLIC = [one.name for one in pkgutil.iter_modules(lapsvm.__path__) if not one.name.startswith("_")]


def said_by(code):
    """Return the JSON that a new interpreter prints."""
    done = subprocess.run([sys.executable, "-P", "-c", code], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", sorted({*PUBLIC, "datasets", "pipelines"}))
def test_every_public_room_is_an_attribute(name):
    code = f"import json, lapsvm; print(json.dumps([lapsvm.{name}.__name__, '{name}' in dir(lapsvm)]))"
    assert said_by(code) == [f"lapsvm.{name}", True]


def test_importing_the_package_or_listing_it_imports_nothing_heavy():
    code = f"import json, sys, lapsvm; dir(lapsvm); print(json.dumps([n for n in {HEAVY} if n in sys.modules]))"
    assert said_by(code) == []


def test_the_rooms_are_those_that_there_are():
    assert {*PUBLIC, "datasets", "pipelines"} == lapsvm.submodules()


def test_other_names_are_refused_in_a_sentence():
    with pytest.raises(AttributeError, match="module 'lapsvm' has no attribute 'nosuch'"):
        _ = lapsvm.nosuch


PATCHED_KERNELS = {"_kernel"}  # in place of a compiled kernel its twin, behind the same door
PATCHED_STEPS = {
    "_first_maxima",  # a GPU's memory that runs out in the middle of a pass
    "_solve",  # a solver that repeats itself
    "_MOST_SHARE",  # of a pool of candidates, in the tests of its limits
    "_resolve_ties",  # watched: near ties are scored again alone
    "_rescore_bags",  # watched: or with their whole block
    "_use",  # a class that learns more slowly than a browser shows the next picture
}


def test_tests_patch_public_names():
    patch = re.compile(r"(?:setattr|patch(?:\.object)?)\((?:[^,()]+, )?\"(?:[\w.]+\.)?(_[A-Za-z]\w*)\"")
    texts = (path.read_text(encoding="utf-8") for path in Path(__file__).parent.rglob("test_*.py"))
    assert {name for text in texts for name in patch.findall(text)} == PATCHED_KERNELS | PATCHED_STEPS


def test_stages_and_commands_alone_take_the_whole_context():
    """What any other function depends on is seen by its parameters: a folder, settings, a reporter, or a small part."""
    room = Path(__file__).parents[1] / "pipelines"
    texts = [(path.relative_to(room).parts[0], path.read_text(encoding="utf-8")) for path in room.rglob("*.py")]
    assert {"compare", "review", "annotations", "inspection", "fitting", "shards"} <= {name for name, _ in texts}
    assert {name for name, text in texts if "RunContext" in text} == {"commands", "stages", "context.py"}


def test_the_parts_of_a_context_stay_small():
    """Neither is a second context: options of a command belong to no part, and the two share the folder alone."""
    stored, workspace = ({one.name for one in fields(part)} for part in (StoredRun, Workspace))
    assert stored & workspace == {"folder"}
    assert len(stored) <= 4
    assert len(workspace) <= 6
