"""Values of C trained one after the other, downwards and upwards, beside each trained alone: passes, time, quality.

    python benchmarks/passes/paths.py          # bags of benchmarks/passes/bags_ap.py, seeds 0 1
    python benchmarks/passes/paths.py RUN      # the training set of a run folder, such as that of `lapsvm demo`

Every way trains five values of C (0.01 ... 100) in three folds for each class, all side by side, and again on all
bags at the C with the best held-out AP. "vectors" are weight vectors scored over all windows, "passes" the passes that
they share. Objectives are compared with those of C trained alone, fold by fold.
"""

import sys
import time
import warnings
from dataclasses import replace

import numpy as np
from bags_ap import as_bags, draw
from sklearn.metrics import average_precision_score
from sklearn.model_selection import StratifiedKFold

from lapsvm.bags import Bags
from lapsvm.latent import HingeRisk, LatentProblem, LatentSolution, RankRisk, fit_paths

GRID = (100.0, 10.0, 1.0, 0.1, 0.01)
WAYS = {"alone": None, "downwards": GRID, "upwards": GRID[::-1]}
Found = list[list[LatentSolution]]


class CountedBags(Bags):
    """Bags that count passes and the weight vectors in them."""

    passes = vectors = 0

    def best(self, weights, **more):
        """Count, and return what bags return."""
        CountedBags.passes += 1
        CountedBags.vectors += 1 if np.ndim(weights) == 1 else np.shape(weights)[1]
        return super().best(weights, **more)


def walked(problems: list[LatentProblem], order: tuple[float, ...] | None, bags: Bags) -> Found:
    """Return the solutions of every problem in the order of GRID."""
    if order is None:
        alone = fit_paths([one for one in problems for _ in GRID], [[C] for _ in problems for C in GRID], bags)
        flat = [path[0] for path in alone]
        return [flat[i : i + len(GRID)] for i in range(0, len(flat), len(GRID))]
    found = fit_paths(problems, [order] * len(problems), bags)
    return [[path[order.index(C)] for C in GRID] for path in found]


def folds_of(y: np.ndarray) -> list[np.ndarray]:
    known = np.flatnonzero(y)
    splitter = StratifiedKFold(3, shuffle=True, random_state=0)
    return [known[part] for _, part in splitter.split(known, y[known])]


def without(problem: LatentProblem, part: np.ndarray) -> LatentProblem:
    y = problem.y.copy()
    y[part] = 0
    return replace(problem, y=y)


def searched(problems: list[LatentProblem], order: tuple[float, ...] | None, bags: Bags) -> tuple[dict, Found, list]:
    """Return what a search cost and found, its folds' solutions, and each class's final weights."""
    CountedBags.passes = CountedBags.vectors = 0
    cpu = time.process_time()
    parts = [folds_of(one.y) for one in problems]
    found = walked([without(one, part) for one, own in zip(problems, parts, strict=True) for part in own], order, bags)
    cost = {"passes": CountedBags.passes, "vectors": CountedBags.vectors, "cpu": time.process_time() - cpu}
    aps, best, place = [], [], 0
    for one, own in zip(problems, parts, strict=True):
        table = []
        for part in own:
            scores = bags.best(np.stack([solution.coef for solution in found[place]], axis=1)).score
            table.append([average_precision_score(one.y[part] > 0, scores[part, j]) for j in range(len(GRID))])
            place += 1
        aps.append(np.mean(table, axis=0))
        best.append(GRID[int(np.argmax(aps[-1]))])
    ways = [[C] if order is None else list(order[: order.index(C) + 1]) for C in best]
    final = [path[-1].coef for path in fit_paths(problems, ways, bags)]
    return cost | {"C": best, "held out": np.mean([row.max() for row in aps])}, found, final


