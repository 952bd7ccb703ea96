"""A name with control or bidi characters is shown by escapes: on the terminal, the pages, in tables and drawings."""

import json
import re
import shutil
import subprocess
import unicodedata
from pathlib import Path

import pytest

from lapsvm.names.escapes import printable
from lapsvm.report import escape_markdown, markdown_table
from lapsvm.texts.sentences import one_line

PAGE = Path(__file__).parents[2] / "pipelines" / "review" / "page"
NODE = shutil.which("node")
RANGES = [(0, 0x20), (0x7F, 0xA1), (0x200B, 0x2010), (0x2028, 0x202F), (0x2060, 0x2070)]
SINGLE = [0xAD, 0x61C, 0xFEFF, 0xFFF9, 0xE0001, 0xE0041, 0xD800, 0xDC9B, 0xE000, 0x3000]
STEERING = [chr(code) for start, stop in RANGES for code in range(start, stop)] + [chr(code) for code in SINGLE]
SHOWN = "aé中 ß~\U0001f600अ"


@pytest.mark.parametrize("letter", [letter for letter in STEERING if letter != "\n"])
def test_what_steers_is_an_escape(letter):
    shown = printable(f"a{letter}b")
    assert shown.isprintable()
    assert shown == f"a{ascii(letter)[1:-1]}b" or unicodedata.category(letter) == "Cc"
    assert shown.startswith("a\\")
    assert escape_markdown(f"a{letter}b").isprintable()
    assert one_line(f"a{letter}b").isprintable()
    assert all(line.isprintable() for line in markdown_table(["x"], [[f"a{letter}b"]]).split("\n"))


def test_what_prints_stays():
    assert printable(SHOWN + "\n") == SHOWN + "\n"


@pytest.mark.skipif(NODE is None, reason="node runs the page's script here")
def test_the_page_of_a_review_shows_the_same_as_the_terminal():
    script = (PAGE / "transport.js").read_text(encoding="utf-8")
    texts = [f"a{letter}b" for letter in STEERING if letter not in "\t\r"] + [SHOWN, "\n"]
    code = f"const document = {{}};\n{script}\nconsole.log(JSON.stringify({json.dumps(texts)}.map(printable)));"
    done = subprocess.run([NODE, "-e", code], check=True, capture_output=True, text=True)
    assert json.loads(done.stdout) == [printable(text) for text in texts]


def test_every_name_on_the_page_of_a_review_is_escaped():
    text = (PAGE / "review.js").read_text(encoding="utf-8")
    shown = re.findall(r"\w*\(?(?:item\.picture|error\.message|\bname), index|printable\([^)]*\)", text)
    assert "printable(item.picture)" in shown
    assert not re.search(r"textContent = [^;]*(?<!printable\()item\.picture", text)
    assert "new Option(printable(name), index)" in text
