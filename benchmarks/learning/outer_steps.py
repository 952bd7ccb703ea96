"""CorLoc of the chosen windows by outer step: `python benchmarks/learning/outer_steps.py RUN`.

Training pictures, first C and `top` of RUN; passes over all windows. Each row stops training after the maximum of outer
steps or at convergence, at its tolerance. Boxes are read for CorLoc only.
"""

import sys
import warnings
from pathlib import Path

import numpy as np
from lapsvm.pipelines.fitting.tasks import fit_tasks
from lapsvm.pipelines.fitting.training_bags import training_bags
from lapsvm.pipelines.run.context import RunContext
from lapsvm.pipelines.run.folder import RunFolder
from lapsvm.pipelines.run.progress import Reporter

from lapsvm.evaluation import Detections, corloc
from lapsvm.features import open_shards
from lapsvm.latent import LatentProblem, fit_many

STEPS = ((1, 0.01), (2, 0.01), (50, 0.01), (50, 0.001))


def main(folder: str) -> None:
    """Print the table."""
    warnings.simplefilter("ignore")  # early stops are intended
    run = RunFolder(Path(folder))
    context = RunContext(run, run.settings(), 2, Reporter(True))
    train = context.settings.train
    shards = open_shards(run.shards(context.settings.data.train_set))
    tasks, (bags, _, _) = fit_tasks(context, shards), training_bags(context, shards)
    boxes = np.concatenate([shard.boxes for shard in shards]).astype(float)
    truth = context.data.dataset.ground_truth(context.settings.data.train_set)
    print(f"| max steps | tol | {' | '.join(task.name for task in tasks)} | mean |\n|---|---|{'---|' * len(tasks)}---|")
    for max_iter, tol in STEPS:
        problems = [LatentProblem(task.y, C=train.C[0], tol=tol, top=train.top, max_iter=max_iter) for task in tasks]
        solutions = fit_many(problems, bags, candidates=0)
        best = bags.best(np.stack([solution.coef for solution in solutions], axis=1)).index
        windows = {
            task.name: Detections.from_images(
                (image, boxes[[row]], np.zeros(1)) for image, row in zip(shards.image_ids, chosen, strict=True)
            )
            for task, chosen in zip(tasks, (bags.offsets[:-1, None] + best).T, strict=True)
        }
        report = corloc(windows, truth)
        shares = [report.classes[task.name].corloc for task in tasks] + [report.mean_corloc]
        print(f"| {max_iter} | {tol:g} | {' | '.join(f'{share:.3f}' for share in shares)} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
