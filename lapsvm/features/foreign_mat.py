"""Windows from MATLAB's files up to version 7: R-CNN's feature caches, and the lists of boxes of Fast R-CNN and WSDDN.

Version 7.3 is another format (HDF5), which is refused with the way out.
"""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lapsvm.arrays import Array
from lapsvm.errors import ForeignFileError, MissingError
from lapsvm.features.foreign import (
    FEATURE_NAMES,
    TRUTH_NAME,
    ArrayNames,
    BoxConvention,
    ForeignSource,
    ForeignWindows,
    checked_windows,
)
from lapsvm.features.foreign_numpy import FilePerPicture, files_below

IMAGES = "images"
CACHE = BoxConvention("xyxy", 1, "inclusive")
LIST = BoxConvention("yxyx", 1, "inclusive")
EDGE_BOXES = BoxConvention("xywh", 1, "inclusive")
_HDF5 = b"MATLAB 7.3"


@dataclass(frozen=True)
class MatList:
    """One file with cell arrays: the pictures' names, their boxes, and perhaps their features.

    Attributes
    ----------
    where : str
    places : mapping of name to number
    boxes : sequence of arrays
    features : sequence of arrays, or None
    convention : BoxConvention
    """

    where: str
    places: Mapping[str, int]
    boxes: Sequence[Array]
    features: Sequence[Array] | None
    convention: BoxConvention

    @property
    def keys(self) -> tuple[str, ...]:
        """The pictures' names."""
        return tuple(self.places)

    @property
    def has_features(self) -> bool:
        """Whether there are features, not boxes alone."""
        return self.features is not None

    def read(self, key: str, features: bool = True) -> ForeignWindows:
        """Return the windows of a picture."""
        place = self.places[key]
        values = self.features[place] if features and self.features is not None else None
        return checked_windows(f"{self.where}, picture {key}", self.boxes[place], values)


def open_mat(path: Path, names: ArrayNames) -> ForeignSource:
    """Open a ``.mat`` file of all pictures, or a folder with one for each.

    A file of all pictures has the cell array ``images`` of names and one of boxes, which are taken as y1, x1, y2, x2,
    1-based, the last pixels inside, as selective search, MCG and WSDDN write them. A file of one picture has an array
    of boxes (or a struct with one): with features, as R-CNN caches them, these are x1, y1, x2, y2, 1-based, the last
    pixels inside, and rows whose ``gt`` is 1 are annotated objects; ``bbs`` are EdgeBoxes' x, y, width, height; others
    are taken as those of a list.

    Raises
    ------
    MissingError
        If there is none.
    ForeignFileError
        If the first one is of version 7.3, truncated, or lacks its boxes.
    """
    files = files_below(path, ".mat")
    if not files:
        raise MissingError(f"folder {path} holds no .mat file.")
    first = next(iter(files.values()))
    there = variables(first)
    if IMAGES in there:
        if path.is_dir() and len(files) > 1:
            raise ForeignFileError(f"folder {path} holds lists of pictures such as {first}; name the files themselves.")
        return _list(first, names)
    content = _picture(first, names, features=False)
    has_features = names.features_in(content, str(first)) is not None
    boxes = names.boxes_in(content, str(first))
    convention = CACHE if has_features else EDGE_BOXES if boxes == "bbs" else LIST
    return FilePerPicture(path, files, read_mat, has_features, names, convention)


def variables(path: Path) -> tuple[str, ...]:
    """Return the names of the variables in a file."""
    from scipy.io import whosmat

    return tuple(name for name, _, _ in _told(path, lambda: whosmat(str(path))))


def read_mat(path: Path, names: ArrayNames, features: bool) -> ForeignWindows:
    """Return the windows of one picture's file."""
    where, content = str(path), _picture(path, names, features)
    boxes = content[names.boxes_in(content, where)]
    name = names.features_in(content, where) if features else None
    return checked_windows(where, boxes, None if name is None else content[name], content.get(TRUTH_NAME))


def _picture(path: Path, names: ArrayNames, features: bool) -> Mapping[str, Any]:
    """Return the variables of one picture's file, or the fields of its only struct; large ones only where wanted."""
    there = variables(path)
    possible = {names.features} if names.features else set(FEATURE_NAMES)
    left_unread = set() if features else possible & set(there)
    content = _load(path, [name for name in there if name not in left_unread])
    structs = [value for value in content.values() if value.dtype.names and value.size == 1]
    if len(structs) == 1:
        content = {name: structs[0].flat[0][name] for name in structs[0].dtype.names or ()}
    return {**dict.fromkeys(left_unread), **content}


def _list(path: Path, names: ArrayNames) -> MatList:
    """Return the lists of a file of all pictures."""
    there, where = variables(path), str(path)
    boxes_name, features_name = names.boxes_in(there, where), names.features_in(there, where)
    content = _load(path, [name for name in (IMAGES, boxes_name, features_name) if name is not None])
    cells = {name: list(value.ravel()) for name, value in content.items()}
    keys = tuple(_text(where, cell) for cell in cells[IMAGES])
    for name, own in cells.items():
        if len(own) != len(keys):
            raise ForeignFileError(f"{where}: {name} must have one cell per picture, got {len(own)} for {len(keys)}.")
    if len(set(keys)) != len(keys):
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ForeignFileError(f"{where} must name each picture once, got {twice!r} twice.")
    places = {key: place for place, key in enumerate(keys)}
    return MatList(where, places, cells[boxes_name], None if features_name is None else cells[features_name], LIST)


def _load(path: Path, wanted: Sequence[str]) -> dict[str, Array]:
    """Return variables of a file."""
    from scipy.io import loadmat

    content = _told(path, lambda: loadmat(str(path), variable_names=list(wanted)))
    return {name: np.asarray(value) for name, value in content.items() if not name.startswith("__")}


def _told(path: Path, read: Any) -> Any:
    """Return what `read` returns; damage is told in a sentence."""
    from scipy.io.matlab import MatReadError

    damage = (MatReadError, ValueError, TypeError, KeyError, IndexError, EOFError, OSError, zlib.error, MemoryError)
    try:
        with path.open("rb") as file:
            if file.read(len(_HDF5)) == _HDF5:
                raise NotImplementedError
        return read()
    except NotImplementedError:
        raise ForeignFileError(
            f"{path} is of MATLAB's version 7.3, which is not read; load it in MATLAB and save it with '-v7'."
        ) from None
    except damage as error:
        raise ForeignFileError(f"{path} is truncated, or no .mat file: {str(error).rstrip('.')}.") from None


def _text(where: str, cell: Any) -> str:
    """Return the text of a cell."""
    text = np.asarray(cell).ravel()
    if text.size != 1 or text.dtype.kind != "U":
        raise ForeignFileError(f"{where}: {IMAGES} must be names of pictures, got {text.dtype} of {text.size} values.")
    return str(text[0])
