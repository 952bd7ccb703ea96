"""The page of a review: as the server sends it, and as one file to mail."""

import json
from base64 import b64encode
from functools import cache
from hashlib import blake2b, sha256
from importlib.resources import files
from pathlib import Path
from typing import Any

from lapsvm.files import write_atomically

from ..shards.windows import UnusableError
from .class_review import ClassReview
from .session import FIRST, ReviewSession

SCRIPTS = ("transport.js", "review.js")
SIDE = 1024  # pixels of the longest side of a picture in a file


@cache
def page_file(name: str) -> str:
    """Return the text of a file of the page."""
    return (files(__package__) / "page" / name).read_text(encoding="utf-8")


def served_page(*, decides: bool = False) -> bytes:
    """Return the page that a server sends, to judge boxes or decisions; its policy is in the headers."""
    scripts = "\n".join(f'<script src="{name}"></script>' for name in SCRIPTS)
    return _assembled(style='<link rel="stylesheet" href="review.css">', script=scripts, decides=decides).encode()


def write_page(session: ReviewSession, path: Path) -> int:
    """Write the first undecided pictures of every class as one file, and return how many there are.

    Pictures that cannot be shown are left out.
    """
    data = _page_data(session)
    scripts, style = [page_file(name) for name in SCRIPTS], page_file("review.css")
    allowed = " ".join(f"'{_hash(script)}'" for script in scripts)
    policy = (
        f"default-src 'none'; script-src {allowed}; style-src '{_hash(style)}'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    embedded = json.dumps(data).replace("<", "\\u003c")
    text = _assembled(
        policy=f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        style=f"<style>{style}</style>",
        script="\n".join(
            [
                f'<script type="application/json" id="data">{embedded}</script>',
                *(f"<script>{script}</script>" for script in scripts),
            ]
        ),
    )
    write_atomically(path, text.encode())
    return sum(map(len, data["queues"]))


def _hash(text: str) -> str:
    """Return the hash by which a policy allows a text."""
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


def _assembled(**parts: object) -> str:
    from jinja2 import Template

    page = Template(page_file("review.html"), autoescape=True, trim_blocks=True, lstrip_blocks=True)
    return f"{page.render(**parts)}\n"


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
    for row in session.open_rows(one):
        if len(items) == FIRST:
            break
        try:
            content = session.image(row, SIDE)
        except UnusableError:
            continue
        pictures[row] = f"data:image/jpeg;base64,{b64encode(content).decode()}"
        items.append({**session.item(index, row), "pixels": session.hashes[row], "order": "random", "random": True})
    return items
