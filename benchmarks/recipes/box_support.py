"""What box support gives: `python benchmarks/recipes/box_support.py RUN`.

RUN is a finished run with refinement, which is done again from its trained models. The table has the mean 11-point AP,
CorLoc and image AP of the training pictures for several amounts of support (0 is none), each picture detected by the
refined model without its fold; other settings of detection are RUN's. Boxes are for evaluation only.
"""

import sys
from dataclasses import replace

import numpy as np
from lapsvm.pipelines.fitting.refinement_guard import held_out_folds
from lapsvm.pipelines.stages import refine
from refinement_start import detected, held_out, measured, opened

from lapsvm.evaluation import image_average_precision

AMOUNTS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0)


def main(folder: str) -> None:
    """Print the table."""
    context, pictures, tasks, starts, truth = opened(folder)
    rows: dict[float, list[list[float]]] = {amount: [] for amount in AMOUNTS}
    for task in tasks:
        refined, _ = refine._rounds(context, task, pictures, starts[task.name])
        windows = list(held_out(pictures, refined))
        y = task.y[np.isin(refined.refinement.fold, held_out_folds(*refined))]
        for amount, figures in rows.items():
            images = detected(windows, replace(context.settings.detect, box_support=amount))
            located = measured(images, task.name, pictures, np.flatnonzero(task.y > 0), truth)
            figures.append([*located, image_average_precision(np.array([scores[0] for *_, scores in images]), y)])
            print(f"{task.name}, {amount:g}: {' '.join(f'{one:.4f}' for one in figures[-1])}", flush=True)
    print("| support | AP 11-point | CorLoc | image AP |\n|---|---|---|---|")
    for amount, figures in rows.items():
        print(f"| {amount:g} | {' | '.join(f'{one:.3f}' for one in np.mean(figures, axis=0))} |")


if __name__ == "__main__":
    main(sys.argv[1])
