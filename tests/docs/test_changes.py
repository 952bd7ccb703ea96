"""Changes since the last release: one file each, and a page that a user reads in a minute."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CHANGES = sorted(path for path in (ROOT / "CHANGELOG.d").iterdir() if path.name != "README.md")
LINK = re.compile(r"\]\(([^)#]+)[^)]*\)")


@pytest.fixture(scope="module")
def collected():
    spec = importlib.util.spec_from_file_location("collect_changes", ROOT / "docs" / "collect_changes.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.collected


def test_the_unreleased_page_takes_a_minute():
    page = (ROOT / "CHANGELOG.md").read_text("utf-8").split("\n## Unreleased\n")[1].split("\n## ")[0]
    assert len(page.split()) <= 450


@pytest.mark.parametrize("path", CHANGES, ids=lambda path: path.stem)
def test_a_change_is_bullets_whose_links_exist(path):
    text = path.read_text("utf-8")
    assert path.suffix == ".md"
    assert all(line.startswith(("* ", "  ")) for line in text.splitlines())
    assert [link for link in LINK.findall(text) if not (ROOT / link).exists()] == []


def test_a_release_keeps_every_change_and_what_was_there(collected):
    log = "# Changelog\n\nAll.\n\n## Unreleased\n\nThe page.\n\n## 0.2.0\n\n* old\n"
    text = collected(log, ["* one\n", "* two\n  more\n"], "0.3.0")
    assert text == (
        "# Changelog\n\nAll.\n\n## Unreleased\n\n## 0.3.0\n\nThe page.\n\n"
        "**All changes**\n\n* one\n* two\n  more\n\n## 0.2.0\n\n* old\n"
    )


@pytest.mark.parametrize(
    ("log", "sentence"), [("## 0.3.0\n", "one heading"), ("\n## Unreleased\n\n## 0.3.0\n", "already")]
)
def test_a_release_is_made_once(collected, log, sentence):
    with pytest.raises(SystemExit, match=sentence):
        collected(log, [], "0.3.0")
