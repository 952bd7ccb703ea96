"""Which picture of a run a name of another program means: by file name, and by folders where file names are equal."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import PurePath, PurePosixPath
from unicodedata import normalize
from urllib.parse import unquote

from lapsvm.catalog import ImageRecord
from lapsvm.texts.agreement import agreed

from ..run.groups import EXPORTED

Parts = tuple[str, ...]
Picture = tuple[str, str]  # set, id
_UPLOADED = re.compile(r"^(?:.*[/\\])?[0-9a-f]{8}-(?=[^/\\]+$)", re.IGNORECASE)
"""What Label Studio puts before the name of a file that it was given, in a folder of its own."""


@dataclass(frozen=True)
class PictureMatches:
    """Pictures of a run with the number of the named picture that each of them is, and the numbers of the others.

    Attributes
    ----------
    pictures : dict of (set, id) to number
        A file that is in two sets is matched in both.
    unknown : list of int
        Named pictures that are none of the run's.
    ambiguous : list of int
        Named pictures that may be several of the run's, or whose name means one less closely than another's.
    unequal : list of int
        Named pictures that mean one of the run's and differ in what is said of it.
    """

    pictures: dict[Picture, int]
    unknown: list[int]
    ambiguous: list[int]
    unequal: list[int]


@dataclass(frozen=True)
class _File:
    """A file of the run: the paths that it may be named by, without suffix, and its pictures."""

    paths: tuple[Parts, ...]
    pictures: tuple[Picture, ...]


def match_pictures(
    names: Sequence[Sequence[str]], records: Mapping[str, Sequence[ImageRecord]], contents: Sequence[object] = ()
) -> PictureMatches:
    """Match named pictures with the pictures of a run.

    A name means the picture with the same file name, its suffix aside, and what programs add to a name if it means none
    with that. If several pictures have it, it means the one with the most folders in common, counted from the file
    upwards.

    Parameters
    ----------
    names : sequence of sequence of str
        Of each picture, its names in order of preference: the first that means one picture counts.
    records : mapping of set name to its pictures
    contents : sequence, optional
        What is said of each named picture: where equal things are said of one picture of the run, the first counts. By
        default they are all different.

    Returns
    -------
    PictureMatches
    """
    index = _index(records)
    best: dict[_File, list[tuple[int, int]]] = defaultdict(list)  # file -> (folders in common, number)
    unknown: list[int] = []
    ambiguous: list[int] = []
    for number, alternatives in enumerate(names):
        candidates = [_closest(index, name) for name in with_originals(alternatives)]
        chosen = next((found for found in candidates if len(found[1]) == 1), None)
        if chosen is not None:
            best[chosen[1][0]].append((chosen[0], number))
        else:
            (ambiguous if any(files for _, files in candidates) else unknown).append(number)
    highest = {file: max(depth for depth, _ in entries) for file, entries in best.items()}
    closest = [(file, number) for file, of in best.items() for depth, number in of if depth == highest[file]]
    together = agreed(closest, same=lambda one, other: bool(contents) and contents[one] == contents[other])
    pictures = {picture: number for file, number in together.taken.items() for picture in file.pictures}
    ambiguous += [number for file, of in best.items() for depth, number in of if depth < highest[file]]
    unequal = [number for file, number in closest if file in together.unequal]
    return PictureMatches(pictures, unknown, sorted(ambiguous), sorted(unequal))


def with_originals(names: Iterable[str]) -> tuple[str, ...]:
    """Return names, and behind them those that the files may have had before other programs took them in.

    These quote a name as in an address, put eight digits and a hyphen before it, or a suffix and a hash behind it.
    """
    given = tuple(names)
    plain = [unquote(name) for name in given]
    return tuple(dict.fromkeys((*given, *plain, *(EXPORTED.sub("", _UPLOADED.sub("", name)) for name in plain))))


def _index(records: Mapping[str, Sequence[ImageRecord]]) -> dict[str, list[_File]]:
    """Return file name, with and without suffix, -> files of the run."""
    sharing: dict[PurePath, list[Picture]] = defaultdict(list)
    for set_name, of_set in records.items():
        for record in of_set:
            sharing[record.path].append((set_name, record.id))
    index: dict[str, list[_File]] = defaultdict(list)
    for path, pictures in sharing.items():
        composed = PurePath(normalize("NFC", str(path)))
        parts = (*composed.parts[:-1], composed.stem)
        ids = {path_parts(image_id) for _, image_id in pictures}
        file = _File((parts, *sorted(ids - {parts})), tuple(pictures))
        for key in dict.fromkeys((composed.name, composed.stem, *(own[-1] for own in ids if own))):
            index[key].append(file)
    return index


def _closest(index: Mapping[str, list[_File]], name: str) -> tuple[int, list[_File]]:
    """Return how many folders a name has in common with the files of its file name at most, and these files."""
    parts = path_parts(name)
    if not parts:
        return 0, []
    files = index.get(parts[-1]) or index.get(PurePosixPath(parts[-1]).stem) or []
    depths = [max(_common_folders(parts, path) for path in file.paths) for file in files]
    deepest = max(depths, default=0)
    return deepest, [file for file, depth in zip(files, depths, strict=True) if depth == deepest]


def _common_folders(name: Parts, path: Parts) -> int:
    """Return how many folders above two files have equal names, counted from the file upwards."""
    pairs = zip(reversed(name[:-1]), reversed(path[:-1]), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def path_parts(name: str) -> Parts:
    """Return the parts of a path of any system, without a root, in one form of accents (NFC)."""
    return tuple(part for part in normalize("NFC", name).replace("\\", "/").split("/") if part not in ("", "."))
