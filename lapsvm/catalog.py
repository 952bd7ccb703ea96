"""Data sets by name: the interface of readers, and their registry; entry points of every group.

A reader returns two separate kinds of objects: `ImageRecord` (a picture and its image-level labels) for training, and
`GroundTruth` (boxes) for evaluation only.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from inspect import ismethod, signature
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from lapsvm.arrays import check_known
from lapsvm.errors import DataError, InputError, LapsvmError, OptionError, one_line
from lapsvm.ground_truth import GroundTruth, truth_by_class
from lapsvm.names.kinds import NO_CLASS, PICTURE_SUFFIXES
from lapsvm.pictures.nothing import Nothing, is_plain
from lapsvm.pictures.reading import (
    HEIC_ADVICE,
    MAX_PIXELS,
    MAX_SIDE,
    CheckedPicture,
    Picture,
    Pixels,
    check_image,
    check_pixels,
    pixel_hash,
    read_image,
    read_picture,
)

__all__ = [
    "ENTRY_POINTS",
    "HEIC_ADVICE",
    "MAX_PIXELS",
    "MAX_SIDE",
    "NO_CLASS",
    "PICTURE_SUFFIXES",
    "CheckedPicture",
    "Dataset",
    "GroundTruth",
    "ImageRecord",
    "Nothing",
    "Picture",
    "Pixels",
    "PresentClasses",
    "check_image",
    "check_pixels",
    "is_plain",
    "open_dataset",
    "pixel_hash",
    "read_image",
    "read_picture",
    "truth_by_class",
]

ENTRY_POINTS = "lapsvm.datasets"


class PresentClasses(Mapping[str, int]):
    """Labels of a picture given by its classes: +1 for these, -1 for all others.

    The object stores the picture's classes only, so that memory is linear for data sets with many classes.

    Parameters
    ----------
    classes : mapping whose keys are the names of all classes, in order
        Shared by all pictures.
    positive : iterable of str
        The picture's classes; names outside `classes` are dropped.
    """

    __slots__ = ("classes", "positive")

    def __init__(self, classes: Mapping[str, object], positive: Iterable[str]) -> None:
        self.classes = classes
        self.positive = frozenset(name for name in positive if name in classes)

    def __getitem__(self, name: str) -> int:
        if name not in self.classes:
            raise KeyError(name)
        return 1 if name in self.positive else -1

    def __iter__(self) -> Iterator[str]:
        return iter(self.classes)

    def __len__(self) -> int:
        return len(self.classes)

    def __repr__(self) -> str:
        return f"PresentClasses({sorted(self.positive)} of {len(self.classes)})"


@dataclass(frozen=True)
class ImageRecord:
    """A picture and its image-level labels.

    Attributes
    ----------
    id : str
        Unique in its set.
    path : Path
    labels : mapping of class name to +1, -1 or 0
        0 means only difficult objects; the picture is left out of training. A missing class equals 0.
    """

    id: str
    path: Path
    labels: Mapping[str, int] = field(default_factory=dict)

    def pixels(self) -> Pixels:
        """Return the picture, uint8 RGB of shape (h, w, 3).

        Raises
        ------
        MissingError, ImageError
        """
        return read_image(self.path)


@runtime_checkable
class Dataset(Protocol):
    """The interface of a data set.

    A reader may also have a method ``ignored_files()``, which returns a dict of kind (a suffix, "hidden") to the number
    of files that it ignores; a run reports them. An attribute ``split_note``, the end of a sentence, says how the
    reader itself divided pictures into sets; an attribute ``pictures``, set name -> records, lets a run name the sets
    that it does not use. A method ``masks(set_name)`` returns, for evaluation, picture id -> file
    of its mask (see `lapsvm.pictures.masks`), or None for a picture without an object; only pictures of which this is
    known are in it, and the method returns None where there is no mask.

    Attributes
    ----------
    name : str
    classes : tuple of str
    sets : tuple of str
    """

    @property
    def name(self) -> str:
        """Name of its reader."""

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the selected classes."""

    @property
    def sets(self) -> tuple[str, ...]:
        """Names of the existing sets."""

    def records(self, set_name: str) -> list[ImageRecord]:
        """Return the pictures of a set in their fixed order; opens no annotation."""

    def ground_truth(self, set_name: str) -> dict[str, dict[str, GroundTruth]] | None:
        """Return class -> image id -> objects, with an entry for every picture. None if no boxes are known."""


def open_dataset(name: str, root: str | Path, **options: Any) -> Dataset:
    """Open a data set by the name of its reader.

    Parameters
    ----------
    name : str
        One of the entry points of the group ``lapsvm.datasets``: "voc", "folder", "csv", "coco", "imagefolder",
        "mvtec", "digits", or another registered reader.
    root : str or Path
        Its folder.
    **options
        Arguments of the reader, for instance ``classes=("bus", "car")``.

    Returns
    -------
    Dataset

    Raises
    ------
    OptionError
        If the reader or an option is unknown, the reader needs another one, or cannot be loaded.
    InputError
        If a reader of another package gives no data set.
    DataError
        If it fails.
    """
    what = f"data set {name!r}"
    point = find_point(ENTRY_POINTS, what, name)
    dataset: Dataset = call_point(point, f"{what}: ", "a folder and options", Path(root), **options)
    members = ("name", "classes", "sets", "records", "ground_truth")
    if lacking := [member for member in members if not hasattr(dataset, member)]:
        raise InputError(f"{what} must have {', '.join(members)}, but {type(dataset).__name__} has no {lacking[0]}.")
    return OwnDataset(point, dataset) if is_own(dataset) else dataset


