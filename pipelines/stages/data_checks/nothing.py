"""What a run says of pictures that show nothing, by the reason."""

from collections.abc import Sequence

from lapsvm.catalog import CheckedPicture, ImageRecord, Nothing
from lapsvm.errors import ImageError
from lapsvm.texts.sentences import listed

from .summary import LISTED

Checked = tuple[ImageRecord, CheckedPicture]
"""A picture, and what its check found."""


def nothing_sentences(pictures: Sequence[Checked]) -> list[str]:
    """Return a sentence for each reason for which pictures show nothing."""
    sentences = []
    for why in Nothing:
        found = [record.id for record, check in pictures if check.nothing is why]
        if found:
            count = f"{len(found):,} of {len(pictures):,}"
            sentences.append(f"pictures: {count}: {why.reason}: {listed(found, LISTED)}; {why.remedy}")
    return sentences


def refuse_nothing(records: Sequence[ImageRecord], pictures: Sequence[Checked]) -> None:
    """Raise ImageError if all the training pictures, `records`, are among those that show nothing at all."""
    plain = {record.path for record, check in pictures if check.is_plain}
    if all(record.path in plain for record in records):
        used = {record.path for record in records}
        sentences = nothing_sentences([one for one in pictures if one[0].path in used])
        raise ImageError(f"no picture of the training set shows anything; {'; '.join(sentences)}.")