def row(name: str, way: str, cost: dict, found: Found, alone: Found, test: str) -> str:
    ratio = np.array(
        [[a.objective / b.objective for a, b in zip(*pair, strict=True)] for pair in zip(found, alone, strict=True)]
    )
    chosen = " ".join(f"{C:g}" for C in cost["C"])
    return (
        f"| {name} | {way} | {cost['passes']} | {cost['vectors']} | {cost['cpu']:.1f} "
        f"| {np.mean(ratio < 0.999):.0%} / {np.mean(ratio > 1.001):.0%}, mean {ratio.mean():.4f} "
        f"| {cost['held out']:.3f} | {test} | {chosen} |"
    )


HEADER = (
    "| problem | values of C | passes | vectors | CPU s | objective lower / higher | held-out AP | test AP | C |\n"
    "|---|---|---|---|---|---|---|---|---|"
)


def counted(bags: Bags) -> CountedBags:
    bags.__class__ = CountedBags
    return bags


def on_drawn_bags() -> None:
    kinds = {
        "ap, top=0.03": lambda y: LatentProblem(y, top=0.03),
        "ap, top=1": LatentProblem,
        "hinge, J=7/3": lambda y: LatentProblem(y, risk=HingeRisk(7 / 3), fit_intercept=True),
    }
    for seed in range(2):
        rng = np.random.default_rng(seed)
        direction = rng.standard_normal(256)
        direction /= np.linalg.norm(direction)
        windows, y = draw(rng, direction)
        test, test_y = draw(rng, direction)
        bags = as_bags(windows)
        bags = counted(bags.scaled(1 / bags.mean_norm()))
        for kind, make in kinds.items():
            alone = None
            for way, order in WAYS.items():
                cost, found, (coef,) = searched([make(y)], order, bags)
                alone = found if alone is None else alone
                ap = average_precision_score(test_y > 0, (test @ coef).max(axis=1))
                print(row(f"seed {seed}, {kind}", way, cost, found, alone, f"{ap:.3f}"), flush=True)


def on_a_run(folder: str) -> None:
    from lapsvm.pipelines.fitting.training_bags import stored_bags
    from lapsvm.pipelines.run.context import RunContext
    from lapsvm.pipelines.run.dataset import label_vector
    from lapsvm.pipelines.run.folder import RunFolder
    from lapsvm.pipelines.run.progress import Reporter

    from lapsvm.features import open_shards

    run = RunFolder(folder)
    context = RunContext(run, run.settings(), 2, Reporter(quiet=True))
    data = context.settings.data
    sets = {}
    for name in (data.train_set, data.test_set):
        records = {record.id: record for record in context.data.records[name]}
        kept = [records[image] for image in open_shards(run.shards(name)).image_ids]
        sets[name] = [label_vector(kept, one).astype(float) for one in context.data.classes]
    bags, scale = stored_bags(context, open_shards(run.shards(data.train_set)))
    tested = Bags.open(run.path, data.test_set, scale, threads=2)
    counted(bags)
    weight = [float(np.count_nonzero(y) / (y > 0).sum()) for y in sets[data.train_set]]
    kinds = {
        "ap": lambda y, _: LatentProblem(y, risk=RankRisk("ap")),
        "hinge": lambda y, J: LatentProblem(y, risk=HingeRisk(J), fit_intercept=True),
    }
    for kind, make in kinds.items():
        problems = [make(y, J) for y, J in zip(sets[data.train_set], weight, strict=True)]
        alone = None
        for way, order in WAYS.items():
            cost, found, final = searched(problems, order, bags)
            alone = found if alone is None else alone
            scores = tested.best(np.stack(final, axis=1)).score
            aps = [average_precision_score(y[y != 0] > 0, scores[y != 0, j]) for j, y in enumerate(sets[data.test_set])]
            print(row(f"{len(problems)} classes, {kind}", way, cost, found, alone, f"{np.mean(aps):.3f}"), flush=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(HEADER)
    if len(sys.argv) > 1:
        on_a_run(sys.argv[1])
    else:
        on_drawn_bags()
