"""What a person changed in an export, as verdicts.

An export that comes back unchanged says nothing: nobody need have looked. So a picture gets a verdict of a class where
its boxes of the class differ from those that were exported: the boxes that there are now are true; where all were
removed, those that were exported are rejected. A picture with an annotation that is not understood, such as a polygon
or a box of a class that the run lacks, says nothing: it is named and left out. Boxes that were left as they were count
where the file itself says that a person submitted the picture (Label Studio), or the person who merges says so.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path, PurePosixPath

import numpy as np

from lapsvm.annotations.export import EXPORTED, read_exported
from lapsvm.annotations.exported import AnnotatedPicture, clip_boxes
from lapsvm.annotations.pictures import SHARES, FileBox, FilePicture
from lapsvm.arrays import Float64
from lapsvm.box_faults import box_faults, smaller_sentence
from lapsvm.boxes import as_boxes
from lapsvm.catalog import ImageRecord
from lapsvm.errors import DataError
from lapsvm.names.matching import NameIndex, common_folders, path_parts, with_originals
from lapsvm.texts.agreement import agreed, distinct
from lapsvm.texts.sentences import counted, shown

from ..shards.windows import UnusableError, run_pixels
from ..verdicts.verdict import Box, Verdict, VerdictLog
from .mended_files import read_mended

TWICE = "pictures have a box twice, which counts once"
TOLERANCE = 1.0
"""Pixels by which formats move corners: VOC's are whole, and a thin box becomes a pixel wide."""


class MendedExport:
    """An export that a person may have mended.

    Parameters
    ----------
    path : Path
        A folder that `lapsvm export` wrote, or a file of another program in it.
    hashes : mapping of picture id to str
        Of the pixels of the run's training pictures, as in its shards.
    classes : sequence of str
        Of the run.

    Attributes
    ----------
    format_name : str
    sentences : list of str
        What of the export says nothing, by name.

    Raises
    ------
    DataError
        If there is no record of what was exported, or a file breaks a rule.
    MissingError
        If it is not there.
    """

    def __init__(self, path: Path, hashes: Mapping[str, str], classes: Sequence[str]) -> None:
        self._classes = classes
        self.format_name, file = read_mended(path)
        exported = read_exported(_record_of(path))
        matched, unknown, unequal = match_exported(file.pictures, exported)
        changed = [name for name in matched if hashes.get(exported[name].id, "") != exported[name].pixels]
        absent = [name for name in changed if exported[name].id not in hashes]
        resized = [name for name in matched if not _has_size(matched[name], exported[name])]
        unmarked = [name for name in matched if not matched[name].is_marked and len(exported[name].boxes)]
        faults = _faults(
            {name: (exported[name], item) for name, item in matched.items() if name not in {*changed, *resized}},
            classes,
        )
        left_out = {*changed, *resized, *unmarked, *chain.from_iterable(faults.values())}
        self._pairs = [(exported[name], item) for name, item in matched.items() if name not in left_out]
        self._present = {box.class_name for item in matched.values() for box in item.boxes}
        notes = [
            *file.remarks,
            *counted(unknown, "pictures were not exported, or cannot be told apart, and are left out"),
            *counted(unequal, "pictures are given twice with different boxes, of which none are taken"),
            *counted(sorted(exported.keys() - {*matched, *unequal}), "exported pictures are missing and say nothing"),
            *counted(absent, "pictures are none of the training set and are left out"),
            *counted(sorted({*changed} - {*absent}), "pictures have changed since and are left out"),
            *counted(sorted({*resized} - {*changed}), "pictures have another size than exported and are left out"),
            *counted(unmarked, "pictures have neither an annotation nor the exported boxes and say nothing"),
        ]
        for fault, names in faults.items():
            notes += counted(names, f"pictures have an annotation {fault} and are left out")
        notes += _remarks(matched)
        unstated = [(item, picture) for picture, item in self._pairs if item.size is None]
        sized = ((box.corners, (of.width, of.height)) for item, of in unstated for box in item.boxes)
        notes += [asked for asked in [smaller_sentence(sized)] if asked]
        self.sentences = [note if note.endswith("?") else f"{note}." for note in notes]

    def verdicts(self, log: VerdictLog, *, accept_unchanged: bool = False) -> list[Verdict]:
        """Return the verdicts of a person, in the order of the file; further sentences name entries that are none.

        A picture that was drawn at random stays one, whatever the boxes that it has now. That all boxes of a class are
        gone from a picture is a verdict if the file has that class's boxes in others, says that a person submitted the
        picture, or is accepted: else the class may have been deleted, or its boxes never came into the other program.

        Parameters
        ----------
        log : VerdictLog
            Of the run.
        accept_unchanged : bool, default False
            Whether boxes that were left as they were exported are accepted, and so are pictures without any.
        """
        found, gone = list[Verdict](), defaultdict[str, list[str]](list)
        for exported, mended in self._pairs:
            accepts = accept_unchanged or mended.is_submitted
            for name in self._classes:
                verdict = _verdict(name, exported, mended, log, accepts)
                if verdict is not None and verdict.verdict == "none" and not accepts and name not in self._present:
                    gone[name].append(exported.name)
                elif verdict is not None:
                    found.append(verdict)
        what = "pictures had the only boxes of class {0!r}, which the file has no more, and say nothing"
        notes = (note for name, names in gone.items() for note in counted(names, what.format(name)))
        self.sentences += [f"{note}; --accept-unchanged takes them as emptied." for note in notes]
        return found


