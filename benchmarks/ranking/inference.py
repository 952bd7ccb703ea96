"""Loss-augmented inference: how long, how it grows, how much memory.

    python benchmarks/ranking/inference.py limit       time over np.argsort of the negatives
    python benchmarks/ranking/inference.py baselines   the papers' greedy methods at the sizes they can bear
    python benchmarks/ranking/inference.py overhead    one call with 4 scores
    python benchmarks/ranking/inference.py memory      peak extra memory at ten million scores
    python benchmarks/ranking/inference.py scaling     the papers' three plots, in docs/measurements/figures/
    python benchmarks/ranking/inference.py growth      instructions per negative (needs valgrind; some minutes)

Times are medians of process CPU time, one thread, what is compared timed in alternation within one process.
"""

import csv
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from lapsvm.ranking import most_violated_ranking

FIGURES = Path(__file__).parents[2] / "docs" / "measurements" / "figures"
LIMITS = [  # positives, negatives, shift, must, aim, repetitions
    (227, 3_120, 0.5, "5", "3", 400),
    (1_000, 100_000, 0.5, "3", "1.5", 60),
    (1_000, 10_000_000, 0.5, "0.8", "0.5", 9),
    (1_000, 10_000_000, 6.0, "0.2", "5 max", 9),
]
# the papers' experiments: total at 1 : 10, negatives at P = 227, positives at N = 200
EXPERIMENTS: dict[str, Callable[[int], tuple[int, int]]] = {
    "total": lambda n: (n // 11, n - n // 11),
    "negatives": lambda n: (227, n),
    "positives": lambda n: (n, 200),
}
SIZES = [int(size) for size in np.geomspace(300, 300_000, 13)]
CURVES = [
    ("zero_one", "auto"),
    ("ap", "auto"),
    ("ap", "optranks"),
    ("ap", "search"),
    ("ap", "greedy"),
    ("ndcg", "auto"),
    ("ndcg", "optranks"),
    ("ndcg", "greedy"),
]
BEARABLE_PAIRS = 3e7  # greedy methods try every pair


def example(n_pos: int, n_neg: int, shift: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Normal scores, positives shifted, in random order; labels are int8."""
    rng = np.random.default_rng(seed)
    labels = np.zeros(n_pos + n_neg, dtype=np.int8)
    labels[rng.choice(n_pos + n_neg, n_pos, replace=False)] = 1
    return rng.standard_normal(n_pos + n_neg) + shift * labels, labels


def alternate(functions: dict[str, Callable[[], object]], repetitions: int) -> dict[str, float]:
    """Median seconds of each function, called in turn; the first round warms up and is not counted."""
    times: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(repetitions + 1):
        for name, function in functions.items():
            begin = time.process_time_ns()
            function()
            times[name].append((time.process_time_ns() - begin) * 1e-9)
    return {name: float(np.median(found[1:])) for name, found in times.items()}


def calls(scores: np.ndarray, labels: np.ndarray, curves: list[tuple[str, str]]) -> dict[str, Callable[[], object]]:
    """One function per loss and method."""
    return {
        f"{loss} {method}": lambda loss=loss, method=method: most_violated_ranking(scores, labels, loss, method)
        for loss, method in curves
    }


def row(*cells: object) -> None:
    print("|", " | ".join(map(str, cells)), "|", flush=True)


def header(*names: str) -> None:
    row(*names)
    row(*("---" for _ in names))


def limit() -> None:
    header("P", "N", "shift", "argsort ms", "max ms", "loss", "ms", "over argsort", "must", "aim", "over max")
    for n_pos, n_neg, shift, must, aim, repetitions in LIMITS:
        scores, labels = example(n_pos, n_neg, shift)
        negatives = scores[labels == 0]
        functions = {"argsort": lambda negatives=negatives: np.argsort(negatives), "max": scores.max}
        found = alternate(functions | calls(scores, labels, [("ap", "auto"), ("ndcg", "auto")]), repetitions)
        argsort, highest = found["argsort"], found["max"]
        for loss in ("ap", "ndcg"):
            ours = found[f"{loss} auto"]
            times = f"{argsort * 1e3:.3f}", f"{highest * 1e3:.3f}", loss, f"{ours * 1e3:.3f}"
            row(n_pos, n_neg, shift, *times, f"{ours / argsort:.2f}", must, aim, f"{ours / highest:.1f}")


def baselines() -> None:
    header("P", "N", *(f"{loss} {method} ms" for loss, method in CURVES))
    for n_pos, n_neg, repetitions in ((227, 3_120, 100), (500, 5_000, 50), (1_000, 100_000, 5), (1_000, 1_000_000, 1)):
        found = alternate(calls(*example(n_pos, n_neg, 0.5), CURVES), repetitions)
        row(n_pos, n_neg, *(f"{found[f'{loss} {method}'] * 1e3:.3f}" for loss, method in CURVES))


def overhead() -> None:
    scores, labels = np.array([1.0, 2.0, 3.0, 4.0]), np.array([1, 0, 1, 0], dtype=np.int8)
    for name, seconds in alternate(calls(scores, labels, [("ap", "auto"), ("ndcg", "auto")]), 5_000).items():
        print(f"{name}: {seconds * 1e6:.1f} microseconds for 4 scores")


def memory() -> None:
    program = """
import re, sys, numpy as np
sys.path.insert(0, "benchmarks/ranking")
from inference import example, most_violated_ranking
def status(name):
    return 1024 * int(re.search(name + r":\\s+(\\d+)", open("/proc/self/status").read()).group(1))
scores, labels = example(1000, 10**7, float(sys.argv[3]))
most_violated_ranking(scores[:5000], np.arange(5000) < 100, "ap")
open("/proc/self/clear_refs", "w").write("5")  # the peak starts from here
before = status("VmRSS")
most_violated_ranking(scores, labels, sys.argv[1], sys.argv[2])
print((status("VmHWM") - before) / scores.nbytes - 2)
"""
    header("loss", "method", "shift", "peak extra memory over the scores' bytes, without the output")
    for loss, method in (("ap", "auto"), ("ndcg", "auto"), ("ap", "optranks")):
        for shift in ("0.5", "6"):
            command = [sys.executable, "-c", program, loss, method, shift]
            ran = subprocess.run(command, capture_output=True, text=True, check=True)
            row(loss, method, shift, f"{float(ran.stdout):.2f}")


def scaling() -> None:
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
    header("method", *EXPERIMENTS)
    for loss, method in CURVES:
        slopes = []
        for experiment in EXPERIMENTS:
            sizes, seconds = of_curve(rows, experiment, f"{loss} {method}")
            upper = sizes >= np.sqrt(sizes[0] * sizes[-1])
            slopes.append(np.polyfit(np.log(sizes[upper]), np.log(seconds[upper]), 1)[0])
        row(f"{loss} {method}", *(f"{slope:.2f}" for slope in slopes))


def growth() -> None:
    program = """
import sys
sys.path.insert(0, "benchmarks/ranking")
from inference import example, most_violated_ranking
scores, labels = example(int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
most_violated_ranking(scores, labels, "ap", sys.argv[1])
"""
    cases = [(method, n_pos, 2**17, 0.5) for method in ("optranks", "auto") for n_pos in (16, 64, 256, 1024)]
    cases += [("auto", 1024, n_neg, shift) for shift in (0.5, 6.0) for n_neg in (2**15, 2**19)]
    tool = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
    tool += ["--toggle-collect=__pyx_pw_*most_violated*", sys.executable, "-c", program]
    header("method", "P", "N", "shift", "instructions per negative")
    for case in cases:
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
        ran = subprocess.run([*tool, *map(str, case)], capture_output=True, text=True, check=True, env=environment)
        counted = re.search(r"Collected : (\d+)", ran.stderr)
        row(*case, f"{int(counted.group(1)) / case[2]:.1f}" if counted else "not counted")


if __name__ == "__main__":
    known = {work.__name__: work for work in (limit, baselines, overhead, memory, scaling, growth)}
    if len(sys.argv) != 2 or sys.argv[1] not in known:
        sys.exit(f"{__doc__}\nName one of: {', '.join(known)}.")
    known[sys.argv[1]]()
