"""Windows from elsewhere, picture by picture: found in the files that the settings name, made ours, and checked."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np

from lapsvm.arrays import Float32, Float64, Index
from lapsvm.boxes import whole_image
from lapsvm.errors import ExternalFileError, MissingError, OptionError
from lapsvm.features import ArrayNames, BoxConvention, ExternalSource, ExternalWindows, open_external

from ..run.settings import SourceSettings

REACH = 1.0  # pixels by which a box may lie outside: programs round differently
EQUAL = 1e-3  # pixels by which the corners of equal boxes differ
_PICTURES = (".jpg", ".jpeg", ".png", ".bmp", ".tif", ".tiff", ".webp")
_NOTHING = np.empty((0, 4))


@dataclass(frozen=True)
class Counts:
    """What became of windows: rows left out for four reasons, and boxes cut by less than a pixel or with ``clip``."""

    truth: int = 0
    equal: int = 0
    outside: int = 0
    duplicates: int = 0
    cut: int = 0
    without_whole: int = 0

    def sentence(self) -> str:
        """Return the counts in words, those that are 0 left out."""
        words = {
            "truth": "rows of ground truth left out by their flag",
            "equal": "boxes of annotated objects left out",
            "outside": "boxes outside the picture left out",
            "duplicates": "repeated boxes left out",
            "cut": "boxes cut to the picture",
            "without_whole": "pictures without a window of the whole picture",
        }
        return ", ".join(f"{count:,} {words[name]}" for name, count in asdict(self).items() if count)


@dataclass(frozen=True, eq=False)
class Fitted:
    """Windows of one picture as they are used.

    Attributes
    ----------
    boxes : ndarray of shape (n, 4), float32
        In the house's convention; the whole picture first, if it is there.
    rows : ndarray of shape (n,)
        Which rows of the file they are.
    counts : Counts
    """

    boxes: Float32
    rows: Index
    counts: Counts


@dataclass(frozen=True)
class Sources:
    """The files that the settings name, opened.

    Attributes
    ----------
    settings : SourceSettings
    opened : tuple of ExternalSource
    places : dict of picture's name to (source, name in it)
    """

    settings: SourceSettings
    opened: tuple[ExternalSource, ...]
    places: dict[str, tuple[ExternalSource, str]] = field(repr=False)

    @property
    def conventions(self) -> list[str]:
        """How boxes are written in the files, for provenance."""
        known = [self.convention(source) for source in self.opened]
        return sorted({f"{one.order} from {one.base}, {one.edges}" for one in known})

    def convention(self, source: ExternalSource) -> BoxConvention:
        """Return how a source writes boxes: as the settings say, else as is usual there."""
        usual, settings = source.convention, self.settings
        base = usual.base if settings.base < 0 else settings.base
        return BoxConvention(settings.boxes or usual.order, base, settings.edges or usual.edges)

    def find(self, image_id: str) -> tuple[ExternalSource, str] | None:
        """Return where a picture's windows are; None if nowhere.

        A name may be the id itself, with or without the suffix of a picture, the path that the id writes with %XX, or
        the id's number without leading zeros.

        Raises
        ------
        ExternalFileError
            If there are windows under two such names.
        """
        names = [image_id, unquote(image_id), *([str(int(image_id))] if image_id.isdecimal() else [])]
        found = [name for name in dict.fromkeys(names) if name in self.places]
        if len(found) > 1:
            raise ExternalFileError(f"windows of picture {image_id!r} must be there once, got {' and '.join(found)}.")
        return self.places[found[0]] if found else None

    def read(self, image_id: str, features: bool = True) -> tuple[ExternalWindows, BoxConvention]:
        """Return a picture's windows as they are in their file, and the convention; MissingError if there are none."""
        place = self.find(image_id)
        if place is None:
            raise MissingError(f"windows of picture {image_id!r} are not in {self.named()}.")
        source, key = place
        return source.read(key, features), self.convention(source)

    def named(self) -> str:
        """Return the sources for a sentence."""
        return " or ".join(source.where for source in self.opened)

    def check_all(self, image_ids: Sequence[str], set_name: str) -> None:
        """Raise MissingError unless there are windows of every picture of a set."""
        missing = [image_id for image_id in image_ids if self.find(image_id) is None]
        if missing:
            held = f"{len(self.places)} pictures, the first is {next(iter(self.places), '')!r}"
            raise MissingError(
                f"{self.named()} must hold windows of every picture of set {set_name!r}, but {len(missing)} of "
                f"{len(image_ids)} are not there, the first is {missing[0]!r} (it holds {held}); name further files "
                "beside it, or give --test-set none if it is the test set that you do not have."
            )


