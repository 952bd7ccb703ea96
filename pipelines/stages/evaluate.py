"""Stage 5: compute the figures of a run."""

from collections.abc import Mapping
from typing import Any

from lapsvm.evaluation import Figures, read_figures, write_json
from lapsvm.evaluation.measures import MEANING, Pictures

from ..annotations.known_boxes import BoxSource
from ..context import RunContext
from ..figures.evaluation import SetEvaluation, evaluate_set
from ..figures.held_out import Unseen
from ..figures.right_boxes import reviewed_classes, verified_classes, verified_sentences, verified_table
from ..figures.set_entry import set_entry
from ..figures.tables import print_figures, print_thresholds


def run(context: RunContext) -> None:
    """Write evaluation.json and print the tables: what unseen pictures say first."""
    with context.timed("evaluate"):
        sets = evaluated_sets(context)
        reviewed, precision = reviewed_classes(context.stored), context.wanted_precision
        verified = verified_classes(context.run, reviewed)
        entries = {name: set_entry(context.stored, of, precision, context.metrics) for name, of in sets.items()}
        table: dict[str, Any] = {"sets": entries}
        if verified:
            table["verified"] = verified_table(verified)
        context.run.files.claim([context.run.evaluation_file])
        write_json(context.run.evaluation_file, table)
    _say_notes(context, sets)
    for sentence in verified_sentences(context.stored, reviewed, verified, sets):
        context.reporter.say(f"evaluate: {sentence}")
    if weakness := Unseen.of_run(context.stored).weakness_message():
        context.reporter.say(f"evaluate: {weakness}")
    if not context.reporter.quiet:
        for figures in read_figures(entries, context.train_set):
            of_set = entries[figures.set_name] if figures.pictures is Pictures.TEST else {}
            print_figures(figures, place_title(figures), of_set.get("errors"))
        for name, entry in entries.items():
            if context.precision is not None and "thresholds" in entry:
                print_thresholds(entry["thresholds"], f"{name} set, thresholds")


def evaluated_sets(context: RunContext) -> dict[str, SetEvaluation]:
    """Return the evaluation of every set; a command reads the boxes of ``data.boxes`` once."""
    if context.box_source is None:
        context.box_source = BoxSource.of(context.stored, context.reporter.say)
    return {name: evaluate_set(context.stored, context.box_source, name) for name in context.data.records}


def _say_notes(context: RunContext, sets: Mapping[str, SetEvaluation]) -> None:
    """Report of which pictures boxes are known, and which are left out."""
    for evaluation in sets.values():
        if evaluation.boxes_note:
            context.reporter.say(evaluation.boxes_note)
        if evaluation.faults_note:
            context.reporter.warn(evaluation.faults_note)
        if evaluation.left_out_note:
            context.reporter.warn(evaluation.left_out_note)


def place_title(figures: Figures) -> str:
    """Return the heading of a table of figures: the set, and what the models have seen of it."""
    kinds = {Pictures.TEST: "", Pictures.HELD_OUT: ", held out", Pictures.TRAINING: ", in-sample"}
    meaning = MEANING[figures.pictures]
    return f"{figures.set_name} set{kinds[figures.pictures]}{f': {meaning}' if meaning else ''}"
