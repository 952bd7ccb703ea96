"""The formats of external windows, by the suffix of their files."""

from collections.abc import Callable
from pathlib import Path

from lapsvm.errors import ExternalFileError, MissingError
from lapsvm.features.external.json_files import open_json
from lapsvm.features.external.mat_files import open_mat
from lapsvm.features.external.npz_files import open_npz
from lapsvm.features.external.windows import ExternalSource

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
