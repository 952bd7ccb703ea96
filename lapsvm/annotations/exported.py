"""Annotations of a set of pictures for export, and the rule for which detections they are."""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

import numpy as np
from numpy.typing import NDArray

from lapsvm.arrays import Float64, Index, as_floats, check_count, check_distinct, check_finite, check_same_length
from lapsvm.boxes import as_boxes
from lapsvm.errors import InputError, OptionError, ShapeError
from lapsvm.files import check_regular


@dataclass(frozen=True, eq=False)
class AnnotatedPicture:
    """A picture and its exported boxes.

    Attributes
    ----------
    name : str
        Its path relative to the data folder, with ``/`` and without ``..``, as the name in other programs.
    path : Path
        Path of the file.
    width, height : int
        Size of the pixels in which the boxes were found.
    classes : tuple of n str
    boxes : ndarray of shape (n, 4), float64
        x1, y1, x2, y2, 0-based, half-open, inside the picture.
    scores : ndarray of shape (n,), float64
    probabilities : ndarray of shape (n,), float64, or None
        None if the models are not calibrated.
    id, pixels : str
        Its id in the run, and the hash of its pixels; "" if they are not known.

    Raises
    ------
    ShapeError, NotFiniteError
        If the arrays do not fit, or a number is NaN or infinite.
    InputError
        If a box has no area inside the picture, or the name is no path inside a folder.
    """

    name: str
    path: Path
    width: int
    height: int
    classes: tuple[str, ...] = ()
    boxes: Float64 = field(default_factory=lambda: np.empty((0, 4)))
    scores: Float64 = field(default_factory=lambda: np.empty(0))
    probabilities: Float64 | None = None
    id: str = ""
    pixels: str = ""

    def __post_init__(self) -> None:
        _check_path(self.name)
        boxes, scores = as_boxes(self.boxes), as_floats("scores", self.scores, 1)
        check_finite("boxes", boxes)
        check_same_length("boxes", boxes, "scores", scores)
        if len(self.classes) != len(boxes):
            raise ShapeError(f"a picture must have one class per box, got {len(self.classes)} and {len(boxes)}.")
        size = np.array([self.width, self.height] * 2)
        outside = (boxes < 0).any(axis=1) | (boxes > size).any(axis=1) | (boxes[:, :2] >= boxes[:, 2:]).any(axis=1)
        if outside.any():
            raise InputError(
                f"picture {self.name!r}: a box must have an area inside {self.width} x {self.height} pixels, got "
                f"{boxes[outside][0].tolist()}."
            )
        object.__setattr__(self, "boxes", boxes)
        object.__setattr__(self, "scores", scores)


@dataclass(frozen=True)
class Annotations:
    """The exported classes and pictures of a set.

    Attributes
    ----------
    set_name : str
    classes : tuple of str
        All classes in their fixed order.
    pictures : tuple of AnnotatedPicture
        Includes pictures without boxes, which are negatives in formats that support them.

    Raises
    ------
    InputError
        If a class or picture is named twice, a box has a class that is not listed, or the set's name is no file name.
    """

    set_name: str
    classes: tuple[str, ...]
    pictures: tuple[AnnotatedPicture, ...]

    def __post_init__(self) -> None:
        _check_path(self.set_name, "set", depth=1)
        check_distinct(self.classes, "annotations must list each class once")
        check_distinct((picture.name for picture in self.pictures), "annotations must list each picture once")
        for picture in self.pictures:
            other = next((name for name in picture.classes if name not in self.classes), None)
            if other is not None:
                raise InputError(
                    f"picture {picture.name!r}: a box must be of a class that is listed ({', '.join(self.classes)}), "
                    f"got {other!r}."
                )

    @property
    def n_boxes(self) -> int:
        """Number of boxes in all pictures."""
        return sum(len(picture.boxes) for picture in self.pictures)

    def check_names(self, format_name: str, rule: Callable[[str], bool]) -> None:
        """Raise InputError for the first set, class or picture whose name the format cannot hold."""
        pictures = [picture.name for picture in self.pictures]
        for what, names in (("set", [self.set_name]), ("class", self.classes), ("picture", pictures)):
            for name in names:
                if not rule(name):
                    raise InputError(f"format {format_name} cannot hold the {what} name {name!r}.")

    @property
    def class_numbers(self) -> Mapping[str, int]:
        """Mapping of class name to its index in `classes`."""
        return {name: number for number, name in enumerate(self.classes)}


