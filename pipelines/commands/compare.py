"""`lapsvm compare`: finished runs against each other."""

from pathlib import Path
from typing import Any

from lapsvm.settings import Range

from ..cli.answer import Outcome
from ..cli.parameters import add_verb
from ..cli.parsing import thread_count
from ..settings.limits import MAX_DRAWS, MAX_SEED
from ..settings.option import REQUIRED, Option
from ..settings.options import REPEATED, panel


@add_verb("compare", *panel(
    "Comparison",
    Option("runs", "", Path, "Run folders; the first is the reference.", several=REPEATED, default=REQUIRED),
    Option("out", "--out", Path, "The folder of the comparison.", default=REQUIRED),
    Option("draws", "--draws", int, "The bootstrap draws of the pictures.", default=2000, rule=Range(1, MAX_DRAWS)),
    Option("fold_count", "--folds", int, "Train on this many folds of the training set, too.", rule=Range(2, 1000)),
    Option("seeds", "--seeds", int, "The number of foldings; with --folds.", default=1, rule=Range(1, 1000)),
    Option("first_seed", "--seed", int, "The seed of the draws and of the first folding.", default=0,
           rule=Range(0, MAX_SEED)),
))  # fmt: skip
def compare(options: dict[str, Any]) -> Outcome:
    """Two or more finished runs on the same pictures: differences, their intervals and tests.

    Example: lapsvm compare --out COMPARISON AP_RUN SVM_RUN --folds 5
    """
    from ..compare.runs import ComparisonOptions, compare_runs

    comparison = ComparisonOptions(options["draws"], options["first_seed"], options["fold_count"], options["seeds"])
    return compare_runs(
        options["runs"], options["out"], comparison, thread_count(options), options["quiet"], options["root"]
    )
