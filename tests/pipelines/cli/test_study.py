"""Tables of commands that are no verbs: printed, and put into pages; times of calls in turn."""

import pytest
from lapsvm.pipelines.cli.study import Into, alternate, print_table, study_command

from lapsvm.errors import OptionError

TITLES = ["set", "AP, CPU s"]
PAGE = b"""\
# Sets \xff

| set | other |
|---|---|
| a | 1 |

| set | AP, CPU s |
|:---|---:|
| a | .1 |
| b | .2 |
Text follows.\x0c
|  | AP, CPU s |
|---|---|
"""
MADE = b"| set | AP, CPU s |\n|---|---|\n| c | 0.300 |\n"


@study_command
def command(into: Into = None) -> None:
    print_table(TITLES, [["c", 0.3]], into)


@pytest.fixture
def page(tmp_path):
    path = tmp_path / "page.md"
    path.write_bytes(PAGE)
    return path


def test_the_table_with_the_titles_is_replaced_and_nothing_else(page, capsys):
    print_table(TITLES, [["c", 0.3]], page)
    before, rest = PAGE.split(b"| set | AP, CPU s |\n")
    assert page.read_bytes() == before + MADE + rest[rest.index(b"Text") :]
    assert capsys.readouterr().out == MADE.decode()


def test_a_table_may_end_the_page_and_its_titles_be_set_apart(page):
    page.write_bytes(b"Text.\n|set   |  AP, CPU s|\n|--|--|")
    print_table(TITLES, [["c", 0.3]], page)
    assert page.read_bytes() == b"Text.\n" + MADE
    print_table(TITLES, [["c", 0.3]], page)
    assert page.read_bytes() == b"Text.\n" + MADE


@pytest.mark.parametrize(("content", "count"), [(b"", 0), (PAGE.replace(b"AP", b"ap"), 0), (PAGE + b"\n" + MADE, 2)])
def test_a_page_without_the_table_or_with_two_is_refused_before_a_row_is_made(page, content, count):
    page.write_bytes(content)
    made = []
    with pytest.raises(OptionError, match=rf"one table \| set \| AP, CPU s \|, got {page} with {count}\."):
        print_table(TITLES, (made.append(row) or [row, 0.3] for row in "ab"), page)
    assert made == []
    assert page.read_bytes() == content


def test_a_command_says_it_in_one_sentence(page, tmp_path, capsys):
    page.write_bytes(b"Text.\n")
    for path, sentence in ((page, f"got {page} with 0."), (tmp_path / "none.md", "none.md is not there")):
        with pytest.raises(SystemExit) as ended:
            command(["--into", path])
        assert ended.value.code == 2
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err.count("\n") == 1
        assert sentence in said.err


def test_calls_are_timed_in_turn_and_the_first_round_does_not_count():
    seen, ticks = [], iter([0, 9, 9, 18, 18, 20, 20, 24, 24, 30, 30, 38])
    calls = {name: lambda name=name: seen.append(name) for name in "ab"}
    assert alternate(calls, 2, 2, clock=lambda: next(ticks), summary=max) == {"a": 3, "b": 4}
    assert "".join(seen) == "aabb" * 3
