"""New pictures that a person judged after training, and their file ``RUN/taught.jsonl``: one JSON object a line.

They are training pictures of the run from then on, so a data set is read with them, and their boxes
are verdicts like others. A later line of the same picture replaces an earlier one.
"""

import json
import os
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

from lapsvm.catalog import ImageRecord
from lapsvm.errors import DataError, LapsvmError
from lapsvm.names.kinds import is_no_class_name
from lapsvm.names.outputs import allowed, n_bytes
from lapsvm.texts.sentences import counted, shown

from ..run.checked_files import file_hash
from ..run.folder import RunFolder
from .verdict import Box, Verdict, VerdictLog, append_verdicts, are_boxes, as_boxes, read_lines

RIGHT, MISSED, FALSE_ALARM, NOTHING = "right", "missed", "false alarm", "nothing"
SAID = (RIGHT, MISSED, FALSE_ALARM, NOTHING)
Shows = Mapping[str, tuple[Box, ...]]
"""Class -> its boxes in a picture, none where they are not known."""
LONGEST_NAME = 200
"""Bytes of the longest name of a class."""
_TEXTS = ("picture", "file", "hash", "pixels", "said", "decision")
RULE = (
    f"a line must be a JSON object with the texts {', '.join(_TEXTS)} ({', '.join(SAID)}), and shows: null, or class "
    "to boxes [x1, y1, x2, y2]"
)


@dataclass(frozen=True)
class TaughtPicture:
    """A new picture, and what a person said of the decision on it.

    Attributes
    ----------
    picture : str
        Its id among the training pictures.
    file : str
        Its path; relative to the run's folder where it was copied into it.
    hash, pixels : str
        The hashes of the file's content and of the picture's pixels.
    said : "right", "missed", "false alarm" or "nothing"
    decision : str
        The program's: "ok", or what raised the alarm.
    shows : mapping of class to boxes, or None
        Every class that it shows, none in a good picture. None where that is not known: it teaches nothing.
    """

    picture: str
    file: str
    hash: str
    pixels: str
    said: str
    decision: str
    shows: Shows | None

    def line(self) -> str:
        """Return the line of the file, with its end."""
        return json.dumps(vars(self)) + "\n"

    @classmethod
    def parsed(cls, entry: object) -> Self:
        """Return the picture of a parsed line; DataError, which names the rule, if it is none."""
        if not isinstance(entry, dict) or not _is_kept(entry):
            raise DataError(f"{RULE}, got {shown(entry)}.")
        shows = entry["shows"]
        boxes = None if shows is None else {name: as_boxes(of_class) for name, of_class in shows.items()}
        return cls(**{name: entry[name] for name in _TEXTS}, shows=boxes)


def _is_kept(entry: Mapping[str, Any]) -> bool:
    """Return whether an entry keeps `RULE`."""
    shows = entry.get("shows", ())
    are_texts = all(isinstance(entry.get(name), str) and entry[name] for name in _TEXTS)
    has_boxes = shows is None or (isinstance(shows, dict) and all(map(are_boxes, shows.values())))
    return are_texts and has_boxes and entry["said"] in SAID and all(map(is_class_name, shows or ()))


def is_class_name(name: str) -> bool:
    """Return whether a class may have this name: it becomes that of a file, and means no good picture."""
    is_file_name = name.isprintable() and allowed(name) == name and n_bytes(name) <= LONGEST_NAME
    return is_file_name and not name.startswith(".") and not is_no_class_name(name)


def new_id(path: Path, pixels: str) -> str:
    """Return the id of a new picture: the hash of its pixels and its name, so that equal names do not meet."""
    return f"new-{pixels[:8]}/{quote(os.fsencode(path.stem))}"


def read_taught(path: Path) -> dict[str, TaughtPicture]:
    """Return picture -> what was said last of it; none if the file is not there.

    A last line that a killed process left unfinished is left out. Raises DataError if another line is no picture,
    MissingError if the file cannot be read.
    """
    found = dict[str, TaughtPicture]()
    for number, content, is_whole in read_lines(path):
        try:
            one = TaughtPicture.parsed(content)
        except DataError as error:
            if is_whole:
                raise DataError(f"{path}, line {number}: {error}") from None
        else:
            found[one.picture] = one
    return found


def add_taught(run: RunFolder, picture: TaughtPicture) -> None:
    """Append a picture to the run's file.

    Raises SettingsError if the file is another program's, WriteError if it could not be saved.
    """
    run.files.claim([run.taught_file])
    append_verdicts(run.taught_file, [picture])


@dataclass(frozen=True)
class Taught:
    """The new pictures that teach a run, and sentences on those that do not.

    Attributes
    ----------
    pictures : sequence of TaughtPicture
    records : sequence of ImageRecord
        Of the same, with the classes that they show.
    notes : sequence of str
    """

    pictures: Sequence[TaughtPicture] = ()
    records: Sequence[ImageRecord] = ()
    notes: Sequence[str] = ()

    @classmethod
    def of(cls, run: RunFolder) -> Self:
        """Return the new pictures of a run; errors are those of `read_taught`."""
        kept, changed, gone = list[TaughtPicture](), list[str](), list[str]()
        for one in read_taught(run.taught_file).values():
            path = run.path / one.file
            if one.shows is None:
                continue
            try:
                is_same = file_hash(path, "picture") == one.hash
            except LapsvmError:
                gone.append(str(path))
            else:
                (kept.append(one) if is_same else changed.append(str(path)))
        records = [ImageRecord(one.picture, run.path / one.file, dict.fromkeys(one.shows or (), 1)) for one in kept]
        notes = [
            *counted(changed, "taught pictures have changed since and teach nothing"),
            *counted(gone, "taught pictures cannot be read any more and teach nothing"),
        ]
        return cls(kept, records, notes)

    def boxes(self, classes: Collection[str]) -> Iterator[Verdict]:
        """Yield the boxes of the pictures as verdicts."""
        for one in self.pictures:
            for name, boxes in (one.shows or {}).items():
                if boxes and name in classes:
                    yield Verdict(one.picture, name, "boxes", boxes, pixels=one.pixels)

    def joined(self, log: VerdictLog, classes: Collection[str]) -> VerdictLog:
        """Return verdicts with the boxes of the pictures; a verdict on such a picture replaces its boxes."""
        by_class = {name: dict(of_class) for name, of_class in log.by_class.items()}
        for one in self.boxes(classes):
            by_class.setdefault(one.class_name, {}).setdefault(one.picture, one)
        return replace(log, by_class=by_class)

    @property
    def sentence(self) -> str:
        """The numbers of pictures by what was said of them; "" without any."""
        counts = Counter(one.said for one in self.pictures)
        parts = ", ".join(f"{counts[said]} {said}" for said in SAID if counts[said])
        return f"{len(self.pictures):,} new pictures are training pictures: {parts}" if parts else ""
