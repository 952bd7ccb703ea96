"""Windows of external files: looked up by picture, converted to our convention, and checked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from hashlib import blake2b
from itertools import chain
from typing import Any
from urllib.parse import unquote

import numpy as np

from lapsvm.arrays import Float32, Float64, Index
from lapsvm.box_faults import EMPTY, OUTSIDE, SMALLEST, box_faults
from lapsvm.boxes import whole_image
from lapsvm.catalog import ImageRecord
from lapsvm.errors import ExternalFileError, MissingError, OptionError
from lapsvm.features import ArrayNames, BoxConvention, ExternalSource, ExternalWindows, open_external
from lapsvm.names.kinds import without_picture_suffix
from lapsvm.names.matching import NameIndex, with_slashes

from ..settings.settings import SourceSettings

EQUAL = 1e-3  # pixels by which the corners of equal boxes differ
_NOTHING = np.empty((0, 4))


Counts = Mapping[str, int]
"""A reason of `COUNTED` -> rows of files left out, or boxes cut (by less than a pixel, or with ``clip``)."""
COUNTED = {
    "truth": "rows of ground truth left out by their flag",
    "equal": "boxes of annotated objects left out",
    "outside": "boxes outside the picture left out",
    "duplicates": "repeated boxes left out",
    "cut": "boxes cut to the picture",
    "without_whole": "pictures without a window of the whole picture",
}


def counts_sentence(counts: Counts) -> str:
    """Return the counts above 0 in words."""
    return ", ".join(f"{counts[name]:,} {words}" for name, words in COUNTED.items() if counts[name])


@dataclass(frozen=True, eq=False)
class ConvertedWindows:
    """Windows of one picture in our convention, the whole picture first if it is among them, and their rows."""

    boxes: Float32
    rows: Index
    counts: Counts


@dataclass(frozen=True)
class Sources:
    """The opened files that the settings name; `entries` maps a picture's name to (source, name in it)."""

    settings: SourceSettings
    opened: tuple[ExternalSource, ...]
    entries: dict[str, tuple[ExternalSource, str]] = field(repr=False)

    @property
    def conventions(self) -> list[str]:
        """How boxes are written in the files, for provenance."""
        conventions = [self.convention(source) for source in self.opened]
        return sorted({f"{used.order} from {used.base}, {used.edges}" for used in conventions})

    def convention(self, source: ExternalSource) -> BoxConvention:
        """Return how a source writes boxes: by the settings, or by the default of its format."""
        usual, settings = source.convention, self.settings
        base = usual.base if settings.base < 0 else settings.base
        return BoxConvention(settings.boxes or usual.order, base, settings.edges or usual.edges)

    @cached_property
    def _index(self) -> NameIndex[str]:
        return NameIndex((name, name) for name in self.entries)

    def find(self, image_id: str) -> tuple[ExternalSource, str] | None:
        """Return the source of a picture's windows and its name there; None if there is none.

        A name may be the id itself, with or without the suffix of a picture, with accents in another form or letters of
        another case; the path that the id writes with %XX; or the id's number without leading zeros. Windows under two
        such names raise ExternalFileError.
        """
        names = [image_id, unquote(image_id), *([str(int(image_id))] if image_id.isdecimal() else [])]
        matches = list(dict.fromkeys(chain.from_iterable(map(self._index.meant, names))))
        if len(matches) > 1:
            raise ExternalFileError(f"picture {image_id!r} must have one entry, got {' and '.join(matches)}.")
        return self.entries[matches[0]] if matches else None

    def read(self, image_id: str, features: bool = True) -> tuple[ExternalWindows, BoxConvention]:
        """Return a picture's windows as its file has them, and the convention; MissingError if there are none."""
        entry = self.find(image_id)
        if entry is None:
            raise MissingError(f"windows of picture {image_id!r} are not in {self.description}.")
        source, key = entry
        return source.read(key, features), self.convention(source)

    @property
    def description(self) -> str:
        """The names of the files, for sentences."""
        return " or ".join(source.where for source in self.opened)

    def check_all(self, sets: Mapping[str, Sequence[ImageRecord]]) -> None:
        """Raise MissingError unless there are windows of every picture of every set."""
        for set_name, records in sets.items():
            missing = [record.id for record in records if self.find(record.id) is None]
            if missing:
                content = f"{len(self.entries)} pictures, the first is {next(iter(self.entries), '')!r}"
                raise MissingError(
                    f"{self.description} must hold windows of every picture of set {set_name!r}, but {len(missing)} of "
                    f"{len(records)} are not there, the first is {missing[0]!r} (it holds {content}); add files, or "
                    "give --test-set none if you have no windows of the test set."
                )


