"""The documents: their examples run, their links lead somewhere, and they name what there is."""

import re
from pathlib import Path

import pytest
from lapsvm.pipelines.commands.verbs import app

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])


def verbs():
    """Names of the command line's verbs."""
    return sorted(command.callback.__name__ for command in app.registered_commands)


def test_the_readmes_python_runs():
    (block,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.DOTALL)
    names = {}
    exec(block, names)  # noqa: S102 - our own text
    assert names["found"].violation >= 0
    assert len(names["found"].coefficients) == 4


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_to_files_lead_somewhere(page):
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    broken = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert broken == []


def test_every_page_is_reached_from_the_index():
    reached, todo = set(), [ROOT / "docs" / "index.md"]
    while todo:
        page = todo.pop()
        if page in reached or page.suffix != ".md":
            continue
        reached.add(page)
        links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
        todo += [(page.parent / link).resolve() for link in links]
    assert {page for page in PAGES if page.parent.name == "docs"} <= reached


@pytest.mark.parametrize("verb", verbs())
def test_every_verb_is_named_in_the_documents(verb):
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    assert f"lapsvm {verb}" in text or f"`{verb}`" in text


def test_no_document_names_a_verb_that_is_not_there():
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    named = set(re.findall(r"^\$ lapsvm (\w+)", text, flags=re.MULTILINE))
    assert named <= set(verbs())
