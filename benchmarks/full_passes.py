"""Full passes of the plain solver and of candidates between passes, on the training set of a run folder.

    python benchmarks/full_passes.py RUN [TOP]

For each class and C in 0.3, 10, 100 both solvers train one after the other in one process: passes over all windows,
objective, CPU seconds; `TOP` windows stand for a positive picture (1). "as plain" is the candidates' objective over the
plain solver's. "minimum" is the candidates' objective over that which the plain solver finds for the convex problem
with the candidates' windows: it tells the certificates apart from CCCP's choice of a local minimum. The last rows train
all classes and values of C side by side, which is what a run does.
"""

import sys
import time
import warnings
from dataclasses import replace

import numpy as np

from lapsvm.bags import Bags
from lapsvm.features import open_shards
from lapsvm.latent import LatentProblem, LatentSolution, Tally, fit_many
from lapsvm.latent.candidates import CANDIDATES

VALUES = (0.3, 10.0, 100.0)


def opened(folder: str) -> tuple[Bags, dict[str, np.ndarray]]:
    """Return the training pictures of a run, and their labels class by class."""
    from lapsvm.pipelines.progress import Reporter
    from lapsvm.pipelines.run_folder import RunFolder
    from lapsvm.pipelines.stages import Context
    from lapsvm.pipelines.train import class_tasks
    from lapsvm.pipelines.training_bags import training_bags

    run = RunFolder(folder)
    context = Context(run, run.settings(), 1, Reporter(quiet=True))
    shards = open_shards(run.shards(context.settings.data.train_set))
    return training_bags(context, shards)[0], {task.name: task.y for task in class_tasks(context, shards)}


def timed(problems: list[LatentProblem], bags: Bags, candidates: int) -> tuple[list[LatentSolution], Tally, float]:
    """Return solutions, counts and CPU seconds."""
    tally, start = Tally(), time.process_time()
    return fit_many(problems, bags, candidates=candidates, tally=tally), tally, time.process_time() - start


def minimum(problem: LatentProblem, found: LatentSolution, bags: Bags) -> float:
    """Return the least objective with the positives' windows that a solution ended with."""
    known = np.where(np.asarray(problem.y) > 0, found.windows, -1)
    return fit_many([replace(problem, known_windows=known)], bags, candidates=0)[0].objective


def main(folder: str, top: float = 1.0) -> None:
    """Print the table."""
    bags, labels = opened(folder)
    print(bags)
    print(
        "| class | C | passes: plain | candidates | calls on them | objective: plain | as plain | minimum "
        "| CPU s: plain | candidates |\n|---|---|---|---|---|---|---|---|---|---|"
    )
    for C in VALUES:
        for name, y in labels.items():
            problem = LatentProblem(y, C=C, top=top)
            (plain,), _, plain_seconds = timed([problem], bags, 0)
            (found,), _, seconds = timed([problem], bags, CANDIDATES)
            least = f"{found.objective / minimum(problem, found, bags):.4f}" if top == 1 else ""
            print(
                f"| {name} | {C:g} | {plain.n_passes} | {found.n_passes} | {found.n_candidate_calls} "
                f"| {plain.objective:.5g} | {found.objective / plain.objective:.4f} | {least} "
                f"| {plain_seconds:.1f} | {seconds:.1f} |",
                flush=True,
            )
    together = [LatentProblem(y, C=C, top=top) for C in VALUES for y in labels.values()]
    for name, candidates in (("plain", 0), ("candidates", CANDIDATES)):
        _, tally, seconds = timed(together, bags, candidates)
        print(
            f"all side by side, {name}: {tally.passes} passes, {tally.bytes_read / 1e9:.0f} GB read, "
            f"{tally.candidate_bytes / 1e9:.1f} GB of candidates read, {tally.most_held / 1e9:.2f} GB held, "
            f"CPU {seconds:.0f} s",
            flush=True,
        )


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(sys.argv[1], *map(float, sys.argv[2:]))
