"""The pictures that `lapsvm predict` is to see, and the files that are drawn of each."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from lapsvm.errors import MissingError, OptionError
from lapsvm.names.kinds import PICTURE_SUFFIXES, is_picture_name, is_system_name
from lapsvm.names.outputs import OutputNames

from .boxes import is_drawing

BOXES, HEATMAP, OBJECTNESS = "{}.png", "{}.heatmap.png", "{}.objectness.png"
"""The names of the files with boxes, with a score map and with what stands out."""


@dataclass(frozen=True)
class Drawing:
    """The files that are drawn of one picture: that with boxes, and those with maps, if there are any."""

    boxes: Path
    heatmap: Path | None = None
    objectness: Path | None = None

    @property
    def files(self) -> list[Path]:
        """The files, one to three."""
        return [file for file in (self.boxes, self.heatmap, self.objectness) if file is not None]


class PictureFile(NamedTuple):
    """A picture, and its place among the drawings: its path in the folder that was named, or its name."""

    path: Path
    place: Path


def picture_files(paths: Iterable[Path], say: Callable[[str], None], drawn: Path | None = None) -> list[PictureFile]:
    """Return the pictures of files, and of folders with all folders in them, those of a folder sorted by path.

    Parameters
    ----------
    paths : iterable of Path
    say : callable
        Is called with one line for each folder that holds something else, too.
    drawn : Path, optional
        The folder of drawings, which is passed over inside of another one.

    Raises
    ------
    MissingError
        If a folder has none.
    """
    files: list[PictureFile] = []
    for path in paths:
        if not path.is_dir():
            files.append(PictureFile(path, Path(path.name)))
            continue
        inside = sorted(_files_in(path, drawn), key=lambda file: file.relative_to(path).parts)
        pictures = [PictureFile(file, file.relative_to(path)) for file in inside if _is_picture(file)]
        if not pictures:
            raise MissingError(f"folder {path} holds no picture ({', '.join(PICTURE_SUFFIXES)}), nor do folders in it.")
        if len(pictures) < len(inside):
            say(f"folder {path}: {len(pictures)} pictures; left out: {len(inside) - len(pictures)} others")
        files += pictures
    return files


def _files_in(folder: Path, drawn: Path | None) -> Iterator[Path]:
    """Yield the files below a folder, each folder once, and the folders of the system without what is in them."""
    passed = {os.path.realpath(path) for path in [folder, *([] if drawn is None else [drawn])]}
    for directory, names, files in os.walk(folder, followlinks=True):
        here = Path(directory)
        yield from (here / name for name in files)
        yield from (here / name for name in names if is_system_name(name))
        new = {os.path.realpath(here / name): name for name in sorted(names, reverse=True) if not is_system_name(name)}
        names[:] = sorted(name for real, name in new.items() if real not in passed)
        passed |= new.keys()


def _is_picture(path: Path) -> bool:
    """Return whether a file of a folder is taken for a picture by its name."""
    return is_picture_name(path.name) and not path.is_dir()


def drawing_files(pictures: Sequence[PictureFile], folder: Path, maps: Sequence[str] = ()) -> list[Drawing]:
    """Return the files of each drawing: the picture's place, numbered if it is not unique (a/cat.png, a/cat-2.png).

    A name is cut to the length that file systems take, and changed where a system does not allow it.

    `maps` are the names of the maps beside it: none, HEATMAP, or HEATMAP and OBJECTNESS.

    Raises
    ------
    OptionError
        If the folder is a file, or a drawing would replace a picture, or a file that is no drawing of this program.
    """
    if folder.exists() and not folder.is_dir():
        raise OptionError(f"option --draw must name a folder, got the file {folder}.")
    names = OutputNames()
    suffixes = [name.format("") for name in (BOXES, *maps)]
    places = (picture.place.with_suffix("") if picture.place.suffix else picture.place for picture in pictures)
    drawings = [Drawing(*(folder / path for path in names.new(place, suffixes))) for place in places]
    originals = {picture.path.resolve() for picture in pictures}
    for file in chain.from_iterable(drawing.files for drawing in drawings):
        if file.resolve() in originals:
            raise OptionError(f"picture {file} would be replaced by a drawing; choose another folder for --draw.")
        if os.path.lexists(file) and not is_drawing(file):
            raise OptionError(f"{file} is no drawing of lapsvm, so it is not replaced; choose another --draw.")
    return drawings
