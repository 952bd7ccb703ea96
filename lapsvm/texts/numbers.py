"""Numbers as tables of other programs write them."""

import re


def whole_number(text: str) -> int | None:
    """Return a whole number from 0 on of at most nine digits, also written as ``64.0``; None for another text."""
    return int(text.partition(".")[0]) if re.fullmatch(r"[0-9]{1,9}(\.0*)?", text) else None
