"""Which settings held-out models agree on: `python benchmarks/recipes/choices_without_boxes.py RUN`.

RUN is a run with `--beside`, so that contrast is applied in training. For every contrast and number of windows its
training pictures are cut in folds, for every C; the table tells the image-level AP of the held-out pictures and the
agreement of the models on the windows of the positive ones (see `lapsvm.pipelines.fitting.agreement`), means over
classes.
No boxes of objects are read. The last column counts the classes that would choose this row.
"""

import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
from lapsvm.pipelines.fitting.selection import GUARD, choose_constants
from lapsvm.pipelines.fitting.tasks import fit_tasks
from lapsvm.pipelines.fitting.training_bags import training_bags
from lapsvm.pipelines.run.context import RunContext
from lapsvm.pipelines.run.folder import RunFolder
from lapsvm.pipelines.run.progress import Reporter

from lapsvm.features import open_shards

C_VALUES = (0.1, 0.3, 1.0, 3.0)
SETTINGS = ((0.0, 0.05), (0.35, 0.05), (0.5, 0.05), (0.65, 0.05), (0.5, 1.0), (0.5, 20.0))


def main(folder: str) -> None:
    """Print the table."""
    run = RunFolder(Path(folder))
    context = RunContext(run, run.settings(), 2, Reporter(True))
    shards = open_shards(run.shards(context.settings.data.train_set))
    labels = {task.name: task.y for task in fit_tasks(context, shards)}
    found: dict[str, list[tuple]] = {name: [] for name in labels}
    for contrast, top in SETTINGS:
        values = {"features.contrast": contrast, "train.top": top, "train.C": C_VALUES, "train.criterion": "agreement"}
        varied = replace(context, settings=context.settings.with_values(values))
        bags, _, _ = training_bags(varied, shards)
        for name, choice in choose_constants(varied, bags, labels).items():
            for one in choice.candidates:
                key = (contrast, top, one["C"])
                found[name].append((key, float(np.mean(one["folds"])), float(np.mean(one["agreement"]))))
        print(f"contrast {contrast:g}, top {top:g} is done", file=sys.stderr)
    chosen = Counter(_chosen(rows) for rows in found.values())
    print("| contrast | windows | C | image AP, held-out | agreement | chosen by |\n|---|---|---|---|---|---|")
    for rows in zip(*found.values(), strict=True):
        key = rows[0][0]
        ap, agreed = (np.mean([row[column] for row in rows]) for column in (1, 2))
        print(f"| {' | '.join(f'{part:g}' for part in key)} | {ap:.3f} | {agreed:.3f} | {chosen[key] or ''} |")


def _chosen(rows: list[tuple]) -> tuple:
    """Return the settings that agree best among those that rank pictures about as well as the best."""
    best = max(ap for _, ap, _ in rows)
    return max((row for row in rows if row[1] >= best - GUARD), key=lambda row: row[2])[0]


if __name__ == "__main__":
    main(sys.argv[1])
