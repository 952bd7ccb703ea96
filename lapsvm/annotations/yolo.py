"""The files of a YOLO data set, in the forms in which programs leave them: names of classes, and files of labels.

Names stand in data.yaml, or one per line in classes.txt or obj.names, all of which must agree. Labels lie in
``labels/<part>/``, ``labels/`` or ``<part>/labels/``, where a part is train, val, valid, validation or test.
"""

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from lapsvm.errors import AnnotationError
from lapsvm.files import is_named
from lapsvm.names.matching import files_of_users
from lapsvm.texts.agreement import Agreement, agreed
from lapsvm.texts.numbers import whole_number
from lapsvm.texts.reading import read_text, read_yaml

LISTS = ("classes.txt", "obj.names")
"""Files with a name in each line."""
_SETTINGS = ("data.yaml", "data.yml")
SUFFIXES = (".yaml", ".yml")

_LABELS = "labels"
_PARTS = frozenset({"train", "val", "valid", "validation", "test"})
_NO_LABELS = re.compile(r"(predefined_)?classes\.txt|(readme|notes|license)\b.*", re.IGNORECASE)


class LabelFile(NamedTuple):
    """A file of labels, its picture's path below its part, and the names that the picture may have."""

    path: Path
    relative: str
    names: tuple[str, ...]


def class_names(path: Path) -> dict[int, str]:
    """Return number -> class name of data.yaml or a list of classes.

    Raises
    ------
    MissingError, AnnotationError
        If the file is not there, is no text, or names no class by a whole number or its place in a list.
    """
    if path.name in LISTS:
        lines = [line.strip() for line in read_text(path, "list of classes", AnnotationError).splitlines()]
        return dict(enumerate(line for line in lines if line))
    content = read_yaml(path, "settings file", AnnotationError)
    names = content.get("names") if isinstance(content, dict) else None
    rows = list(names.items()) if isinstance(names, dict) else list(enumerate(names if isinstance(names, list) else []))
    if not rows:
        raise AnnotationError(f"{path} must have the names of classes as a list, or a table of numbers: names.")
    return {_checked_number(number, path): _checked_name(name, number, path) for number, name in rows}


def agreed_names(root: Path) -> dict[int, str]:
    """Return number -> class name of all lists of classes in a folder.

    Raises AnnotationError, with the files, if they name a number differently.
    """
    lists = _all_names(root)
    if lists.unequal:
        raise AnnotationError(
            f"{root}: lists of classes must agree, but {_difference(lists)}; remove the one by which no labels were "
            "written, or name the one that counts in place of the folder."
        )
    return {number: name for number, (name, _) in lists.taken.items()}


def other_names(root: Path, chosen: Path) -> list[str]:
    """Return a sentence, in a list, if lists of classes in a folder differ and one was chosen; else an empty list."""
    lists = _all_names(root)
    counts = f"lists of classes differ, and {chosen.name} counts: {_difference(lists)}" if lists.unequal else ""
    return [counts] if counts else []


def _all_names(root: Path) -> Agreement[int, tuple[str, str]]:
    """Return number -> name and file, of all lists of classes in a folder."""
    files = [root / name for name in _SETTINGS if is_named(root / name)]
    files += [path for name in LISTS for path in files_of_users(root, name)]
    rows = (
        (number, (name, path.relative_to(root).as_posix()))
        for path in files
        for number, name in class_names(path).items()
    )
    return agreed(rows, same=lambda item, other: item[0] == other[0])


def _difference(names: Agreement[int, tuple[str, str]]) -> str:
    """Return which class two lists name differently."""
    number, ((name, file), (other, other_file), *_) = next(iter(names.unequal.items()))
    return f"class {number} is {name!r} in {file} and {other!r} in {other_file}"


def _checked_number(key: Any, path: Path) -> int:
    number = whole_number(str(key))
    if number is None:
        raise AnnotationError(f"{path}: names must be a list, or have whole numbers as keys, got {_short(key)}.")
    return number


def _checked_name(name: Any, number: Any, path: Path) -> str:
    if not isinstance(name, str) or not name.strip():
        raise AnnotationError(f"{path}: the name of class {number} must be a text, got {_short(name)}.")
    return name.strip()


def _short(value: Any) -> str:
    """Return a value for a sentence; what is no text is not written out, because it may refer to itself."""
    return repr(value[:60]) if isinstance(value, str) else f"a {'list' if isinstance(value, list) else 'table'}"


def label_files(root: Path) -> Iterator[LabelFile]:
    """Yield the files of labels below a folder, without lists of classes, notes and files of the system."""
    for path in files_of_users(root, "*.txt"):
        parts = path.relative_to(root).parts
        if _LABELS in parts[:-1] and not _NO_LABELS.fullmatch(path.name):
            start = parts.index(_LABELS)
            below = parts[start + 1 :]
            is_in_part = start == 0 and len(below) > 1 and below[0] in _PARTS
            relative = str(PurePosixPath(*below[is_in_part:])).removesuffix(".txt")
            original = re.sub(r"(^|/)images_(?=/)", r"\1images", relative)
            yield LabelFile(path, relative, tuple(dict.fromkeys((relative, original))))
