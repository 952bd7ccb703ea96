"""The data set of a run: its pictures, their labels, and the classes that can be learned."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from lapsvm.catalog import Dataset, ImageRecord, PresentClasses, open_dataset
from lapsvm.errors import LabelsError, MissingError, OneClassError, OptionError
from lapsvm.names.kinds import is_good_name
from lapsvm.texts.sentences import listed

from ..settings.settings import DataSettings, Settings

Labels = NDArray[np.int8]
_LABELS = frozenset((1, -1, 0))
SHOWN = 20  # classes in one sentence
_MVTEC = ("train", "test", "ground_truth")  # the folders of its layout
WITH_WORDS = ("folder", "csv", "imagefolder", "mvtec")
"""Readers for which words of `lapsvm.catalog.NO_CLASS` mean no class."""
NO_SET = "none"  # the name of the test set of a run without one


@dataclass(frozen=True)
class RunData:
    """A data set opened for a run: learnable classes, skipped ones with the reason, and the pictures of each set.

    `denied` are the classes that verdicts of a person leave with too few pictures, with the reason.
    """

    dataset: Dataset
    classes: tuple[str, ...]
    skipped: dict[str, str]
    records: dict[str, list[ImageRecord]]
    denied: Mapping[str, str] = field(default_factory=dict)

    def without(self, reasons: Mapping[str, str]) -> Self:
        """Return the data without some denied classes; OneClassError if none is left."""
        if classes := tuple(name for name in self.classes if name not in reasons):
            return replace(self, classes=classes, denied={**self.denied, **reasons})
        said = "; ".join(f"{name} {why}" for name, why in reasons.items())
        raise OneClassError(f"no class can be learned: {said}.")


def moved(settings: Settings, root: str | Path | None) -> Settings:
    """Return the settings with the new folder of data that have moved; None leaves it."""
    return settings.with_values({"data.root": str(Path(root).resolve()) if root else None})


def open_run_data(settings: DataSettings, seed: int, taught: Sequence[ImageRecord] = (), least: int = 1) -> RunData:
    """Open the data set of a run and check its classes.

    `taught` are further training pictures, positive for the classes that their labels name and negative for all others.
    Classes that the data set lacks are new ones, of which its own pictures are negative; with fewer than `least` taught
    pictures they are skipped, and so are these. Good pictures alone are data without classes.

    Raises OptionError if no data set is named, OneClassError if a requested class has no positives or no negatives or
    no class of the data set is left, LabelsError if a set is empty.
    """
    if not settings.name or not settings.root:
        raise OptionError("a data set must be named with --data and --root; neither may be empty.")
    dataset = _opened(settings, seed)
    records = {name: _records(dataset, name) for name in _set_names(dataset, settings)}
    counts = Counter(name for one in taught for name in one.labels if name not in dataset.classes)
    new = sorted(name for name in counts if counts[name] >= least)
    records = _with_taught(records, settings.train_set, taught, (*dataset.classes, *new), new)
    skipped = _unlearnable((*dataset.classes, *new), records[settings.train_set])
    for name in settings.classes:
        if name in skipped:
            advice = _advice(skipped[name], settings)
            raise OneClassError(f"class {name!r} {skipped[name]}; both are needed to learn it{advice}.")
    classes = tuple(name for name in (*dataset.classes, *new) if name not in skipped)
    for name in counts.keys() - {*new}:
        skipped[name] = f"is new and has {counts[name]} of the {least} pictures that its folds need"
    if not classes and dataset.classes:
        reasons = listed([f"{name} {reason}" for name, reason in skipped.items()], SHOWN, "; ")
        raise OneClassError(f"no class of {settings.root} can be learned: {reasons}{_advice(reasons, settings)}.")
    return RunData(dataset, classes, skipped, records)


def _with_taught(
    records: dict[str, list[ImageRecord]], train_set: str, taught: Sequence[ImageRecord], classes: Sequence[str],
    new: Sequence[str],
) -> dict[str, list[ImageRecord]]:  # fmt: skip
    """Return the pictures of each set with labels of new classes, and those of the training set with taught ones."""
    every, known = dict.fromkeys(classes), frozenset(classes)
    if new:
        records = {name: [_negative_of(new, one, every) for one in of_set] for name, of_set in records.items()}
    usable = [one for one in taught if not one.labels or known & one.labels.keys()]
    added = [replace(one, labels=PresentClasses(every, one.labels)) for one in usable]
    return {**records, train_set: records[train_set] + added} if added else records


def _negative_of(new: Sequence[str], record: ImageRecord, every: Mapping[str, None]) -> ImageRecord:
    labels = record.labels
    if isinstance(labels, PresentClasses):
        return replace(record, labels=PresentClasses(every, labels.positive))
    return replace(record, labels={**labels, **dict.fromkeys(new, -1)})


def _advice(reasons: str, settings: DataSettings) -> str:
    """Return how to add negatives, if they are missing, or which reader divides sets of MVTec's layout."""
    if "no negative" not in reasons:
        is_mvtec = settings.name == "folder" and (settings.train_set, settings.test_set) == ("train", "test")
        return "; --data mvtec takes half of the test pictures for training" if is_mvtec else ""
    return "; add pictures without the class: in a folder called background, or with an empty label in a table"


