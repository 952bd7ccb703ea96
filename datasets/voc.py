"""The PASCAL VOC layout: labels from ImageSets/Main, pictures from JPEGImages, boxes from Annotations.

::

    ROOT/ImageSets/Main/<set>.txt            one picture id per line: the set and its order
    ROOT/ImageSets/Main/<class>_<set>.txt    "id flag" per line; 1 positive, -1 negative, 0 difficult objects only
    ROOT/JPEGImages/<id>.jpg                 or .jpeg or .png
    ROOT/Annotations/<id>.xml                opened only by `VocDataset.ground_truth`
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lapsvm.annotations.voc import read_voc_file
from lapsvm.catalog import ImageRecord, truth_by_class
from lapsvm.errors import AnnotationError, LabelsError, MissingError, OptionError
from lapsvm.ground_truth import PARTS, TruthByClass
from lapsvm.names.kinds import is_picture_name, is_system_name, picture_rank, without_picture_suffix
from lapsvm.names.matching import FilesOnDisk, NameIndex, composed
from lapsvm.texts.agreement import agreed
from lapsvm.texts.reading import read_text

from .names import SET_NAMES, check_file_name, check_folder, check_image_id, check_set, choose_classes, order_sets

_FLAGS = {"1": 1, "+1": 1, "-1": -1, "0": 0, "1.0": 1, "-1.0": -1, "0.0": 0}


@dataclass(frozen=True)
class VocLists:
    """The lists in ImageSets/Main, classified by their names without opening them.

    Attributes
    ----------
    sets : mapping of set name to the file of its ids
    labels : mapping of (class name, set name) to the file of its flags
    """

    sets: Mapping[str, Path]
    labels: Mapping[tuple[str, str], Path]

    @property
    def set_names(self) -> tuple[str, ...]:
        """Names of the sets that have a list of ids, or of a class."""
        return order_sets([*self.sets, *(set_name for _, set_name in self.labels)])

    @property
    def class_names(self) -> set[str]:
        """Names of the classes that have a list in some set."""
        return {class_name for class_name, _ in self.labels}


@dataclass(frozen=True)
class VocDataset:
    """A folder in the VOC layout; its files are read on demand.

    Attributes
    ----------
    root : Path
    classes : tuple of str
    lists : VocLists
    name : str
    """

    root: Path
    classes: tuple[str, ...]
    lists: VocLists
    name: str = "voc"

    @property
    def sets(self) -> tuple[str, ...]:
        """Names of the sets."""
        return self.lists.set_names

    def records(self, set_name: str) -> list[ImageRecord]:
        """Return the pictures of a set, in the order of its list, without opening annotations.

        A set with a list of ids but without class lists gives pictures without labels. A missing picture file is
        reported when it is read.

        Raises
        ------
        OptionError
            If there is no such set.
        LabelsError
            If a list is malformed or empty, or the lists of the set disagree.
        MissingError
            If there is no folder JPEGImages.
        """
        image_ids, flags = self._read_lists(set_name)
        paths = _picture_paths(self.root / "JPEGImages", image_ids)
        return [
            ImageRecord(image_id, path, {name: flags[name][image_id] for name in flags})
            for image_id, path in zip(image_ids, paths, strict=True)
        ]

    def ground_truth(self, set_name: str) -> TruthByClass | None:
        """Return class -> picture id -> objects, for evaluation, and what was left out.

        None if no picture of the set has an annotation.

        Raises
        ------
        OptionError, LabelsError
            As `records`.
        AnnotationError
            If only some pictures have an annotation file, or one is broken.
        """
        image_ids, _ = self._read_lists(set_name)
        folder = self.root / "Annotations"
        files = FilesOnDisk()
        paths = {image_id: files.find(folder / f"{image_id}.xml") for image_id in image_ids}
        missing = [image_id for image_id, path in paths.items() if not files.has(path)]
        if len(missing) == len(image_ids):
            return None
        if missing:
            raise AnnotationError(f"annotation {folder / missing[0]}.xml is not there.")
        read = {image_id: read_voc_file(path) for image_id, path in paths.items()}
        rows = {key: [(item.name, item.box, item.difficult) for item in file.objects] for key, file in read.items()}
        sizes = {key: file.size for key, file in read.items() if file.size is not None}
        truth = truth_by_class(rows, self.classes, sizes=sizes)
        truth.remark({PARTS: sum(file.n_parts for file in read.values())})
        return truth

    def _read_lists(self, set_name: str) -> tuple[list[str], dict[str, dict[str, int]]]:
        """Return the ids of a set in order, and class -> id -> flag."""
        check_set(set_name, self.sets)
        flags = {name: _read_list(path, flagged=True) for name, path in self._label_files(set_name).items()}
        has_ids = set_name in self.lists.sets
        source = self.lists.sets[set_name] if has_ids else self.lists.labels[self.classes[0], set_name]
        image_ids = list(_read_list(source, flagged=not has_ids))
        for name, flags_of_class in flags.items():
            path = self.lists.labels[name, set_name]
            flags[name] = _flags_of(image_ids, flags_of_class)
            _check_agreement(source, image_ids, path, flags[name])
        return image_ids, flags

    def _label_files(self, set_name: str) -> dict[str, Path]:
        """Return the list of each class in a set; an empty mapping if the set has no class list."""
        if not any(owner == set_name for _, owner in self.lists.labels):
            return {}
        for name in self.classes:
            if (name, set_name) not in self.lists.labels:
                raise LabelsError(f"class {name!r} has no list {name}_{set_name}.txt, though other classes have one.")
        return {name: self.lists.labels[name, set_name] for name in self.classes}


def open_voc(
    root: str | Path,
    *,
    classes: Sequence[str] | None = None,
    train_set: str = "trainval",
    test_set: str = "test",
    boxes_only: bool = False,
) -> VocDataset:
    """Open a folder in the VOC layout.

    Parameters
    ----------
    root : str or Path
    classes : sequence of str, optional
        Default: all classes that have a list ``<class>_<set>.txt``, by name.
    train_set, test_set : str
        Names of sets besides trainval, train, val and test. Needed only for a set of another name with class lists
        and without ``<set>.txt``.
    boxes_only : bool, default False
        Open the folder for its ground truth: `classes` is required, and class lists are not read.

    Returns
    -------
    VocDataset

    Raises
    ------
    MissingError
        If `root` or its ImageSets/Main does not exist.
    LabelsError
        If there is no class list.
    OptionError
        If a class has no list, or none is named for `boxes_only`.
    """
    root = Path(root)
    lists = find_lists(root, (train_set, test_set))
    if boxes_only:
        if not classes:
            raise OptionError("classes must be named where only boxes are read: there may be no class list.")
        return VocDataset(root, tuple(classes), VocLists(lists.sets, {}))
    if not lists.labels:
        raise LabelsError(f"{root / 'ImageSets' / 'Main'} holds no class list <class>_<set>.txt to take labels from.")
    return VocDataset(root, choose_classes(classes, lists.class_names), lists)


def find_lists(root: str | Path, set_names: Sequence[str] = ()) -> VocLists:
    """Return the lists in ImageSets/Main, classified by their names.

    A file is a class list if it is called ``<class>_<set>.txt`` for a known set (the longest that matches), otherwise
    it is the list of a set. So ``train_val.txt`` is the list of the class "train" in the set "val".

    Parameters
    ----------
    root : str or Path
    set_names : sequence of str
        Known sets besides trainval, train, val and test; every ``<set>.txt`` adds another one.

    Raises
    ------
    MissingError
        If `root` or its ImageSets/Main does not exist.
    LabelsError
        If the name of a class cannot be part of a file name.
    """
    root = check_folder("data folder", root)
    folder = check_folder("folder of lists", root / "ImageSets" / "Main")
    known = {*SET_NAMES, *set_names}
    sets, labels = {}, {}
    # by length: the list of a set, "dev", comes before the lists that end in its name, "cat_dev"
    for path in sorted(folder.glob("*.txt"), key=lambda path: (len(path.stem), path.stem)):
        if is_system_name(path.name):
            continue
        owner = _class_and_set(path.stem, known)
        if owner is None:
            known.add(path.stem)
            sets[path.stem] = path
        else:
            check_file_name("class", owner[0], str(path))
            labels[owner] = path
    return VocLists(sets, labels)


def _class_and_set(stem: str, known: set[str]) -> tuple[str, str] | None:
    """Return class and set from the name of a class list; None if it is no class list."""
    if stem in known:
        return None
    cuts = (index for index, letter in enumerate(stem) if letter == "_" and index)
    cut = next((index for index in cuts if stem[index + 1 :] in known), None)  # the first leaves the longest set
    return None if cut is None else (stem[:cut], stem[cut + 1 :])


def _lines(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield the location and the words of each line that is not blank."""
    try:
        text = read_text(path, "list", LabelsError)
    except MissingError as error:
        raise LabelsError(f"list {path} cannot be read: {str(error).rstrip('.')}.") from None
    for number, line in enumerate(text.splitlines(), start=1):
        if words := line.split():
            yield f"{path}, line {number}", words


