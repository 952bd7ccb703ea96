"""How often the page shows which next step, by CorLoc: `python benchmarks/learning/page_steps.py OUT ...`.

OUT are folders of `recipes/variants.py` with the variant `best`. Findings are those of a run without a test set. CorLoc
is of the final models, which see no box either.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

from lapsvm.pipelines.cli.study import Cell, Given, Into, print_table, study_command
from lapsvm.pipelines.context import RunContext
from lapsvm.pipelines.products.held_out import read_held_out
from lapsvm.pipelines.stages.report import class_findings, label_counts

from lapsvm.detection import Detector
from lapsvm.detection.detector import provenance_value
from lapsvm.report import Findings, next_steps

BANDS = {"below .5": (-1.0, 0.5), "from .5 to .8": (0.5, 0.8), ".8 and above": (0.8, 2.0)}


class Shown(NamedTuple):
    """A class of a set, its CorLoc, and the findings of the steps that its page shows."""

    set_name: str
    class_name: str
    corloc: float
    steps: tuple[str, ...]


@study_command
def main(outs: Annotated[list[Path], Given(metavar="OUT", is_argument=True)], into: Into = None) -> None:
    """Print the table, and the classes below it."""
    shown = [one for out in outs for one in shown_steps(out)]
    print_table(["step without boxes", *BANDS], rows(shown), into)
    for one in sorted(shown, key=lambda one: one.corloc):
        print(f"{one.set_name} {one.class_name}: CorLoc {one.corloc:.3f}: {', '.join(one.steps) or 'none'}")


def shown_steps(out: Path) -> Iterator[Shown]:
    """Yield every class of a folder's sets."""
    for line in map(json.loads, (out / "results.jsonl").read_text().splitlines()):
        if (line["variant"], line["on"]) == ("best", "trainval"):
            context = RunContext.opened(out / "runs" / line["set"] / "best", "this table", quiet=True)
            for name, figures in line["classes"].items():
                steps = next_steps([_findings(context, name)])
                yield Shown(line["set"], name, figures["corloc"], tuple(step.finding for step in steps))


def _findings(context: RunContext, name: str) -> Findings:
    labels = label_counts(context.data.records[context.settings.data.train_set], name)
    result = provenance_value(Detector.load(context.run.model(name)), "result")
    return class_findings(name, labels, result, None, read_held_out(context.run, name))


def rows(shown: Sequence[Shown]) -> Iterator[list[Cell]]:
    """Yield the numbers of classes in each band: all, those for which a step is shown, those without a step."""
    bands = [[one for one in shown if low <= one.corloc < high] for low, high in BANDS.values()]
    yield ["classes", *map(len, bands)]
    for step in sorted({step for one in shown for step in one.steps}):
        yield [step, *(sum(step in one.steps for one in of_band) for of_band in bands)]
    yield ["none", *(sum(not one.steps for one in of_band) for of_band in bands)]


if __name__ == "__main__":
    main()
