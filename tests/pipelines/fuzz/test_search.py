"""The search for files that break the law: a few examples here, as long as FUZZ_SECONDS says in `make fuzz`."""

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from lapsvm.errors import LapsvmError

from .binary_doors import EXTERNAL, MASKED_DOOR, PICTURES, STORED, network_doors, weights_doors
from .doors import DATA, MERGED, SAID, cases
from .law import CORPUS, cases_of, check_law, read_case, until

SECONDS = float(os.environ.get("FUZZ_SECONDS", "0"))
DOORS = DATA | MERGED | SAID | EXTERNAL | STORED | PICTURES | MASKED_DOOR | network_doors() | weights_doors()
SLOW = {"mat": 4, "onnx": 4}
"""Doors that read in another process, or open a network: their examples are fewer by this factor."""
EXAMPLES = 16


@pytest.mark.parametrize("name", DOORS)
def test_what_a_door_reads_is_right_or_refused_in_a_sentence(name):
    door = DOORS[name]

    @settings(
        max_examples=EXAMPLES // SLOW.get(name, 1), deadline=None, derandomize=not SECONDS, database=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(cases(door))
    def search(case):
        with tempfile.TemporaryDirectory() as root:
            check_law(name, door.read, case, Path(root))

    for _ in until(SECONDS / len(DOORS)):
        search()


@pytest.mark.parametrize("name", DOORS)
def test_sound_files_are_read(tmp_path, name):
    check_law(name, lambda folder: _read_whole(DOORS[name], folder), DOORS[name].sound, tmp_path)


def _read_whole(door, folder):
    try:
        door.read(folder)
    except LapsvmError as error:
        raise AssertionError("a sound file is refused") from error


@pytest.mark.parametrize(("name", "case"), [(name, case.name) for name in DOORS for case in cases_of(name)])
def test_the_corpus_keeps_the_law(tmp_path, name, case):
    (folder,) = [one for one in cases_of(name) if one.name == case]
    check_law(name, DOORS[name].read, read_case(folder), tmp_path)


def test_every_case_of_the_corpus_has_its_door():
    """Else nobody reads it; those of networks may lack the packages that read them."""
    assert {path.name for path in CORPUS.iterdir()} <= DOORS.keys() | {"onnx"}