def open_sources(settings: SourceSettings) -> Sources:
    """Open the files that the settings name.

    Raises OptionError if they name none; MissingError or ExternalFileError if a file is missing or breaks a rule, or
    two files hold the same picture.
    """
    if not settings.files:
        raise OptionError("files with windows must be named: --proposals FILE with extract, or lapsvm import FILE.")
    names = ArrayNames(settings.boxes_name, settings.features_name, settings.objectness_name)
    opened = tuple(open_external(path, settings.format, names) for path in settings.files)
    entries: dict[str, tuple[ExternalSource, str]] = {}
    for source in opened:
        for key in source.keys:
            name = without_picture_suffix(with_slashes(key))
            if name in entries:
                raise ExternalFileError(
                    f"picture {name!r} must be in one file, got windows in {entries[name][0].where} "
                    f"and in {source.where}."
                )
            entries[name] = (source, key)
    return Sources(settings, opened, entries)


def converted(
    windows: ExternalWindows, convention: BoxConvention, size: tuple[int, int], clip: bool,
    annotated: Float64 = _NOTHING,
) -> ConvertedWindows:  # fmt: skip
    """Return windows of a picture of `size` (height, width) in our convention, cut to the picture.

    Left out are rows that the file marks as ground truth, boxes without area after the cut, boxes equal to one of
    `annotated` (k, 4), and repeated boxes. `clip` allows boxes outside by more than a pixel. ExternalFileError if a
    box has no area or lies outside, or none is left.
    """
    rows = np.flatnonzero(~windows.truth)
    boxes = convention.to_xyxy(windows.boxes[rows])
    _check_boxes(windows, boxes, rows, size, clip)
    height, width = size
    inside = np.clip(boxes, 0, [width, height, width, height])
    n_cut = int((inside != boxes).any(axis=1).sum())
    has_area = (inside[:, 2:] > inside[:, :2]).all(axis=1)
    is_annotated = equal_boxes(inside, annotated).any(axis=1)
    candidates = np.flatnonzero(has_area & ~is_annotated)
    kept = inside[candidates].astype(np.float32)
    first = np.sort(np.unique(kept, axis=0, return_index=True)[1]) if len(kept) else candidates
    is_whole = (kept[first] == whole_image(height, width)).all(axis=1)
    order = first[np.argsort(~is_whole, kind="stable")]
    if not len(order):
        raise ExternalFileError(
            f"{windows.where}: at least one window must be left, got none of {len(windows.boxes)} rows."
        )
    counts = {
        "truth": int(windows.truth.sum()),
        "equal": int((has_area & is_annotated).sum()),
        "outside": int((~has_area).sum()),
        "duplicates": len(kept) - len(first),
        "cut": n_cut - int((~has_area).sum()),
        "without_whole": int(not is_whole.any()),
    }
    return ConvertedWindows(kept[order], rows[candidates[order]], counts)


def summed(counts: Sequence[Counts]) -> dict[str, int]:
    """Return the sums of counts by reason; a missing count is 0."""
    return {name: sum(entry.get(name, 0) for entry in counts) for name in COUNTED}


def equal_boxes(first: Float64, second: Float64) -> Any:
    """Return for every pair of boxes, (n, m), whether their corners are the same."""
    return (np.abs(first[:, None] - second[None]) < EQUAL).all(axis=2)


def _check_boxes(windows: ExternalWindows, boxes: Float64, rows: Index, size: tuple[int, int], clip: bool) -> None:
    """Raise ExternalFileError for normalised boxes, the first box without area, or one too far outside the picture."""
    height, width = size
    raw = windows.boxes[rows]
    if len(raw) and max(size) > SMALLEST and ((raw >= 0) & (raw <= 1)).all():
        raise ExternalFileError(
            f"{windows.where}: boxes must be in pixels, but all {len(raw)} lie within 0 to 1, as normalised ones do; "
            "multiply them by the width and height of the picture."
        )
    faults = box_faults(boxes, (width, height))
    rules = {EMPTY: ("have an area", "")}
    if not clip:
        rules[OUTSIDE] = (f"lie in the picture of {width} x {height} pixels", ", or cut such boxes with --clip")
    for fault, (rule, cure) in rules.items():
        if fault in faults:
            index = faults.index(fault)
            got = ", ".join(f"{value:g}" for value in boxes[index])
            raise ExternalFileError(
                f"{windows.where}: the box of row {rows[index]} must {rule}, got {got} as x1, y1, x2, y2; see whether "
                f"--box-order, --base and --edges are right{cure}."
            )


cached_sources = cache(open_sources)
"""`open_sources`, once in a process for the same settings; `clear_cache` when the files may have changed."""


@cache
def source_provenance(settings: SourceSettings) -> dict[str, Any]:
    """Return the provenance of the windows of files: their content, and how it is read."""
    sources, digest = cached_sources(settings), blake2b(digest_size=16)
    for name in sorted(sources.entries):
        source, key = sources.entries[name]
        digest.update(f"{name} {source.read(key, features=False).content_hash} ".encode("utf-8", "surrogatepass"))
    return {"content": digest.hexdigest(), "boxes": sources.conventions, "clip": settings.clip}


def clear_cache() -> None:
    """Close the cached files."""
    cached_sources.cache_clear()
    source_provenance.cache_clear()