def _read_list(path: Path, flagged: bool) -> dict[str, int]:
    """Return id -> +1, -1 or 0 of a class list, or id -> 0 of a set's list without flags, in order."""
    rows = list[tuple[str, tuple[int, str, str]]]()
    for where, (image_id, *rest) in _lines(path):
        if len(rest) != flagged or not _FLAGS.keys() >= set(rest):
            rule, got = "a picture id and 1, -1 or 0" if flagged else "one picture id", " ".join([image_id, *rest])
            raise LabelsError(f"{where}: must be {rule}, got {got[:60]!r}.")
        check_image_id(image_id, where)
        rows.append((composed(image_id), (_FLAGS[rest[0]] if flagged else 0, where, image_id)))
    if not rows:
        raise LabelsError(f"list {path} names no picture.")
    agreement = agreed(rows, same=lambda item, other: item[0] == other[0])
    for (flag, *_), (other, where, image_id), *_ in agreement.unequal.values():
        raise LabelsError(f"{where}: a picture must have one flag, got {other} for {image_id!r} after {flag}.")
    return {image_id: flag for flag, _, image_id in agreement.taken.values()}


def _flags_of(image_ids: Sequence[str], flags: Mapping[str, int]) -> dict[str, int]:
    """Return the flags under the ids of a set's list, where a class list has these in the other form of accents."""
    listed = {composed(image_id): image_id for image_id in image_ids}
    return {listed.get(composed(name), name): flag for name, flag in flags.items()}


