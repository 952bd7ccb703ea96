"""The shards of a set whose pictures may have changed: stored pictures stay where they are, new ones get new shards."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from itertools import chain, count
from pathlib import Path

from lapsvm.catalog import ImageRecord
from lapsvm.errors import SettingsError
from lapsvm.features import ShardHeader, assemble_shard, read_header, read_shard, shard_name, write_shard

IMAGES_PER_SHARD = 16
ShardJob = tuple[Path, list[ImageRecord]]


@dataclass(frozen=True)
class Placement:
    """The pictures of every shard of a set.

    Attributes
    ----------
    jobs : list of (Path, list of ImageRecord)
        Each shard and its pictures, with those that it left out.
    stored : set of Path
        The shards that are there; the others are to be made.
    names : mapping of Path to (mapping of str to str)
        Of the shards that lose or rename pictures: the id of each picture that stays, and its id now.
    new, gone, renamed : int
        Numbers of pictures without stored features, of stored ones that the set lacks, and of those with another id.
    """

    jobs: list[ShardJob]
    stored: AbstractSet[Path]
    names: Mapping[Path, Mapping[str, str]]
    new: int
    gone: int
    renamed: int

    @property
    def changes(self) -> str:
        """What has changed, in words; "" for nothing."""
        counts = ((self.new, "new"), (self.gone, "gone"), (self.renamed, "renamed"))
        parts = [f"{n:,} {'picture is' if n == 1 else 'pictures are'} {word}" for n, word in counts if n]
        return ", ".join(parts)


def placed(
    folder: Path, records: Sequence[ImageRecord], headers: Mapping[Path, ShardHeader], renames: Mapping[str, str]
) -> Placement:
    """Return the placement of pictures: those in shards stay, the others fill shards under the first free names.

    Parameters
    ----------
    folder : Path
    records : sequence of ImageRecord
    headers : mapping of Path to ShardHeader
        The readable shards, by the path that they have in `folder`; of two that have a picture the first one counts.
    renames : mapping of str to str
        The id of a stored picture that is gone -> the id that it has now.

    Raises
    ------
    SettingsError
        If shards have none of the pictures.
    """
    ids, names, owner = {record.id for record in records}, {}, dict[str, Path]()
    for path, header in headers.items():
        now = {image_id: renames.get(image_id, image_id) for image_id in header.image_ids}
        names[path] = {old: new for old, new in now.items() if new in ids and new not in owner}
        kept = header.provenance.get("left_out", ()) if names[path] else ()
        owner |= {image_id: path for image_id in (*names[path].values(), *kept) if image_id not in owner}
    held = {image_id: path for image_id, path in owner.items() if image_id in ids}
    if headers and not held:
        shards = next(iter(headers.values())).path.parent
        raise SettingsError(f"shards in {shards} have no picture of this data set; use another --out, or --redo.")
    members: dict[Path, list[ImageRecord]] = {}
    new = [record for record in records if record.id not in held]
    for record in records:
        if record.id in held:
            members.setdefault(held[record.id], []).append(record)
    free = (path for path in (folder / shard_name(index) for index in count()) if path not in members)
    starts = range(0, len(new), IMAGES_PER_SHARD)
    added = {path: new[start : start + IMAGES_PER_SHARD] for start, path in zip(starts, free, strict=False)}
    unchanged = {path: [(image_id, image_id) for image_id in header.image_ids] for path, header in headers.items()}
    changed = {path: names[path] for path in members if [*names[path].items()] != unchanged[path]}
    gone = stored_pictures(headers).keys() - renames.keys() - ids
    return Placement(sorted((members | added).items()), set(members), changed, len(new), len(gone), len(renames))


def stored_pictures(headers: Mapping[Path, ShardHeader]) -> dict[str, str]:
    """Return id -> pixel hash of every stored picture."""
    pairs = (zip(header.image_ids, header.pixel_hashes, strict=True) for header in headers.values())
    return dict(chain.from_iterable(pairs))


def write_kept(source: Path, path: Path, names: Mapping[str, str]) -> None:
    """Write a shard with those pictures of another that stay, under their ids now; features keep their bytes."""
    shard = read_shard(source)
    kept = (picture for picture in shard.pictures() if picture.image_id in names)
    pictures = [replace(picture, image_id=names[picture.image_id]) for picture in kept]
    write_shard(path, assemble_shard(pictures, shard.provenance, read_header(source).dtype))
