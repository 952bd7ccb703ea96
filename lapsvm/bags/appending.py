"""More windows for some bags of a store, which are then in an array of their own."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from lapsvm.arrays import Array
from lapsvm.bags.selection import Selection
from lapsvm.bags.stores.local import Store
from lapsvm.bags.stores.parts import MemoryPart
from lapsvm.bfloat16 import narrowed, widened
from lapsvm.errors import InputError, ShapeError


def appended(store: Store, selection: Selection, windows: Mapping[int, ArrayLike]) -> tuple[Store, Selection]:
    """Return a store and a selection in which bags have more windows (m, d) at their end.

    Raises
    ------
    ShapeError
        If the features of a bag do not have shape (m, d).
    InputError
        If there is no such bag, or other processes hold the windows.
    """
    if store.remote is not None:
        raise InputError("windows can only be appended to bags in this process, got bags that others hold.")
    bags = selection.bags(sorted(windows))
    if not len(bags):
        return store, selection
    new = {bag: _checked(store, bag, windows[bag]) for bag in bags.tolist()}
    copied = [np.concatenate([_stored(store, selection, bag), rows]) for bag, rows in new.items()]
    ends = store.bounds[-1] + np.cumsum([len(rows) for rows in copied])
    starts, stops = selection.starts.copy(), selection.stops.copy()
    starts[bags], stops[bags] = np.append(store.bounds[-1], ends[:-1]), ends
    larger = Store([*store.parts, MemoryPart(np.concatenate(copied))])
    larger.device = store.device
    return larger, Selection(starts, stops, _excluded(selection, {bag: len(rows) for bag, rows in new.items()}))


def _checked(store: Store, bag: int, windows: ArrayLike) -> Array:
    rows = np.asarray(windows)
    if rows.ndim != 2 or rows.shape[1] != store.dim:
        raise ShapeError(f"windows of bag {bag} must have shape (m, {store.dim}), got {rows.shape}.")
    return rows if rows.dtype == store.dtype else narrowed(widened(rows), store.dtype)


def _stored(store: Store, selection: Selection, bag: int) -> Array:
    return store.take(np.arange(selection.starts[bag], selection.stops[bag]))


def _excluded(selection: Selection, counts: Mapping[int, int]) -> Array | None:
    """Return the mask of excluded windows, in which new windows compete."""
    if selection.excluded is None:
        return None
    places = np.repeat(selection.offsets[1:][list(counts)], list(counts.values()))
    return np.insert(selection.excluded, places, False)
