"""The file of verdicts: what is written is read, whatever else the file holds."""

import json
import os
import resource

import pytest
from lapsvm.pipelines.verdicts.verdict import Verdict, append_verdicts, given_verdicts, read_verdicts

from lapsvm.errors import DataError, MissingError, WriteError

BOX = (1.0, 2.0, 30.0, 40.5)
ONE = Verdict("a.jpg", "cat", "boxes", (BOX,), (BOX, (0.0, 0.0, 5.0, 5.0)), "f00d", "random", 2.5)


def test_what_is_written_is_read(tmp_path):
    path = tmp_path / "verdicts.jsonl"
    others = [Verdict("b.jpg", "cat", "none"), Verdict("a.jpg", "dog", "absent"), Verdict("b.jpg", "dog", "skip")]
    append_verdicts(path, [ONE])
    append_verdicts(path, others)
    log = read_verdicts(path)
    assert log.of_class("cat") == {"a.jpg": ONE, "b.jpg": others[0]}
    assert log.of_class("dog") == {"a.jpg": others[1], "b.jpg": others[2]}
    assert log.of_class("cow") == {}
    assert not log.damaged


def test_a_later_line_replaces_an_earlier_one(tmp_path):
    path = tmp_path / "verdicts.jsonl"
    append_verdicts(path, [ONE, Verdict("a.jpg", "cat", "none")])
    assert read_verdicts(path).of_class("cat")["a.jpg"].verdict == "none"


def test_no_file_holds_no_verdicts(tmp_path):
    assert not read_verdicts(tmp_path / "verdicts.jsonl").by_class


@pytest.mark.parametrize("cut", [1, 5, 40])
def test_a_last_line_that_is_cut_short_costs_nothing_else(tmp_path, cut):
    path = tmp_path / "verdicts.jsonl"
    path.write_text(ONE.line() + Verdict("b.jpg", "cat", "none").line()[:-cut])
    first = read_verdicts(path)
    assert first.of_class("cat")["a.jpg"] == ONE
    assert not first.damaged
    append_verdicts(path, [Verdict("c.jpg", "cat", "none")])
    second = read_verdicts(path)
    assert {"a.jpg", "c.jpg"} <= set(second.of_class("cat"))
    assert second.damaged == (() if cut == 1 else (2,))  # without its end alone the line is whole
    assert bool(second.damage) == (cut > 1)


@pytest.mark.parametrize(
    "change",
    [
        {"picture": 3},
        {"picture": ""},
        {"class": None},
        {"verdict": "maybe"},
        {"verdict": "none"},
        {"verdict": ["boxes"]},
        {"boxes": []},
        {"boxes": [[1, 2, 3]]},
        {"boxes": [[5, 2, 3, 9]]},
        {"boxes": [[1, 2, float("nan"), 9]]},
        {"boxes": [[1, 2, 1e300, 9]]},
        {"boxes": [[True, 2, 3, 9]]},
        {"boxes": [[1, 2, 3, 9]] * 1001},
        {"candidates": 5},
        {"order": "chosen"},
        {"seconds": -1},
        {"seconds": "2"},
        {"pixels": 7},
    ],
)
def test_lines_that_break_a_rule_are_left_out_and_named(tmp_path, change):
    path = tmp_path / "verdicts.jsonl"
    path.write_text(json.dumps(json.loads(ONE.line()) | change) + "\n" + ONE.line())
    log = read_verdicts(path)
    assert log.damaged == (1,)
    assert log.damage == "damaged lines of verdicts are left out: 1."
    assert log.of_class("cat") == {"a.jpg": ONE}


@pytest.mark.parametrize("junk", [b"\x00\xff\n", b"[" * 100_000 + b"\n", b"[]\n", b"1" * 5000 + b"\n"])
def test_junk_is_left_out(tmp_path, junk):
    path = tmp_path / "verdicts.jsonl"
    path.write_bytes(junk + ONE.line().encode())
    assert read_verdicts(path).damaged == (1,)
    assert read_verdicts(path).of_class("cat") == {"a.jpg": ONE}


def test_no_other_kind_of_file_is_read_or_written(tmp_path):
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(MissingError):
        read_verdicts(pipe)
    with pytest.raises(WriteError):
        append_verdicts(link, [ONE])
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.slow
def test_thousands_of_verdicts_are_read(tmp_path):
    path = tmp_path / "verdicts.jsonl"
    line = ONE.line()
    path.write_text("".join(line.replace("a.jpg", f"{number % 7_800}.jpg") for number in range(8_000)))
    log = read_verdicts(path)
    assert len(log.of_class("cat")) == 7_800
    assert not log.damaged


def test_a_verdict_says_what_is_wrong_with_it():
    with pytest.raises(DataError, match=r"^a verdict must be a JSON object .* verdict \(boxes, none, absent, skip\)"):
        Verdict.parsed({"picture": "a", "class": "b", "verdict": "no"})


@pytest.mark.parametrize(
    ("change", "got"),
    [
        ('"boxes": [[5, 5, 1, 9]]', "got boxes [[5, 5, 1, 9]]"),
        ('"verdict": "boxes", "boxes": []', "got boxes []"),
        ('"verdict": "none"', "got boxes [[1, 2, 3, 4]]"),
        ('"pixels": 3', "got pixels 3"),
        ('"class": ""', "got class ''"),
        ('"seconds": -1', "got seconds -1"),
    ],
)
def test_a_named_file_says_of_its_first_bad_line_what_a_page_is_told(tmp_path, change, got):
    path, good = (
        tmp_path / "verdicts.jsonl",
        '{"picture": "a", "class": "b", "verdict": "boxes", "boxes": [[1, 2, 3, 4]]',
    )
    path.write_text(f"{good}}}\n{good}, {change}}}\nno JSON\n")
    with pytest.raises(DataError) as of_page:
        Verdict.parsed(json.loads(f"{good}, {change}}}"))
    with pytest.raises(DataError) as of_file:
        given_verdicts(path)
    assert (
        str(of_file.value)
        == f"{path} must hold verdicts alone, one a line; 2 lines are none, the first line 2: {of_page.value}"
    )
    assert str(of_page.value).endswith(f"x1 < x2, y1 < y2, {got}.")


def test_a_line_that_is_no_json_is_shown(tmp_path):
    path = tmp_path / "verdicts.jsonl"
    path.write_text("picture,class\n")
    with pytest.raises(
        DataError, match=r"1 lines are none, the first line 1: a verdict must be .*, got 'picture,class'\.$"
    ):
        given_verdicts(path)


def test_pixels_of_null_are_not_known(tmp_path):
    path = tmp_path / "verdicts.jsonl"
    path.write_text('{"picture": "a", "class": "b", "verdict": "none", "pixels": null}\n')
    assert given_verdicts(path) == [Verdict("a", "b", "none")]


def test_a_full_disk_leaves_no_half_line(tmp_path):
    path, first = tmp_path / "verdicts.jsonl", Verdict("a", "cat", "none")
    append_verdicts(path, [first])
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 20, before[1]))  # the system then writes a part
    try:
        with pytest.raises(WriteError, match="could not be written"):
            append_verdicts(path, [Verdict("b", "cat", "absent")])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert path.read_text() == first.line()
