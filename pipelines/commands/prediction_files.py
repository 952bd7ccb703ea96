"""The files of a prediction: pictures and drawings."""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, count
from pathlib import Path

from lapsvm.catalog import PICTURE_SUFFIXES
from lapsvm.errors import MissingError, OptionError

from .draw import is_drawing


def picture_files(paths: Iterable[Path], say: Callable[[str], None]) -> list[Path]:
    """Return the pictures of files and folders, those of a folder sorted by name.

    Parameters
    ----------
    paths : iterable of Path
    say : callable
        Is called with one line for each folder that holds something else, too.

    Raises
    ------
    MissingError
        If a folder has none.
    """
    files: list[Path] = []
    for path in paths:
        inside = sorted(path.iterdir()) if path.is_dir() else [path]
        pictures = [file for file in inside if not path.is_dir() or _is_picture(file)]
        if not pictures:
            raise MissingError(f"folder {path} holds no picture ({', '.join(PICTURE_SUFFIXES)}).")
        used = set(pictures)
        others = Counter(_kind(file) for file in inside if file not in used)
        if others:
            kinds = ", ".join(f"{number} {kind}" for kind, number in sorted(others.items()))
            say(f"folder {path}: {len(pictures)} pictures; left out: {kinds}")
        files += pictures
    return files


def _is_picture(path: Path) -> bool:
    """Return whether a file of a folder is taken for a picture by its name."""
    return not path.name.startswith(".") and path.suffix.lower() in PICTURE_SUFFIXES and not path.is_dir()


def _kind(path: Path) -> str:
    """Return what a file of a folder is that is no picture."""
    if path.name.startswith("."):
        return "hidden"
    if path.is_dir():
        return "folder"
    return path.suffix.lower() or "without suffix"


def drawing_files(pictures: Sequence[Path], folder: Path) -> list[Path]:
    """Return the file of each drawing: the picture's name, numbered if it is not unique (cat.png, cat-2.png).

    Raises
    ------
    OptionError
        If the folder is a file, or a drawing would replace a picture, or a file that is no drawing of this program.
    """
    if folder.exists() and not folder.is_dir():
        raise OptionError(f"option --draw must name a folder, got the file {folder}.")
    drawings: dict[Path, None] = {}
    for picture in pictures:
        numbers = chain([""], (f"-{number}" for number in count(2)))
        names = (folder / f"{picture.stem}{number}.png" for number in numbers)
        drawings[next(name for name in names if name not in drawings)] = None
    originals = {picture.resolve() for picture in pictures}
    for drawing in drawings:
        if drawing.resolve() in originals:
            raise OptionError(f"picture {drawing} would be replaced by a drawing; choose another folder for --draw.")
        if os.path.lexists(drawing) and not is_drawing(drawing):
            raise OptionError(f"{drawing} is no drawing of lapsvm, so it is not replaced; choose another --draw.")
    return list(drawings)
