"""Masks of a data set: which file belongs to which picture, and what is said of masks as evaluation takes them."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np

from lapsvm.errors import ImageError
from lapsvm.files import read_regular
from lapsvm.ground_truth import Size
from lapsvm.pictures.masks import MOST_REGIONS, read_mask, region_boxes, understood_mask
from lapsvm.texts.agreement import agreed

TOO_MANY_REGIONS = f"in a mask of more than {MOST_REGIONS:,} regions"
"""The fault that stands in place of the boxes of a mask."""
_LARGE = 0.5
"""Share of a picture; a mask that marks more may be an inverted one."""
_SHOWN = 3


class MaskFiles(NamedTuple):
    """Picture id -> its mask, and kind -> number of the files that are not taken."""

    taken: dict[str, Path]
    ignored: dict[str, int]


class MaskSummary(NamedTuple):
    """What is kept of a mask.

    Attributes
    ----------
    corners : list
        The boxes around its regions; `TOO_MANY_REGIONS` alone in place of too many.
    size : (width, height)
    share : float
        Of the picture, that it marks.
    note : str
        How it was understood; see `lapsvm.pictures.masks`.
    """

    corners: Sequence[object]
    size: Size
    share: float
    note: str


def mask_files(files: Iterable[tuple[str, Path]]) -> MaskFiles:
    """Return the masks of pictures; where a picture has several, equal ones are one, and of others none is taken.

    Parameters
    ----------
    files : iterable of (picture id, Path)
        "" as id for a file that belongs to no picture.
    """
    given = list(files)
    agreement = agreed((item for item in given if item[0]), same=_same_mask)
    kinds = {
        "masks of no picture with a defect": [path for image_id, path in given if not image_id],
        "masks that differ from another one of their picture": [
            path for paths in agreement.unequal.values() for path in paths
        ],
    }
    names = {kind: [f"{path.parent.name}/{path.name}" for path in paths] for kind, paths in kinds.items() if paths}
    return MaskFiles(agreement.taken, {f"{kind} ({_listed(of_kind)})": len(of_kind) for kind, of_kind in names.items()})


def _same_mask(item: Path, other: Path) -> bool:
    """Return whether two files have the same bytes or mark the same pixels; a damaged one is like no other."""
    if read_regular(item, "mask") == read_regular(other, "mask"):
        return True
    with suppress(ImageError):
        return np.array_equal(read_mask(item), read_mask(other))
    return False


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def summarised_mask(path: Path) -> MaskSummary:
    """Read a mask and return what is kept of it.

    Raises
    ------
    MissingError, ImageError
        If it cannot be read.
    """
    pixels, note = understood_mask(path)
    boxes = region_boxes(pixels)
    corners = [TOO_MANY_REGIONS] if boxes is None else [tuple(box) for box in boxes.tolist()]
    return MaskSummary(corners, (pixels.shape[1], pixels.shape[0]), float(pixels.mean()), note)


def mask_sentence(masks: Mapping[str, MaskSummary]) -> str:
    """Return how masks, by picture, were understood and which are improbable, as the end of a sentence; "" for none."""
    return "; ".join(_clauses(masks)) if masks else ""


def _clauses(masks: Mapping[str, MaskSummary]) -> Iterator[str]:
    for note, count in Counter(mask.note for mask in masks.values() if mask.note).items():
        yield f"{count:,} of {len(masks):,} masks {note}"
    for what, names in {
        "are black: what their pictures show is not known": [item for item, mask in masks.items() if not mask.share],
        f"have more than {MOST_REGIONS:,} regions, as dots or noise have, and are left out": [
            item for item, mask in masks.items() if TOO_MANY_REGIONS in mask.corners
        ],
    }.items():
        if names:
            yield f"{len(names):,} of {len(masks):,} masks {what}: {_listed(names)}"
    large = {item: mask.share for item, mask in masks.items() if mask.share > _LARGE}
    if large:
        shares = [f"{item} {share:.0%}" for item, share in large.items()]
        yield (
            f"{len(large):,} of {len(masks):,} masks cover more than half of their picture; are they inverted, white "
            f"where there is no defect? {_listed(shares)}"
        )
