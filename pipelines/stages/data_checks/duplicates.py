"""Pictures that are in the data twice, under different labels."""

from collections.abc import Iterable

from lapsvm.catalog import ImageRecord, PresentClasses

from ...run.limits import listed

LISTED = 10
"""Pairs of pictures that the sentence names."""

Hashed = tuple[ImageRecord, str]


def contradiction_sentence(pictures: Iterable[Hashed]) -> str:
    """Return a sentence on pictures with the same pixels and different labels; "" if there are none.

    Parameters
    ----------
    pictures : iterable of (ImageRecord, str)
        Pictures of all sets, with the hashes of their pixels.
    """
    groups: dict[str, list[ImageRecord]] = {}
    for record, digest in pictures:
        groups.setdefault(digest, []).append(record)
    pairs = []
    for first, *others in groups.values():
        pairs += [(first, other) for other in others if shown_classes(other) != shown_classes(first)]
    if not pairs:
        return ""
    described = listed([f"{_described(one)} and {_described(other)}" for one, other in pairs], LISTED, "; ")
    return (
        f"labels: pictures with the same pixels have different labels: {described}. Training takes each as a "
        "picture of its own; delete all but one, and give one that shows several classes all its labels in a table "
        "(--data csv)."
    )


def shown_classes(record: ImageRecord) -> frozenset[str]:
    """Return the classes that a picture is positive for."""
    labels = record.labels
    if isinstance(labels, PresentClasses):
        return labels.positive
    return frozenset(name for name, value in labels.items() if value == 1)


def _described(record: ImageRecord) -> str:
    return f"{record.id} ({', '.join(sorted(shown_classes(record))) or 'no class'})"
