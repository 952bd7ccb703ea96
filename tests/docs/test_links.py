"""The documents: the README's example runs, links lead somewhere, and every verb has its place."""

import importlib
import re
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from lapsvm.pipelines.commands.verbs import app
from lapsvm.pipelines.settings.options import OPTIONS, SETTINGS

ROOT = Path(__file__).parents[2]
SITE = sorted((ROOT / "docs").rglob("*.md"))
PAGES = [*sorted(ROOT.glob("*.md")), *SITE]
LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)\s]*)?\)")
NOTEBOOK = sorted((ROOT / "research").rglob("*.md"))
OF_OTHER_PROGRAMS = {"--memory-limit", "--inplace", "--no-compile"}
FILE_SUFFIXES = {".yaml", ".txt", ".npy"}  # data.yaml is no setting
SHELVES = {"tutorial", "howto", "reference", "explanation", "measurements"}


CODE = ("lapsvm", "pipelines", "datasets", "cython_ext", "benchmarks", "examples", "tests")
CODE_SUFFIXES = {".py", ".pyx", ".pyi", ".pxd", ".h", ".html", ".js", ".css"}
NAMES_OF_OTHERS = {
    "open_mine",
    "LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT",
    "TestPersistenceLoss",  # that a reader writes
    "accuracy_score",
    "augreg",
    "f1_score",
    "helpers",
    "label_ranking_average_precision_score",
    "resolve_model_data_config",
}


def verbs():
    """Names of the command line's verbs."""
    return sorted(app.commands)


def links(page):
    """Return the files that a page links to."""
    return [(page.parent / link).resolve() for link in LINK.findall(page.read_text(encoding="utf-8"))]


def test_the_readmes_python_runs():
    """The readme gives no bags: here the first instance of a positive one has a third feature."""
    bags = [np.random.default_rng(number).normal(size=(5, 3)) for number in range(20)]
    for bag in bags[:10]:
        bag[0, 2] += 9
    names = {"bags": bags, "y": [1] * 10 + [-1] * 10}
    for block in re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.DOTALL):
        exec(block, names)  # noqa: S102 - our own text
    assert names["which"][:10].tolist() == [0] * 10
    assert names["found"].violation >= 0
    assert len(names["found"].coefficients) == 4


def test_the_readme_says_within_60_words_what_to_type_for_defects():
    before, command, _ = (ROOT / "README.md").read_text(encoding="utf-8").partition("$ lapsvm run ")
    assert command
    assert "**Defects.**" in before
    assert len(before.split()) <= 60


@pytest.mark.parametrize("page", [*PAGES, *NOTEBOOK], ids=lambda page: str(page.relative_to(ROOT)))
def test_links_to_files_lead_somewhere(page):
    assert [link for link in links(page) if not link.exists()] == []


def test_pages_that_the_list_for_programs_names_are_built():
    """The site's llms.txt links to pages as they are built, and to SKILL.md beside it."""
    named = LINK.findall((ROOT / "docs/llms.txt").read_text(encoding="utf-8"))
    assert named[0] == "SKILL.md"
    pages = [ROOT / "docs" / Path(link).with_suffix(".md") for link in named[1:]]
    assert [page for page in pages if not page.is_file()] == []
    assert {page.parent.name for page in pages} >= SHELVES


