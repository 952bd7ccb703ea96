"""Verdicts of a person, and their file ``RUN/verdicts.jsonl``: one JSON object a line.

A line is complete and synced before a verdict counts as saved, so a killed process loses nothing; it may leave a last
line that is cut short. A later line of the same picture and class replaces an earlier one.
"""

import json
import math
import os
import shlex
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from io import FileIO
from itertools import chain
from pathlib import Path
from typing import Any, Protocol, Self

from lapsvm.box_faults import box_faults
from lapsvm.errors import DataError, MissingError, SettingsError, WriteError
from lapsvm.files import NOT_PARSED, is_named, open_flags, open_regular, sync, unshare
from lapsvm.ground_truth import Size
from lapsvm.texts.agreement import agreed, distinct
from lapsvm.texts.reading import read_text
from lapsvm.texts.sentences import listed, shown

from ..run.folder import RunFolder

VERDICTS = ("boxes", "none", "absent", "skip")
ORDERS = ("random", "next")
LONGEST = 2**20
"""Bytes of the longest line that is read; longer ones are damaged."""
MOST_BOXES = 1000
RULE = (
    f"a verdict must be a JSON object with the texts picture, class and verdict ({', '.join(VERDICTS)}), and if it is "
    "'boxes' with boxes [x1, y1, x2, y2] in pixels, x1 < x2, y1 < y2"
)
Box = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a person said of one class in one picture.

    Attributes
    ----------
    picture, class_name : str
    verdict : "boxes", "none", "absent" or "skip"
        `boxes` are true; no candidate is right and none was drawn; the picture does not show the class; undecided.
    boxes : tuple of (x1, y1, x2, y2)
        The true boxes, in pixels, 0-based and half-open; only with "boxes".
    candidates : tuple of (x1, y1, x2, y2)
        The boxes that were shown.
    pixels : str
        Hash of the picture's pixels; "" if it is unknown.
    order : "random" or "next"
        Whether the picture was drawn at random.
    seconds : float or None
        How long the person looked.
    """

    picture: str
    class_name: str
    verdict: str
    boxes: tuple[Box, ...] = ()
    candidates: tuple[Box, ...] = ()
    pixels: str = ""
    order: str = "next"
    seconds: float | None = None

    @property
    def rejected(self) -> tuple[Box, ...]:
        """The boxes that hold no object: those that were shown, if none of them is right and none was drawn."""
        return self.candidates if self.verdict == "none" else ()

    @property
    def counts_in_figures(self) -> bool:
        """Whether it says of a picture that was drawn at random, and shows the class, which boxes are right."""
        return self.order == "random" and self.verdict in ("boxes", "none")

    def is_of(self, pixel_hash: str) -> bool:
        """Return whether the picture had these pixels when the person saw it, as far as the verdict knows."""
        return self.pixels in ("", pixel_hash)

    def fault(self, size: Size | None) -> str:
        """Return the fault of its true or rejected boxes in a picture of this width and height; "" without one."""
        return next(filter(None, box_faults(self.boxes or self.rejected, size)), "")

    def says_as(self, other: Self) -> bool:
        """Return whether another verdict on the same picture says the same."""
        return (self.verdict, {*self.boxes}) == (other.verdict, {*other.boxes})

    def label(self, y: int) -> int:
        """Return the label of the picture after the verdict: +1, -1, or `y` where it settles none."""
        return {"boxes": 1, "absent": -1}.get(self.verdict, y)

    def line(self) -> str:
        """Return the line of the file, with its end."""
        entry = {
            "picture": self.picture,
            "pixels": self.pixels or None,
            "class": self.class_name,
            "verdict": self.verdict,
            "boxes": self.boxes,
            "order": self.order,
            "candidates": self.candidates or None,
            "seconds": self.seconds,
        }
        return json.dumps({name: value for name, value in entry.items() if value is not None}) + "\n"

    @classmethod
    def parsed(cls, entry: object) -> Self:
        """Return the verdict of a parsed line; DataError, which names the rule, if it is none."""
        if not isinstance(entry, dict):
            raise DataError(f"{RULE}, got {shown(entry)}.")
        if wrong := _wrong_names(entry):
            raise DataError(f"{RULE}, got {wrong[0]} {shown(entry.get(wrong[0]))}.")
        seconds = entry.get("seconds")
        return cls(
            picture=entry["picture"],
            class_name=entry["class"],
            verdict=entry["verdict"],
            boxes=tuple(distinct(as_boxes(entry.get("boxes", ())))[0]),
            candidates=as_boxes(entry.get("candidates", ())),
            pixels=entry.get("pixels") or "",
            order=entry.get("order", "next"),
            seconds=None if seconds is None else float(seconds),
        )


@dataclass(frozen=True)
class VerdictLog:
    """The last verdict of every class and picture, and what was not taken.

    `damaged` are the numbers of the lines that are none, `reason` says why the first is not, and `replaced` are the
    pictures whose verdicts later ones that differ replace.
    """

    by_class: Mapping[str, Mapping[str, Verdict]]
    damaged: tuple[int, ...] = ()
    reason: str = ""
    replaced: tuple[str, ...] = ()

    def of_class(self, name: str) -> Mapping[str, Verdict]:
        """Return picture -> verdict of a class, "skip" included."""
        return self.by_class.get(name, {})

    def __iter__(self) -> Iterator[Verdict]:
        """Yield the verdicts of all classes."""
        return chain.from_iterable(of_class.values() for of_class in self.by_class.values())

    @property
    def damage(self) -> str:
        """A sentence that names the damaged lines; "" if there are none."""
        numbers = listed([str(number) for number in self.damaged])
        return f"damaged lines of verdicts are left out: {numbers}." if numbers else ""


def read_verdicts(path: Path) -> VerdictLog:
    """Return the verdicts of a file, none if it is not there.

    Lines that are no verdict are left out and counted. The last line may be cut short, without a count. Raises
    MissingError if the file is no regular file, or cannot be read.
    """
    rows = list[tuple[tuple[str, str], Verdict]]()
    damaged, reason = [], ""
    number, torn = 0, False
    for number, line in enumerate(_lines(path), start=1):
        torn = not line.endswith(b"\n")
        try:
            verdict = Verdict.parsed(_json(line))
        except DataError as error:
            if line.strip():
                damaged.append(number)
                reason = reason or str(error)
        else:
            rows.append(((verdict.class_name, verdict.picture), verdict))
    found: dict[str, dict[str, Verdict]] = {}
    for (class_name, picture), verdict in rows:
        found.setdefault(class_name, {})[picture] = verdict
    is_cut = torn and damaged and damaged[-1] == number
    replaced = tuple(picture for _, picture in agreed(rows, same=Verdict.says_as).unequal)
    return VerdictLog(found, tuple(damaged[:-1] if is_cut else damaged), reason, replaced)


def read_lines(path: Path) -> Iterator[tuple[int, object, bool]]:
    """Yield number and content of each line of a file, and whether it has an end; errors are those of `read_verdicts`.

    Empty lines are left out; none is there without the file.
    """
    for number, line in enumerate(_lines(path), start=1):
        if line.strip():
            yield number, _json(line), line.endswith(b"\n")


def _json(line: bytes) -> object:
    """Return the content of a line; a text that is no JSON as it is, to be refused with the rule."""
    try:
        return json.loads(line)
    except NOT_PARSED:
        return line.decode(errors="replace").strip()


def _lines(path: Path) -> Iterator[bytes]:
    """Yield the lines of a file, long ones in parts; none if it is not there."""
    if not is_named(path):
        return
    with open_regular(path, "verdicts") as file:
        try:
            while line := file.readline(LONGEST):
                yield line
        except OSError as error:
            raise MissingError(f"verdicts {path} cannot be read: {error.strerror or error}.") from None


class Said(Protocol):
    """What a person said, as a line of a file."""

    def line(self) -> str:
        """Return the line, with its end."""


def append_verdicts(path: Path, verdicts: Iterable[Said]) -> None:
    """Append verdicts to a file and sync it; a last line that was cut short keeps a line of its own.

    Raises WriteError if the system fails to write. What was written before is still there.
    """
    content = "".join(verdict.line() for verdict in verdicts).encode()
    unshare(path)
    try:
        is_new = not is_named(path)
        flags = open_flags("O_RDWR", "O_CREAT", "O_APPEND", "O_NOFOLLOW", "O_CLOEXEC")
        with os.fdopen(os.open(path, flags, 0o666), "ab+", buffering=0) as file:
            _append_lines(file, content)
        if is_new:
            sync(path.parent)
    except OSError as error:
        raise WriteError(f"verdicts {path} could not be written: {error.strerror or error}.") from error


def _append_lines(file: FileIO, content: bytes) -> None:
    """Append lines to a file and sync it; where that fails, its content is what it was."""
    end = file.tell()
    if end:
        file.seek(-1, os.SEEK_END)
        content = content if file.read(1) == b"\n" else b"\n" + content
    try:
        while content:
            content = content[file.write(content) :]
        os.fsync(file.fileno())
    except OSError:
        with suppress(OSError):
            file.truncate(end)
        raise


def given_verdicts(path: Path) -> list[Verdict]:
    """Return the verdicts of a file that a user names.

    Raises MissingError if the file is not there, DataError if it is no text in UTF-8, or a line of it is none.
    """
    text = read_text(path, "verdicts", DataError)
    given = read_verdicts(path)
    if given.damaged or (text.strip() and not given.by_class):
        count, first = len(given.damaged) or 1, next(iter(given.damaged), 1)
        bad = f"{count:,} lines are none, the first line {first}: {given.reason}"
        raise DataError(f"{path} must hold verdicts alone, one a line; {bad}")
    return list(given)


def check_own_verdicts(run: RunFolder) -> None:
    """Raise SettingsError, with the way out, if lapsvm did not write the run's file of verdicts.

    Training takes one that was put there by hand, too, but nothing is added to it.
    """
    path = run.verdicts_file
    if path.is_file() and not run.files.owns(path) and read_verdicts(path).by_class:
        merge = f"lapsvm review --out {shlex.quote(str(run.path))} --merge FILE"
        raise SettingsError(
            f"verdicts {path} were put there by hand, so nothing is added to them; move the file away and take it in "
            f"with {merge}."
        )
    run.files.check([path])


def add_verdicts(run: RunFolder, verdicts: Iterable[Verdict]) -> list[Verdict]:
    """Append the verdicts that a run does not have yet, and return them; "skip" says nothing and replaces none.

    Raises SettingsError if the run's file of verdicts is another program's, WriteError if they could not be saved.
    """
    present = read_verdicts(run.verdicts_file)
    new = [one for one in verdicts if _is_news(one, present.of_class(one.class_name).get(one.picture))]
    if new:
        check_own_verdicts(run)
        run.files.claim([run.verdicts_file])
        append_verdicts(run.verdicts_file, new)
    return new


def _is_news(given: Verdict, present: Verdict | None) -> bool:
    return given != present and (given.verdict != "skip" or present is None)


def _wrong_names(entry: Mapping[str, Any]) -> list[str]:
    """Return the names whose values break the rule of `RULE`."""
    boxes, seconds = entry.get("boxes", []), entry.get("seconds")
    rules = {
        **{name: isinstance(entry.get(name), str) and bool(entry[name]) for name in ("picture", "class")},
        "verdict": entry.get("verdict") in VERDICTS,
        "order": entry.get("order", "next") in ORDERS,
        "pixels": isinstance(entry.get("pixels"), str | None),
        "boxes": are_boxes(boxes) and (entry.get("verdict") == "boxes") == bool(boxes),
        "candidates": are_boxes(entry.get("candidates", [])),
        "seconds": seconds is None or (_is_number(seconds) and seconds >= 0),
    }
    return [name for name, is_kept in rules.items() if not is_kept]


def are_boxes(value: object) -> bool:
    """Return whether a value is a list of boxes with an area."""
    if not isinstance(value, list) or len(value) > MOST_BOXES:
        return False
    are_numbers = all(isinstance(box, list) and len(box) == 4 and all(map(_is_number, box)) for box in value)
    return are_numbers and all(x1 < x2 and y1 < y2 for x1, y1, x2, y2 in value)


def as_boxes(corners: Iterable[Iterable[float]]) -> tuple[Box, ...]:
    """Return corners of boxes as a tuple of tuples of floats."""
    return tuple((float(x1), float(y1), float(x2), float(y2)) for x1, y1, x2, y2 in corners)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e9 and math.isfinite(value)
