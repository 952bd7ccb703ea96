"""The formats of external windows, by the suffix of their files; NumPy's is read here."""

from collections.abc import Callable
from pathlib import Path

from lapsvm.errors import ExternalFileError, MissingError
from lapsvm.features.external.archives import opened_npz
from lapsvm.features.external.json_files import open_json
from lapsvm.features.external.mat_files import open_mat
from lapsvm.features.external.windows import (
    TRUTH_NAME,
    BoxConvention,
    ExternalSource,
    ExternalWindows,
    boxes_in,
    checked_windows,
    features_in,
    file_per_picture,
    files_below,
)


def open_npz(path: Path) -> ExternalSource:
    """Open a folder of ``.npz`` files, or one of them: arrays of boxes, features and perhaps ``gt``.

    Boxes are taken as x1, y1, x2, y2, 0-based and half-open.

    Raises
    ------
    MissingError
        If there is none.
    ExternalFileError
        If the first one is none, or lacks its boxes.
    """
    files = files_below(path, ".npz")
    if not files:
        raise MissingError(f"folder {path} holds no .npz file.")
    first = next(iter(files.values()))
    with opened_npz(first) as archive:
        has_features = features_in(archive) is not None
    return file_per_picture(path, files, read_npz, has_features, BoxConvention())


def read_npz(path: Path, features: bool) -> ExternalWindows:
    """Return the windows of one ``.npz`` file."""
    where = str(path)
    with opened_npz(path) as archive:
        boxes = archive[boxes_in(archive, where)]
        name = features_in(archive) if features else None
        values = None if name is None else archive[name]
        truth = archive.get(TRUTH_NAME)
    return checked_windows(where, boxes, values, truth)


FORMATS: dict[str, Callable[[Path], ExternalSource]] = {".npz": open_npz, ".json": open_json, ".mat": open_mat}


def open_external(path: str | Path) -> ExternalSource:
    """Open windows, with or without features, from another program.

    Parameters
    ----------
    path : str or Path
        A file ``*.npz``, ``*.json`` or ``*.mat``, or a folder of ``.npz`` or of ``.mat`` files.

    Returns
    -------
    ExternalSource

    Raises
    ------
    MissingError
        If the file or folder does not exist.
    ExternalFileError
        If the files have no such suffix or several, or break a rule.
    """
    path = Path(path)
    if not path.exists():
        raise MissingError(f"file or folder {path} of windows is not there.")
    if path.is_file():
        suffixes = {path.suffix.lower()} & FORMATS.keys()
    else:
        suffixes = {file.suffix for file in path.rglob("*") if not file.name.startswith(".")} & {".npz", ".mat"}
    if len(suffixes) != 1:
        got = f"files of {' and '.join(sorted(suffixes))}" if suffixes else f"none in {path}"
        raise ExternalFileError(
            f"{path} must be a file of one of {', '.join(FORMATS)}, or a folder of .npz or of .mat files; got {got}."
        )
    return FORMATS[suffixes.pop()](path)
