"""Rules for names of sets, classes and pictures, which become part of file names and result files."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath

from lapsvm.arrays import check_distinct
from lapsvm.errors import LabelsError, MissingError, OptionError
from lapsvm.names.kinds import NO_CLASS
from lapsvm.names.matching import composed, with_slashes

SET_NAMES = ("trainval", "train", "val", "valid", "validation", "test")
"""Names that always denote sets, in the order in which sets are listed."""

_LIKE_SETS = re.compile(
    r"(train(val|ing)?|val(id(ation)?)?|test(ing)?|dev|eval)[-_ ]?(set|data|imgs|images|(19|20)?\d\d|\d)?"
)
_FOLDERS = frozenset({"images", "imgs", "jpegimages", "labels", "annotations", "imagesets", "masks"})
"""Folders of data sets with annotations, in lower case."""
_OF_PICTURES = frozenset({"images", "imgs", "jpegimages"})

_MAX_BYTES = 100  # file systems allow names of 255 bytes
_MAX_LISTED = 50  # names in one sentence

_MISSING = frozenset({"nan", "null", "<na>", "n/a"})  # as programs write a missing value; none is one of NO_CLASS

_DRIVE = re.compile(r"[A-Za-z]:[/\\]")  # of Windows

_UNSAFE = re.compile(r"[\s%\x00-\x1f\x7f\ud800-\udfff]")


def order_sets(names: Iterable[str]) -> tuple[str, ...]:
    """Return set names in a fixed order: first SET_NAMES, then the others by name."""
    distinct = set(names)
    return (*(name for name in SET_NAMES if name in distinct), *sorted(distinct.difference(SET_NAMES)))


def are_folders_of_sets(names: Iterable[str]) -> bool:
    """Return whether names of folders are all those of sets, or of the parts of a data set with annotations."""
    folded = {name.casefold() for name in names}
    others = {name for name in folded if not _LIKE_SETS.fullmatch(name)}
    return bool(folded) and others <= _FOLDERS and (not others or not others.isdisjoint(_OF_PICTURES))


def check_folder(what: str, path: str | Path) -> Path:
    """Return the path of a folder; MissingError, which names its purpose `what`, unless it is one."""
    folder = Path(path)
    if folder.is_file():
        raise MissingError(f"{what} {folder} must be a folder, but is a file.")
    if not folder.is_dir():
        raise MissingError(f"{what} {folder} is not there.")
    return folder


def check_set(set_name: str, sets: Sequence[str]) -> None:
    """Raise OptionError unless `set_name` is one of `sets`."""
    if set_name not in sets:
        raise OptionError(
            f"set {set_name!r} does not exist; choose from {_listed(sets)} by the parameter train_set, or by "
            "the parameter test_set."
        )


def choose_classes(requested: Sequence[str] | None, available: Iterable[str]) -> tuple[str, ...]:
    """Return the requested classes in their order; all available classes, by name, if `requested` is None.

    The form of a name's accents (NFC, NFD) does not count.

    Raises
    ------
    OptionError
        If a class is not available or repeated, or none is requested.
    LabelsError
        If the available classes have one in both forms.
    """
    names = sorted(set(available))
    check_distinct([composed(name) for name in names], "accents of a class must have one form (NFC, NFD)", LabelsError)
    known, seen = {composed(name): name for name in names} | {name: name for name in names}, set[str]()
    if requested is None:
        return tuple(names)
    if isinstance(requested, str) or not requested:
        raise OptionError(f"classes must be a sequence of one or more names, got {requested!r}.")
    chosen = []
    for typed in requested:
        name = known.get(typed) or known.get(composed(typed))
        if name is None:
            raise OptionError(f"class {typed!r} does not exist; choose from {_listed(names)}.")
        if name in seen:
            raise OptionError(f"classes must differ from each other, got {name!r} twice.")
        seen.add(name)
        chosen.append(name)
    return tuple(chosen)


def table_label(text: str, where: str) -> str:
    """Return the class that a cell of a table names, "" for none; LabelsError if it names several.

    A word for a missing value, or for no class, names none. What a table of numbers with gaps makes of a whole number,
    ``1.0``, is that number.
    """
    if text.casefold() in NO_CLASS | _MISSING:
        return ""
    if "," in text:
        raise LabelsError(
            f"{where}: a label must be one class, got {text!r}; write a row, or an item of labels, for each."
        )
    return re.sub(r"^([0-9]+)\.0$", r"\1", text)


def check_file_name(what: str, name: str, where: str) -> None:
    """Raise LabelsError unless `name` can be part of a file name."""
    if len(name.encode("utf-8", "surrogatepass")) > _MAX_BYTES:
        raise LabelsError(f"{where}: a {what} name must have at most {_MAX_BYTES} bytes, got {name[:20]!r}...")
    if not name.isprintable() or name.startswith(".") or "/" in name or "\\" in name:
        raise LabelsError(
            f"{where}: a {what} name must be printable, without '/', '\\' or a leading dot, got {name!r}."
        )


def check_image_id(image_id: str, where: str) -> None:
    """Raise LabelsError unless `image_id` is a plain file name."""
    if "/" in image_id or "\\" in image_id or ".." in image_id or "\0" in image_id:
        raise LabelsError(f"{where}: a picture's id must be a plain name without '/', '\\' or '..', got {image_id!r}.")


def check_picture_path(relative: str, where: str) -> str:
    """Return a path relative to the data folder, with "/" and without "./"; LabelsError if it leaves that folder."""
    path = PurePosixPath(with_slashes(relative))
    is_absolute = path.is_absolute() or _DRIVE.match(relative)
    if not relative or "\0" in relative or is_absolute or ".." in path.parts:
        raise LabelsError(f"{where}: image must be a path below the data folder, with '/', got {relative!r}.")
    return str(path)


def image_id_of(relative: str) -> str:
    """Return the id of a picture at a relative path: the path without its suffix and without white space.

    White space, control characters, ``%`` and bytes that are not UTF-8 become ``%XX``: different paths keep different
    ids, and a line of a result file splits at white space.
    """
    stem = relative[: relative.rindex(".")] if "." in relative.rpartition("/")[2].lstrip(".") else relative
    return _UNSAFE.sub(lambda match: "".join(f"%{byte:02X}" for byte in _bytes(match[0])), stem)


def _bytes(character: str) -> bytes:
    """Return the bytes of a character; a lone surrogate stands for one byte of a file name that is not UTF-8."""
    return character.encode("utf-8", "surrogateescape" if "\udc80" <= character <= "\udcff" else "surrogatepass")


def _listed(names: Sequence[str]) -> str:
    """Return names as a list for a sentence."""
    more = f" and {len(names) - _MAX_LISTED:,} more" if len(names) > _MAX_LISTED else ""
    return ", ".join(names[:_MAX_LISTED]) + more or "an empty list"
