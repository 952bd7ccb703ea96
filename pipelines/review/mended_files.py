"""The files of an export that comes back: in which format they are, and what of a folder is not read."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from lapsvm.annotations.export import EXPORTED
from lapsvm.annotations.pictures import OTHER_FORM, AnnotatedFile
from lapsvm.annotations.table import FORMATS, Format
from lapsvm.annotations.yolo import label_files
from lapsvm.errors import AnnotationError, DataError
from lapsvm.names.matching import files_of_users
from lapsvm.texts.sentences import listed

_MENDED = (".json", ".xml", ".yaml", ".yml")


def read_mended(path: Path) -> tuple[str, AnnotatedFile]:
    """Return the name of a format, and the content of a file or folder of this format.

    Raises
    ------
    DataError
        If it is of no known format, or breaks a rule of its own.
    MissingError
        If it is not there.
    """
    if path.is_dir():
        return _read_folder(path)
    name = named_format(path) or next(iter(FORMATS))
    return name, _read(name, path)


def named_format(path: Path) -> str | None:
    """Return the name of the format that owns a file, or None."""
    first, *names = FORMATS
    return next((name for name in (*names, first) if FORMATS[name].load().owns(path)), None)


def _read_folder(path: Path) -> tuple[str, AnnotatedFile]:
    """Return the name of the format of a folder, and its content; DataError if it holds none or several formats."""
    present = {
        name: next(item for item in kind.markers if (path / item).exists())
        for name, kind in FORMATS.items()
        if any((path / item).exists() for item in kind.markers)
    }
    if len(present) > 1 and "yolo" in present and not any(label_files(path)):
        del present["yolo"]  # a list of classes alone
    if not present:
        markers = ", ".join(marker for kind in FORMATS.values() for marker in kind.markers)
        raise DataError(f"--merge {path} must be a folder that lapsvm export wrote, with one of {markers}.")
    if len(present) > 1:
        got = " and ".join(present.values())
        raise DataError(f"--merge {path} must hold boxes once, got {got}; name the file that was mended.")
    ((name, marker),) = present.items()
    kind = FORMATS[name]
    file = _read(name, path if kind.reads_folder else path / marker)
    return name, replace(file, remarks=(*file.remarks, *_files_beside(path, kind)))


def _files_beside(folder: Path, kind: Format) -> Iterable[str]:
    """Yield a sentence on other files in a folder that may be those that were mended."""
    known = {*kind.markers, *kind.written, EXPORTED}
    files = [path.name for path in files_of_users(folder, "*") if path.parent == folder and path.suffix in _MENDED]
    if others := [name for name in files if name not in known]:
        yield f"other files in the folder are not read, name one to merge it: {listed(others)}"


def _read(name: str, path: Path) -> AnnotatedFile:
    """Return the content of a file; errors on one of another form are one sentence."""
    try:
        file: AnnotatedFile = FORMATS[name].load().read(path)
    except (DataError, OSError):
        raise
    except OTHER_FORM:
        raise AnnotationError(f"{path} must be in the form in which lapsvm export writes it.") from None
    return file