def open_sources(settings: SourceSettings) -> Sources:
    """Open the files that the settings name.

    Raises
    ------
    OptionError
        If they name none.
    MissingError, ExternalFileError
        If one is not there or breaks a rule, or a picture is in two of them.
    """
    if not settings.files:
        raise OptionError("files with windows must be named: --proposals FILE with extract, or lapsvm import FILE.")
    names = ArrayNames(settings.boxes_name, settings.features_name)
    opened = tuple(open_external(path, settings.format, names) for path in settings.files)
    places: dict[str, tuple[ExternalSource, str]] = {}
    for source in opened:
        for key in source.keys:
            name = key[: -len(Path(key).suffix)] if Path(key).suffix.lower() in _PICTURES else key
            if name in places:
                raise ExternalFileError(
                    f"windows of picture {name!r} must be there once, got them in {places[name][0].where} "
                    f"and in {source.where}."
                )
            places[name] = (source, key)
    return Sources(settings, opened, places)


def fitted(
    found: ExternalWindows, convention: BoxConvention, size: tuple[int, int], clip: bool, annotated: Float64 = _NOTHING
) -> Fitted:
    """Return the windows of a file as they are used.

    Rows that the file marks as ground truth go first; then boxes are converted and cut to the picture; those left
    without area, equal to a box of `annotated`, or equal to an earlier one, go; the whole picture comes first.

    Parameters
    ----------
    found : ExternalWindows
    convention : BoxConvention
    size : (height, width)
    clip : bool
        Whether boxes may lie outside by more than a pixel.
    annotated : ndarray of shape (k, 4)

    Raises
    ------
    ExternalFileError
        If a box has no area or lies outside, or none is left.
    """
    rows = np.flatnonzero(~found.truth)
    boxes = convention.to_house(found.boxes[rows])
    _check_boxes(found, boxes, rows, size, clip)
    height, width = size
    inside = np.clip(boxes, 0, [width, height, width, height])
    n_cut = int((inside != boxes).any(axis=1).sum())
    has_area = (inside[:, 2:] > inside[:, :2]).all(axis=1)
    is_annotated = equal_boxes(inside, annotated).any(axis=1)
    candidates = np.flatnonzero(has_area & ~is_annotated)
    own = inside[candidates].astype(np.float32)
    first = np.sort(np.unique(own, axis=0, return_index=True)[1]) if len(own) else candidates
    is_whole = (own[first] == whole_image(height, width)).all(axis=1)
    order = first[np.argsort(~is_whole, kind="stable")]
    if not len(order):
        raise ExternalFileError(
            f"{found.where}: at least one window must be left, got none of {len(found.boxes)} rows."
        )
    counts = Counts(
        truth=int(found.truth.sum()),
        equal=int((has_area & is_annotated).sum()),
        outside=int((~has_area).sum()),
        duplicates=len(own) - len(first),
        cut=n_cut - int((~has_area).sum()),
        without_whole=int(not is_whole.any()),
    )
    return Fitted(own[order], rows[candidates[order]], counts)


def equal_boxes(first: Float64, second: Float64) -> Any:
    """Return for every pair of boxes, (n, m), whether their corners are the same."""
    return (np.abs(first[:, None] - second[None]) < EQUAL).all(axis=2)


def _check_boxes(found: ExternalWindows, boxes: Float64, rows: Index, size: tuple[int, int], clip: bool) -> None:
    """Raise ExternalFileError for the first box without area, or too far outside the picture."""
    height, width = size
    empty = (boxes[:, 2:] <= boxes[:, :2]).any(axis=1)
    reach = np.maximum(-boxes[:, :2], boxes[:, 2:] - [width, height]).max(axis=1, initial=0)
    advice = "see whether --boxes, --base and --edges are right"
    if empty.any():
        place = int(np.argmax(empty))
        raise ExternalFileError(
            f"{found.where}: the box of row {rows[place]} must have an area, got {_shown(boxes[place])} as x1, y1, x2, "
            f"y2; {advice}."
        )
    if not clip and (reach > REACH).any():
        place = int(np.argmax(reach > REACH))
        raise ExternalFileError(
            f"{found.where}: the box of row {rows[place]} must lie in the picture of {width} x {height} pixels, got "
            f"{_shown(boxes[place])} as x1, y1, x2, y2; {advice}, or cut such boxes with --clip."
        )


def _shown(box: Float64) -> str:
    """Return a box for a sentence."""
    return ", ".join(f"{value:g}" for value in box)


@cache
def opened_sources(settings: SourceSettings) -> Sources:
    """Return the files that the settings name, opened once in a process; `forget` when they may have changed."""
    return open_sources(settings)


@cache
def source_provenance(settings: SourceSettings) -> dict[str, Any]:
    """Return what decides the windows that files give: their content, and how it is read."""
    sources, digest = opened_sources(settings), blake2b(digest_size=16)
    for name in sorted(sources.places):
        source, key = sources.places[name]
        digest.update(f"{name} {source.read(key, features=False).content_hash} ".encode("utf-8", "surrogatepass"))
    return {
        "content": digest.hexdigest(),
        "boxes": sources.conventions,
        "clip": settings.clip,
    }


def forget() -> None:
    """Close the files that are open."""
    opened_sources.cache_clear()
    source_provenance.cache_clear()
