"""Checks of the data before a feature is computed: every picture is opened, and classes have enough pictures."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

from lapsvm.catalog import ImageRecord, check_image
from lapsvm.errors import ImageError, MissingError, OneClassError, ShardError
from lapsvm.features import ShardHeader, read_header

from ...run.context import RunContext
from ...shards.prefetch import prefetched
from .summary import misspellings, summary_sentences, too_small_classes

PictureError = ImageError | MissingError
LISTED = 10
"""Pictures that one sentence names."""
_STARTED = 4  # pictures per thread that are started before the first result is taken


@dataclass
class CheckedData:
    """The data of a run after the check, and what to report of them once nothing refuses the run any more."""

    say: Callable[[str], None]
    sentences: list[str] = field(default_factory=list)

    def report(self) -> None:
        """Report the data; a second call does nothing."""
        while self.sentences:
            self.say(self.sentences.pop(0))


def check_data(context: RunContext, source: Path | None = None) -> CheckedData:
    """Check labels and pictures of a run.

    Pictures in shards of the run, or of the run folder `source`, have been opened before and are not opened again.

    Parameters
    ----------
    context : RunContext
    source : Path or None
        The folder of shards per set of a run whose shards are copied.

    Returns
    -------
    CheckedData

    Raises
    ------
    OneClassError
        If a class has too few pictures for the folds of training, and the command trains.
    ImageError, MissingError
        If pictures cannot be read, unless the settings leave them out. It names them.
    """
    _check_classes(context, {})
    bad: dict[str, set[str]] = {}
    errors: list[PictureError] = []
    n_opened = 0
    for name, records in context.data.records.items():
        folders = [context.run.shards(name)] if source is None else [context.run.shards(name), source / name]
        unopened, left_out = _unopened(context, records, folders)
        found = dict(_unreadable(context, unopened, f"check pictures of {name}"))
        bad[name] = left_out | found.keys()
        errors += found.values()
        n_opened += len(unopened)
    if errors and not context.settings.data.skip_bad:
        raise _error(errors, n_opened)
    if any(bad.values()):
        _check_sets(context, bad)
        _check_classes(context, bad)
    return CheckedData(context.reporter.say, summary_sentences(context.data, bad))


def report_left_out(context: RunContext, set_name: str, image_ids: Sequence[str]) -> None:
    """Report the pictures of a set that its shards lack; their number also with --quiet."""
    for image_id in image_ids:
        context.reporter.say(f"picture {image_id} is left out: it cannot be read whole")
    if image_ids:
        count = f"{len(image_ids):,} of {len(context.data.records[set_name]):,}"
        context.reporter.warn(f"set {set_name}: {count} pictures are left out, because they cannot be read whole")


def _check_classes(context: RunContext, bad: Mapping[str, Collection[str]]) -> None:
    """Raise OneClassError if the command trains and a class has too few readable pictures for the folds."""
    if "train" not in context.stages:
        return
    train_set = context.settings.data.train_set
    records = [record for record in context.data.records[train_set] if record.id not in bad.get(train_set, ())]
    small = too_small_classes(context.settings, context.data.classes, records)
    if small:
        raise OneClassError(" ".join([f"{small}.", *misspellings(context.data).values()]))


def _check_sets(context: RunContext, bad: Mapping[str, Collection[str]]) -> None:
    """Raise ImageError if no picture of a set can be read."""
    for set_name, records in context.data.records.items():
        if len(bad[set_name]) == len(records):
            raise ImageError(
                f"no picture of set {set_name!r} can be read; look at --root {context.settings.data.root}."
            )


def _unopened(
    context: RunContext, records: Sequence[ImageRecord], folders: Sequence[Path]
) -> tuple[list[ImageRecord], set[str]]:
    """Return the pictures that no shard has, and the ids of those that shards left out and that stay left out."""
    if context.redo:
        return list(records), set()
    stored: set[str] = set()
    left_out: set[str] = set()
    for header in _headers(folders):
        stored.update(header.image_ids)
        left_out.update(header.provenance.get("left_out", ()))
    ids = {record.id for record in records}
    kept_out = (left_out & ids) - stored if context.settings.data.skip_bad else set()
    return [record for record in records if record.id not in stored and record.id not in kept_out], kept_out


def _headers(folders: Sequence[Path]) -> Iterator[ShardHeader]:
    """Yield the headers of the shards in some folders, without damaged ones."""
    for path in (path for folder in folders for path in sorted(folder.glob("*.safetensors"))):
        with suppress(ShardError):
            yield read_header(path)


def _unreadable(context: RunContext, records: Sequence[ImageRecord], title: str) -> Iterator[tuple[str, PictureError]]:
    """Yield the id of every picture that cannot be read whole, with the error."""
    with (
        context.reporter.bar(title, len(records), "pictures") as bar,
        ThreadPoolExecutor(context.threads) as pool,
        closing(prefetched(pool, _problem, records, _STARTED * context.threads)) as results,
    ):
        for record, error in results:
            bar.step()
            if error is not None:
                yield record.id, error


def _problem(record: ImageRecord) -> PictureError | None:
    """Return why a picture cannot be read whole, or None."""
    try:
        check_image(record.path)
    except (ImageError, MissingError) as error:
        return error
    return None


def _error(errors: Sequence[PictureError], n_opened: int) -> PictureError:
    """Return one error that names the pictures."""
    kind = MissingError if all(isinstance(error, MissingError) for error in errors) else ImageError
    listed = "; ".join(str(error).rstrip(".") for error in errors[:LISTED])
    if len(errors) == 1:
        return kind(f"{listed}; --skip-bad leaves it out.")
    more = f"; and {len(errors) - LISTED:,} more" if len(errors) > LISTED else ""
    return kind(f"{len(errors):,} of {n_opened:,} pictures cannot be used: {listed}{more}; --skip-bad leaves them out.")
