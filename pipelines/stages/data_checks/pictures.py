"""Checks of the data before a feature is computed: every picture is opened, and classes have enough pictures."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from lapsvm.catalog import CheckedPicture, ImageRecord, check_image, pixel_hash
from lapsvm.errors import ImageError, MissingError, OneClassError, ShardError
from lapsvm.features import ShardHeader, ShardSet, read_header
from lapsvm.texts.sentences import counted, listed

from ...context import Workspace, stored_sizes
from ...fitting.selection import check_folds
from ...run.dataset import RunData, label_vector
from ...run.progress import Reporter
from ...settings.settings import Settings
from ...shards.jobs import left_out
from ...shards.prefetch import on_threads
from ...shards.windows import anew_command, resized_pictures
from .copies import Hashed, copy_sentences, groups_of
from .likeness import likeness_sentences
from .nothing import Checked, nothing_sentences, refuse_nothing
from .summary import LISTED, misspellings, summary_sentences, too_small_classes

PictureError = ImageError | MissingError
_RESIZED = "pictures have changed their size since their features were made, and keep the features and boxes of before"


@dataclass
class CheckedData:
    """The data of a run after the check: what to report of them once nothing refuses the run."""

    say: Callable[[str], None]
    n_new: int = 0
    sentences: list[str] = field(default_factory=list)

    def report(self) -> int:
        """Report the data, at a second call nothing, and return the number of new pictures."""
        while self.sentences:
            self.say(self.sentences.pop(0))
        return self.n_new


@dataclass(frozen=True)
class DataCheck:
    """The check of the labels and pictures of a run before extraction.

    Attributes
    ----------
    workspace : Workspace
    settings : Settings
    data : RunData
    stages : sequence of str
        All stages of the command.
    redo : bool
        Whether pictures in shards are opened again.
    """

    workspace: Workspace
    settings: Settings
    data: RunData
    stages: Sequence[str]
    redo: bool

    def check(self, source: Path | None = None) -> CheckedData:
        """Check labels and pictures of a run.

        Pictures in shards of the run, or of the run folder `source`, have been opened before and are not opened again.

        Parameters
        ----------
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
            If pictures cannot be read, unless the settings leave them out, or the command trains and no picture of the
            training set shows anything. It names them.
        """
        self._check_classes({})
        bad: dict[str, set[str]] = {}
        errors: list[PictureError] = []
        stored: list[Hashed] = []
        opened: list[Checked] = []
        for name, records in self.data.records.items():
            folders = [self.workspace.folder.shards(name), *([] if source is None else [source / name])]
            hashes, unread = self._stored(records, folders)
            unopened = [record for record in records if record.id not in hashes and record.id not in unread]
            title = f"check pictures of {name}"
            with on_threads(self.workspace.reporter, title, _check, unopened, self.workspace.threads) as (_, results):
                checked = list(results)
            found = {record.id: error for record, error in checked if not isinstance(error, CheckedPicture)}
            bad[name] = unread | found.keys()
            errors += found.values()
            stored += [(record, hashes[record.id]) for record in records if record.id in hashes]
            opened += [(record, check) for record, check in checked if isinstance(check, CheckedPicture)]
        if errors and not self.settings.data.skip_bad:
            raise _error(errors, len(errors) + len(opened))
        if any(bad.values()):
            self._check_sets(bad)
            self._check_classes(bad)
        hashed = [*stored, *self._hashed(opened, stored)]
        if "train" in self.stages:
            train_set = self.settings.data.train_set
            used = [one for one in self.data.records[train_set] if one.id not in bad[train_set]]
            refuse_nothing(used, opened)
            self._check_groups(used, hashed)
        resized = [] if self.redo else list(self._resized())
        copies = copy_sentences(hashed, self.data.records, self.settings.data.group)
        sentences = [*summary_sentences(self.data, bad), *nothing_sentences(opened)]
        alike = likeness_sentences(opened, hashed, self.data.records, self.settings.data.group)
        sentences += [*copies, *alike, *resized]
        return CheckedData(self.workspace.reporter.say, len(opened), sentences)

    def _resized(self) -> Iterator[str]:
        """Yield a sentence on the pictures of each set that have another size than when features were made."""
        for name, records in self.data.records.items():
            for note in counted(resized_pictures(records, stored_sizes(self.workspace.folder, name)), _RESIZED):
                yield f"set {name}: {note}; {anew_command(self.workspace.folder)}"

    def _check_classes(self, bad: Mapping[str, Collection[str]]) -> None:
        """Raise OneClassError if the command trains and a class has too few readable pictures for the folds."""
        if "train" not in self.stages:
            return
        train_set = self.settings.data.train_set
        records = [record for record in self.data.records[train_set] if record.id not in bad.get(train_set, ())]
        if small := too_small_classes(self.settings, self.data.classes, records):
            raise OneClassError(" ".join([f"{small}.", *misspellings(self.data).values()]))

    def _check_groups(self, records: Sequence[ImageRecord], hashed: Sequence[Hashed]) -> None:
        """Raise OneClassError if folds choose constants and a class has too few pictures when copies count once."""
        groups = groups_of(records, hashed, self.settings.data.group)
        if len(set(groups.tolist())) < len(records):
            labels = {name: label_vector(records, name) for name in self.data.classes}
            check_folds(self.settings, labels, groups)

    def _check_sets(self, bad: Mapping[str, Collection[str]]) -> None:
        """Raise ImageError if no picture of a set can be read."""
        for set_name, records in self.data.records.items():
            if len(bad[set_name]) == len(records):
                raise ImageError(
                    f"no picture of set {set_name!r} can be read; look at --root {self.settings.data.root}."
                )

    def _stored(self, records: Sequence[ImageRecord], folders: Sequence[Path]) -> tuple[dict[str, str], set[str]]:
        """Return picture -> pixel hash of pictures in shards, and the pictures that shards leave out for good."""
        hashes: dict[str, str] = {}
        unread: set[str] = set()
        for header in _headers(folders) if not self.redo else ():
            hashes |= dict(zip(header.image_ids, header.pixel_hashes, strict=True))
            unread.update(header.provenance.get("left_out", ()))
        ids = {record.id for record in records}
        return hashes, (unread & ids) - hashes.keys() if self.settings.data.skip_bad else set()

    def _hashed(self, opened: Sequence[Checked], stored: Sequence[Hashed]) -> list[Hashed]:
        """Return pictures with their pixel hashes: those that may equal another, as the hashes of their checks say.

        The pixels of stored ones are known by another hash, so beside them all are hashed.
        """
        counts = Counter(check.digest for _, check in opened)
        records = [record for record, check in opened if stored or counts[check.digest] > 1]
        with on_threads(self.workspace.reporter, "compare pictures", _pixel_hash, records, self.workspace.threads) as (
            _,
            results,
        ):
            return list(results)


def report_left_out(set_name: str, records: Sequence[ImageRecord], shards: ShardSet, reporter: Reporter) -> None:
    """Report the pictures of a set that its shards lack; their number also with --quiet."""
    image_ids = left_out(records, shards)
    for image_id in image_ids:
        reporter.say(f"picture {image_id} is left out: it cannot be read whole")
    if image_ids:
        count = f"{len(image_ids):,} of {len(records):,}"
        reporter.warn(f"set {set_name}: {count} pictures are left out, because they cannot be read whole")


def _headers(folders: Sequence[Path]) -> Iterator[ShardHeader]:
    """Yield the headers of the shards in some folders, without damaged ones."""
    for path in (path for folder in folders for path in sorted(folder.glob("*.safetensors"))):
        with suppress(ShardError):
            yield read_header(path)


def _check(record: ImageRecord) -> CheckedPicture | PictureError:
    """Return the result of a picture's check, or the error if it cannot be read whole."""
    try:
        return check_image(record.path)
    except (ImageError, MissingError) as error:
        return error


def _pixel_hash(record: ImageRecord) -> str:
    return pixel_hash(record.pixels())


def _error(errors: Sequence[PictureError], n_opened: int) -> PictureError:
    """Return one error that names the pictures."""
    kind = MissingError if all(isinstance(error, MissingError) for error in errors) else ImageError
    reasons = listed([str(error).rstrip(".") for error in errors], LISTED, "; ")
    if len(errors) == 1:
        return kind(f"{reasons}; --skip-bad leaves it out.")
    return kind(f"{len(errors):,} of {n_opened:,} pictures cannot be used: {reasons}; --skip-bad leaves them out.")
