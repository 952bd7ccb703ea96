"""Pictures that look like one object: the same scene at another exposure, size or compression."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from lapsvm.arrays import Float32
from lapsvm.catalog import ImageRecord

from ...run.groups import BEFORE_LAST, MOST_OF_ONE, looks_grouped
from .copies import Hashed, groups_of
from .nothing import Checked

ALIKE = 0.6
"""Pictures that share more of their steps of brightness are alike; measured: other scenes share less than .35."""
MOST = 20_000
"""Pictures that are compared, each with all others."""
_BLOCK = 1024  # that are compared with all at once
_SHOWN = 3  # names of a group


def likeness_sentences(
    opened: Sequence[Checked], hashed: Sequence[Hashed], sets: Mapping[str, Sequence[ImageRecord]], expression: str
) -> list[str]:
    """Return a question on pictures that look like one object, and are in no group yet; at most one.

    Parameters
    ----------
    opened : sequence of (ImageRecord, CheckedPicture)
        New pictures, of all sets.
    hashed : sequence of (ImageRecord, hash)
        As `copy_sentences` takes them.
    sets : mapping of set name to all its pictures
        The training set first.
    expression : str
        That of ``data.group``.
    """
    records = [record for record, check in opened if check.steps]
    if len(records) > MOST:
        return []
    by_name = expression or (BEFORE_LAST if looks_grouped(next(iter(sets.values()))) else "")
    known = groups_of(records, hashed, by_name).tolist()
    alike = alike_groups([check.steps for _, check in opened if check.steps])
    groups = [rows for rows in alike if len(rows) <= MOST_OF_ONE and len({known[row] for row in rows}) > 1]
    if not groups:
        return []
    names = [records[row].id for row in groups[0]]
    more = ", ..." if len(names) > _SHOWN else ""
    others = f", and {len(groups) - 1:,} more groups so" if len(groups) > 1 else ""
    sentence = (
        f"pictures: {', '.join(names[:_SHOWN])}{more} look like one object{others}: are they? --group EXPRESSION, "
        "found in their names, keeps an object's pictures in one fold; where names do not say it, keep one picture of "
        "each. Held-out figures are too high without."
    )
    return [sentence]


def alike_groups(steps: Sequence[bytes]) -> list[list[int]]:
    """Return the groups of two or more pictures that look like one object, each sorted, by their first ones.

    Parameters
    ----------
    steps : sequence of n bytes
        The `brightness_steps` of each picture.
    """
    if not steps:
        return []
    signs = np.frombuffer(b"".join(steps), dtype=np.int8).reshape(len(steps), -1).astype(np.float32)
    pairs = [_pairs(signs, start) for start in range(0, len(signs), _BLOCK)]
    rows, others = np.concatenate([np.empty((2, 0), dtype=np.intp), *pairs], axis=1)
    graph = coo_array((np.ones(len(rows), dtype=bool), (rows, others)), shape=(len(steps), len(steps)))
    _, labels = connected_components(graph, directed=False)
    groups: dict[int, list[int]] = {}
    for row, label in enumerate(labels.tolist()):
        groups.setdefault(label, []).append(row)
    return [group for group in groups.values() if len(group) > 1]


def _pairs(signs: Float32, start: int) -> NDArray[np.intp]:
    """Return pairs (2, k) of a block's pictures and later ones that are alike by their steps."""
    block, later = signs[start : start + _BLOCK], signs[start:]
    n_shared = np.abs(block) @ np.abs(later).T
    n_steps = np.abs(block).sum(axis=1)[:, None] + np.abs(later).sum(axis=1) - n_shared
    rows, others = np.nonzero(np.triu(block @ later.T > ALIKE * np.maximum(n_steps, 1), 1))
    return np.stack([rows, others]) + start
