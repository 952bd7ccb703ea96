"""Judge the next steps of the page: does a step that needs no boxes tell classes with right boxes from the others?

    python benchmarks/recipes/judged_steps.py OUT/runs/SET/VARIANT ...

RUN folders are finished, and their data have boxes, which are hidden from the rules and then compared. A row says for
how many classes a step is shown, by their CorLoc on the training pictures. A step that is shown as often above .8 as
below .5 tells a person nothing.
"""

import os
import sys
import warnings
from dataclasses import replace
from pathlib import Path

from lapsvm.pipelines.run.context import RunContext
from lapsvm.pipelines.run.folder import RunFolder
from lapsvm.pipelines.run.progress import Reporter
from lapsvm.pipelines.stages.report import class_findings

from lapsvm.report import RULES, Findings

BANDS = {"below .5": (0.0, 0.5), "from .5 to .8": (0.5, 0.8), ".8 and above": (0.8, 1.01)}


def main() -> None:
    """Print the table for the run folders of the command line."""
    warnings.simplefilter("ignore")
    known = [one for path in sys.argv[1:] for one in findings_of(Path(path)) if one.corloc is not None]
    bands = [[one for one in known if low <= (one.corloc or 0.0) < high] for low, high in BANDS.values()]
    heads = [f"{name} ({len(of)})" for name, of in zip(BANDS, bands, strict=True)]
    print("| step without boxes |", " | ".join(heads), "|")
    print("|---" * (1 + len(bands)) + "|")
    held = [[{rule.finding for rule in RULES if rule.holds(without_boxes(one))} for one in of] for of in bands]
    for finding in (rule.finding for rule in RULES):
        shown = [sum(finding in own for own in of) for of in held]
        if any(shown):
            print(f"| {finding} |", " | ".join(map(str, shown)), "|")
    print("| none |", " | ".join(str(sum(not own for own in of)) for of in held), "|")


def findings_of(path: Path) -> list[Findings]:
    """Return what the rules know of the classes of a run."""
    run = RunFolder(path)
    return class_findings(RunContext(run, run.settings(), os.cpu_count() or 1, Reporter(True)))


def without_boxes(found: Findings) -> Findings:
    """Return what is known where nobody has boxes."""
    return replace(found, corloc=None, misses={}, window_recall=None)


if __name__ == "__main__":
    main()
