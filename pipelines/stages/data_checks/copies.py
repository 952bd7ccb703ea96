"""Pictures that are copies of others: labelled differently, or in the training set and in another one."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

from lapsvm.arrays import Index
from lapsvm.catalog import ImageRecord, is_plain
from lapsvm.errors import LapsvmError
from lapsvm.texts.sentences import counted, listed

from ...run.dataset import shown_classes
from ...run.groups import BEFORE_LAST, looks_grouped, object_names, picture_groups
from .summary import LISTED

Hashed = tuple[ImageRecord, str]
"""A picture, and the hash of its pixels."""


def copy_sentences(pictures: Sequence[Hashed], sets: Mapping[str, Sequence[ImageRecord]], expression: str) -> list[str]:
    """Return sentences on pictures that are the same as others.

    Parameters
    ----------
    pictures : sequence of (ImageRecord, hash)
        Those that may equal another, of all sets. Labels of those of one colour do not contradict each other: they
        show nothing, which another sentence says.
    sets : mapping of set name to all its pictures
        The training set first.
    expression : str
        That of ``data.group``.
    """
    groups: dict[str, list[ImageRecord]] = {}
    for record, digest in pictures:
        groups.setdefault(digest, []).append(record)
    same = [group for group in groups.values() if len(group) > 1]
    return [*_contradictions(same), *_copies(pictures, sets, expression), *_grouped(sets, expression)]


def groups_of(records: Sequence[ImageRecord], pictures: Iterable[Hashed], *expressions: str) -> Index:
    """Return the group (n,) of every record, see `run.groups`, by the hashes of those pictures that have one."""
    digests = {id(record): digest for record, digest in pictures}
    return picture_groups(records, [digests.get(id(record), "") for record in records], *expressions)


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


def _copies(pictures: Sequence[Hashed], sets: Mapping[str, Sequence[ImageRecord]], expression: str) -> Iterator[str]:
    """Yield a sentence on copies, and on pictures of other sets that a model has seen under another name."""
    records, n_trained = [*chain.from_iterable(sets.values())], len(next(iter(sets.values())))
    copies = [records[row].id for row, first in enumerate(groups_of(records, pictures)) if row != first]
    by = "by their pixels or by Roboflow's names of versions"
    for sentence in counted(copies, f"are copies of others, {by}"):
        yield f"pictures: {sentence}. Held-out figures keep copies in one fold."
    seen = groups_of(records, pictures, expression)[n_trained:] < n_trained
    known = [record.id for record, is_seen in zip(records[n_trained:], seen, strict=True) if is_seen]
    objects = ", or show their objects" if expression else ""
    for sentence in counted(known, f"of other sets are copies of training pictures{objects}"):
        yield f"pictures: {sentence}. Figures of the test set are too high with them; keep them in one set."


def _grouped(sets: Mapping[str, Sequence[ImageRecord]], expression: str) -> Iterator[str]:
    """Yield a sentence on the groups that an expression makes of training pictures, or that their names suggest."""
    records = next(iter(sets.values()))
    if not expression:
        if same := looks_grouped(records):
            yield (
                f"pictures: do {' and '.join(same[:2])} show one object, and so on? Then --group '{BEFORE_LAST}' "
                "keeps an object's pictures in one fold; held-out figures are too high without."
            )
        return
    owner = picture_groups(records, [""] * len(records), expression)
    unmatched = object_names(records, expression).count("")
    alone = f", {unmatched:,} of them match nothing and are on their own" if unmatched else ""
    yield (
        f"pictures: {expression!r} puts the {len(records):,} training pictures into {len(set(owner.tolist())):,} "
        f"groups{alone}."
    )


def _shows_nothing(record: ImageRecord) -> bool:
    """Return whether a picture is of one colour; False for one that is gone since its features were computed."""
    try:
        return is_plain(record.pixels())
    except LapsvmError:
        return False


def _described(record: ImageRecord) -> str:
    return f"{record.id} ({', '.join(sorted(shown_classes(record))) or 'no class'})"
