"""CorLoc and evidence by the contrast of the start: `python benchmarks/recipes/contrast_start.py RUN [0,0.8,0.9]`.

Training alone on RUN's training pictures, with the largest C of RUN, without refinement and box voting. Every class is
trained from each contrast of its start; "evidence" is what chooses among them without boxes (see
`lapsvm.latent.evidence`). Boxes are read for CorLoc only.
"""

import sys
import warnings
from pathlib import Path

import numpy as np
from lapsvm.pipelines.fitting import contrast_start
from lapsvm.pipelines.fitting.fit import Constants, FitRequest, problem
from lapsvm.pipelines.fitting.tasks import fit_tasks
from lapsvm.pipelines.fitting.trainer import Trainer
from lapsvm.pipelines.fitting.training_bags import training_bags
from lapsvm.pipelines.run.context import RunContext
from lapsvm.pipelines.run.folder import RunFolder
from lapsvm.pipelines.run.progress import Reporter

from lapsvm.evaluation import Detections, corloc
from lapsvm.features import open_shards

CONTRASTS = (0.0, 0.5, 0.8, 0.85, 0.88, 0.9, 0.92, 0.95)


def main(folder: str, contrasts=CONTRASTS) -> None:
    """Print the table."""
    warnings.simplefilter("ignore")
    run = RunFolder(Path(folder))
    context = RunContext(run, run.settings(), 2, Reporter(True))
    shards = open_shards(run.shards(context.settings.data.train_set))
    tasks, (bags, _, _) = fit_tasks(context, shards), training_bags(context, shards)
    boxes = np.concatenate([shard.boxes for shard in shards]).astype(float)
    truth = context.data.dataset.ground_truth(context.settings.data.train_set)
    start = contrast_start.open_contrast_start(context, bags)
    constants = Constants(max(context.settings.train.C))
    problems = [problem(context.settings, FitRequest(task.y, constants)) for task in tasks]
    solutions = [found for _, found in start.trained(problems, contrasts, Trainer(candidates=0))]
    names = [task.name for task in tasks]
    print(f"| gamma | {' | '.join(names)} | mean | evidence |\n|---|{'---|' * len(names)}---|---|")
    for contrast, found in zip(contrasts, zip(*solutions, strict=True), strict=True):
        best = bags.best(np.stack([solution.coef for solution in found], axis=1)).index
        windows = {
            name: Detections.from_images(
                (image, boxes[[row]], np.zeros(1)) for image, row in zip(shards.image_ids, chosen, strict=True)
            )
            for name, chosen in zip(names, (bags.offsets[:-1, None] + best).T, strict=True)
        }
        report = corloc(windows, truth)
        shares = [report.classes[name].corloc for name in names] + [report.mean_corloc]
        evidence = [start.evidence(one, solution) for one, solution in zip(problems, found, strict=True)]
        cells = [f"{share:.3f}" for share in shares] + [" ".join(f"{value:.1f}" for value in evidence)]
        print(f"| {contrast:g} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], [float(text) for text in sys.argv[2].split(",")] if sys.argv[2:] else CONTRASTS)
