"""Pictures that are copies of others: labelled differently, or counted as unseen where they are not."""

from collections.abc import Iterable, Iterator, Sequence

from lapsvm.catalog import ImageRecord, is_plain
from lapsvm.errors import LapsvmError

from ...results.picture_names import exported_original
from ...run.dataset import shown_classes
from ...settings.limits import counted, listed
from .summary import LISTED

Hashed = tuple[ImageRecord, str]
"""A picture, and the hash of its pixels."""


def copy_sentences(pictures: Iterable[Hashed], records: Iterable[ImageRecord]) -> list[str]:
    """Return sentences on pictures with the same pixels, and on pictures that were made of the same one.

    Parameters
    ----------
    pictures : iterable of (ImageRecord, hash)
        Those that may equal another, of all sets. Labels of those of one colour do not contradict each other: they
        show nothing, which another sentence says.
    records : iterable of ImageRecord
        All pictures of all sets.
    """
    groups: dict[str, list[ImageRecord]] = {}
    for record, digest in pictures:
        groups.setdefault(digest, []).append(record)
    same = [group for group in groups.values() if len(group) > 1]
    return [*_contradictions(same), *_copies(same, records)]


def _contradictions(groups: Sequence[Sequence[ImageRecord]]) -> Iterator[str]:
    """Yield a sentence on pictures with the same pixels and different labels, if there are some."""
    pairs = []
    for first, *others in groups:
        differing = [other for other in others if shown_classes(other) != shown_classes(first)]
        if differing and not _shows_nothing(first):
            pairs += [f"{_described(first)} and {_described(other)}" for other in differing]
    if pairs:
        yield (
            f"labels: pictures with the same pixels have different labels: {listed(pairs, LISTED, '; ')}. Training "
            "takes each as a picture of its own; delete all but one, and give one that shows several classes all its "
            "labels in a table (--data csv)."
        )


def _copies(groups: Sequence[Sequence[ImageRecord]], records: Iterable[ImageRecord]) -> Iterator[str]:
    """Yield a sentence on pictures that another one's model has seen under another name, if there are some."""
    sources: dict[tuple[str, ...], list[ImageRecord]] = {}
    for record in records:
        if original := exported_original(record.path.stem):
            sources.setdefault((original, *sorted(shown_classes(record))), []).append(record)
    alike = [other for first, *others in groups for other in others if shown_classes(other) == shown_classes(first)]
    versions = [other for _, *others in sources.values() for other in others]
    names = dict.fromkeys(record.id for record in (*alike, *versions))
    for sentence in counted(names, "are copies of others, by their pixels or by Roboflow's names of versions"):
        yield f"pictures: {sentence}. Figures of unseen pictures are too high with them; keep one of each."


def _shows_nothing(record: ImageRecord) -> bool:
    """Return whether a picture is of one colour; False for one that is gone since its features were computed."""
    try:
        return is_plain(record.pixels())
    except LapsvmError:
        return False


def _described(record: ImageRecord) -> str:
    return f"{record.id} ({', '.join(sorted(shown_classes(record))) or 'no class'})"
