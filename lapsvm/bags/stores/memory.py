"""How much memory windows may take."""

import math
import re
from pathlib import Path

from lapsvm.errors import OptionError

_UNITS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}
_MOST = 2**60  # bytes; no machine has more
_SHOWN = 40  # characters of what is no size
_SHARE = 0.8  # of the free memory; the rest is for what is computed from the windows


def as_bytes(memory: int | str | None) -> int | None:
    """Return a size in bytes: a number, a text such as "8G" or "500M" (powers of 1024), or None for the default.

    The number 0 keeps no windows in memory; a text names a byte or more.

    The default is 80 % of the memory that the system, or its container, has left; None where that is unknown.

    Raises
    ------
    OptionError
        If `memory` is no size.
    """
    if memory is None:
        left = _available()
        return None if left is None else int(_SHARE * left)
    if isinstance(memory, int) and not isinstance(memory, bool) and 0 <= memory <= _MOST:
        return memory
    match = re.fullmatch(r"(\d+(?:\.\d+)?) *([KMGT]?)(?:i?B)?", memory, re.I) if isinstance(memory, str) else None
    size = float(match[1]) * 1024.0 ** _UNITS[match[2].upper()] if match else math.inf
    if not 1 <= size <= _MOST:
        got = f"{memory[:_SHOWN]!r}..." if isinstance(memory, str) and len(memory) > _SHOWN else repr(memory)
        raise OptionError(f"memory must be a size such as 8G or 500M, got {got}.")
    return int(size)


def _available() -> int | None:
    """Return the bytes that could be allocated without swapping, or None where that is unknown."""
    free = re.search(r"MemAvailable:\s+(\d+) kB", _content("/proc/meminfo"))
    if free is None:
        return None
    group = Path("/sys/fs/cgroup")
    limit, used = _content(group / "memory.max").strip(), _content(group / "memory.current").strip()
    in_group = [int(limit) - int(used)] if limit.isdigit() and used.isdigit() else []
    return max(0, min(1024 * int(free[1]), *in_group)) if in_group else 1024 * int(free[1])


def _content(path: str | Path) -> str:
    try:
        return Path(path).read_text(encoding="ascii")
    except OSError:
        return ""
