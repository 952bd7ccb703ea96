"""The result page of a run: `write_page` and the values that it shows."""

from lapsvm.report.contents import (
    CccpStep,
    ClassSummary,
    Contents,
    Curve,
    Example,
    LabelCounts,
    NextStep,
    RunSummary,
    SetSummary,
)
from lapsvm.report.misses import MissKind, miss_kind
from lapsvm.report.next_steps import BoxMoves, Findings, StepCommands, next_steps
from lapsvm.report.page import render_page, write_page
from lapsvm.report.tables import (
    cell_text,
    column_groups,
    escape_markdown,
    left_out_sentence,
    markdown_table,
)

__all__ = [
    "BoxMoves",
    "CccpStep",
    "ClassSummary",
    "Contents",
    "Curve",
    "Example",
    "Findings",
    "LabelCounts",
    "MissKind",
    "NextStep",
    "RunSummary",
    "SetSummary",
    "StepCommands",
    "cell_text",
    "column_groups",
    "escape_markdown",
    "left_out_sentence",
    "markdown_table",
    "miss_kind",
    "next_steps",
    "render_page",
    "write_page",
]
