"""Boxes of objects for evaluation: by class and picture, with the counts of omitted annotations."""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from lapsvm.arrays import Float64
from lapsvm.box_faults import OTHER_SIZE, box_faults, left_out_sentence
from lapsvm.texts.agreement import agreed

Size = tuple[float, float]
"""Width and height in pixels."""
ObjectRow = tuple[str, object, bool]
"""Class, corners (x1, y1, x2, y2), whether it is difficult. A fault stands in place of corners that cannot be used."""
TWICE = "boxes are given twice and count once"
PICTURES_TWICE = "pictures are given twice, with the same boxes, and count once"
PARTS = "parts of objects are no objects and are passed over"


@dataclass(frozen=True)
class GroundTruth:
    """The objects of one class in one picture, for evaluation only.

    Attributes
    ----------
    boxes : ndarray of shape (n, 4), float64, 0-based and half-open, in file order
    difficult : ndarray of shape (n,), bool
    """

    boxes: Float64
    difficult: NDArray[np.bool_]

    @classmethod
    def of_objects(cls, objects: Iterable[tuple[object, bool]]) -> "GroundTruth":
        """Return the ground truth of objects, each as its corners (x1, y1, x2, y2) and whether it is difficult."""
        rows = list(objects)
        boxes = np.array([corners for corners, _ in rows], dtype=np.float64).reshape(-1, 4)
        return cls(boxes, np.array([is_difficult for _, is_difficult in rows], dtype=np.bool_))


class TruthByClass(dict[str, dict[str, GroundTruth]]):
    """Class -> picture id -> objects, and the counts of omitted annotations.

    Attributes
    ----------
    faults : mapping of fault to number of annotations
        Annotations that cannot be used, as `lapsvm.box_faults` names them.
    total : int
        Number of annotations, with those.
    unknown : frozenset of str
        Pictures that have annotations, but none that can be used: what they show, and where, is not known.
    sizes : mapping of picture id to (width, height)
        Sizes of pictures as the files say.
    remarks : mapping of str to int
        What else a reader did not take as an object of its own, as `TWICE` and `PARTS` name it, and how often.
    """

    def __init__(self, content: Mapping[str, dict[str, GroundTruth]] | None = None) -> None:
        super().__init__(content or {})
        self.faults: Mapping[str, int] = {}
        self.total = sum(len(truth.boxes) for of_class in self.values() for truth in of_class.values())
        self.unknown: frozenset[str] = frozenset()
        self.sizes: Mapping[str, Size] = {}
        self.remarks: Mapping[str, int] = {}

    def count(self, faults: Mapping[str, int]) -> None:
        """Add annotations of which nothing is known but their faults, as fault -> number."""
        self.faults = Counter(self.faults) + Counter(faults)
        self.total += sum(faults.values())

    def remark(self, remarks: Mapping[str, int]) -> None:
        """Add the numbers of annotations that are no objects of their own, by remark."""
        self.remarks = Counter(self.remarks) + Counter(remarks)

    @property
    def sentence(self) -> str:
        """The omitted annotations and the remarks, as the end of a sentence. "" without any."""
        return with_remarks(left_out_sentence(self.faults, self.total), self.remarks)

    @property
    def is_empty(self) -> bool:
        """Whether there are annotations, but none that can be used."""
        return 0 < self.total == sum(self.faults.values())

    def checked(self, sizes: Mapping[str, Size]) -> "TruthByClass":
        """Return the objects that can be used in pictures of these sizes; sizes that it lacks are not known."""
        rows: dict[str, list[ObjectRow]] = {image_id: [] for of_class in self.values() for image_id in of_class}
        for name, of_class in self.items():
            for image_id, truth in of_class.items():
                pairs = zip(truth.boxes.tolist(), truth.difficult.tolist(), strict=True) if len(truth.boxes) else ()
                rows[image_id] += [(name, corners, is_difficult) for corners, is_difficult in pairs]
        joined = truth_by_class(rows, self, sizes=self.sizes, real_sizes=sizes)
        joined.faults = Counter(self.faults) + Counter(joined.faults)
        joined.total, joined.unknown = self.total, self.unknown | joined.unknown
        joined.remark(self.remarks)
        return joined


