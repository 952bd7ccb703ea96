"""Small JSON files with a checksum, from which interrupted work resumes, and the hashes of other files.

Models and figures depend on their content, so a damaged or edited file is ignored, and the work is done again.
"""

import json
from collections.abc import Callable, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from lapsvm.files import NOT_PARSED, SMALL_FILE, read_regular

from .dataset import content_hash

CHECKSUM = "checksum"


def with_checksum(path: Path, content: Mapping[str, Any]) -> dict[str, Any]:
    """Return content for JSON (NumPy numbers allowed) with a checksum, which is valid for a file of this name only."""
    plain = json.loads(json.dumps(content, default=np.ndarray.item))
    return {**plain, CHECKSUM: _checksum(path, plain)}


def read_checked(path: Path, say: Callable[[str], None]) -> dict[str, Any] | None:
    """Return the content of a file; None if it is missing, or if it is damaged, which is reported."""
    if not path.is_file():
        return None
    content = read_json(path)
    if isinstance(content, dict) and content.pop(CHECKSUM, None) == _checksum(path, content):
        return content
    say(f"{path} is damaged; it is ignored, and its work is done again.")
    return None


def read_json(path: Path) -> Any:
    """Return the content of a small JSON file; None if it is missing or damaged."""
    try:
        return json.loads(read_regular(path, "file", SMALL_FILE))
    except (OSError, *NOT_PARSED):
        return None


def _checksum(path: Path, content: Mapping[str, Any]) -> str:
    return content_hash(path.name, json.dumps(content, sort_keys=True))


def file_hash(path: Path, what: str) -> str:
    """Return the hash of the content of a regular file, 32 hexadecimal digits; errors are those of `read_regular`."""
    return blake2b(read_regular(path, what), digest_size=16).hexdigest()
