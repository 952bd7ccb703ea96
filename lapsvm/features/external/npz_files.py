"""Windows from NumPy files, one ``.npz`` per picture."""

from pathlib import Path

from lapsvm.errors import MissingError
from lapsvm.features.external.archives import opened_npz
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
