"""What C and the spared parts of refinement give: `python benchmarks/recipes/refinement_settings.py RUN`.

RUN is a finished run of recipe `best`. Its trained models are refined once and twice with several values of
`--refine-C` and `--neg-part-iou`; AP (11-point) and CorLoc of the training pictures, each detected by the refined model
without its fold, means over the classes. Boxes are for evaluation only.
"""

import sys
from dataclasses import replace

import numpy as np
from lapsvm.pipelines.stages import refine
from refinement_start import figures_of, opened

VALUES = ((10.0, 0.25), (30.0, 0.25), (60.0, 0.25), (60.0, 0.1))


def main(folder: str) -> None:
    """Print the table."""
    context, pictures, tasks, starts, truth = opened(folder)
    rows: dict[tuple[float, float, int], list[tuple[float, float]]] = {}
    for task in tasks:
        first, positives = starts[task.name], np.flatnonzero(task.y > 0)
        begin = refine._voted(context, pictures, first.weights, positives, first.windows)
        for value, part in VALUES:
            refinement = replace(context.settings.refine, C=value, neg_part_iou=part, scene_part_iou=0.0)
            own = replace(context.settings, refine=refinement)
            changed, start = replace(context, settings=own), first._replace(windows=begin)
            for number in (1, 2):
                found = refine._round(changed, task, pictures, start, task.name)
                refined = refine._Refined(found)
                figures = figures_of(changed, task.name, pictures, refined, positives, truth)
                rows.setdefault((value, part, number), []).append(figures)
                print(
                    f"{task.name}, C = {value:g}, {part:g}, round {number}: {figures[0]:.4f} {figures[1]:.4f}",
                    flush=True,
                )
                windows = refine._held_out_windows(changed, pictures, refined, positives)
                start = first._replace(weights=found.mean_coef, windows=windows)
    print("| C | parts | rounds | AP 11-point | CorLoc |\n|---|---|---|---|---|")
    for (value, part, number), figures in rows.items():
        print(f"| {value:g} | {part:g} | {number} | {' | '.join(f'{one:.3f}' for one in np.mean(figures, axis=0))} |")


if __name__ == "__main__":
    main(sys.argv[1])
