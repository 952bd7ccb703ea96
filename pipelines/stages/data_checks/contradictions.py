"""Pictures that are the same, and labelled differently."""

from collections.abc import Iterable

from lapsvm.catalog import ImageRecord, is_plain
from lapsvm.errors import LapsvmError

from ...run.dataset import shown_classes
from ...settings.limits import listed
from .summary import LISTED

Hashed = tuple[ImageRecord, str]
"""A picture, and the hash of its pixels."""


def contradiction_sentence(pictures: Iterable[Hashed]) -> str:
    """Return a sentence on pictures with the same pixels and different labels; "" if there are none.

    `pictures` are those of all sets. Those of one colour are equal because they show nothing, which another
    sentence says.
    """
    groups: dict[str, list[ImageRecord]] = {}
    for record, digest in pictures:
        groups.setdefault(digest, []).append(record)
    pairs = []
    for first, *others in groups.values():
        differing = [(first, other) for other in others if shown_classes(other) != shown_classes(first)]
        pairs += differing if differing and not _shows_nothing(first) else []
    if not pairs:
        return ""
    described = listed([f"{_described(one)} and {_described(other)}" for one, other in pairs], LISTED, "; ")
    return (
        f"labels: pictures with the same pixels have different labels: {described}. Training takes each as a "
        "picture of its own; delete all but one, and give one that shows several classes all its labels in a table "
        "(--data csv)."
    )


def _shows_nothing(record: ImageRecord) -> bool:
    """Return whether a picture is of one colour; False for one that is gone since its features were computed."""
    try:
        return is_plain(record.pixels())
    except LapsvmError:
        return False


def _described(record: ImageRecord) -> str:
    return f"{record.id} ({', '.join(sorted(shown_classes(record))) or 'no class'})"
