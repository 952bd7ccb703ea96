"""Loss-augmented inference: how long, how it grows, how much memory.

    python benchmarks/ranking/inference.py limit       time over np.argsort of the negatives
    python benchmarks/ranking/inference.py baselines   the papers' greedy methods at the sizes they can bear
    python benchmarks/ranking/inference.py overhead    one call with 4 scores
    python benchmarks/ranking/inference.py memory      peak extra memory at ten million scores
    python benchmarks/ranking/inference.py scaling     the papers' three plots, in docs/measurements/figures/

Times are medians of process CPU time, one thread, what is compared timed in alternation within one process.
"""

import csv
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from lapsvm.pipelines.cli.study import Cell, Into, alternate, print_table, study_command

from lapsvm.ranking import most_violated_ranking

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
COMPARED.append(("partial_auc", "auto"))
BEARABLE_PAIRS = 3e7  # greedy methods try every pair


def example(n_pos: int, n_neg: int, shift: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Normal scores, positives shifted, in random order; labels are int8."""
    rng = np.random.default_rng(seed)
    labels = np.zeros(n_pos + n_neg, dtype=np.int8)
    labels[rng.choice(n_pos + n_neg, n_pos, replace=False)] = 1
    return rng.standard_normal(n_pos + n_neg) + shift * labels, labels


def peak_memory(prepare: str, call: str, *arguments: str) -> float:
    """Return the extra memory in bytes, at its peak, of a call in a process of its own; both are lines of Python."""
    program = f"""
import re, sys, numpy as np
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
def status(name):
    return 1024 * int(re.search(name + r":\\s+(\\d+)", open("/proc/self/status").read()).group(1))
{prepare}
open("/proc/self/clear_refs", "w").write("5")  # the peak starts from here
before = status("VmRSS")
{call}
print(status("VmHWM") - before)
"""
    command = [sys.executable, "-c", program, *arguments]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


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


def baselines(into: Into = None) -> None:
    """Compare with the papers' greedy methods, in milliseconds."""
    titles = (f"{loss} {method}" if method == "auto" else method for loss, method in COMPARED)
    print_table(["P, N", *titles], map(baseline_row, BASELINES), into)


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
from ranking.inference import example, most_violated_ranking
scores, labels = example(1000, int(sys.argv[4]), float(sys.argv[3]))
most_violated_ranking(scores[:5000], np.arange(5000) < 100, "ap")
"""
    call = "most_violated_ranking(scores, labels, sys.argv[1], sys.argv[2])"
    cases = [(*curve, shift) for curve in CURVES if curve in MEASURED for shift in ("0.5", "6")]
    peaks = (peak_memory(prepare, call, *case, str(LARGEST)) / (8 * (1000 + LARGEST)) - 2 for case in cases)
    titles = ["loss", "method", "shift", "peak extra memory over the scores' bytes, without the output"]
    print_table(titles, ([*case, f"{peak:.2f}"] for case, peak in zip(cases, peaks, strict=True)))


def scaling() -> None:
    """Draw the papers' three plots."""
    rows = []
    for experiment, sizes in EXPERIMENTS.items():
        for size in SIZES:
            n_pos, n_neg = sizes(size)
            curves = [curve for curve in CURVES if curve[1] != "greedy" or n_pos * n_neg <= BEARABLE_PAIRS]
            repetitions = int(np.clip(100_000 / size, 3, 50))
            found = alternate(calls(*example(n_pos, n_neg, 0.5), curves), repetitions)
            rows += [(experiment, size, curve, seconds) for curve, seconds in found.items()]
    FIGURES.mkdir(parents=True, exist_ok=True)
    with (FIGURES / "inference_scaling.csv").open("w", newline="") as file:
        lines = [(*found[:3], f"{found[3]:.4g}") for found in rows]
        csv.writer(file, lineterminator="\n").writerows([("experiment", "size", "method", "seconds"), *lines])
    plot(rows)
    print_exponents(rows)


def of_curve(rows: list[tuple], experiment: str, curve: str) -> tuple[np.ndarray, np.ndarray]:
    """Sizes and seconds of one curve."""
    chosen = [(size, seconds) for where, size, name, seconds in rows if (where, name) == (experiment, curve)]
    sizes, seconds = np.array(chosen).T
    return sizes, seconds


def plot(rows: list[tuple]) -> None:
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
    figure.savefig(FIGURES / "inference_scaling.svg", metadata={"Date": None})
    plt.close(figure)


def print_exponents(rows: list[tuple]) -> None:
    """Slopes of log(time) over log(size), fitted to the larger half of each curve's sizes."""
    curves = [f"{loss} {method}" for loss, method in CURVES]
    slopes = ([curve, *(f"{slope(rows, one, curve):.2f}" for one in EXPERIMENTS)] for curve in curves)
    print_table(["method", *EXPERIMENTS], slopes)


def slope(rows: list[tuple], experiment: str, curve: str) -> float:
    sizes, seconds = of_curve(rows, experiment, curve)
    upper = sizes >= np.sqrt(sizes[0] * sizes[-1])
    return float(np.polyfit(np.log(sizes[upper]), np.log(seconds[upper]), 1)[0])


main = study_command(limit, baselines, overhead, memory, scaling)

if __name__ == "__main__":
    main()
