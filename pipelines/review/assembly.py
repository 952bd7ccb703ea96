"""The page of a review: as the server sends it, and as one file to mail."""

import json
from base64 import b64encode
from functools import cache
from hashlib import blake2b, sha256
from importlib.resources import files
from pathlib import Path
from typing import Any

from lapsvm.files import write_atomically

from .order import FIRST
from .session import ClassReview, ReviewSession, UnusableError

SIDE = 1024  # pixels of the longest side of a picture in a file
_MARKS = {name: f"<!-- {name} -->" for name in ("policy", "style", "script")}


@cache
def page_file(name: str) -> str:
    """Return the text of a file of the page."""
    return (files(__package__) / "page" / name).read_text(encoding="utf-8")


def served_page() -> bytes:
    """Return the page that a server sends; its policy is in the headers."""
    return _assembled(
        policy="",
        style='<link rel="stylesheet" href="review.css">',
        script='<script src="review.js"></script>',
    ).encode()


def write_page(session: ReviewSession, path: Path) -> int:
    """Write the first undecided pictures of every class as one file, and return how many there are.

    Pictures that cannot be shown are left out.
    """
    data = _page_data(session)
    script, style = page_file("review.js"), page_file("review.css")
    hashes = {name: b64encode(sha256(text.encode()).digest()).decode() for name, text in _inline(script, style).items()}
    policy = (
        f"default-src 'none'; script-src 'sha256-{hashes['script']}'; style-src 'sha256-{hashes['style']}'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    embedded = json.dumps(data).replace("<", "\\u003c")
    text = _assembled(
        policy=f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        style=f"<style>{style}</style>",
        script=f'<script type="application/json" id="data">{embedded}</script>\n<script>{script}</script>',
    )
    write_atomically(path, text.encode())
    return sum(map(len, data["queues"]))


def _inline(script: str, style: str) -> dict[str, str]:
    return {"script": script, "style": style}


def _assembled(**parts: str) -> str:
    text = page_file("review.html")
    for name, mark in _MARKS.items():
        before, _, after = text.partition(mark)
        text = before + parts[name] + after
    return text


def _page_data(session: ReviewSession) -> dict[str, Any]:
    """Return classes, their pictures with boxes, and the pictures' files."""
    pictures: dict[int, str] = {}
    queues = [_items(session, index, one, pictures) for index, one in enumerate(session.classes)]
    named = [[item["picture"], item["pixels"]] for queue in queues for item in queue]
    counts = [(one.name, len(queue)) for one, queue in zip(session.classes, queues, strict=True)]
    return {
        "key": "lapsvm review " + blake2b(repr(named).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest(),
        "classes": [{"name": name, "left": count, "figure": ""} for name, count in counts],
        "queues": queues,
        "pictures": pictures,
    }


def _items(session: ReviewSession, index: int, one: ClassReview, pictures: dict[int, str]) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    for row in one.rows:
        said = one.verdicts.get(session.ids[row])
        if len(items) == FIRST:
            break
        if said is not None and said.verdict != "skip":
            continue
        try:
            content = session.image(row, SIDE)
        except UnusableError:
            continue
        pictures[row] = f"data:image/jpeg;base64,{b64encode(content).decode()}"
        items.append({**session.item(index, row), "pixels": session.hashes[row], "order": "random", "random": True})
    return items
