"""Soft windows (`anneal`) and easy positives first (`pace`), beside training without them.

    python benchmarks/passes/early.py

The bags of benchmarks/passes/bags_ap.py, seeds 0 1 2: test AP for five values of C, trained side by side on all
training
bags. Objectives are divided by those without the options.
"""

import time
import warnings

import numpy as np
from bags_ap import DIM, GRID, as_bags, draw, tested

from lapsvm.latent import LatentProblem, fit_many

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
    f"| training | way | test AP, C = {' '.join(f'{C:g}' for C in GRID)} | mean of all, seeds 0 1 2 | mean "
    "| objective, same C | CPU s |\n|---|---|---|---|---|---|---|"
)


def measured(seed: int, top: float) -> dict[str, tuple[np.ndarray, np.ndarray, float]]:
    """Return for each way the test AP of every C, the objectives and the CPU time."""
    rng = np.random.default_rng(seed)
    direction = rng.standard_normal(DIM)
    direction /= np.linalg.norm(direction)
    windows, y = draw(rng, direction)
    test, test_y = draw(rng, direction)
    bags = as_bags(windows)
    bags, results = bags.scaled(1 / bags.mean_norm()), {}
    for way, options in WAYS.items():
        cpu = time.process_time()
        found = fit_many([LatentProblem(y, C=C, top=top, **options) for C in GRID], bags)
        cpu = time.process_time() - cpu
        aps = np.array([tested(one.coef, test, test_y) for one in found])
        results[way] = aps, np.array([one.objective for one in found]), cpu
    return results


def several(values: np.ndarray) -> str:
    return " ".join(f"{value:.3f}" for value in values)


def main() -> None:
    warnings.simplefilter("ignore")
    print(HEADER)
    for top in (1, 0.03):
        seeds = [measured(seed, top) for seed in range(3)]
        for way in WAYS:
            aps, objectives, cpu = zip(*(one[way] for one in seeds), strict=True)
            ratio = np.mean([own / one["neither"][1] for own, one in zip(objectives, seeds, strict=True)], axis=0)
            print(
                f"| top={top:g} | {way} | {several(np.mean(aps, axis=0))} | {several(np.mean(aps, axis=1))} "
                f"| {np.mean(aps):.3f} | {several(ratio)} | {np.mean(cpu):.1f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
