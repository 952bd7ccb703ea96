"""The text of a threshold's file: JSON with a digest, so that a changed character is found.

Files of versions 1 and 2 have no digest, and are read as they are.
"""

import json
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any

from lapsvm.files import SMALL_FILE, read_regular

FORMAT, VERSION = "lapsvm threshold", 3
_UNSIGNED = 1, 2  # the first knew best windows alone
_DIGEST = "digest"


def signed(content: Mapping[str, Any]) -> str:
    """Return the text of a file's content, with its digest in place of one that it has."""
    plain = {key: value for key, value in content.items() if key != _DIGEST}
    digest = blake2b(_text(plain).encode(), digest_size=16).hexdigest()
    return _text({**plain, _DIGEST: digest})


def _text(content: Mapping[str, Any]) -> str:
    return json.dumps(content, indent=1) + "\n"


def read_threshold(path: str | Path) -> dict[str, Any]:
    """Return the content of a file.

    Raises
    ------
    MissingError
        If there is no such file.
    ValueError, RecursionError, LookupError, TypeError
        If it is damaged, of another kind, or of a version that is not known.
    """
    text = read_regular(path, "threshold", SMALL_FILE).decode().replace("\r\n", "\n")
    content = json.loads(text)
    if content["format"] != FORMAT or content["version"] not in (*_UNSIGNED, VERSION):
        raise ValueError(f"it must be {FORMAT!r} of version {', '.join(map(str, _UNSIGNED))} or {VERSION}")
    is_signed = content["version"] == VERSION
    if (is_signed and signed(content) != text) or (not is_signed and _DIGEST in content):
        raise ValueError("its content is not what was written")
    return dict(content)
