"""Classes that verdicts of a person leave with too few pictures to be learned: they are left out, others go on."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from lapsvm.errors import OneClassError

from .dataset import Labels, RunData
from .settings import TrainSettings
from .verdicts import Verdict


def denial(train: TrainSettings, y: Labels) -> str:
    """Return why a class cannot be learned with the labels (n,) that its verdicts leave: "has no ..."; "" if it can.

    Cross-validation needs a positive and a negative picture for each fold, training with given constants one of both.
    """
    counts = [(int((sign * y > 0).sum()), kind) for sign, kind in ((1, "positive"), (-1, "negative"))]
    if all(count >= train.least_pictures for count, _ in counts):
        return ""
    left = " and ".join(f"{count or 'no'} {kind}" for count, kind in counts)
    return f"has {left} pictures after its verdicts, and training needs {train.least_pictures} of both"


def labels_after(verdicts: Mapping[str, Verdict], y: Labels, ids: Sequence[str]) -> Labels:
    """Return the labels (n,) of a class after its verdicts, for pictures that have `y` without them."""
    labels = y.copy()
    for row, picture in enumerate(ids):
        if picture in verdicts:
            labels[row] = verdicts[picture].label(int(labels[row]))
    return labels


def without_classes(data: RunData, reasons: Mapping[str, str]) -> RunData:
    """Return the data of a run without some classes; OneClassError if none is left."""
    classes = tuple(name for name in data.classes if name not in reasons)
    if not classes:
        raise OneClassError(f"no class can be learned: {'; '.join(f'{name} {why}' for name, why in reasons.items())}.")
    return replace(data, classes=classes, denied={**data.denied, **reasons})
