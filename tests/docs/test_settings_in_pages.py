"""Where pages name settings with values, these are those of the table, and of the recipes."""

import re
from itertools import pairwise
from pathlib import Path

from lapsvm.pipelines.cli.parsing import assigned_values
from lapsvm.pipelines.settings.option import value_text
from lapsvm.pipelines.settings.options import SETTINGS
from lapsvm.pipelines.settings.recipes import BEST
from lapsvm.pipelines.settings.settings import Settings

DOCS = Path(__file__).parents[2] / "docs"
TEXTS = [path.read_text(encoding="utf-8") for path in sorted(DOCS.rglob("*.md")) if path.name != "options.md"]
AS_SHIPPED = dict(BEST)  # a fixture of this folder lowers its sizes while tests run
BY_FLAG = {option.flag: name for name, option in SETTINGS.items() if not option.is_named}


def test_the_table_of_recipe_best_has_its_settings():
    page = (DOCS / "howto" / "recipes.md").read_text(encoding="utf-8")
    table = page.partition("## The settings of `best`")[2].partition("\n\n**")[0]
    words = [word for cell in re.findall(r"`([^`]+)`", table) for word in cell.split()]
    given = [after for word, after in pairwise(words) if word == "--set"]
    given += [f"{BY_FLAG[word]}={after}" for word, after in pairwise(words) if word in BY_FLAG]
    assert assigned_values(given, SETTINGS) == AS_SHIPPED


def test_defaults_in_pages_are_those_of_the_table():
    """A page writes "`NAME`, VALUE" at the end of a table's cell for a default."""
    defaults = {name: value_text(value) for name, value in Settings().flat().items()}
    given = [pair for text in TEXTS for pair in re.findall(r"`((?:[a-z_]+\.)+\w+)`, ([\d.]+|true|false)(?= \|)", text)]
    assert len(given) >= 4
    assert [(name, value) for name, value in given if defaults[name] != value] == []
