"""Stage 5: compute the figures of a run."""

from lapsvm.evaluation import run_table, write_json

from ..results.evaluation import evaluate_set
from ..results.tables import print_table
from ..run.context import RunContext


def run(context: RunContext) -> None:
    """Write evaluation.json and print the table."""
    with context.timed("evaluate"):
        sets = {name: evaluate_set(context, name) for name in context.data.records}
        table = run_table({name: evaluation.table() for name, evaluation in sets.items()})
        context.run.files.claim([context.run.evaluation_file])
        write_json(context.run.evaluation_file, table)
    for name, evaluation in sets.items():
        for report, note in (
            (context.reporter.say, evaluation.boxes_note(name)),
            (context.reporter.warn, evaluation.left_out_note(name)),
        ):
            if note:
                report(note)
        if not context.reporter.quiet:
            print_table(table["sets"][name], f"{name} set")
