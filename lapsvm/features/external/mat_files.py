"""Windows from MATLAB's files up to version 7: R-CNN's feature caches, and the lists of boxes of Fast R-CNN and WSDDN.

Version 7.3 is another format (HDF5), which is refused with the way out. SciPy reads the others. Some damaged files end
the process that reads them, so it does so in a process of its own (`mat_process`), whose memory is limited on Linux.
"""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from lapsvm.arrays import check_distinct
from lapsvm.errors import ExternalFileError
from lapsvm.features.external.mat_process import MatReader
from lapsvm.features.external.numpy_files import files_below
from lapsvm.features.external.windows import ArrayNames, BoxConvention, ExternalSource, ExternalWindows, checked_windows
from lapsvm.files import read_regular
from lapsvm.texts.contents import MAT, refusal

IMAGES = "images"
CACHE = BoxConvention("xyxy", 1, "inclusive")
LIST = BoxConvention("yxyx", 1, "inclusive")
EDGE_BOXES = BoxConvention("xywh", 1, "inclusive")


def open_mat(path: Path, names: ArrayNames) -> ExternalSource:
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
    ExternalFileError
        If the first one is of version 7.3, truncated, or lacks its boxes.
    """
    files = files_below(path, ".mat")
    first = next(iter(files.values()))
    large = set(names.feature_names)
    content = read_mat_variables(first, large - {IMAGES})
    if IMAGES in content:
        if path.is_dir() and len(files) > 1:
            raise ExternalFileError(
                f"folder {path} holds lists of pictures such as {first}; name the files themselves."
            )
        return _list(first, names)
    fields = _fields(content, names)
    has_features = names.features_in(fields, str(first)) is not None
    boxes = names.boxes_in(fields, str(first))
    convention = CACHE if has_features else EDGE_BOXES if boxes == "bbs" else LIST

    def read(key: str, features: bool) -> ExternalWindows:
        content = read_mat_variables(files[key], () if features else large)
        return names.windows(str(files[key]), _fields(content, names), features)

    return ExternalSource(str(path), tuple(files), convention, has_features, read)


def _fields(content: Mapping[str, Any], names: ArrayNames) -> Mapping[str, Any]:
    """Return the variables of one picture's file, or the fields of its only struct if that holds the boxes."""
    structs = [value for value in content.values() if isinstance(value, dict)]
    if len(structs) == 1 and not any(name in content for name in names.box_names):
        return dict(structs[0])
    return content


def _list(path: Path, names: ArrayNames) -> ExternalSource:
    """Return the lists of a file of all pictures."""
    content, where = read_mat_variables(path), str(path)
    boxes_name, features_name = names.boxes_in(content, where), names.features_in(content, where)
    optional = features_name, names.objectness_in(content, where)
    cells = {name: content[name] for name in (IMAGES, boxes_name, *optional) if name is not None}
    for name, cell_rows in cells.items():
        if not isinstance(cell_rows, list):
            raise ExternalFileError(f"{where}: {name} must be a cell array, got {type(cell_rows).__name__}.")
        if len(cell_rows) != len(cells[IMAGES]):
            raise ExternalFileError(
                f"{where}: {name} must have one cell per picture, got {len(cell_rows)} for {len(cells[IMAGES])}."
            )
    keys = [_text(where, cell) for cell in cells[IMAGES]]
    check_distinct(keys, f"{where} must name each picture once", ExternalFileError)
    places = {key: column for column, key in enumerate(keys)}

    def read(key: str, features: bool) -> ExternalWindows:
        column = places[key]
        values, shares = (cells[name][column] if features and name is not None else None for name in optional)
        return checked_windows(f"{where}, picture {key}", cells[boxes_name][column], values, objectness=shares)

    return ExternalSource(where, tuple(keys), LIST, features_name is not None, read)


def _text(where: str, cell: Any) -> str:
    """Return the text of a cell, which may be wrapped in another one."""
    inner = cell[0] if isinstance(cell, list) and len(cell) == 1 else cell
    if not isinstance(inner, str):
        raise ExternalFileError(f"{where}: {IMAGES} must be names of pictures, got {type(inner).__name__}.")
    return inner.strip()


def read_mat_variables(path: Path, without: Collection[str] = ()) -> dict[str, Any]:
    """Return the variables of a ``.mat`` file.

    Parameters
    ----------
    path : Path
    without : collection of str
        The names of variables that are not read, and None in the result.

    Returns
    -------
    dict of name to value
        Arrays of numbers or flags with their shape in MATLAB, texts (of several rows: joined), lists for cell arrays,
        dicts for structs of one entry, lists of dicts for others. What is no such thing (functions, objects, sparse and
        complex arrays) is None.

    Raises
    ------
    MissingError
        If there is no such file.
    ExternalFileError
        If it is of version 7.3, is truncated or damaged, or is no such file; or if the process that reads it does not
        start, or is ended from outside.
    """
    content = read_regular(path, "file")
    if content.startswith(b"MATLAB 7.3"):
        raise ExternalFileError(
            f"{path} is of MATLAB's version 7.3, which is not read; load it in MATLAB and save it with '-v7'."
        )
    if content[126:128] not in (b"IM", b"MI"):
        otherwise = f"{path} is truncated, or no .mat file of the versions 5 to 7."
        raise ExternalFileError(refusal(str(path), "a .mat file of the versions 5 to 7", content, otherwise, (MAT,)))
    return _READER.read(path, content, without)


_READER = MatReader()
