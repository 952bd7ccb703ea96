"""The table of docs/reference/run_folder.md, made from the table of products; ``python docs/run_folder_table.py``."""

import re
from pathlib import Path

from lapsvm.pipelines.products.table import page_table

PAGE = Path(__file__).parent / "reference" / "run_folder.md"


def page(text: str) -> str:
    """Return the text of the page with the present table."""
    return re.sub(r"\| file \| written by \| contents \|\n(\|.*\n)+", lambda _: page_table(), text, count=1)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
