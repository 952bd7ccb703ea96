"""How many lines of code each room may have: `python -m tests.code_budget` writes the table, downwards only.

A line of code is neither blank nor comment nor docstring; where a file is not Python, every line that is not blank.
"""

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
TABLE = ROOT / "tests" / "code_budget.txt"
ROOMS = ("lapsvm", "pipelines", "datasets", "cython_ext", "benchmarks", "tests", "examples", "docs")
DEEP = {"lapsvm": 2, "pipelines": 2, "benchmarks": 2, "tests": 2}  # folders that are split into rooms
SUFFIXES = (".py", ".pyx", ".pxd", ".pyi", ".h", ".html", ".css", ".js")
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def code_lines(path: Path) -> int:
    """Return the number of lines of code of a file."""
    text = path.read_text(encoding="utf-8")
    shown = {number for number, line in enumerate(text.splitlines(), 1) if line.strip()}
    if path.suffix != ".py":
        return len(shown)
    lines = {number for number, line in enumerate(text.splitlines(), 1) if number in shown and line.strip()[0] != "#"}
    documented = set[int]()
    for node in spanning(ast.parse(text)):
        if isinstance(node, (ast.Constant, ast.JoinedStr)):
            lines |= set(range(node.lineno, node.end_lineno + 1))  # of a text of several lines each counts
        elif isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            documented |= set(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    return len(lines - documented)


def spanning(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and those inside it that stand in several lines: the others count by their line."""
    yield node
    for child in ast.iter_child_nodes(node):
        if getattr(child, "lineno", 0) != getattr(child, "end_lineno", 1):
            yield from spanning(child)


def room_of(path: Path) -> str:
    """Return the room of a file: the folder in `lapsvm`, `pipelines`, `benchmarks` or `tests`, or the whole folder."""
    folders = path.relative_to(ROOT).parts[:-1]
    depth = 3 if folders[:2] == ("tests", "pipelines") else DEEP.get(folders[0], 1)
    return "/".join(folders[:depth])


def count() -> Counter[str]:
    """Return room -> lines of code."""
    lines = Counter[str]()
    for folder in ROOMS:
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in SUFFIXES and "__pycache__" not in path.parts:
                lines[room_of(path)] += code_lines(path)
    return lines


def read() -> dict[str, int]:
    """Return room -> the most lines of code that it may have."""
    rows = (line.split() for line in TABLE.read_text(encoding="utf-8").splitlines())
    return {room: int(lines) for room, lines in rows}


def following(lines: dict[str, int], budget: dict[str, int]) -> dict[str, int]:
    """Return the budget that follows: rooms with less than 95 % of their number get their own lines, as new ones do."""
    return {
        room: own if own < 0.95 * budget.get(room, float("inf")) else budget[room]
        for room, own in sorted(lines.items())
    }


def main() -> None:
    """Write the table; a room that grew keeps its number."""
    rows = following(count(), read() if TABLE.exists() else {})
    TABLE.write_text("".join(f"{room} {lines}\n" for room, lines in rows.items()), encoding="utf-8")


if __name__ == "__main__":
    main()
