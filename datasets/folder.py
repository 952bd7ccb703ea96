"""Pictures sorted into one folder per class, without boxes.

::

    ROOT/<set>/<class>/<picture>     or
    ROOT/<class>/<picture>           one set

A picture is positive for the class of its folder and negative for every other class. A folder called background,
good, negative, negatives, none, normal or ok (in any case) holds pictures of no class, unless its class is asked for.
Pictures of a folder good, normal or ok need no class beside them.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from lapsvm.errors import LabelsError
from lapsvm.names.kinds import is_good_name, is_no_class_name, is_picture_name, is_system_name

from .labelled import LabelledPictures, count_ignored, ignored_note, labelled_records
from .names import SET_NAMES, are_folders_of_sets, check_file_name, check_folder, choose_classes


def open_folder(
    root: str | Path, *, classes: Sequence[str] | None = None, train_set: str = "trainval", test_set: str = "test"
) -> LabelledPictures:
    """Open a folder of pictures sorted by class.

    A folder directly in `root` is a set if it is called trainval, train, val, valid, validation, test, `train_set` or
    `test_set` and contains folders. Otherwise the folders in `root` are the classes of one set called `train_set`.
    Files and folders that systems leave are skipped: those whose name starts with a dot, __MACOSX, Thumbs.db and their
    like. Symbolic links are followed.

    A picture's id is its path relative to its set, without the suffix: ``cat/img1``. White space and ``%`` in it are
    written as ``%20``, ``%25`` and so on, because a line of a result file splits at white space. Pictures are ordered
    by the names of their classes, then by their names.

    Parameters
    ----------
    root : str or Path
    classes : sequence of str, optional
        Default: all class folders, by name. A folder with a word of `lapsvm.catalog.NO_CLASS`, as "good", is none
        unless it is named here. Pictures of other classes are negatives.
    train_set, test_set : str
        Names of sets besides those above.

    Returns
    -------
    LabelledPictures

    Raises
    ------
    MissingError
        If `root` does not exist.
    LabelsError
        If there is no class, or all have names of sets and none is asked for, a set has no picture, folders are nested
        deeper, pictures are outside class folders, or two pictures differ only in their suffix.
    OptionError
        If a class does not exist.
    """
    root = check_folder("data folder", root)
    sets = _sets(root, {*SET_NAMES, train_set, test_set}) or {train_set: root}
    class_folders = {name: folders_of_classes(folder) for name, folder in sets.items()}
    asked = frozenset(classes or ())
    every = [folder for folders in class_folders.values() for folder in folders]
    names = {folder.name for folder in every if not is_no_class(folder, asked)}
    if not names and not any(is_good_name(folder.name) for folder in every):
        raise LabelsError(f"data folder {root} holds no folder of a class.")
    is_one = names == {"train"} and len(class_folders) == 1 and len(next(iter(class_folders.values()))) > 1
    if (
        not asked and not is_one and are_folders_of_sets(names)
    ):  # else "train" is what stands beside pictures without it
        raise LabelsError(
            f"folders in {next(iter(sets.values()))} have the names of sets or of parts of a data set, not of classes: "
            f"{', '.join(sorted(names))}; pictures must lie in ROOT/<set>/<class>, and classes of these names be named "
            "by the parameter classes."
        )
    chosen = choose_classes(classes, names)
    pictures = {}
    for set_name, folders in class_folders.items():
        pictures[set_name] = labelled_records(class_pictures(sets[set_name], folders, asked), chosen)
        if not pictures[set_name]:
            raise LabelsError(f"set {set_name!r} in {sets[set_name]} has no picture{ignored_note(root)}.")
    return LabelledPictures("folder", chosen, pictures, partial(count_ignored, root))


def _sets(root: Path, known: set[str]) -> dict[str, Path]:
    """Return the folders of sets by name; none if the folders in `root` are classes."""
    folders = subfolders(root)
    sets = {folder.name: folder for folder in folders if folder.name in known and subfolders(folder)}
    if sets:
        _refuse_pictures(root)
    for folder in folders:
        if sets and folder.name not in sets:
            advice = f": give the parameter test_set {folder.name}, or rename it to val" if subfolders(folder) else ""
            rule = "others are named by the parameter train_set and the parameter test_set"
            raise LabelsError(
                f"folder {folder} must be a set that holds classes, as {', '.join(sets)} do; {rule}{advice}."
            )
    return sets


def folders_of_classes(folder: Path) -> list[Path]:
    """Return the class folders of a set."""
    _refuse_pictures(folder)
    for class_folder in subfolders(folder):
        check_file_name("class", class_folder.name, str(class_folder))
        for nested in subfolders(class_folder):
            raise LabelsError(
                f"folder {class_folder} must hold the pictures of a class, got the folder {nested.name!r} in it; "
                f"move it away, or if this is a set, call it {', '.join(SET_NAMES)}, or name it by the parameter "
                "train_set or the parameter test_set."
            )
    return subfolders(folder)


def _refuse_pictures(folder: Path) -> None:
    """Raise LabelsError if there is a picture directly in a folder."""
    for path in picture_files(folder):
        advice = "; unpack the archive by a program that makes folders of '\\'" if "\\" in path.name else ""
        raise LabelsError(f"picture {path} must lie in the folder of its class{advice}.")


def class_pictures(root: Path, folders: Iterable[Path], asked: Collection[str]) -> Iterator[tuple[str, Path, set[str]]]:
    """Yield relative path, file and classes of every picture in class folders: one class, or none."""
    for folder in folders:
        positive = set() if is_no_class(folder, asked) else {folder.name}
        for path in picture_files(folder):
            yield path.relative_to(root).as_posix(), path, positive


def is_no_class(folder: Path, asked: Collection[str]) -> bool:
    """Return whether the pictures of a folder belong to no class: by its name, unless that class is asked for."""
    return is_no_class_name(folder.name) and folder.name not in asked


def subfolders(folder: Path) -> list[Path]:
    """Return the subfolders of a folder, by name.

    Raises
    ------
    LabelsError
        If a link is broken, because it may stand for a folder; reading reports a broken link to a picture.
    """
    folders = []
    for path in sorted(folder.iterdir()):
        if is_system_name(path.name):
            continue
        if path.is_dir():
            folders.append(path)
        elif not is_picture_name(path.name) and path.is_symlink() and not path.exists():
            raise LabelsError(f"link {path} leads to nothing; repair or remove it.")
    return folders


def picture_files(folder: Path) -> Iterator[Path]:
    """Yield the pictures in a folder, by name, also broken links, which reading reports."""
    for path in sorted(folder.iterdir()):
        if is_picture_name(path.name) and not path.is_dir():
            yield path
