"""Which picture of a run a name of another program means: by file name, and by folders where file names are equal."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath, PurePosixPath

from lapsvm.catalog import ImageRecord
from lapsvm.names.matching import NameIndex, Parts, common_folders, composed, path_parts, with_originals
from lapsvm.texts.agreement import agreed

Depth = tuple[int, int]  # folders in common: in any case, and exactly
Picture = tuple[str, str]  # set, id


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
    best: dict[_File, list[tuple[Depth, int]]] = defaultdict(list)  # file -> (folders in common, number)
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


def _index(records: Mapping[str, Sequence[ImageRecord]]) -> NameIndex[_File]:
    """Return the files of the run by their names, with and without suffix."""
    sharing: dict[PurePath, list[Picture]] = defaultdict(list)
    for set_name, of_set in records.items():
        for record in of_set:
            sharing[record.path].append((set_name, record.id))
    entries = list[tuple[str, _File]]()
    for path, pictures in sharing.items():
        own = PurePath(composed(str(path)))
        parts = (*own.parts[:-1], own.stem)
        ids = {path_parts(image_id) for _, image_id in pictures}
        file = _File((parts, *sorted(ids - {parts})), tuple(pictures))
        names = (own.name, own.stem, *(one[-1] for one in ids if one))
        entries += [(name, file) for name in dict.fromkeys(names)]
    return NameIndex(entries)


def _closest(index: NameIndex[_File], name: str) -> tuple[Depth, list[_File]]:
    """Return how many folders a name has in common with the files of its file name at most, and these files."""
    parts = path_parts(name)
    if not parts:
        return (0, 0), []
    files = index.meant(parts[-1]) or index.meant(PurePosixPath(parts[-1]).stem)
    depths = [max(common_folders(parts, path) for path in file.paths) for file in files]
    deepest = max(depths, default=(0, 0))
    return deepest, [file for file, depth in zip(files, depths, strict=True) if depth == deepest]
