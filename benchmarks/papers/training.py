"""The time of loss-augmented inference over whole trainings: ours, the papers' greedy search, and the 0-1 loss.

    OPENBLAS_NUM_THREADS=1 python benchmarks/papers/training.py

Tables 1 and 2 of Mohapatra et al. (CVPR 2018) and their section 4.2, on made data of the papers' sizes: "actions" are
227 positives and 3,120 negatives, "VOC2007" 5,011 bags, 250 of them positive, whose best windows are latent. Cold
trainings begin anew for each C, warm ones with what the larger C before has left (`fit_paths`). A training is repeated
with each way of inference, and the planes that it finds differ in nothing but the time; the ratios are pairs of seed
and C. CPU seconds on one thread. "search" is the binary search for AP alone, 0-1 the binary SVM's own inference.
"""

import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, NamedTuple

import numpy as np
from claims import print_claims, times
from lapsvm.pipelines.cli.study import Cell, Given, Into, print_table, study_command
from sklearn.exceptions import ConvergenceWarning

from lapsvm.arrays import Float64
from lapsvm.bags import Bags
from lapsvm.latent import LatentProblem, RankRisk, fit_paths
from lapsvm.latent.cccp.problem import Violation
from lapsvm.ranking import most_violated_ranking

WAYS = {"ap": ("auto", "optranks", "search", "greedy"), "ndcg": ("auto", "optranks", "greedy"), "zero_one": ("auto",)}
CS, SEEDS, DIM = (100.0, 10.0, 1.0), range(3), 100


class Size(NamedTuple):
    """Bags of made data, and the papers' totals in seconds: of the greedy search and of theirs."""

    positives: int
    negatives: int
    windows: int
    paper: dict[str, tuple[float, float]]


SIZES = {
    "actions": Size(227, 3_120, 1, {"ap": (0.7154, 0.0625), "ndcg": (6.8019, 0.0473)}),
    "VOC2007": Size(250, 4_761, 20, {"ap": (7.623, 0.5214)}),
}


@dataclass(frozen=True)
class TimedRisk(RankRisk):
    """The risk of a rank loss by one way of inference, with the CPU seconds of each call."""

    method: str = "auto"
    seconds: list[float] = field(default_factory=list)

    def violation(self, scores: Float64, labels: Float64) -> Violation:
        """Return the most violated ranking's plane."""
        begin = time.process_time()
        found = most_violated_ranking(scores, labels, self.loss, self.method)
        self.seconds.append(time.process_time() - begin)
        return Violation(found.loss, found.coefficients)


def made(size: Size, seed: int) -> tuple[Bags, Float64]:
    """Return bags with one shifted window in each positive one, and labels."""
    rng = np.random.default_rng(seed)
    direction, n = rng.standard_normal(DIM), size.positives + size.negatives
    windows = rng.standard_normal((n, size.windows, DIM)).astype(np.float32)
    shift = 0.6 if size.windows == 1 else 4.0
    windows[: size.positives, 0] += (shift * direction / np.linalg.norm(direction)).astype(np.float32)
    offsets = np.arange(0, size.windows * n + 1, size.windows)
    return Bags(windows.reshape(-1, DIM), offsets), np.repeat([1.0, -1.0], [size.positives, size.negatives])


def trained(bags: Bags, labels: Float64, loss: str, method: str, paths: Sequence[Sequence[float]]) -> Float64:
    """Return the seconds and the calls (2, trainings) of inference in the trainings of every value of C."""
    found = []
    for path in paths:
        risk = TimedRisk(loss, method)
        problem = LatentProblem(labels, risk, tol=1e-3, max_iter=5)
        fit_paths([problem], [path], bags)
        found.append((sum(risk.seconds), len(risk.seconds)))
    return np.array(found).T


@study_command
def main(
    quick: Annotated[bool, Given("--quick", help="26 bags, one seed and two values of C.")] = False,
    into: Into = None,
) -> None:
    """Time inference over trainings of all sizes and losses."""
    warnings.simplefilter("ignore", ConvergenceWarning)
    measured: dict[tuple[str, str, str], dict[str, Float64]] = {}
    titles = ["training", "start", "loss", "calls", *(f"{way}, s" for way in WAYS["ap"])]
    print_table(titles, rows(measured, quick), into)
    print()
    print_claims(claims_of(measured))


def rows(measured: dict[tuple[str, str, str], dict[str, Float64]], quick: bool) -> Iterator[list[Cell]]:
    """Yield the mean seconds of a training in each way of inference, and add all of them to `measured`."""
    cs, seeds = (CS[:2], SEEDS[:1]) if quick else (CS, SEEDS)
    for name, size in SIZES.items():
        some = size._replace(positives=6, negatives=20) if quick else size
        sets = [made(some, seed) for seed in seeds]
        for start, paths in (("cold", [[C] for C in cs]), ("warm", [cs])):
            for loss, ways in WAYS.items():
                train = partial(trained, loss=loss, paths=paths)
                found = {way: np.concatenate([train(*one, method=way) for one in sets], 1) for way in ways}
                measured[name, start, loss] = {way: seconds for way, (seconds, _) in found.items()}
                cells = (f"{found[way][0].mean():.4f}" if way in found else "" for way in WAYS["ap"])
                yield [name, start, loss, f"{found['auto'][1].mean():.0f}", *cells]


def claims_of(measured: dict[tuple[str, str, str], dict[str, Float64]]) -> Iterator[list[Cell]]:
    """Yield how many times faster than the greedy search ours is, over trainings."""
    for (name, start, loss), seconds in measured.items():
        if loss in SIZES[name].paper:
            greedy, theirs = SIZES[name].paper[loss]
            for way in ("auto", "optranks"):
                what = f"{name}, {start}, {loss}: greedy over {way}"
                yield times(what, seconds["greedy"], seconds[way], greedy / theirs)


if __name__ == "__main__":
    main()
