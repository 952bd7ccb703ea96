"""Loss-augmented inference: how long, how it grows, how much memory.

    python benchmarks/papers/inference.py limit       time over np.argsort of the negatives
    python benchmarks/papers/inference.py baselines   the papers' greedy methods at the sizes they can bear
    python benchmarks/papers/inference.py overhead    one call with 4 scores
    python benchmarks/papers/inference.py memory      peak extra memory at ten million scores
    python benchmarks/papers/inference.py scaling     the papers' three plots, in docs/measurements/figures/
    python benchmarks/papers/inference.py exactness   every method against all rankings of small problems

Times are medians of process CPU time, one thread, what is compared timed in alternation within one process.
"""

import csv
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

import numpy as np
from claims import Mean, claim, print_claims
from lapsvm.pipelines.cli.study import Cell, Given, Into, alternate, print_table, study_command
from scores import example, peak_memory

from lapsvm.ranking import most_violated_ranking
from lapsvm.ranking.losses import as_loss

FIGURES = Path(__file__).parents[2] / "docs" / "measurements" / "figures"
LIMITS = [  # positives, negatives, shift, repetitions
    (227, 3_120, 0.5, 400),
    (1_000, 100_000, 0.5, 60),
    (1_000, 10_000_000, 0.5, 9),
    (1_000, 10_000_000, 6.0, 9),
]
BASELINES = ((227, 3_120, 100), (500, 5_000, 50), (1_000, 100_000, 5), (1_000, 1_000_000, 1))
LARGEST, MEASURED = 10**7, (("ap", "auto"), ("ndcg", "auto"), ("ap", "optranks"))  # negatives and methods of `memory`
# the papers' experiments: total at 1 : 10, negatives at P = 227, positives at N = 200
EXPERIMENTS: dict[str, Callable[[int], tuple[int, int]]] = {
    "total": lambda n: (n // 11, n - n // 11),
    "negatives": lambda n: (227, n),
    "positives": lambda n: (n, 200),
}
SIZES = [int(size) for size in np.geomspace(300, 300_000, 13)]
CURVES = [
    ("zero_one", "auto"), ("ap", "auto"), ("ap", "optranks"), ("ap", "search"), ("ap", "greedy"),
    ("ndcg", "auto"), ("ndcg", "optranks"), ("ndcg", "greedy"),
]  # fmt: skip
COMPARED = [curve for curve in CURVES if curve[0] != "zero_one" and curve != ("ndcg", "optranks")]  # by `baselines`
EXACT = [*CURVES[1:], *((loss, way) for loss in ("auc", "mrr", "pos_at_top") for way in ("auto", "optranks"))]
Quick = Annotated[bool, Given("--quick", help="Few and small problems.")]
BEARABLE_PAIRS = 3e7  # greedy methods try every pair


def calls(scores: np.ndarray, labels: np.ndarray, curves: list[tuple[str, str]]) -> dict[str, Callable[[], object]]:
    """One function per loss and method."""
    return {
        f"{loss} {method}": lambda loss=loss, method=method: most_violated_ranking(scores, labels, loss, method)
        for loss, method in curves
    }


def limit() -> None:
    """Compare with np.argsort of the negatives."""
    titles = "P|N|shift|argsort ms|max ms|loss|ms|over argsort|over max"
    print_table(titles.split("|"), limit_rows())


def limit_rows() -> Iterator[list[Cell]]:
    for n_pos, n_neg, shift, repetitions in LIMITS:
        scores, labels = example(n_pos, n_neg, shift)
        negatives = scores[labels == 0]
        functions = {"argsort": lambda negatives=negatives: np.argsort(negatives), "max": scores.max}
        found = alternate(functions | calls(scores, labels, [("ap", "auto"), ("ndcg", "auto")]), repetitions)
        argsort, highest = found["argsort"], found["max"]
        for loss in ("ap", "ndcg"):
            ours = found[f"{loss} auto"]
            times = argsort * 1e3, highest * 1e3, loss, ours * 1e3
            yield [n_pos, n_neg, f"{shift}", *times, f"{ours / argsort:.2f}", f"{ours / highest:.1f}"]


def baselines(into: Into = None, quick: Quick = False) -> None:
    """Compare with the papers' greedy methods, in milliseconds."""
    titles = (f"{loss} {method}" if method == "auto" else method for loss, method in COMPARED)
    print_table(["P, N", *titles], map(baseline_row, BASELINES[:1] if quick else BASELINES), into)


def baseline_row(case: tuple[int, int, int]) -> list[Cell]:
    n_pos, n_neg, repetitions = case
    found = alternate(calls(*example(n_pos, n_neg, 0.5), COMPARED), repetitions)
    return [f"{n_pos:,}, {n_neg:,}", *(f"{1e3 * seconds:,.1f}" for seconds in found.values())]


def overhead() -> None:
    """Time a call with four scores."""
    scores, labels = np.array([1.0, 2.0, 3.0, 4.0]), np.array([1, 0, 1, 0], dtype=np.int8)
    found = alternate(calls(scores, labels, [("ap", "auto"), ("ndcg", "auto")]), 5_000)
    print_table(["method", "microseconds"], ([name, f"{seconds * 1e6:.1f}"] for name, seconds in found.items()))


def memory() -> None:
    """Measure the peak of extra memory."""
    prepare = """
from lapsvm.ranking import most_violated_ranking
from papers.scores import example
scores, labels = example(1000, int(sys.argv[4]), float(sys.argv[3]))
most_violated_ranking(scores[:5000], np.arange(5000) < 100, "ap")
"""
    call = "most_violated_ranking(scores, labels, sys.argv[1], sys.argv[2])"
    cases = [(*curve, shift) for curve in CURVES if curve in MEASURED for shift in ("0.5", "6")]
    peaks = (peak_memory(prepare, call, *case, str(LARGEST)) / (8 * (1000 + LARGEST)) - 2 for case in cases)
    titles = ["loss", "method", "shift", "peak extra memory over the scores' bytes, without the output"]
    print_table(titles, ([*case, f"{peak:.2f}"] for case, peak in zip(cases, peaks, strict=True)))


def exactness(quick: Quick = False) -> None:
    """Compare every method with all rankings of problems of up to five positives and negatives, ties included."""
    problems = 10 if quick else 300
    found = {curve: [short(case, *curve) for case in range(problems)] for curve in EXACT}
    rows = ([*curve, problems, f"{max(values):.1e}"] for curve, values in found.items())
    print_table(["loss", "method", "problems", "largest difference to the best of all rankings"], rows)
    wrong = sum(max(values) > 1e-12 for values in found.values())
    print(f"\nThe papers: exact. Ours: {wrong} of {len(EXACT)} pairs of loss and method differ by more than 1e-12.")


def short(case: int, loss: str, method: str) -> float:
    """Return how much a method's violation differs from the largest of all interleavings."""
    rng = np.random.default_rng(case)
    n_pos, n_neg = rng.integers(1, 6, 2)
    scores = rng.standard_normal(n_pos + n_neg) * 10.0 ** rng.integers(-3, 3)
    scores, labels = np.round(scores, 1) if case % 2 else scores, np.repeat([1, 0], [n_pos, n_neg])
    high, low = np.sort(scores[:n_pos])[::-1], np.sort(scores[n_pos:])[::-1]
    best = -np.inf
    for places in itertools.combinations(range(n_pos + n_neg), n_pos):
        above = np.array(places) - np.arange(n_pos)  # negatives above the k-th positive
        swapped = sum(2 * float((high[k] - low[:count]).sum()) for k, count in enumerate(above)) / (n_pos * n_neg)
        best = max(best, as_loss(loss).value(above, n_neg) - swapped)  # type: ignore[union-attr]
    return abs(most_violated_ranking(scores, labels, loss, method).violation - best) / max(1.0, abs(best))


def scaling(
    out: Annotated[Path, Given(help="Folder of the plots and their data.")] = FIGURES, quick: Quick = False
) -> None:
    """Draw the papers' three plots."""
    rows = []
    for experiment, sizes in EXPERIMENTS.items():
        for size in SIZES[:4] if quick else SIZES:
            n_pos, n_neg = sizes(size)
            curves = [curve for curve in CURVES if curve[1] != "greedy" or n_pos * n_neg <= BEARABLE_PAIRS]
            repetitions = int(np.clip(100_000 / size, 3, 50))
            found = alternate(calls(*example(n_pos, n_neg, 0.5), curves), repetitions)
            rows += [(experiment, size, curve, seconds) for curve, seconds in found.items()]
    out.mkdir(parents=True, exist_ok=True)
    with (out / "inference_scaling.csv").open("w", newline="") as file:
        lines = [(*found[:3], f"{found[3]:.4g}") for found in rows]
        csv.writer(file, lineterminator="\n").writerows([("experiment", "size", "method", "seconds"), *lines])
    plot(rows, out)
    print_exponents(rows)
    print()
    print_claims(growth_claims(rows))


def of_curve(rows: list[tuple], experiment: str, curve: str) -> tuple[np.ndarray, np.ndarray]:
    """Sizes and seconds of one curve."""
    chosen = [(size, seconds) for where, size, name, seconds in rows if (where, name) == (experiment, curve)]
    sizes, seconds = np.array(chosen).T
    return sizes, seconds


def plot(rows: list[tuple], out: Path) -> None:
    import matplotlib as mpl
    import matplotlib.pyplot as plt

    mpl.rcParams["svg.hashsalt"] = "lapsvm"
    figure, panels = plt.subplots(2, 3, figsize=(12, 7), sharey=True, layout="constrained")
    labels = ("samples, P : N = 1 : 10", "negatives, P = 227", "positives, N = 200")
    for line, loss in zip(panels, ("ap", "ndcg"), strict=True):
        for panel, experiment, label in zip(line, EXPERIMENTS, labels, strict=True):
            for name, method in [curve for curve in CURVES if curve[0] in (loss, "zero_one")]:
                panel.loglog(*of_curve(rows, experiment, f"{name} {method}"), marker=".", label=f"{name} {method}")
            panel.set(xlabel=label)
            panel.grid(visible=True, alpha=0.3)
        line[0].set(ylabel="seconds per call")
        line[0].legend()
    figure.savefig(out / "inference_scaling.svg", metadata={"Date": None})
    plt.close(figure)


def print_exponents(rows: list[tuple]) -> None:
    """Slopes of log(time) over log(size), fitted to the larger half of each curve's sizes."""
    curves = [f"{loss} {method}" for loss, method in CURVES]
    slopes = ([curve, *(f"{slope(rows, one, curve):.2f}" for one in EXPERIMENTS)] for curve in curves)
    print_table(["method", *EXPERIMENTS], slopes)


def growth_claims(rows: list[tuple]) -> Iterator[list[Cell]]:
    """Yield the exponents of ours less those of the greedy search, over the three experiments."""
    for loss in ("ap", "ndcg"):
        ours, greedy = ([slope(rows, one, f"{loss} {way}") for one in EXPERIMENTS] for way in ("optranks", "greedy"))
        yield claim(f"{loss}: exponent of greedy less ours", Mean.of(np.subtract(greedy, ours)), "above 0", "+.2f")


def slope(rows: list[tuple], experiment: str, curve: str) -> float:
    sizes, seconds = of_curve(rows, experiment, curve)
    upper = sizes >= np.sqrt(sizes[0] * sizes[-1])
    return float(np.polyfit(np.log(sizes[upper]), np.log(seconds[upper]), 1)[0])


main = study_command(limit, baselines, overhead, memory, scaling, exactness)

if __name__ == "__main__":
    main()