def find_point(group: str, what: str, name: str, known: Iterable[str] = ()) -> EntryPoint:
    """Return the entry point of a name; OptionError lists those that there are, after the names that are known."""
    points = {point.name: point for point in entry_points(group=group)}
    check_known(what, name, [*known, *sorted(points)])
    return points[name]


def load_point(point: EntryPoint) -> Any:
    """Load the object of an entry point. Raises OptionError if its module or its name cannot be loaded."""
    try:
        return point.load()
    except (Exception, SystemExit) as error:
        raise OptionError(_sentence(point, "cannot be loaded, for", error)) from error


@contextmanager
def running(point: EntryPoint) -> Iterator[None]:
    """Turn an exception in the code of an entry point into a DataError that names it; ours pass."""
    try:
        yield
    except LapsvmError:
        raise
    except (Exception, SystemExit) as error:  # an end of the program would seem to be a success
        raise DataError(_sentence(point, "failed with", error)) from error


class OwnObject:
    """What the code of an entry point made, whose failures are named: see `running`.

    Its attributes and its class are those of the object. Subclasses have the methods of an interface, and check what
    the object's methods return.

    Parameters
    ----------
    point : EntryPoint
    made : object
    """

    def __init__(self, point: EntryPoint, made: Any) -> None:
        self._point, self._made = point, made

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return type(self._made)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        value = self._attribute(name)
        return self._guarded(value) if ismethod(value) else value

    def __repr__(self) -> str:
        return repr(self._made)

    def _attribute(self, name: str) -> Any:
        """Return an attribute of the object. Raises AttributeError if it has none of this name."""
        try:
            return getattr(self._made, name)
        except AttributeError:
            raise
        except Exception as error:
            raise DataError(_sentence(self._point, "failed with", error)) from error

    def _description(self, what: str) -> dict[str, Any]:
        """Return the object's description. Raises InputError, which names it `what`, if it is no plain JSON."""
        with running(self._point):
            description = self._made.describe()
        try:
            if isinstance(description, dict) and json.dumps(description, allow_nan=False):
                return description
        except (TypeError, ValueError, RecursionError):
            pass
        got = f"got {type(description).__name__}" if not isinstance(description, dict) else "got other values in it"
        raise InputError(f"{what} {self._point.name!r} must describe itself by plain JSON, {got}.")

    def _guarded(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """Return a method of the object whose failures are named."""

        def guarded(*given: object, **options: object) -> Any:
            with running(self._point):
                return method(*given, **options)

        return guarded


def is_own(made: object) -> bool:
    """Return whether an object of an entry point is of a class outside of this package."""
    return not type(made).__module__.startswith("lapsvm.")


class OwnDataset(OwnObject):
    """A data set of a reader of another package (see `Dataset`)."""

    name: str
    classes: tuple[str, ...]
    sets: tuple[str, ...]

    def records(self, set_name: str) -> list[ImageRecord]:
        """Return the pictures of a set. Raises DataError if the reader fails, or returns something else."""
        with running(self._point):
            records = self._made.records(set_name)
        if not isinstance(records, list) or not all(_is_record(record) for record in records):
            got = type(records).__name__ if not isinstance(records, list) else "other entries in it"
            raise DataError(f"the reader {self._point.name!r} must return a list of pictures with labels, got {got}.")
        return records

    def ground_truth(self, set_name: str) -> dict[str, dict[str, GroundTruth]] | None:
        """Return class -> image id -> objects. Raises DataError if the reader fails, or returns something else."""
        with running(self._point):
            truth = self._made.ground_truth(set_name)
        if truth is not None and not (isinstance(truth, dict) and all(map(_is_truth, truth.values()))):
            rule = "must return tables of lapsvm.catalog.GroundTruth by class and picture, or None"
            raise DataError(f"the reader {self._point.name!r} {rule}, got {type(truth).__name__}.")
        return truth


def _is_record(record: Any) -> bool:
    """Return whether an object has the id, the path and the labels of a picture."""
    known = isinstance(getattr(record, "id", None), str) and isinstance(getattr(record, "path", None), str | Path)
    return known and isinstance(getattr(record, "labels", None), Mapping)


def _is_truth(of_class: object) -> bool:
    """Return whether an object is a table of the objects of each picture."""
    return isinstance(of_class, dict) and all(isinstance(objects, GroundTruth) for objects in of_class.values())


def call_point(point: EntryPoint, start: str, takes: str, /, *given: object, **options: Any) -> Any:
    """Call the function of an entry point with arguments and options; `start` begins its errors.

    Raises
    ------
    OptionError
        If it cannot be loaded, is no function of what it `takes`, or has no such options.
    DataError
        If it fails.
    """
    make = load_point(point)
    try:
        wanted = signature(make)
        wanted.bind_partial(*given)
    except (TypeError, ValueError) as error:
        raise OptionError(f"{start}the function must take {takes}, got {_origin(point)}: {one_line(error)}.") from None
    try:
        wanted.bind(*given, **options)
    except TypeError as error:
        names = ", ".join(list(wanted.parameters)[len(given) :]) or "none"
        raise OptionError(f"{start}{error}; its options are {names}.") from None
    with running(point):
        return make(*given, **options)


def _sentence(point: EntryPoint, fails: str, error: BaseException) -> str:
    """Return the sentence that an entry point does not do."""
    return f"entry point {_origin(point)} {fails} {type(error).__name__}: {one_line(error)}."


def _origin(point: EntryPoint) -> str:
    """Return an entry point as its package writes it, and the package."""
    return f"{point.name} = {point.value}" + ("" if point.dist is None else f" of the package {point.dist.name}")