def _opened(settings: DataSettings, seed: int) -> Dataset:
    """Return the data set; MissingError that names --root if its folder is not there or empty.

    LabelsError that names --data if folders of classes are those of MVTec's layout.
    """
    try:
        return open_dataset(settings.name, settings.root, **_reader_options(settings, seed))
    except (MissingError, LabelsError):
        root = Path(settings.root)
        is_empty = root.is_dir() and next(root.iterdir(), None) is None
        if settings.name == "folder" and all((root / name).is_dir() for name in _MVTEC):
            raise LabelsError(f"data folder {root} has the layout of MVTec AD: read it by --data mvtec.") from None
        if root.exists() and not is_empty:
            raise
    state = "is empty" if is_empty else "is not there"
    raise MissingError(f"data folder {root} {state}; if the data have moved, name their folder with --root.")


def _reader_options(settings: DataSettings, seed: int) -> dict[str, Any]:
    """Return the options of the reader: those that differ from the defaults, and the seed of generated data."""
    options: dict[str, Any] = {"classes": settings.classes} if settings.classes else {}
    if settings.name == "digits":
        options["seed"] = seed
    for option in ("train_set", "test_set"):
        if getattr(settings, option) != getattr(DataSettings, option):
            options[option] = getattr(settings, option)
    return options


def _set_names(dataset: Dataset, settings: DataSettings) -> list[str]:
    """Return the training set, and the test set unless it is "none" or the default one is missing."""
    if settings.test_set == NO_SET:
        return [settings.train_set]
    tested = settings.test_set in dataset.sets or settings.test_set != DataSettings.test_set
    return [settings.train_set, *([settings.test_set] if tested else [])]


def _records(dataset: Dataset, set_name: str) -> list[ImageRecord]:
    """Return the pictures of a set; LabelsError if there are none, or one has an invalid label."""
    records = dataset.records(set_name)
    if not records:
        raise LabelsError(f"set {set_name!r} of data set {dataset.name!r} must hold at least one picture, got none.")
    for record in records:
        if not _LABELS.issuperset(record.labels.values()):
            wrong = next(f"{value!r} for {name!r}" for name, value in record.labels.items() if value not in _LABELS)
            raise LabelsError(f"labels of picture {record.id!r} must be +1, -1 or 0, got {wrong}.")
    return records


def _unlearnable(classes: Sequence[str], records: Sequence[ImageRecord]) -> dict[str, str]:
    """Return class -> why it cannot be learned, for those that cannot."""
    reasons, (positive, negative) = {}, count_labels(records)
    for name in classes:
        missing = [kind for kind, counts in (("positive", positive), ("negative", negative)) if not counts[name]]
        if missing:
            reasons[name] = f"has no {' and no '.join(missing)} picture in the training set"
    return reasons


def count_labels(records: Sequence[ImageRecord]) -> tuple[Counter[str], Counter[str]]:
    """Return the numbers of positive and of negative pictures by class, in time linear in the stored labels."""
    positive, negative = Counter[str](), Counter[str]()
    pictures, shared = Counter[int](), dict[int, Mapping[str, object]]()  # by table of classes, which pictures share
    for labels in (record.labels for record in records):
        if isinstance(labels, PresentClasses):
            positive.update(labels.positive)
            negative.subtract(labels.positive)
            pictures[id(labels.classes)] += 1
            shared[id(labels.classes)] = labels.classes
        else:
            positive.update(name for name, value in labels.items() if value == 1)
            negative.update(name for name, value in labels.items() if value == -1)
    for key, classes in shared.items():
        negative.update(dict.fromkeys(classes, pictures[key]))
    return positive, negative


def has_pictures_of_no_class(data: RunData, set_name: str) -> bool:
    """Return whether a set was sorted into pictures of classes and of none, as good and defective products are.

    That is where its reader has words for no class, and some of its pictures show none of the run's classes.
    """
    if data.dataset.name not in WITH_WORDS:
        return False
    return len(positive_pictures(data.records[set_name], data.classes)) < len(data.records[set_name])


def has_good_pictures(data: RunData) -> bool:
    """Return whether the pictures are sorted into good products and defects, as photographs and scenes are not.

    That is where some lie in a folder called good, ok or normal, a table calls them so, or masks of defects are known.
    """
    if getattr(data.dataset, "has_good", False) or data.dataset.name == "mvtec":
        return True
    records = [record for of_set in data.records.values() for record in of_set]
    shown = positive_pictures(records, data.classes)
    return any(record.id not in shown and is_good_name(record.path.parent.name) for record in records)


def positive_pictures(records: Sequence[ImageRecord], classes: Collection[str]) -> frozenset[str]:
    """Return the ids of the pictures that are labelled with a class or more, in time linear in the stored labels."""
    names = frozenset(classes)
    return frozenset(record.id for record in records if not names.isdisjoint(shown_classes(record)))


def shown_classes(record: ImageRecord) -> frozenset[str]:
    """Return the classes that a picture is positive for."""
    labels = record.labels
    if isinstance(labels, PresentClasses):
        return labels.positive
    return frozenset(name for name, value in labels.items() if value == 1)


def label_vector(records: Sequence[ImageRecord], class_name: str) -> Labels:
    """Return the labels +1, -1, 0 of a class, int8 of shape (n_pictures,)."""
    return np.array([record.labels.get(class_name, 0) for record in records], dtype=np.int8)


def content_hash(*parts: object) -> str:
    """Return the hash of the values' repr, 32 hex digits; it identifies ids and labels in models."""
    return blake2b(repr(parts).encode(), digest_size=16).hexdigest()
