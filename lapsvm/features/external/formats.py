"""The formats of external windows by name, and the detection of a file's format."""

from collections.abc import Callable
from pathlib import Path

from lapsvm.arrays import check_choice
from lapsvm.errors import ExternalFileError, MissingError
from lapsvm.features.external.json_files import open_json
from lapsvm.features.external.mat_files import open_mat
from lapsvm.features.external.numpy_files import open_npy, open_npz
from lapsvm.features.external.windows import ArrayNames, ExternalSource
from lapsvm.names.matching import files_of_users

FORMATS: dict[str, Callable[[Path, ArrayNames], ExternalSource]] = {
    "npz": open_npz,
    "npy": open_npy,
    "json": open_json,
    "mat": open_mat,
}


def open_external(path: str | Path, kind: str = "", names: ArrayNames | None = None) -> ExternalSource:
    """Open windows, with or without features, from another program.

    Parameters
    ----------
    path : str or Path
        A file, or a folder of files.
    kind : {"", "npz", "npy", "json", "mat"}, default ""
        "" detects it from the suffix of the file, or of the files in the folder.
    names : ArrayNames, optional
        The names of the arrays in the files.

    Returns
    -------
    ExternalSource

    Raises
    ------
    MissingError
        If the file or folder, or one that it needs, does not exist.
    OptionError
        If there is no such kind.
    ExternalFileError
        If the kind cannot be detected, or the files break a rule.
    """
    path = Path(path)
    if not path.exists():
        raise MissingError(f"file or folder {path} of windows is not there.")
    if kind:
        check_choice("a format of windows", kind, FORMATS)
    return FORMATS[kind or _kind_of(path)](path, names or ArrayNames())


def _kind_of(path: Path) -> str:
    """Return the name of a file's or folder's format."""
    if path.is_file():
        suffixes = {path.suffix.lower().removeprefix(".")}
    elif (path / "boxes.npy").is_file():
        return "npy"
    else:
        suffixes = {file.suffix.removeprefix(".") for file in files_of_users(path, "*")}
        suffixes &= {"npz", "mat"}
    known = sorted(suffixes & set(FORMATS))
    if len(known) == 1:
        return known[0]
    got = f"files of {' and '.join(known)}" if known else f"none in {path}"
    raise ExternalFileError(f"{path} must be a file, or a folder of files, of one of {', '.join(FORMATS)}; got {got}.")
