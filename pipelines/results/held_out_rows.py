"""The check of held-out scores, which may come from a file that somebody changed."""

from typing import TYPE_CHECKING

import numpy as np

from lapsvm.arrays import as_floats, as_whole_numbers, check_finite
from lapsvm.boxes import as_boxes
from lapsvm.errors import InputError

if TYPE_CHECKING:
    from .held_out import HeldOut


def check_rows(held_out: "HeldOut") -> None:
    """Raise InputError unless every row has an id of its own, a label, a fold, and finite numbers."""
    ids = held_out.ids
    if not ids or not all(isinstance(name, str) for name in ids) or len(set(ids)) < len(ids):
        raise InputError("ids of held-out scores must be texts, each there once, and at least one.")
    if not isinstance(held_out.model, str):
        raise InputError(f"model of held-out scores must be a hash, got {held_out.model!r}.")
    if not np.isin(as_whole_numbers("y", held_out.y), (-1, 1)).all():
        raise InputError("labels of held-out scores must be +1 or -1.")
    if as_whole_numbers("fold", held_out.fold).min() < 1:
        raise InputError("folds of held-out scores must be numbered from 1.")
    as_floats("score", held_out.score, 1)
    as_floats("agreement", held_out.agreement, 1)
    check_finite("boxes", as_boxes(held_out.boxes))