def _verdict(
    name: str, exported: AnnotatedPicture, mended: FilePicture, log: VerdictLog, accepts: bool
) -> Verdict | None:
    """Return the verdict that the boxes of one class in a picture give; None if they give none."""
    shown = exported.boxes[[item == name for item in exported.classes]]
    boxes = _in_pixels(mended, exported)[[item.class_name == name for item in mended.boxes]]
    near = np.abs(boxes[:, None] - shown[None]).max(axis=2) <= TOLERANCE
    nearest = [shown[np.argmax(row)] if row.any() else box for box, row in zip(boxes, near, strict=True)]
    kept, given = distinct(_rounded(nearest))[0], distinct(_rounded(shown))[0]
    if {*kept} == {*given} and not (accepts and kept):
        return None
    earlier = log.of_class(name).get(exported.id)
    order = "next" if earlier is None else earlier.order
    kind = "boxes" if kept else "none"
    return Verdict(exported.id, name, kind, tuple(kept), tuple(given), exported.pixels, order)


def _remarks(pictures: Mapping[str, FilePicture]) -> list[str]:
    """Return the sentences on entries that are passed over, one for each kind."""
    of_kind = defaultdict[str, list[str]](list)
    for name, item in pictures.items():
        boxes = [(box.class_name, box.corners) for box in item.boxes if not box.problem]
        for remark in (*item.remarks, *([TWICE] if distinct(boxes)[1] else [])):
            of_kind[remark].append(name)
    return [note for remark, names in of_kind.items() for note in counted(names, remark)]


def _in_pixels(mended: FilePicture, exported: AnnotatedPicture) -> Float64:
    """Return the boxes (n, 4) in pixels, cut to the picture."""
    size = (exported.width, exported.height)
    return clip_boxes(_unclipped(mended, mended.boxes, size), *size)[0]


def _unclipped(mended: FilePicture, boxes: Sequence[FileBox], size: tuple[int, int]) -> Float64:
    """Return boxes (n, 4) of a picture in pixels."""
    corners = as_boxes(np.array([box.corners for box in boxes], dtype=np.float64).reshape(-1, 4))
    return np.asarray(corners * (np.array(size * 2) if mended.size == SHARES else 1))


def _faults(pairs: Mapping[str, tuple[AnnotatedPicture, FilePicture]], classes: Sequence[str]) -> dict[str, list[str]]:
    """Return fault -> pictures with such an annotation; nobody knows what else these show."""
    faults = defaultdict[str, list[str]](list)
    for name, (exported, mended) in pairs.items():
        size = (exported.width, exported.height)
        judged = [box for box in mended.boxes if not box.problem]
        found = [box.problem for box in mended.boxes if box.problem] + box_faults(
            _unclipped(mended, judged, size), size
        )
        others = sorted({box.class_name for box in judged} - {*classes})
        found += [f"of a class that the run lacks ({shown(others[0])})"] if others else []
        for fault in dict.fromkeys(filter(None, found)):
            faults[fault].append(name)
    return faults


def _has_size(mended: FilePicture, exported: AnnotatedPicture) -> bool:
    return mended.size in (None, SHARES, (exported.width, exported.height))


def match_exported(
    pictures: Sequence[FilePicture], exported: Collection[str]
) -> tuple[dict[str, FilePicture], list[str], list[str]]:
    """Return name of an exported picture -> picture of a file, and two lists of names: those that mean no exported
    picture, and exported pictures of which the file says different things.

    A picture's first name that means one exported picture counts: the same path, or the end of it, its suffix aside
    where the name has none. Beside records that a person submitted others say nothing.
    """
    lasts = {name: PurePosixPath(path_parts(name)[-1]) for name in exported}
    by_file = NameIndex((key, name) for name, last in lasts.items() for key in {last.name, last.stem})
    found, unknown = defaultdict[str, list[FilePicture]](list), []
    for picture in pictures:
        meant = [names[0] for name in with_originals(picture.names) if len(names := list(_meant(name, by_file))) == 1]
        if meant:
            found[meant[0]].append(picture)
        else:
            unknown.append(picture.names[0])
    said = {name: [item for item in of_one if item.is_submitted] or of_one for name, of_one in found.items()}
    records = ((name, item) for name, of_one in said.items() for item in of_one)
    together = agreed(records, same=FilePicture.says_as)
    return together.taken, unknown, list(together.unequal)


def _meant(name: str, by_file: NameIndex[str]) -> Iterator[str]:
    """Yield the exported pictures whose folders end as those of a name, or the other way round."""
    parts = path_parts(name) or ("",)
    for candidate in by_file.meant(parts[-1]):
        own = path_parts(candidate)
        if common_folders(own, parts)[0] == min(len(own), len(parts)) - 1:
            yield candidate


def _record_of(path: Path) -> Path:
    """Return the record of an export for its folder or a file in it; DataError if there is none."""
    folder = path if path.is_dir() else path.parent
    record = folder / EXPORTED
    if not record.is_file():
        raise DataError(f"{path} must be in the folder that lapsvm export wrote, beside {EXPORTED}.")
    return record


def _rounded(boxes: Sequence[Float64] | Float64) -> tuple[Box, ...]:
    return tuple((x1, y1, x2, y2) for x1, y1, x2, y2 in np.round(np.reshape(boxes, (-1, 4)), 2).tolist())


def unseen_pictures(verdicts: Sequence[Verdict], records: Mapping[str, ImageRecord]) -> dict[str, str]:
    """Return picture -> a sentence, for pictures that a person cannot have seen as the run has them."""
    unseen = {}
    for picture, pixels in {item.picture: item.pixels for item in verdicts}.items():
        try:
            if picture not in records:
                raise UnusableError(f"picture {picture} is no longer in the data set, so it is left out.")
            run_pixels(records[picture], pixels)
        except UnusableError as error:
            unseen[picture] = str(error)
    return unseen
