"""COCO annotations: labels from the categories of a picture's objects, boxes for evaluation only.

::

    ROOT/annotations/instances_<set>.json    pictures in ROOT/<set>/, ROOT/images/<set>/, ROOT/images/ or ROOT/
    ROOT/<set>/_annotations.coco.json        pictures in the same folder
    ROOT/annotations.json                    one set; pictures in ROOT/images/ or ROOT/

A picture is positive for the categories of its annotations and negative for the others. A category of which it has only
crowd regions has label 0: training leaves it out. Crowd regions are difficult in evaluation, which leaves out
annotations without a usable box. A picture with an annotation of a category that the file does not list may show any
class, so that its label is 0 for every class without an annotation of its own.
"""

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from lapsvm.annotations.coco import NO_CATEGORY, CocoFile, fault_sentence, read_coco
from lapsvm.catalog import ImageRecord, truth_by_class
from lapsvm.errors import AnnotationError, MissingError
from lapsvm.files import is_named
from lapsvm.ground_truth import ObjectRow, TruthByClass
from lapsvm.names.kinds import is_system_name
from lapsvm.names.matching import FilesOnDisk

from .labelled import labelled_records
from .names import check_file_name, check_folder, check_picture_path, check_set, choose_classes, image_id_of, order_sets

_PREFIX, _IN_SET, _SINGLE = "instances_", "_annotations.coco.json", "annotations.json"
_TRIED = 20  # pictures by which the folder of a set is found


@dataclass(frozen=True)
class CocoSet:
    """A set of pictures.

    Attributes
    ----------
    annotations : Path
    folders : tuple of Path
        Folders to search for its pictures, in this order.
    """

    annotations: Path
    folders: tuple[Path, ...]

    def picture_folder(self, file_names: Sequence[str]) -> Path:
        """Return the first folder that contains one of the first pictures; the first folder if none does."""
        files, first = FilesOnDisk(), file_names[:_TRIED]
        return next(
            (folder for folder in self.folders if any(files.find(folder / name).is_file() for name in first)),
            self.folders[0],
        )


@dataclass(frozen=True)
class CocoDataset:
    """A folder with COCO annotations.

    Attributes
    ----------
    classes : tuple of str
    coco_sets : mapping of set name to CocoSet
    name : str
    """

    classes: tuple[str, ...]
    coco_sets: Mapping[str, CocoSet]
    name: str = "coco"
    _files: dict[str, CocoFile] = field(default_factory=dict, repr=False)

    @property
    def sets(self) -> tuple[str, ...]:
        """Names of the sets."""
        return order_sets(self.coco_sets)

    def records(self, set_name: str) -> list[ImageRecord]:
        """Return the pictures of a set, in file order, without reading boxes.

        Raises
        ------
        OptionError
            If there is no such set.
        AnnotationError, LabelsError
            If the file is broken, or a picture's path leaves its folder or differs from another one only in its suffix.
        """
        file = self._file(set_name)
        names = _picture_names(file)
        folder = self.coco_sets[set_name].picture_folder(list(names.values()))
        positive, crowd = _labels(file)
        records = labelled_records(((name, folder / name, positive[key]) for key, name in names.items()), self.classes)
        classes = {*self.classes}
        unknown = [
            classes - positive[key] if key in file.without_category else (crowd[key] - positive[key]) & classes
            for key in names
        ]
        return [
            replace(record, labels={**record.labels, **dict.fromkeys(zeros, 0)}) if zeros else record
            for record, zeros in zip(records, unknown, strict=True)
        ]

    def ground_truth(self, set_name: str) -> TruthByClass:
        """Return class -> picture id -> objects, for evaluation, and what was left out.

        Raises
        ------
        OptionError, AnnotationError, LabelsError
            As `records`.
        """
        check_set(set_name, self.sets)
        file = read_coco(self.coco_sets[set_name].annotations, boxes=True)
        ids = {key: image_id_of(name) for key, name in _picture_names(file).items()}
        objects: dict[str, list[ObjectRow]] = {image_id: [] for image_id in ids.values()}
        for annotation in (item for item in file.annotations if item.image_id in ids):
            objects[ids[annotation.image_id]].append(
                (file.categories[annotation.category_id], annotation.corners or annotation.fault, annotation.is_crowd)
            )
        sizes = {ids[key]: size for key, size in file.sizes.items() if key in ids}
        truth = truth_by_class(objects, self.classes, sizes=sizes)
        truth.count({NO_CATEGORY: file.faults.get(NO_CATEGORY, 0)})
        truth.remark(file.remarks)
        return truth

    def unusable_boxes(self, set_name: str) -> str:
        """Return the annotations of a set that are left out, as the end of a sentence, or ""."""
        file = self._file(set_name)
        if not file.without_category:
            return fault_sentence(file)
        return (
            f"{fault_sentence(file)}; {len(file.without_category):,} pictures with annotations of a category that the "
            "file does not list take no part in the training of classes that their other annotations do not name"
        )

    def _file(self, set_name: str) -> CocoFile:
        """Return the annotations of a set without boxes; a second call does not read the file again."""
        check_set(set_name, self.sets)
        if set_name not in self._files:
            self._files[set_name] = read_coco(self.coco_sets[set_name].annotations)
        return self._files[set_name]


