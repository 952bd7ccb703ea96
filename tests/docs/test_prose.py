"""The site says what the program does: briefly, in sentences that are read once, and nothing of what it did.

What was measured of earlier states, or tried and dropped, is in research/notebook/; what changed is in CHANGELOG.md.
"""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
WORDS, PAGE_WORDS, SENTENCE_WORDS = 60_000, 2_750, 60  # as `wc -w` counts them

HISTORY = re.compile(
    r"""\bsince\ (?:then|version|\d) | ,\ since[.;:)] |              # of a later version, or of earlier figures
        \bis\ gone\b | \bno\ longer\b | \bformerly\b | \bpreviously\b |
        (?<!\bis\ )(?<!\bare\ )(?<!\bbe\ )\bused\ to\b |             # what it used to do, not what is used to do it
        \bearlier\ (?:version|recipe|release|program|state)s?\b | \bof\ that\ time\b |
        \b(?:was|were|had|took)\ [\d.,]+\ (?:\S+\ ){0,2}before\b | \((?:as\ )?before\) | \brecipe\ before\b""",
    flags=re.IGNORECASE | re.VERBOSE,
)
FENCE = re.compile(r"^```.*?^```", flags=re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\([^)]*\)")
ITEM = re.compile(r"\s*(?:[*>-]|\d+\.|#+)\s+")
END = re.compile(r"(?<=[.!?])[*)\"]*\s+(?=[\[(*\"`A-Z])")  # of a sentence: the next one begins with a capital or a name


def name(page):
    """Return a page's path below the folder of the site."""
    return str(page.relative_to(DOCS))


def texts(page):
    """Yield the paragraphs, list items, headings and cells of a page, without code."""
    paragraph = []
    for line in [*LINK.sub("]", FENCE.sub("\n", page)).splitlines(), ""]:
        item = ITEM.match(line)
        if item or line.startswith(("|", "    ")) or not line.strip():
            yield " ".join(paragraph)
            paragraph = []
        if line.startswith("|"):
            yield from line.split("|")
        elif not line.startswith("    "):
            paragraph.append(line[item.end() :] if item else line.strip())


def sentences(page):
    """Yield the sentences of a page."""
    for text in texts(page):
        yield from filter(None, END.split(text.strip()))


def test_all_pages_together_are_read_in_a_few_hours():
    assert sum(len(page.read_text(encoding="utf-8").split()) for page in PAGES) <= WORDS


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_a_page_is_read_in_ten_minutes(page):
    assert len(page.read_text(encoding="utf-8").split()) <= PAGE_WORDS


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_a_sentence_is_read_once(page):
    text = page.read_text(encoding="utf-8")
    assert [sentence for sentence in sentences(text) if len(sentence.split()) > SENTENCE_WORDS] == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_a_page_tells_no_history(page):
    assert [text for text in texts(page.read_text(encoding="utf-8")) if HISTORY.search(text)] == []


@pytest.mark.parametrize(
    "text",
    [
        "Since version 0.2 folds are kept.",
        "Since then it takes 45 s.",
        "It has been faster, since.",
        "The warning is gone.",
        "Attention is no longer in the program.",
        "The recipe used to start from the mean.",
        "An earlier version chose by agreement.",
        "It was .29 before.",
        "It took 282 CPU s before.",
        "| the mean of all models (before) | .49 |",
    ],
)
def test_history_is_recognised(text):
    assert any(map(HISTORY.search, texts(text)))


@pytest.mark.parametrize(
    "text",
    [
        "Seconds since the start of the trainings.",
        "Pictures that have changed since are named.",
        "The digits are used to test the network.",
        "Pictures are refused before they are decoded.",
        "absent if the shards are gone",
        "```text\nthis block used to be longer\n```",
    ],
)
def test_what_happens_in_a_run_is_no_history(text):
    assert not any(map(HISTORY.search, texts(text)))


def test_sentences_end_where_a_reader_stops():
    page = "# A title\n\nOne, with `x.y`. [Two](a.md#b) goes\non. *Three.*\n\n* four: 0.5 of it.\n* five\n"
    page += "\n| six | seven. Eight |\n"
    assert [len(sentence.split()) for sentence in sentences(page)] == [2, 3, 3, 1, 4, 1, 1, 1, 1]
    assert list(sentences("Text:\n\n    code that is none. Of it\n\n```text\nNor this\n```\n")) == ["Text:"]
