"""Rules for the names that end up in file names and result files: of sets, of classes and of pictures."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath

from lapsvm.errors import LabelsError, MissingError, OptionError

SET_NAMES = ("trainval", "train", "val", "test")
"""Names that are always taken for sets, in the order in which sets are listed."""

_LONGEST = 100  # bytes; systems take names of 255
_SHOWN = 50  # names in one sentence

_UNSAFE = re.compile(r"[\s%\x00-\x1f\x7f\ud800-\udfff]")


def order_sets(names: Iterable[str]) -> tuple[str, ...]:
    """Return set names in their fixed order: the usual four first, then the others by name."""
    found = set(names)
    return (*(name for name in SET_NAMES if name in found), *sorted(found.difference(SET_NAMES)))


def check_folder(what: str, folder: Path) -> None:
    """Raise MissingError, saying what it is for, unless `folder` is one."""
    if not folder.is_dir():
        raise MissingError(f"{what} {folder} is not there.")


def check_set(set_name: str, sets: Sequence[str]) -> None:
    """Raise OptionError, with the sets there are, unless `set_name` is one of them."""
    if set_name not in sets:
        raise OptionError(f"set {set_name!r} is not there; choose from {_listed(sets)}.")


def choose_classes(wanted: Sequence[str] | None, found: Iterable[str]) -> tuple[str, ...]:
    """Return the classes asked for, in the order asked for; all that were found, by name, if `wanted` is None.

    Raises
    ------
    OptionError
        If one is not there, is asked for twice, or none is asked for.
    """
    there = sorted(set(found))
    known, seen = set(there), set[str]()
    if wanted is None:
        return tuple(there)
    if isinstance(wanted, str) or not wanted:
        raise OptionError(f"classes must be a sequence of one or more names, got {wanted!r}.")
    for name in wanted:
        if name not in known:
            raise OptionError(f"class {name!r} is not there; choose from {_listed(there)}.")
        if name in seen:
            raise OptionError(f"classes must differ from each other, got {name!r} twice.")
        seen.add(name)
    return tuple(wanted)


def check_file_name(what: str, name: str, where: str) -> None:
    """Raise LabelsError unless `name` can be part of a file name, beside another one and what the files are called."""
    if len(name.encode("utf-8", "surrogatepass")) > _LONGEST:
        raise LabelsError(f"{where}: a {what} name must have at most {_LONGEST} bytes, got {name[:20]!r}...")
    if not name.isprintable() or name.startswith(".") or "/" in name or "\\" in name:
        raise LabelsError(
            f"{where}: a {what} name must be printable, without '/', '\\' or a leading dot, got {name!r}."
        )


def check_image_id(image_id: str, where: str) -> None:
    """Raise LabelsError unless `image_id` names a file of one folder."""
    if "/" in image_id or "\\" in image_id or ".." in image_id or "\0" in image_id:
        raise LabelsError(f"{where}: a picture's id must be a plain name without '/', '\\' or '..', got {image_id!r}.")


def check_picture_path(relative: str, where: str) -> str:
    """Return the path of a picture below the data folder, without "./"; LabelsError if it leads elsewhere."""
    path = PurePosixPath(relative)
    if not relative or "\\" in relative or "\0" in relative or path.is_absolute() or ".." in path.parts:
        raise LabelsError(f"{where}: image must be a path below the data folder, with '/', got {relative!r}.")
    return str(path)


def image_id_of(relative: str) -> str:
    """Return the id of a picture at a relative path: without its suffix, one word of a result file.

    White space, control characters, ``%`` and bytes that are no text are written as ``%XX`` (of UTF-8), so that
    different paths keep different ids and a line of a result file still splits at white space.
    """
    stem = relative[: relative.rindex(".")] if "." in relative.rpartition("/")[2].lstrip(".") else relative
    return _UNSAFE.sub(lambda found: "".join(f"%{byte:02X}" for byte in _bytes(found[0])), stem)


def _bytes(character: str) -> bytes:
    """Return the bytes of a character; a lone surrogate stands for one byte of a file name that is no text."""
    return character.encode("utf-8", "surrogateescape" if "\udc80" <= character <= "\udcff" else "surrogatepass")


def _listed(names: Sequence[str]) -> str:
    """Return names as a list for a sentence."""
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more or "nothing: there is none"
