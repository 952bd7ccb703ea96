"""Numbers as tables of other programs write them."""

import math
import re


def whole_number(text: str) -> int | None:
    """Return a whole number from 0 on of at most nine digits, also written as ``64.0``. None for another text."""
    return int(text.partition(".")[0]) if re.fullmatch(r"[0-9]{1,9}(\.0*)?", text) else None


def finite_number(text: str) -> float | None:
    """Return a finite number. None for another text, also for one that Python alone takes for a number, as ``1_0``."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and text.isascii() and "_" not in text else None
