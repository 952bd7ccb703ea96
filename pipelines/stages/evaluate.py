"""Stage 5: compute the figures of a run."""

from collections.abc import Iterator, Mapping
from typing import Any

from lapsvm.evaluation import write_json
from lapsvm.evaluation.measures import MEANING, Pictures

from ..context import RunContext
from ..figures.evaluation import SetEvaluation, evaluate_set
from ..figures.right_boxes import reviewed_classes, verified_classes, verified_sentences, verified_table
from ..figures.set_entry import Unseen, set_entry
from ..figures.tables import print_table, print_thresholds
from ..results.known_boxes import BoxSource


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
        for figures, title, pictures in figure_tables(context, table["sets"]):
            print_table(figures, title, pictures)
        for name, entry in table["sets"].items():
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


def figure_tables(context: RunContext, sets: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], str, Pictures]]:
    """Yield the tables of a run with their titles and pictures: unseen ones first, the training pictures last."""
    train_set = context.train_set
    for name, entry in sets.items():
        if name != train_set:
            yield entry, f"{name} set", Pictures.TEST
    if "held_out" in sets[train_set]:
        held_out = f"{train_set} set, held out: {MEANING[Pictures.HELD_OUT]}"
        yield sets[train_set]["held_out"], held_out, Pictures.HELD_OUT
    title = f"{train_set} set, in-sample: {MEANING[Pictures.TRAINING]}"
    yield sets[train_set], title, Pictures.TRAINING
