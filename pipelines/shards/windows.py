"""Pictures and their windows by the settings of a run."""

import shlex
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from lapsvm.arrays import Array
from lapsvm.boxes import areas
from lapsvm.catalog import ImageRecord, Pixels, pixel_hash
from lapsvm.errors import DataError, ImageError, LapsvmError, MissingError
from lapsvm.pictures.reading import seen_size
from lapsvm.settings import FILE
from lapsvm.windows.methods import source_runtime
from lapsvm.windows.proposals import WINDOWS_VERSION, from_whole_image, middle, picture_windows

from ..run.folder import RunFolder
from ..settings.settings import WindowSettings
from .external import cached_sources, converted, source_provenance


def pixels_unless_bad(record: ImageRecord, skip_bad: bool) -> Pixels | None:
    """Return a picture; with `skip_bad` None if it cannot be read whole."""
    try:
        return record.pixels()
    except (ImageError, MissingError):
        if not skip_bad:
            raise
        return None


class UnusableError(DataError):
    """A picture cannot be used: it is gone, or has other pixels than the run was made with."""


def run_pixels(record: ImageRecord, expected: str) -> Pixels:
    """Return the pixels of a picture; UnusableError if it is gone, or they have another hash than the run knows."""
    try:
        pixels = record.pixels()
    except LapsvmError as error:
        raise UnusableError(f"picture {record.id} cannot be used: {error}") from None
    if pixel_hash(pixels) != expected:
        raise UnusableError(f"picture {record.id} has changed since the run was made, so it is left out.")
    return pixels


@dataclass(frozen=True)
class RunPictures:
    """Reads pictures of a run, and remembers those that cannot be used.

    Attributes
    ----------
    records : mapping of picture to ImageRecord
    hashes : mapping of picture to str
        The hashes of their pixels.
    lost : dict of picture to str
        Why a picture cannot be used.
    """

    records: Mapping[str, ImageRecord]
    hashes: Mapping[str, str]
    lost: dict[str, str] = field(default_factory=dict)

    def __call__(self, name: str) -> Pixels | None:
        """Return the pixels of a picture. None if they cannot be used."""
        try:
            return run_pixels(self.records[name], self.hashes[name])
        except UnusableError as error:
            self.lost[name] = str(error)
            return None

    def report(self, stage: str, say: Callable[[str], None]) -> None:
        """Say whose boxes take no extent of what stands out."""
        if self.lost:
            name, reason = next(iter(self.lost.items()))
            such = f"{len(self.lost)} pictures, such as {name} ({reason.rstrip('.')})"
            say(f"{stage}: boxes keep the extent of windows in {such}")


def resized_pictures(records: Iterable[ImageRecord], sizes: Mapping[str, tuple[int, int]]) -> list[str]:
    """Return the pictures that have another size than their features were made with, by the files' headers.

    Parameters
    ----------
    records : iterable of ImageRecord
        Those that cannot be opened count as unchanged.
    sizes : mapping of picture id to (width, height)
        As in the shards; pictures that they lack count as unchanged.
    """
    found = []
    for record in records:
        with suppress(ImageError, MissingError):
            if record.id in sizes and seen_size(record.path) != sizes[record.id]:
                found.append(record.id)
    return found


def anew_command(run: RunFolder) -> str:
    """Return how features are made again of pictures that have changed, as the end of a sentence."""
    out = shlex.quote(str(run.path))
    return f"lapsvm verify --out {out} --pictures --remove, then lapsvm run --out {out}, makes their features anew"


def windows_provenance(settings: WindowSettings) -> dict[str, Any]:
    """Return the provenance of windows without the seed and without paths, and the package that proposes them."""
    names = ("max_windows", "max_area", "proposal_side", "max_side")
    limits = {name: getattr(settings, name) for name in names}
    if settings.method == FILE:
        return {"method": FILE, **limits, "source": source_provenance(settings.source)}
    runtime = source_runtime(settings.method)
    made = {"method": settings.method, "mode": settings.mode, "version": WINDOWS_VERSION, **limits}
    return made | ({"runtime": runtime} if runtime else {})


def window_boxes(pixels: Pixels, settings: WindowSettings, seed: int, image_id: str = "") -> Array:
    """Return the best ``max_windows`` windows of a picture, float32 of shape (n, 4), the whole picture first.

    None is larger than ``max_area`` of the picture. Files know the picture by `image_id`.
    """
    if settings.method != FILE:
        return picture_windows(pixels, settings, seed)
    boxes = _external_boxes(image_id, settings, pixels.shape[:2])
    return from_whole_image(boxes, pixels.shape, settings)


def _external_boxes(image_id: str, settings: WindowSettings, size: tuple[int, int]) -> Array:
    """Return the windows of a picture that the files hold."""
    windows, convention = cached_sources(settings.source).read(image_id, features=False)
    boxes = converted(windows, convention, size, settings.source.clip).boxes
    small = boxes[areas(boxes) <= settings.max_area * size[0] * size[1]][: settings.max_windows]
    return small if len(small) else middle(*size, settings.max_area)[None]
