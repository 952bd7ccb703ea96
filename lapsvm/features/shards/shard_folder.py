"""A folder of shards, opened by its headers, and the comparison of its settings with the expected ones."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

from lapsvm.errors import MissingError, SettingsError, ShardError
from lapsvm.features.shards.shard import OBJECTNESS, PictureWindows, Shard, ShardHeader, as_plain_json
from lapsvm.features.shards.shard_file import read_header, read_shard
from lapsvm.settings import current_names

SUFFIX = ".safetensors"
RECORDED_ONLY = frozenset({"runtime", "left_out", "imported"})
_SHOWN = 3


@dataclass(frozen=True)
class ShardSet:
    """The shards of a folder in the order of their names; tensors are read one shard at a time.

    Attributes
    ----------
    headers : tuple of ShardHeader, at least one
    """

    headers: tuple[ShardHeader, ...]

    def __len__(self) -> int:
        return len(self.headers)

    def __iter__(self) -> Iterator[Shard]:
        return (self.read(index) for index in range(len(self)))

    @property
    def image_ids(self) -> tuple[str, ...]:
        """Every picture's id, in order."""
        return tuple(chain.from_iterable(header.image_ids for header in self.headers))

    @property
    def pixel_hashes(self) -> tuple[str, ...]:
        """Every picture's hash, in order."""
        return tuple(chain.from_iterable(header.pixel_hashes for header in self.headers))

    @property
    def hashes(self) -> dict[str, str]:
        """Picture id -> hash of its pixels."""
        return dict(zip(self.image_ids, self.pixel_hashes, strict=True))

    @property
    def sizes(self) -> dict[str, tuple[int, int]]:
        """Picture id -> width and height in pixels; reads that tensor of every shard."""
        rows = chain.from_iterable(shard.sizes.tolist() for shard in self)
        return {image_id: (width, height) for image_id, (height, width) in zip(self.image_ids, rows, strict=True)}

    @property
    def n_images(self) -> int:
        """Number of pictures."""
        return sum(len(header.image_ids) for header in self.headers)

    @property
    def n_windows(self) -> int:
        """Number of windows."""
        return sum(header.n_windows for header in self.headers)

    @property
    def dim(self) -> int:
        """Number of features of a window."""
        return self.headers[0].dim

    @property
    def dtype(self) -> str:
        """Type in which features are stored: "float16", "float32" or "bfloat16"."""
        return self.headers[0].dtype

    @property
    def provenance(self) -> dict[str, Any]:
        """The settings of the shards, without those that are only recorded and the source of objectness."""
        return _matching(_of_features(self.headers[0].provenance))

    @property
    def objectness(self) -> dict[str, Any] | None:
        """What measured the objectness of windows. None if there is none.

        Raises
        ------
        SettingsError
            If shards have that of different sources: a command that measures it again was interrupted.
        """
        measured = [header for header in self.headers if header.has_objectness]
        sources = [header.provenance.get(OBJECTNESS, {}) for header in measured]
        for header, source in zip(measured, sources, strict=True):
            if difference := settings_difference(source, sources[0]):
                raise SettingsError(
                    f"shard {header.path} has objectness measured with {difference} as in {measured[0].path.name}; "
                    "run lapsvm extract again to have all of it measured by one source."
                )
        return sources[0] if sources else None

    def read(self, index: int, *, mapped: bool = True, verify: bool = False) -> Shard:
        """Return shard `index`, by default as views of its file (see `read_shard`)."""
        return read_shard(self.headers[index].path, mapped=mapped, verify=verify)

    @cached_property
    def places(self) -> dict[str, tuple[int, int]]:
        """Picture id -> the number of its shard, and its row there."""
        headers = enumerate(self.headers)
        return {name: (number, row) for number, header in headers for row, name in enumerate(header.image_ids)}

    def picture(self, image_id: str) -> PictureWindows:
        """Return the windows of one picture, as views of its shard's file, which is not verified."""
        number, row = self.places[image_id]
        return self.read(number).picture(row)


def shard_name(index: int) -> str:
    """Return the file name of shard `index`; names sort like numbers, up to 10 million shards."""
    return f"{index:07d}{SUFFIX}"


