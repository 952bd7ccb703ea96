"""Agreement of held-out models on settings: `python benchmarks/learning/choices_without_boxes.py RUN`.

RUN stores context features beside the windows, so that contrast is applied in training. For every contrast, number of
windows and C, cross-validation gives the image-level AP of the held-out pictures and the agreement of the models on the
windows of positive pictures (see `lapsvm.pipelines.fitting.agreement`), means over classes. No boxes of objects are
read. The last column counts the classes that choose the row.
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
    rows_of: dict[str, list[tuple]] = {name: [] for name in labels}
    for contrast, top in SETTINGS:
        values = {"features.contrast": contrast, "train.top": top, "train.C": C_VALUES, "train.criterion": "agreement"}
        varied = replace(context, settings=context.settings.with_values(values))
        bags, _, _ = training_bags(varied, shards)
        for name, choice in choose_constants(varied, bags, labels).items():
            for point in choice.candidates:
                key = (contrast, top, point["C"])
                rows_of[name].append((key, float(np.mean(point["folds"])), float(np.mean(point["agreement"]))))
        print(f"contrast {contrast:g}, top {top:g} is done", file=sys.stderr)
    chosen = Counter(_chosen(rows) for rows in rows_of.values())
    print("| contrast | windows | C | image AP, held-out | agreement | chosen by |\n|---|---|---|---|---|---|")
    for rows in zip(*rows_of.values(), strict=True):
        key = rows[0][0]
        ap, agreed = (np.mean([row[column] for row in rows]) for column in (1, 2))
        print(f"| {' | '.join(f'{part:g}' for part in key)} | {ap:.3f} | {agreed:.3f} | {chosen[key] or ''} |")


def _chosen(rows: list[tuple]) -> tuple:
    """Return the settings of best agreement among those whose AP is within GUARD of the best."""
    best = max(ap for _, ap, _ in rows)
    return max((row for row in rows if row[1] >= best - GUARD), key=lambda row: row[2])[0]


if __name__ == "__main__":
    main(sys.argv[1])
