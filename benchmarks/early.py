"""Soft windows (`anneal`) and easy positives first (`pace`), beside training without them.

    python benchmarks/early.py

The bags of benchmarks/bags_ap.py, seeds 0 1 2. Every way trains five values of C (0.01 ... 100) in three folds and on
all bags, side by side. "chosen C" is the test AP at the C with the best held-out AP, "each C" the mean test AP of the
five; objectives, of all bags, are divided by those without the options.
"""

import time
import warnings
from dataclasses import replace

import numpy as np
from bags_ap import DIM, GRID, as_bags, draw, tested
from paths import folds_of
from sklearn.metrics import average_precision_score

from lapsvm.bags import Bags
from lapsvm.latent import LatentProblem, LatentSolution, fit_many

WAYS = {
    "neither": {},
    "anneal=0.5": {"anneal": 0.5},
    "anneal=1": {"anneal": 1.0},
    "anneal=2": {"anneal": 2.0},
    "pace=0.25": {"pace": 0.25},
    "pace=0.5": {"pace": 0.5},
    "anneal=0.5, pace=0.5": {"anneal": 0.5, "pace": 0.5},
}
HEADER = (
    "| training | way | test AP, chosen C, seeds 0 1 2 | mean | each C, mean | objective, C = 0.01 ... 100 | CPU s |\n"
    "|---|---|---|---|---|---|---|"
)


def searched(problem: LatentProblem, bags: Bags) -> tuple[list[LatentSolution], int]:
    """Return the solutions on all bags for each C, and the place of the C with the best held-out AP."""
    parts = folds_of(problem.y)
    folds = [
        replace(problem, C=C, y=np.where(np.isin(np.arange(len(problem.y)), p), 0, problem.y))
        for C in GRID
        for p in parts
    ]
    found = fit_many(folds + [replace(problem, C=C) for C in GRID], bags)
    scores = bags.best(np.stack([one.coef for one in found[: len(folds)]], axis=1)).score
    places = [(parts[j % len(parts)], j) for j in range(len(folds))]
    quality = [average_precision_score(problem.y[part], scores[part, j]) for part, j in places]
    return found[len(folds) :], int(np.argmax(np.reshape(quality, (len(GRID), len(parts))).mean(axis=1)))


def measured(seed: int, top: float) -> dict[str, tuple[float, np.ndarray, np.ndarray, float]]:
    """Return for each way the AP at the chosen C, those of all C, the objectives and the CPU time."""
    rng = np.random.default_rng(seed)
    direction = rng.standard_normal(DIM)
    direction /= np.linalg.norm(direction)
    windows, y = draw(rng, direction)
    test, test_y = draw(rng, direction)
    bags = as_bags(windows)
    bags, results = bags.scaled(1 / bags.mean_norm()), {}
    for way, options in WAYS.items():
        cpu = time.process_time()
        found, best = searched(LatentProblem(y, top=top, **options), bags)
        cpu = time.process_time() - cpu
        aps = np.array([tested(one.coef, test, test_y) for one in found])
        results[way] = aps[best], aps, np.array([one.objective for one in found]), cpu
    return results


def main() -> None:
    warnings.simplefilter("ignore")
    print(HEADER)
    for top in (1, 0.03):
        seeds = [measured(seed, top) for seed in range(3)]
        for way in WAYS:
            chosen, aps, objectives, cpu = zip(*(one[way] for one in seeds), strict=True)
            ratio = np.mean([own / one["neither"][2] for own, one in zip(objectives, seeds, strict=True)], axis=0)
            print(
                f"| top={top:g} | {way} | {' '.join(f'{ap:.3f}' for ap in chosen)} | {np.mean(chosen):.3f} "
                f"| {np.mean(aps):.3f} | {' '.join(f'{r:.3f}' for r in ratio)} | {np.mean(cpu):.1f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
