"""Names of outputs are allowed on every system, and no two are one where the case of letters does not count."""

import os
from pathlib import PurePath, PureWindowsPath

import pytest

from lapsvm.files import remove_stale, temporary_name, write_atomically
from lapsvm.names.matching import folded
from lapsvm.names.outputs import LONGEST, OutputNames, allowed, cut

SUFFIXES = [".png", ".heatmap.png", ".objectness.png"]
NAMES = ["a", "A", "ä", "a\u0308", "n" * 300, "n" * 301, "ß" * 200, "ss" * 200, "\U0001f600" * 90, "con", "CON.x", "a.",
         "a ", "a:b", "a?b", "a\nb", "\udc80" * 300, "NUL", "lpt1", "..", "a-2", "A-2"]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "written"),
    [("con", "_con"),
     ("Nul.tar", "_Nul.tar"), ("COM1", "_COM1"), ("console", "console"), ("a. ", "a._"), ("a..", "a._"), ("", "_"),
     ('a<>:"|?*\\b\x07', "a________b_"), ("é b.v2", "é b.v2")],
)  # fmt: skip
def test_names_that_a_system_does_not_take_are_changed(name, written):
    assert allowed(name) == written
    assert allowed(written) == written
    assert not PureWindowsPath(written).is_reserved()


@pytest.mark.parametrize("most", range(9))
def test_a_name_is_cut_between_letters(most):
    for name in ("aé€\U0001f600", "\udc80\udcff" * 9, "", "abc"):
        short = cut(name, most)
        assert name.startswith(short)
        assert len(os.fsencode(short)) <= most
        more = name[: len(short) + 1]
        assert more == short or len(os.fsencode(more)) > most


def test_no_two_names_are_one_on_any_system(tmp_path):
    made, seen = OutputNames(), set()
    for name in NAMES * 3:
        paths = made.new(PurePath("Aux", name), SUFFIXES)
        assert [str(path)[len(str(paths[0])) - 4 :] for path in paths] == SUFFIXES
        for path in paths:
            assert path.parts[0] == "_Aux"
            assert len(os.fsencode(path.name)) <= LONGEST
            assert folded(str(path)) not in seen
            seen.add(folded(str(path)))
            (tmp_path / path.name).touch()
    assert len(seen) == 9 * len(NAMES)


def test_the_usual_name_stays():
    made = OutputNames()
    assert made.new(PurePath("x", "cat.1"), [".png"]) == [PurePath("x", "cat.1.png")]
    assert made.new(PurePath("x", "cat.1"), [".png"]) == [PurePath("x", "cat.1-2.png")]
    assert made.new(PurePath("y", "cat.1"), [".png"]) == [PurePath("y", "cat.1.png")]


@pytest.mark.parametrize("letter", ["n", "é"])
def test_a_file_of_the_longest_name_is_written(tmp_path, letter):
    path = tmp_path / cut(letter * LONGEST, LONGEST)
    write_atomically(path, b"one")
    assert [one.read_bytes() for one in tmp_path.iterdir()] == [b"one"]
    stale = temporary_name(path)
    stale.touch()
    assert remove_stale(tmp_path) == [stale]
    assert path.exists()
