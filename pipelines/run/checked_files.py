"""Small JSON files by which interrupted work continues: each carries a checksum, and one that is damaged is ignored.

What such a file holds decides how models and figures come out, so a file that is not what was written - empty, cut
short, edited - must not be believed. Nothing is lost with it but time: the work is done again.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .dataset import content_hash

CHECKSUM = "checksum"


def with_checksum(path: Path, content: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is to be written into a file as JSON: the content, and its checksum.

    Parameters
    ----------
    path : Path
        The checksum holds for a file of this name alone.
    content : mapping
        What JSON can hold, NumPy's numbers included.
    """
    plain = json.loads(json.dumps(content, default=np.ndarray.item))
    return {**plain, CHECKSUM: _checksum(path, plain)}


def read_checked(path: Path, say: Callable[[str], None]) -> dict[str, Any] | None:
    """Return the content of a file; None if it is not there, or is not what was written, which is said."""
    if not path.is_file():
        return None
    try:
        content = json.loads(path.read_bytes())
    except (ValueError, RecursionError):  # no text, no JSON, digits without end, or nested too deeply
        content = None
    if isinstance(content, dict) and content.pop(CHECKSUM, None) == _checksum(path, content):
        return content
    say(f"{path} is not what was written; it is ignored, and what it kept is done again.")
    return None


def _checksum(path: Path, content: Mapping[str, Any]) -> str:
    """Return the hash of a file's name and content."""
    return content_hash(path.name, json.dumps(content, sort_keys=True))
