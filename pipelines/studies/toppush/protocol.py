"""TopPush's table (Li, Jin and Zhou, NIPS 2014, section 5) on the data sets a user has.

    python -m lapsvm.pipelines.studies.toppush.protocol --root FOLDER --out DIR

Random splits, 2/3 for training; on the training part each learner's parameter is chosen by five folds, from the paper's
grid, by the mean Pos@Top; then it is fitted once more and measured on the test part. FOLDER holds files in the LIBSVM
format (`w8a`, `a9a`, ...) and `spambase.data`; DIR gets toppush.json and toppush.md. The table is written after every
split, so the same command goes on where it was stopped, and one with more splits adds to what is there.
"""

import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Self

import numpy as np
import typer

from lapsvm.arrays import Array, Float64
from lapsvm.blas import one_blas_thread
from lapsvm.errors import DataError, InputError, LapsvmError, OptionError, SettingsError
from lapsvm.evaluation import write_json
from lapsvm.files import NOT_PARSED, write_atomically
from lapsvm.models import RankSVM, TopPush
from lapsvm.optim import accelerated_dual
from lapsvm.ranking import average_precision, ndcg, positives_at_top, roc_auc

from ...cli.parameters import PATH
from ...run.ownership import table_files
from ...run.progress import Bar, Reporter
from .libsvm_sets import Samples, read_official_split, read_set, scaled
from .table import OFFICIAL, as_markdown, summary

POWERS = (-3, 3)
"""The grid of lam and C, as powers of 10; it grows at an end that is the best, up to `FARTHEST`. The paper's rule."""

FARTHEST = 6

FOLDS = 5
EARLY_GAP = 0.01
"""Relative gap at which the row that stops early stops."""

EARLY_STEPS = 500
MEASURES: dict[str, Callable[[Float64, Array], float]] = {
    "pos_at_top": positives_at_top,
    "ap": average_precision,
    "ndcg": ndcg,
    "auc": roc_auc,
}


class EarlyTopPush:
    """TopPush as the paper runs it: accelerated gradient steps on the dual of all samples, stopped early."""

    def __init__(self, lam: float):
        self._lam = lam

    def fit(self, X: Any, y: Array) -> Self:
        """Train."""
        self._w = accelerated_dual(X[y > 0], X[y < 0], self._lam, EARLY_GAP, max_steps=EARLY_STEPS).w
        return self

    def decision_function(self, X: Any) -> Float64:
        """Return the scores."""
        return np.asarray(X @ self._w)


def _logistic_regression(C: float) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=C, max_iter=1000)


def _linear_svm(C: float) -> Any:
    from sklearn.svm import LinearSVC

    return LinearSVC(C=C, dual=False, class_weight="balanced")


LEARNERS: dict[str, Callable[[float], Any]] = {
    "toppush": TopPush,
    "toppush_early": EarlyTopPush,
    "ranksvm_ap": lambda C: RankSVM("ap", C=C),
    "ranksvm_pos_at_top": lambda C: RankSVM("pos_at_top", C=C),
    "logistic_regression": _logistic_regression,
    "linear_svm": _linear_svm,
}

DEFAULT_LEARNERS = [name for name in LEARNERS if name != "ranksvm_pos_at_top"]


class Split(NamedTuple):
    """One division of a set."""

    name: str
    training: Samples
    test: Samples


def measured(learner: Callable[[float], Any], split: Split, seed: int) -> dict[str, Any]:
    """Choose the parameter on the training part, fit, and return the measures on the test part."""
    X, y = split.training
    chosen = _chosen(learner, X, y, seed)
    start = time.process_time()
    model = learner(chosen).fit(X, y)
    spent = time.process_time() - start
    scores = model.decision_function(split.test.X)
    row: dict[str, Any] = {name: measure(scores, split.test.y) for name, measure in MEASURES.items()}
    return row | {"parameter": chosen, "cpu_s": spent, "objective": _objective(model)}


def _objective(model: Any) -> float | None:
    """Return TopPush's objective, which is 1 where w = 0 is the minimum."""
    return float(model.objective_) if isinstance(model, TopPush) else None


def _chosen(learner: Callable[[float], Any], X: Any, y: Array, seed: int) -> float:
    """Return the value of the grid with the highest mean Pos@Top over the folds; ties go to the higher mean AP."""
    from sklearn.model_selection import StratifiedKFold

    folds = list(StratifiedKFold(FOLDS, shuffle=True, random_state=seed).split(X, y))

    def merit(power: int) -> tuple[float, float]:
        top, ap = [], []
        for kept, left in folds:
            scores = learner(10.0**power).fit(X[kept], y[kept]).decision_function(X[left])
            top.append(positives_at_top(scores, y[left]))
            ap.append(average_precision(scores, y[left]))
        return float(np.mean(top)), float(np.mean(ap))

    merits = {power: merit(power) for power in range(POWERS[0], POWERS[1] + 1)}
    best = max(merits, key=merits.__getitem__)
    while best in (min(merits), max(merits)) and abs(best) < FARTHEST:
        beyond = best + (1 if best > 0 else -1)
        merits[beyond] = merit(beyond)
        if merits[beyond] <= merits[best]:
            break
        best = beyond
    return float(10.0**best)


