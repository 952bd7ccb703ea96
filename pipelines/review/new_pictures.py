"""A review of new pictures: the program's decision on each, and what a person says of it, for the next training.

It answers the page as `ReviewSession` does, with the same pictures for every class: the class that is chosen there is
the one that a person saw in the picture.
"""

import shlex
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any, cast

from lapsvm.catalog import Pixels, pixel_hash, read_image
from lapsvm.detection import Decision, Predictor
from lapsvm.errors import DataError, LapsvmError, OptionError, StageError, naming
from lapsvm.files import read_regular, write_atomically
from lapsvm.inspection.decision import OK
from lapsvm.texts.sentences import shown

from ..run.checked_files import file_hash
from ..run.folder import RunFolder
from ..shards.windows import UnusableError
from ..verdicts.taught import (
    FALSE_ALARM,
    MISSED,
    NOTHING,
    RIGHT,
    SAID,
    Shows,
    TaughtPicture,
    add_taught,
    is_class_name,
    new_id,
    read_taught,
)
from ..verdicts.verdict import Box, are_boxes, as_boxes, read_lines
from .session import COUNT, LONGEST_SIDE, jpeg

_SAID_BY = {"right": RIGHT, "boxes": MISSED, "none": MISSED, "absent": FALSE_ALARM, "skip": NOTHING}
"""The verdicts of the page."""


@dataclass(frozen=True, eq=False)
class SeenPicture:
    """A new picture as the program sees it: its pixels' hash and size, the decision, and the boxes of the alarm."""

    pixels: str
    size: tuple[int, int]
    decision: Decision
    boxes: list[list[float]]


