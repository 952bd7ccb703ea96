"""The pages that have the tables of commands of `benchmarks/`, and the cells of printed tables."""

import re
from pathlib import Path

BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"
LIST = BENCHMARKS / "README.md"


def page_of(command):
    """Return the page that the list of commands names for one."""
    name = command.resolve().relative_to(BENCHMARKS).as_posix()
    (link,) = re.findall(rf"^\| `{name}` \| .* \| \[\w+\]\(([^)#]+)", LIST.read_text("utf-8"), re.MULTILINE)
    return BENCHMARKS / link


def assert_one_table_changed(page, copy, printed):
    """Raise unless one table of a page became one that was printed, under the same titles."""
    before, after = (re.split(r"((?:^\|.*\n)+)", path.read_text("utf-8"), flags=re.MULTILINE) for path in (page, copy))
    ((old, new),) = ((old, new) for old, new in zip(before, after, strict=True) if old != new)
    assert new in printed
    old, new = (text.splitlines()[0].replace(" ", "") for text in (old, new))
    assert old == new


def rows_of(text):
    """Return first cell -> cells of the rows that are no rules."""
    lines = [line for line in text.splitlines() if line.startswith("|") and not re.fullmatch(r"[|:\- ]+", line)]
    cells = ([cell.strip() for cell in line[1:].rstrip("|").split(" | ")] for line in lines)
    return {row[0]: row for row in cells}