def with_remarks(sentence: str, remarks: Mapping[str, int]) -> str:
    """Return the end of a sentence with a clause for each remark and its number."""
    clauses = (f"{count:,} {remark}" for remark, count in remarks.items() if count)
    return "; ".join(clause for clause in (sentence, *clauses) if clause)


def distinct_objects(rows: Sequence[ObjectRow]) -> tuple[list[ObjectRow], int]:
    """Return the objects of a picture, each once, and how often one is given again; objects without corners stay."""
    agreement = agreed(((_identity(number, row), row) for number, row in enumerate(rows)), same=lambda *_: True)
    return list(agreement.taken.values()), agreement.n_repeated


def _identity(number: int, row: ObjectRow) -> Hashable:
    """Return the key that equal rows of one object share."""
    name, corners, is_difficult = row
    return number if isinstance(corners, str) else (name, tuple(cast("Sequence[float]", corners)), bool(is_difficult))


def truth_by_class(
    objects: Mapping[str, Sequence[ObjectRow]],
    classes: Iterable[str],
    *,
    sizes: Mapping[str, Size] | None = None,
    real_sizes: Mapping[str, Size] | None = None,
) -> TruthByClass:
    """Return class -> picture id -> objects that can be used, of the objects of each picture.

    Every class has an entry for every picture. Objects of other classes are left out; objects that cannot be used are
    left out and counted, and one that is given twice in a picture counts once.

    Parameters
    ----------
    objects : mapping of picture id to sequence of (class, corners, whether it is difficult)
        A fault in place of corners says why an object has none.
    classes : iterable of str
    sizes : mapping of picture id to (width, height), optional
        As the files say; they may lack pictures.
    real_sizes : mapping of picture id to (width, height), optional
        Of the pictures themselves. In one that has another size than the file says no box can be used.
    """
    stated, real = sizes or {}, real_sizes or {}
    truth = TruthByClass({name: dict.fromkeys(objects, GroundTruth.of_objects([])) for name in classes})
    faults, unknown, total, repeated = Counter[str](), set[str](), 0, 0
    for image_id, given in objects.items():
        rows, again = distinct_objects(given)
        total, repeated = total + len(rows), repeated + again
        wrong = object_faults([corners for _, corners, _ in rows], stated.get(image_id), real.get(image_id))
        faults.update(filter(None, wrong))
        if rows and all(wrong):
            unknown.add(image_id)
        kept = defaultdict[str, list[tuple[object, bool]]](list)
        for (name, *row), fault in zip(rows, wrong, strict=True):
            if not fault:
                kept[name].append((row[0], bool(row[1])))
        for name in kept.keys() & truth.keys():
            truth[name][image_id] = GroundTruth.of_objects(kept[name])
    truth.faults, truth.total = faults, total
    truth.remark({TWICE: repeated})
    truth.unknown, truth.sizes = frozenset(unknown), stated
    return truth


def object_faults(corners: Sequence[object], stated: Size | None = None, real: Size | None = None) -> list[str]:
    """Return the fault of each object of a picture. "" for an object that can be used.

    Parameters
    ----------
    corners : sequence of (x1, y1, x2, y2)
        Or a fault, which stays.
    stated, real : (width, height), optional
        Size of the picture as the file says, and its own.
    """
    boxed: list[Any] = [box for box in corners if not isinstance(box, str)]
    is_other = stated is not None and real is not None and tuple(stated) != tuple(real)
    size = stated if real is None else real
    faults = iter([OTHER_SIZE] * len(boxed) if is_other else box_faults(boxed, size))
    return [box if isinstance(box, str) else next(faults) for box in corners]