def _check_path(name: str, what: str = "picture", depth: int | None = None) -> None:
    """Raise InputError unless a name is a plain path that stays in its folder, of at most `depth` parts."""
    path = PurePosixPath(name)
    inside = path.parts and not path.is_absolute() and ".." not in path.parts and str(path) == name
    if not inside or "\0" in name or (depth is not None and (len(path.parts) > depth or "\\" in name)):
        raise InputError(f"the name of a {what} must be a path inside the exported folder, got {name!r}.")


def clip_boxes(boxes: Float64, width: int, height: int) -> tuple[Float64, NDArray[np.bool_]]:
    """Return the boxes (n, 4) clipped to a picture, and a mask of those with a positive area."""
    clipped = np.clip(boxes, 0.0, np.array([width, height] * 2, dtype=np.float64))
    return clipped, np.asarray((clipped[:, :2] < clipped[:, 2:]).all(axis=1))


@dataclass(frozen=True)
class BoxChoice:
    """A rule for the detections of one class in one picture.

    Without a threshold and a number, the rule selects the best box of each class that the picture is labelled with.

    Attributes
    ----------
    threshold : float, optional
        Minimum probability of a box.
    per_class : int, optional
        Number of best boxes.
    labelled_only : bool, default False
        Only classes that the picture is labelled with.

    Raises
    ------
    OptionError
        If both a threshold and a number are given, or the threshold is not in [0, 1].
    InputError
        If the number is not a whole number of 1 or more.
    """

    threshold: float | None = None
    per_class: int | None = None
    labelled_only: bool = False

    def __post_init__(self) -> None:
        if self.threshold is not None and self.per_class is not None:
            raise OptionError("the parameter threshold and the parameter per_class exclude each other, got both.")
        if self.threshold is not None and not 0 <= self.threshold <= 1:
            raise OptionError(f"the parameter threshold must be a probability between 0 and 1, got {self.threshold}.")
        if self.per_class is not None:
            check_count("the parameter per_class", self.per_class)

    @property
    def needs_labels(self) -> bool:
        """Whether only classes with label +1 are selected."""
        return self.labelled_only or (self.threshold is None and self.per_class is None)

    def indices(self, scores: Float64, probabilities: Float64 | None, label: int) -> Index:
        """Return the indices of the selected boxes, best first.

        Parameters
        ----------
        scores : ndarray of shape (n,)
        probabilities : ndarray of shape (n,), or None
        label : int
            +1, -1 or 0 for the class of these boxes.

        Raises
        ------
        OptionError
            If there is a threshold but no probabilities.
        """
        if self.threshold is not None and probabilities is None:
            raise OptionError(
                "this run's models have no probabilities for the parameter threshold; use the parameter per_class."
            )
        if self.needs_labels and label != 1:
            return np.empty(0, dtype=np.intp)
        order = np.argsort(-scores, kind="stable")
        if self.threshold is not None and probabilities is not None:
            return order[probabilities[order] >= self.threshold]
        return order[: self.per_class or 1]

    def __str__(self) -> str:
        """Return the rule as part of a sentence."""
        rules = [] if self.threshold is None else [f"a probability of at least {self.threshold:g}"]
        rules += ["a class that its picture is labelled with"] if self.needs_labels else []
        return " and ".join(rules or ["an area inside its picture"])


def place_picture(source: Path, target: Path, copy: bool) -> None:
    """Link a picture by its absolute path, or copy its content; the target's folder is made."""
    check_regular(source, "picture")  # what stands below a link to a folder would be written into that folder
    target.parent.mkdir(parents=True, exist_ok=True)
    if copy:
        shutil.copyfile(source, target)
    else:
        target.symlink_to(source.resolve())


def without_suffix(name: str) -> str:
    """Return the path of a picture without its suffix."""
    return str(PurePosixPath(name).with_suffix(""))