def _check_agreement(source: Path, image_ids: Sequence[str], path: Path, flags: Mapping[str, int]) -> None:
    """Raise LabelsError unless a class list has exactly the pictures of its set."""
    for image_id in image_ids:
        if image_id not in flags:
            raise LabelsError(f"list {path} must have every picture of {source.name}, but lacks {image_id!r}.")
    if unexpected := flags.keys() - set(image_ids):
        raise LabelsError(f"list {path} must have only pictures of {source.name}, got {min(unexpected)!r}.")


def _picture_paths(folder: Path, image_ids: Sequence[str]) -> list[Path]:
    """Return the file of each picture, by its id; <id>.jpg, whose reading fails, for none.

    An id means the files of this name, whatever the form of its accents, else those of the one that differs in case.
    """
    files: dict[str, list[str]] = {}
    names = os.listdir(check_folder("folder of pictures", folder))
    for name in sorted(filter(is_picture_name, names), key=lambda name: (picture_rank(name), name)):
        files.setdefault(composed(without_picture_suffix(name)), []).append(name)
    index = NameIndex(files.items())
    files_meant = (index.meant(image_id) for image_id in image_ids)
    return [
        folder / (meant[0][0] if len(meant) == 1 else f"{image_id}.jpg")
        for image_id, meant in zip(image_ids, files_meant, strict=True)
    ]
