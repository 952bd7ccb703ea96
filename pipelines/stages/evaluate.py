"""Stage 5: compute the figures of a run."""

from lapsvm.evaluation import run_table, write_json

from ..results.evaluation import NO_BOXES, evaluate_set
from ..results.figures import set_entry
from ..results.tables import print_table
from ..run.context import RunContext


def run(context: RunContext) -> None:
    """Write evaluation.json and print the table."""
    with context.timed("evaluate"):
        sets = {name: evaluate_set(context, name) for name in context.data.records}
        table = run_table({name: set_entry(context, name, entry, context.metrics) for name, entry in sets.items()})
        context.run.files.claim([context.run.evaluation_file])
        write_json(context.run.evaluation_file, table)
    for name, evaluation in sets.items():
        if evaluation.truth is None:
            context.reporter.say(f"set {name}: {NO_BOXES}")
        if not context.reporter.quiet:
            print_table(table["sets"][name], f"{name} set")
