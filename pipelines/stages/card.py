"""The card of a run, RUN/card.md: what it was made from, what it reaches, and the commands that make it again."""

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from lapsvm.evaluation import Figures, read_figures
from lapsvm.evaluation.measures import Shown
from lapsvm.report import Contents, escape_markdown, markdown_table
from lapsvm.settings import IMPORTED

from ..context import RunContext
from ..figures.tables import figure_rows
from ..run.checked_files import file_hash
from ..run.dataset import content_hash
from .evaluate import place_title


def run_card(context: RunContext, contents: Contents) -> str:
    """Return the card as Markdown; it names the places of the run and its data, so that its commands can be pasted."""
    head = f"# Run on {escape_markdown(contents.summary.title)}\n\n{_about(contents)}"
    parts = (
        head,
        _data(context),
        _models(context),
        *_figures(context, contents.figures),
        _commands(context),
        _versions(context),
    )
    return "\n".join(parts)


def _about(contents: Contents) -> str:
    summary = contents.summary
    features = ", ".join(map(escape_markdown, summary.extractors))
    return f"Features: {features}. Loss: {escape_markdown(summary.loss)}. Seed: {summary.seeds['run']}.\n"


def _data(context: RunContext) -> str:
    """Return the pictures of each set with the hashes of their pixels and labels, in any order of the pictures."""
    rows = [_data_row(context, name) for name in context.data.records]
    return "## Data\n\n" + markdown_table(["set", "pictures", "hash of ids and pixels", "hash of labels"], rows)


def _data_row(context: RunContext, set_name: str) -> tuple[str, int, str, str]:
    shards, classes = context.shards(set_name), context.data.classes
    pictures = sorted(zip(shards.image_ids, shards.pixel_hashes, strict=True))
    records = context.data.records[set_name]
    labels = sorted((one.id, tuple((name, one.labels.get(name, 0)) for name in classes)) for one in records)
    return set_name, len(records), content_hash(pictures), content_hash(labels)


def _models(context: RunContext) -> str:
    """Return the hash of each model's file: equal inputs and settings give equal bytes."""
    files = {name: context.run.model(name) for name in context.data.classes}
    return "## Models\n\n" + markdown_table(
        ["class", "hash"], [(name, file_hash(path, "model")) for name, path in files.items()]
    )


def _figures(context: RunContext, sets: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yield the tables of all sets, as evaluation prints them."""
    for figures in read_figures(sets, context.train_set):
        yield f"## Figures: {escape_markdown(place_title(figures))}\n\n{_table(figures)}"


def _table(figures: Figures) -> str:
    """Return a set's figures with their intervals, the mean last."""
    titles = [measure.title for measure in figures.measures(Shown.FIGURES)]
    rows = [[escape_markdown(str(name)), *cells] for name, *cells in figure_rows(figures, with_intervals=True)]
    drawn = figures.drawn
    note = f"\nBrackets hold {drawn.level:.0%} intervals over {drawn.over}.\n" if drawn else ""
    return markdown_table(["class", *titles], rows, escape=False) + note


def _commands(context: RunContext) -> str:
    """Return the commands that make the run again in another folder, and check this one."""
    run = context.run.path.resolve()
    recipe = ["--recipe", str(run / "run.toml"), "--out", f"{run}-again"]
    begin = ["lapsvm", "run", *recipe, *_named(context)]
    if context.run.verdicts_file.is_file():
        begin += ["--verdicts", str(run / context.run.verdicts_file.name)]
    imported = (
        "" if context.settings.windows.method != IMPORTED else "The features were imported: import them first.\n\n"
    )
    lines = [begin, ["lapsvm", "verify", "--out", str(run), "--pictures"]]
    block = "\n".join(map(shlex.join, lines))
    return f"## Again\n\n{imported}```console\n{block}\n```\n"


def _named(context: RunContext) -> list[str]:
    """Return the options that name the extractors: code of their modules runs only where a command line names it."""
    if context.settings.windows.method == IMPORTED:
        return []
    return [word for text in context.settings.features.extractors for word in ("--extractor", text)]


def _versions(context: RunContext) -> str:
    return "## Versions\n\n" + markdown_table(["package", "version"], list(context.run.notes("versions").items()))