class NewPictures:
    """What the page of new pictures asks and says.

    Parameters
    ----------
    run : RunFolder
    predictor : Predictor
    files : sequence of Path
    copies : bool
        Whether pictures that teach are copied into the run's folder; else their place is stored.
    new_class : str, optional
        A class that the run does not have yet.

    Raises
    ------
    OptionError
        If the new class cannot have its name.
    StageError
        If the models have no threshold: without one there is no decision.
    MissingError
        If a file is not there.
    """

    decides = True

    def __init__(
        self, run: RunFolder, predictor: Predictor, files: Sequence[Path], *, copies: bool, new_class: str | None = None
    ) -> None:
        if predictor.shown.alarm is None:
            command = f"lapsvm threshold --out {shlex.quote(str(run.path))}"
            raise StageError(f"review --pictures needs a threshold by which pictures are decided on; {command} first.")
        if new_class is not None and not is_class_name(new_class):
            rule = "must name a class by letters that a file's name takes, and no word for good pictures"
            raise OptionError(f"option --class {rule}, got {new_class!r}.")
        self.run, self.predictor, self.files, self.copies = run, predictor, files, copies
        self._taught, self._lock = read_taught(run.taught_file), Lock()
        named = [*filter(None, [new_class]), *(detector.class_name for detector in predictor.detectors)]
        self.classes = [*dict.fromkeys([*named, *(name for one in self._taught.values() for name in one.shows or ())])]
        self._former = defaultdict[int, list[TaughtPicture]](list)
        self.seen, self.image = lru_cache(None)(self._seen), lru_cache(16)(self._image)
        self._hashes = [file_hash(path, "picture") for path in files]
        known = {one.hash: one.picture for one in self._taught.values()}
        self._ids = {row: known[digest] for row, digest in enumerate(self._hashes) if digest in known}

    def overview(self) -> list[dict[str, Any]]:
        """Return name and number of undecided pictures of every class, and what was said."""
        left = sum(self._said(row) in (None, NOTHING) for row in range(len(self.files)))
        return [{"name": name, "left": left, **self._state()} for name in self.classes]

    def _state(self) -> dict[str, Any]:
        return {"figure": self.sentence}

    @property
    def sentence(self) -> str:
        """The numbers of pictures by what was said of them."""
        counts = Counter(self._said(row) for row in range(len(self.files)))
        return ", ".join(f"{counts[said]} {said}" for said in SAID[:-1] if counts[said]) or "nothing said yet"

    def end(self) -> None:
        """Do nothing: no class learns from new pictures before the next run."""

    def figures(self) -> list[str]:
        """Return the numbers of pictures by what was said of them, in a list."""
        return [self.sentence]

    def queue(self, index: int) -> list[dict[str, Any]]:
        """Return the pictures in order, with what was said of them, and when."""
        self.classes[index]
        times = {picture: time for time, picture in enumerate(self._taught)}
        return [
            {"n": row, "verdict": self._verdict(row)["verdict"], "said": times.get(self._ids.get(row, ""), -1)}
            for row in range(len(self.files))
        ]

    def item(self, index: int, row: int) -> dict[str, Any]:
        """Return a picture's size, the decision on it with its boxes, and what was said; LookupError if there is none.

        Raises UnusableError if it cannot be read.
        """
        seen = self.seen(row)
        height, width = seen.size
        name = f"{Path(*self.files[row].parts[-2:]).as_posix()}: {seen.decision}"
        known = {"n": row, "version": 0, "picture": name, "width": width, "height": height}
        return {**known, "candidates": seen.boxes, **self._verdict(row, self.classes[index])}

    def record(self, entry: object) -> dict[str, Any]:
        """Save a verdict of the page, and return what was said of all pictures, and what it "replaced".

        Raises
        ------
        DataError
            If the entry breaks a rule.
        LookupError
            If there is no such class or picture.
        WriteError
            If it could not be saved.
        """
        if not isinstance(entry, dict) or entry.get("verdict") not in _SAID_BY:
            raise DataError(f"a verdict must be one of {', '.join(_SAID_BY)}, got {shown(entry)}.")
        index, row = entry.get("class"), entry.get("n")
        if type(index) is not int or type(row) is not int or min(index, row) < 0:
            raise LookupError(row)
        name, replaced = self.classes[index], self._verdict(row)
        if entry.get("undo") is True and self._former[row]:
            self._save(row, self._former[row].pop())
        else:
            before = self._taught.get(self._ids.get(row, ""))
            self.say(row, _SAID_BY[entry["verdict"]], name, entry.get("boxes"))
            if before is not None:
                self._former[row].append(before)
        return {**self._state(), "replaced": replaced}

    def say(self, row: int, said: str, class_name: str = "", boxes: Any = None) -> None:
        """Save a person's word on a picture; errors are those of `record`.

        A missed class adds to those that the picture was said to show before.
        """
        boxes = [] if boxes is None else boxes
        if said == MISSED and class_name not in self.classes:
            raise DataError(f"a missed class must be one of {', '.join(self.classes)}, got {shown(class_name)}.")
        if not are_boxes(boxes) or (boxes and said != MISSED):
            raise DataError(f"boxes must be a list of [x1, y1, x2, y2] of what was missed, got {shown(boxes)}.")
        seen = self.seen(row)
        corners, (height, width) = as_boxes(boxes), seen.size
        if any(x1 < 0 or y1 < 0 or x2 > width or y2 > height for x1, y1, x2, y2 in corners):
            raise DataError(f"boxes must lie in the picture of {width} x {height}, got {shown(boxes)}.")
        picture = new_id(self.files[row], seen.pixels)
        with self._lock:
            shows = self._shows(said, seen.decision, class_name, corners, self._taught.get(picture))
            file, digest = self._place(row, picture, teaches=shows is not None), self._hashes[row]
            self._save(row, TaughtPicture(picture, file, digest, seen.pixels, said, seen.decision.name, shows))

    def _shows(
        self, said: str, decision: Decision, class_name: str, boxes: tuple[Box, ...], before: TaughtPicture | None
    ) -> Shows | None:
        """Return the classes that a picture shows after a word on it, with their boxes."""
        if said == FALSE_ALARM or (said == RIGHT and decision.name == OK):
            return {}
        if said == MISSED:
            had = before.shows if before and before.said in (MISSED, RIGHT) else None
            return {**(had or {}), class_name: boxes}
        return {decision.name: ()} if said == RIGHT and decision.name in self.classes else None

    def _place(self, row: int, picture: str, *, teaches: bool) -> str:
        """Return the path of a picture that the file shall have; copy the picture where that is wanted."""
        path = self.files[row].resolve()
        if not (self.copies and teaches):
            return str(path)
        copied = self.run.taught_pictures / picture.split("/", maxsplit=1)[0] / path.name
        self.run.files.claim([copied])
        write_atomically(copied, read_regular(path, "picture"))
        return copied.relative_to(self.run.path).as_posix()

    def _save(self, row: int, one: TaughtPicture) -> None:
        add_taught(self.run, one)
        self._taught[one.picture], self._ids[row] = one, one.picture

    def _said(self, row: int) -> str | None:
        one = self._taught.get(self._ids.get(row, ""))
        return None if one is None else one.said

    def _verdict(self, row: int, class_name: str = "") -> dict[str, Any]:
        """Return the verdict on a picture, as the page takes it, with the boxes of a class."""
        one = self._taught.get(self._ids.get(row, ""))
        if one is None or one.said == NOTHING:
            return {"verdict": None, "boxes": []}
        boxes = [list(box) for box in (one.shows or {}).get(class_name, ())]
        missed = "boxes" if any((one.shows or {}).values()) else "none"
        return {"verdict": {RIGHT: "right", FALSE_ALARM: "absent", MISSED: missed}[one.said], "boxes": boxes}

    def _seen(self, row: int) -> SeenPicture:
        pixels = self._pixels(row)
        scored = self.predictor.scored(pixels)
        decision = cast("Decision", scored.decision())
        found = [
            (score, box)
            for of_class in scored.detections().values()
            for score, box in zip(of_class.scores.tolist(), of_class.boxes.tolist(), strict=True)
        ]
        boxes = [box for _, box in sorted(found, key=lambda pair: -pair[0])]
        boxes = [*([] if decision.box is None else [list(decision.box)]), *boxes]  # the place of what is unknown first
        return SeenPicture(pixel_hash(pixels), pixels.shape[:2], decision, [] if decision.is_ok else boxes[:COUNT])

    def _image(self, row: int) -> bytes:
        return jpeg(self._pixels(row), LONGEST_SIDE)

    def _pixels(self, row: int) -> Pixels:
        """Return a picture; UnusableError if it cannot be read."""
        try:
            return read_image(self.files[row])
        except IndexError:
            raise LookupError(row) from None
        except LapsvmError as error:
            raise UnusableError(str(error)) from None


def say_all(new: NewPictures, path: Path, names: Mapping[str, int]) -> None:
    """Save the words of a file, a JSON object a line with picture and said, for a missed class also class and boxes.

    `names` are the rows of pictures by their names. Raises DataError if a line breaks a rule; earlier ones are saved.
    """
    for number, content, _ in read_lines(path):
        word = content if isinstance(content, dict) else {}
        row = names.get(str(word.get("picture")))
        if "picture" not in word or word.get("said") not in SAID:
            rule = f"a line must have a picture of --pictures, and said ({', '.join(SAID)})"
            raise DataError(f"{path}, line {number}: {rule}, got {shown(content)}.")
        if row is None:
            rule = f"picture must be one of --pictures, such as {shown(next(iter(names)))}"
            raise DataError(f"{path}, line {number}: {rule}, got {shown(word['picture'])}.")
        with naming(f"{path}, line {number}"):
            new.say(row, word["said"], word.get("class", ""), word.get("boxes"))