def shard_paths(folder: str | Path) -> list[Path]:
    """Return the shards of a folder, sorted by name, without temporary files.

    Raises
    ------
    MissingError
        If there is no such folder.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise MissingError(f"folder {folder} of shards is not there.")
    return sorted(path for path in folder.glob(f"*{SUFFIX}") if not path.name.startswith("."))


def open_shards(folder: str | Path) -> ShardSet:
    """Open every shard of a folder by its header.

    Parameters
    ----------
    folder : str or Path

    Returns
    -------
    ShardSet

    Raises
    ------
    MissingError
        If there is no such folder, or no shard in it.
    ShardError
        If a shard is truncated or no shard, shards differ in their features' shape or type, or a picture is in two.
    SettingsError
        If shards were made with different settings.
    """
    headers = tuple(read_header(path) for path in shard_paths(folder))
    if not headers:
        raise MissingError(f"folder {folder} holds no shards.")
    for header in headers[1:]:
        _check_same_kind(headers[0], header)
        check_settings(header, headers[0].provenance)
    _check_each_picture_once(headers)
    return ShardSet(headers)


def check_settings(header: ShardHeader, wanted: Mapping[str, Any], advice: str = "") -> None:
    """Raise SettingsError if a shard was made with other settings than `wanted`.

    Values below a key "runtime", "left_out" or "imported", at any depth, are only recorded and may differ; so may what
    measured the objectness of windows, which decides no feature.

    Parameters
    ----------
    header : ShardHeader
    wanted : mapping
        The provenance that a new shard would get.
    advice : str, optional
        What to do, for the end of the sentence.

    Raises
    ------
    SettingsError
        With the dotted keys of at most three settings that differ, and both values of each.
    """
    difference = settings_difference(_of_features(header.provenance), _of_features(wanted))
    if difference:
        raise SettingsError(f"shard {header.path} was made with {difference}{advice and '; '}{advice}.")


def settings_difference(made_with: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """Return the difference of two settings for a sentence. "" if there is none.

    Values below a key "runtime", "left_out" or "imported", at any depth, may differ.

    Parameters
    ----------
    made_with, wanted : mapping
        Plain JSON, such as the result of `Extractor.describe`; `made_with` may have names of a released version.

    Returns
    -------
    str
        Such as ``"extractor.size 640 instead of 448"``; with at most three settings.
    """
    there, here = _flat(_matching(current_names(made_with))), _flat(_matching(as_plain_json(wanted)))
    differing = sorted(key for key in there.keys() | here.keys() if there.get(key) != here.get(key))
    parts = [f"{key} {_shown(there, key)} instead of {_shown(here, key)}" for key in differing[:_SHOWN]]
    return ", ".join(parts) + (f" and {len(differing) - _SHOWN} more" if len(differing) > _SHOWN else "")


def _of_features(provenance: Mapping[str, Any]) -> dict[str, Any]:
    """Return the provenance of a shard without the source of its objectness."""
    return {key: value for key, value in provenance.items() if key != OBJECTNESS}


def _matching(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings without recorded ones, at any depth."""
    kept = {key: value for key, value in settings.items() if key not in RECORDED_ONLY}
    return {key: _matching(value) if isinstance(value, Mapping) else value for key, value in kept.items()}


def _flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return settings by dotted key."""
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        if isinstance(value, Mapping) and value:
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat


def _shown(settings: Mapping[str, Any], key: str) -> str:
    """Return a setting as a sentence shows it."""
    return repr(settings[key]) if key in settings else "(not set)"


def _check_same_kind(first: ShardHeader, other: ShardHeader) -> None:
    """Raise unless two shards' features have the same number of columns and type."""
    if (first.dim, first.dtype) != (other.dim, other.dtype):
        raise ShardError(
            f"shard {other.path} must have {first.dim} features of {first.dtype} as {first.path.name} has, "
            f"got {other.dim} of {other.dtype}."
        )


def _check_each_picture_once(headers: tuple[ShardHeader, ...]) -> None:
    """Raise if a picture is in two shards."""
    owner: dict[str, Path] = {}
    for header in headers:
        for image_id in header.image_ids:
            if owner.setdefault(image_id, header.path) != header.path:
                raise ShardError(f"picture {image_id} is in two shards, {owner[image_id]} and {header.path}.")