def test_every_research_command_is_listed_with_its_page():
    folder = ROOT / "benchmarks"
    scripts = {str(path.relative_to(folder)) for path in folder.rglob("*.py") if "__main__" in path.read_text()}
    listed = re.findall(r"^\| `(\S+)` \| .+ \| \[\w+\]\(\S+\) \|$", (folder / "README.md").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(scripts)
    assert [link for link in links(folder / "README.md") if not link.exists()] == []


@pytest.mark.parametrize(
    "page", [*PAGES, *sorted((ROOT / "benchmarks").rglob("*.md"))], ids=lambda page: str(page.relative_to(ROOT))
)
def test_commands_on_a_page_are_in_the_tree_or_of_a_commit(page):
    assert list(strangers(page.read_text(encoding="utf-8"))) == []


def strangers(text):
    """Yield the scripts in paragraphs and rows that name no commit, and that the tree does not have."""
    for part in re.split(r"\n\s*\n|\n(?=\|)", text):
        if not re.search(r"\b(?=[0-9a-f]*\d)(?=\d*[a-f])[0-9a-f]{8}\b", part):
            for script in re.findall(r"\b((?:benchmarks|examples)/[\w/]+\.py)\b", part):
                if not (ROOT / script).is_file():
                    yield script


def test_a_command_that_is_gone_is_noticed():
    gone = "`python benchmarks/gone.py` takes 3 s"
    assert list(strangers(f"{gone}.\n\n{gone} (93a728ce).")) == ["benchmarks/gone.py"]
    assert list(strangers("| a |\n| `python benchmarks/papers/inference.py limit` |")) == []


def test_the_notebook_lists_its_pages():
    listed = links(ROOT / "research" / "notebook" / "README.md")
    assert {page for page in NOTEBOOK if page.name != "README.md"} <= set(listed)


def known_flags():
    """Return the flags of all verbs, and of the scripts in benchmarks/ and examples/."""
    scripts = "".join(path.read_text() for name in ("benchmarks", "examples") for path in (ROOT / name).rglob("*.py"))
    annotated = {f"--{name.replace('_', '-')}" for name in re.findall(r"^    (\w+): Annotated", scripts, re.MULTILINE)}
    verbs = {flag for option in OPTIONS for flag in option.flags.split("/")}
    own = {"--help", "--help-all", "--help-settings", "--version", "--install-completion", "--show-completion"}
    return verbs | annotated | own | set(re.findall(r'"(--[\w-]+)', scripts))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_options_and_settings_on_a_page_exist(page):
    text = page.read_text(encoding="utf-8")
    spans = re.findall(r"^```console.*?^```|`[^`\n]+`", text, flags=re.DOTALL | re.MULTILINE)
    used = {flag for span in spans for flag in re.findall(r"(?<![\w-])--[a-zA-Z][\w-]*", span)}
    assert used - known_flags() - OF_OTHER_PROGRAMS == set()
    tables = "|".join({name.partition(".")[0] for name in SETTINGS if "." in name})
    named = re.findall(rf"`(?:--set )?((?:{tables})\.[A-Za-z_.]+)(?:=[^`]*)?`", text)
    assert {name for name in named if name not in SETTINGS and Path(name).suffix not in FILE_SUFFIXES} == set()


@pytest.fixture(scope="module")
def words_of_the_code():
    """Every word of the code and of what configures it, and the arguments that help shows in capitals."""
    files = chain.from_iterable((ROOT / room).rglob("*") for room in CODE)
    paths = [path for path in files if path.suffix in CODE_SUFFIXES]
    paths += [ROOT / name for name in ("pyproject.toml", "setup.py", "Makefile", "ARCHITECTURE.md")]
    words = set(re.findall(r"\w+", " ".join(path.read_text(encoding="utf-8") for path in paths)))
    return words | {path.stem for path in paths} | {option.name.upper() for option in OPTIONS}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_names_on_a_page_exist(page, words_of_the_code):
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    spans = [span.partition("(")[0] for span in re.findall(r"`([A-Za-z_][\w.]*(?:\([^()`\n]*\))?)`", text)]
    assert {word for span in spans for word in span.split(".") if word} - words_of_the_code - NAMES_OF_OTHERS == set()
    assert [span for span in spans if span.startswith("lapsvm.") and not is_name(span)] == []


def is_name(dotted):
    """Whether a dotted name is that of a module, or of what a module holds."""
    parts = dotted.split(".")
    for count in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:count]))
        except ImportError:
            continue
        for part in parts[count:]:
            found = getattr(found, part, None)
        return found is not None
    return False


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_of_the_house_on_a_page_exist(page):
    spans = " ".join(re.findall(r"`([^`\n]+)`", page.read_text(encoding="utf-8")))
    paths = re.findall(rf"(?<![\w/.])((?:{'|'.join(CODE)}|docs)/[\w/.*-]*\w)", spans)
    assert [path for path in paths if not list(ROOT.glob(path))] == []


def test_every_page_is_reached_from_the_index():
    reached, todo = set(), [ROOT / "docs" / "index.md"]
    while todo:
        page = todo.pop()
        if page not in reached and page.suffix == ".md":
            reached.add(page)
            todo += links(page)
    assert set(SITE) <= reached


def test_the_shelves_are_five_of_at_most_15_files_each():
    folders = {path for path in (ROOT / "docs").iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert {folder.name for folder in folders} == SHELVES
    assert all(len(list(folder.iterdir())) <= 15 for folder in folders)


@pytest.mark.parametrize("verb", verbs())
def test_every_verb_is_in_the_list_of_commands(verb):
    assert f"| `lapsvm {verb}" in (ROOT / "docs/reference/commands.md").read_text(encoding="utf-8")


def test_no_document_names_a_verb_that_does_not_exist():
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    assert set(re.findall(r"^\$ lapsvm (\w+)", text, flags=re.MULTILINE)) <= set(verbs())