def open_coco(
    root: str | Path, *, classes: Sequence[str] | None = None, train_set: str = "trainval", test_set: str = "test"
) -> CocoDataset:
    """Open a folder with COCO annotations.

    A picture's id is its ``file_name`` without the suffix, as for `lapsvm.datasets.folder.open_folder`.

    Parameters
    ----------
    root : str or Path
    classes : sequence of str, optional
        Default: all categories in the files of `train_set` and `test_set`, by name; of all files if neither exists.
    train_set, test_set : str
        Names of the sets; `train_set` is also the set of a single ``annotations.json``.

    Returns
    -------
    CocoDataset

    Raises
    ------
    MissingError
        If `root` does not exist or contains no annotation file.
    AnnotationError
        If a file is broken, or a set has two.
    OptionError
        If a class does not exist.
    LabelsError
        If the name of a class cannot be part of a file name.
    """
    root = check_folder("data folder", root)
    sets = _find_sets(root, train_set)
    if not sets:
        raise MissingError(
            f"data folder {root} holds no annotations/{_PREFIX}<set>.json, <set>/{_IN_SET} or {_SINGLE}."
        )
    dataset = CocoDataset((), sets)
    used = [name for name in (train_set, test_set) if name in sets] or list(sets)
    categories = {name for set_name in used for name in dataset._file(set_name).categories.values()}
    chosen = choose_classes(classes, categories)
    for name in chosen:
        check_file_name("class", name, str(root))
    return replace(dataset, classes=chosen)


def _find_sets(root: Path, train_set: str) -> dict[str, CocoSet]:
    """Return the sets by name."""
    sets: dict[str, CocoSet] = {}
    for path in sorted((root / "annotations").glob(f"{_PREFIX}*.json")):
        name = path.stem.removeprefix(_PREFIX)
        folders = (root / name, root / "images" / name, root / "images", root)
        _add(sets, name, CocoSet(path, folders))
    for path in sorted(root.glob(f"*/{_IN_SET}")):
        if is_system_name(path.parent.name):
            continue
        _add(sets, path.parent.name, CocoSet(path, (path.parent,)))
    if is_named(root / _SINGLE):
        _add(sets, train_set, CocoSet(root / _SINGLE, (root / "images", root)))
    return sets


def _add(sets: dict[str, CocoSet], name: str, coco_set: CocoSet) -> None:
    """Add a set; AnnotationError if the name is taken."""
    if name in sets:
        raise AnnotationError(
            f"set {name!r} must have one file of annotations, got {sets[name].annotations} and {coco_set.annotations}."
        )
    sets[name] = coco_set


def _picture_names(file: CocoFile) -> dict[Hashable, str]:
    """Return image id -> path of the picture relative to its folder, without images that only repeat another one.

    Raises AnnotationError if images of one path differ.
    """
    checked = {key: check_picture_path(name, f"{file.path}: image {key}") for key, name in file.file_names.items()}
    names = {key: name for key, name in checked.items() if key not in file.repeats}
    owners: dict[str, Hashable] = {}
    for key, name in names.items():
        if owners.setdefault(name, key) != key:
            raise AnnotationError(
                f"{file.path}: images {owners[name]} and {key} must be two files, got {name!r} twice."
            )
    return names


def _labels(file: CocoFile) -> tuple[dict[Hashable, set[str]], dict[Hashable, set[str]]]:
    """Return image id -> names of categories with objects in it, and image id -> those with crowd regions."""
    positive, crowd = defaultdict[Hashable, set[str]](set), defaultdict[Hashable, set[str]](set)
    for annotation in file.annotations:
        labels = crowd if annotation.is_crowd else positive
        labels[annotation.image_id].add(file.categories[annotation.category_id])
    return positive, crowd
