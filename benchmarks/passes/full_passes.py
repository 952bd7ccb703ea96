"""Full passes of the plain solver and of the solver with candidates, on the training set of a run folder.

    python benchmarks/passes/full_passes.py RUN [WINDOWS]

For each class and C in 0.3, 10, 100 both solvers train in one process: passes over all windows,
objective, CPU seconds. WINDOWS is the number of windows of each picture, from the first; 0, the default, is all.
The last lines train all classes and values of C together on candidates, as a run does; the plain solver would share
passes too, and need as many as its slowest row.
"""

import sys
import time
import warnings

import numpy as np

from lapsvm.bags import Bags
from lapsvm.features import open_shards
from lapsvm.latent import LatentProblem, LatentSolution, PassCounts, fit_many
from lapsvm.latent.scheduling.candidates import CANDIDATES

VALUES = (0.3, 10.0, 100.0)


def opened(folder: str) -> tuple[Bags, dict[str, np.ndarray]]:
    """Return the training pictures of a run, and their labels class by class."""
    from lapsvm.pipelines.fitting.tasks import fit_tasks
    from lapsvm.pipelines.fitting.training_bags import training_bags
    from lapsvm.pipelines.run.context import RunContext
    from lapsvm.pipelines.run.folder import RunFolder
    from lapsvm.pipelines.run.progress import Reporter

    run = RunFolder(folder)
    context = RunContext(run, run.settings(), 1, Reporter(quiet=True))
    shards = open_shards(run.shards(context.settings.data.train_set))
    return training_bags(context, shards)[0], {task.name: task.y for task in fit_tasks(context, shards)}


def timed(problems: list[LatentProblem], bags: Bags, candidates: int) -> tuple[list[LatentSolution], PassCounts, float]:
    """Return solutions, counts and CPU seconds."""
    pass_counts, start = PassCounts(), time.process_time()
    return (
        fit_many(problems, bags, candidates=candidates, pass_counts=pass_counts),
        pass_counts,
        time.process_time() - start,
    )


def main(folder: str, windows: int = 0) -> None:
    """Print the table."""
    bags, labels = opened(folder)
    bags = bags.kept(windows) if windows else bags
    print(bags)
    print(
        "| class | C | passes: plain | candidates | calls on them | objective: plain | candidates / plain "
        "| CPU s: plain | candidates |\n|---|---|---|---|---|---|---|---|---|"
    )
    for C in VALUES:
        for name, y in labels.items():
            problem = LatentProblem(y, C=C)
            (plain,), _, plain_seconds = timed([problem], bags, 0)
            (solution,), _, seconds = timed([problem], bags, CANDIDATES)
            print(
                f"| {name} | {C:g} | {plain.n_passes} | {solution.n_passes} | {solution.n_candidate_calls} "
                f"| {plain.objective:.5g} | {solution.objective / plain.objective:.4f} "
                f"| {plain_seconds:.1f} | {seconds:.1f} |",
                flush=True,
            )
    _, pass_counts, seconds = timed([LatentProblem(y, C=C) for C in VALUES for y in labels.values()], bags, CANDIDATES)
    print(
        f"all side by side: {pass_counts.passes} passes, {pass_counts.bytes_read / 1e9:.1f} GB read, "
        f"{pass_counts.candidate_bytes / 1e9:.1f} GB of candidates read, "
        f"{pass_counts.peak_candidate_bytes / 1e9:.2f} GB of them held, "
        f"CPU {seconds:.0f} s"
    )


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(sys.argv[1], *map(int, sys.argv[2:]))