def splits_of(root: Path, name: str, count: int) -> Iterator[Callable[[], Split]]:
    """Yield what makes each split of a set: the official one, if there is one, then `count` random ones."""
    from sklearn.model_selection import train_test_split

    official, samples = read_official_split(root, name), read_set(root, name)
    if min(np.bincount(samples.y > 0, minlength=2)) < 2 * FOLDS:
        raise DataError(f"{name} must hold {2 * FOLDS} samples of each class or more, for the folds within a split.")

    def random(seed: int) -> Split:
        places = train_test_split(np.arange(len(samples.y)), test_size=1 / 3, stratify=samples.y, random_state=seed)
        X = scaled(*(samples.X[part] for part in places))
        return Split(str(seed), *(Samples(rows, samples.y[part]) for rows, part in zip(X, places, strict=True)))

    if official is not None:
        yield lambda: Split(OFFICIAL, *official)
    for seed in range(count):
        yield lambda seed=seed: random(seed)  # type: ignore[misc]


def run(root: Path, out: Path, sets: list[str], count: int, learners: list[str]) -> dict[str, Any]:
    """Run what is missing, write the tables, and return them."""
    table_files(out, "toppush", "splits", write=False)
    results = _begun(out / "toppush.json")
    reporter = Reporter()
    for name in sets:
        done = results["splits"].setdefault(name, {})
        makers = list(splits_of(root, name, count))
        with reporter.bar(name, len(makers)) as bar:
            for make in makers:
                _one_split(make(), done, learners, bar)
                _write(out, results)
    return _write(out, results)


def _one_split(split: Split, done: dict[str, Any], learners: list[str], bar: Bar) -> None:
    """Add the learners' rows that are missing for a split."""
    rows = done.setdefault(split.name, {})
    rows["size"] = [len(split.training.y), len(split.test.y), split.training.X.shape[1]]
    for learner in learners:
        if learner not in rows:
            with one_blas_thread(), warnings.catch_warnings():
                # w = 0 and unfinished fits at odd values of the grid are part of the search
                warnings.simplefilter("ignore")
                rows[learner] = measured(LEARNERS[learner], split, int(split.name) if split.name != OFFICIAL else 0)
    bar.step(note=split.name)


def _begun(path: Path) -> dict[str, Any]:
    """Return the results that are there, if they were made with these settings."""
    settings = {
        "powers": list(POWERS),
        "farthest": FARTHEST,
        "folds": FOLDS,
        "early_gap": EARLY_GAP,
        "early_steps": EARLY_STEPS,
    }
    if not path.is_file():
        return {"settings": settings, "splits": {}}
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
        there = held["settings"], held["splits"]
    except (*NOT_PARSED, KeyError, TypeError) as error:
        raise DataError(f"{path} must be results of this command, got {error}.") from error
    if there[0] != settings:
        raise SettingsError(f"{path} must have been made with the settings {settings}, got {there[0]}.")
    return {"settings": settings, "splits": there[1]}


def _write(out: Path, results: dict[str, Any]) -> dict[str, Any]:
    """Write both tables whole; return the one for programs."""
    table = results | {"summary": summary(results["splits"], list(MEASURES))}
    as_json, as_text = table_files(out, "toppush", "splits")
    write_json(as_json, table)
    write_atomically(as_text, as_markdown(table["summary"], list(MEASURES)).encode())
    return table


def _names(option: str, text: str, known: list[str] | None = None) -> list[str]:
    """Return the names of a list divided by commas."""
    names = [part.strip() for part in text.split(",") if part.strip()]
    if not names:
        raise InputError(f"{option} must name one or more, got {text!r}.")
    for name in names:
        if known is not None and name not in known:
            raise OptionError(f"{option} must be of {', '.join(known)}, got {name!r}.")
    return names


def main(
    root: Annotated[Path, typer.Option(help="Folder with the data sets.")],
    out: Annotated[Path, typer.Option(help="Folder for toppush.json and toppush.md.", **PATH)],
    sets: Annotated[str, typer.Option(help="Data sets, divided by commas.")] = "spambase,diabetes,w8a,a9a",
    splits: Annotated[int, typer.Option(min=0, help="Random splits of each set.")] = 30,
    learners: Annotated[str, typer.Option(help="Rows, divided by commas.")] = ",".join(DEFAULT_LEARNERS),
) -> None:
    """Repeat TopPush's table; run again, it goes on where it was stopped."""
    try:
        run(root, out, _names("--sets", sets), splits, _names("--learners", learners, list(LEARNERS)))
    except LapsvmError as error:
        typer.echo(f"toppush: {error}", err=True)
        sys.exit(2)
    typer.echo((out / "toppush.md").read_text(encoding="utf-8"), nl=False)


if __name__ == "__main__":
    typer.run(main)
