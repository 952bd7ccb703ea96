"""TopPush's table (Li, Jin and Zhou, NIPS 2014, section 5) on the data sets of a user.

    python benchmarks/papers/toppush_protocol.py --root FOLDER --out DIR

Random splits have 2/3 of the samples for training. Five-fold cross-validation on them chooses each learner's parameter
from the paper's grid by the mean Pos@Top; the learner is then fitted on all of them and measured on the test samples.
FOLDER holds files in the LIBSVM format (`w8a`, `a9a`, ...) and `spambase.data`; DIR gets toppush.json and toppush.md.
The table is written after every split: the same command resumes an interrupted one, and a larger --splits adds splits.
"""

import json
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Self

import click
import numpy as np
from claims import print_claims
from lapsvm.pipelines.cli.parsing import split_names
from lapsvm.pipelines.cli.study import Given, study_command
from lapsvm.pipelines.run.ownership import table_files
from lapsvm.pipelines.run.progress import Bar, Reporter
from libsvm_sets import Samples, read_official_split, read_set, scaled
from sklearn.datasets import dump_svmlight_file
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.svm import LinearSVC
from toppush_table import BASE, OFFICIAL, as_markdown, claims_of, summary

from lapsvm.arrays import Array, Float64
from lapsvm.blas import one_blas_thread
from lapsvm.errors import DataError, SettingsError
from lapsvm.evaluation import write_json
from lapsvm.files import NOT_PARSED, SMALL_FILE, read_regular, write_atomically
from lapsvm.models import RankSVM, TopPush
from lapsvm.optim import Plane, accelerated_dual, minimise
from lapsvm.ranking import PartialAUCLoss, average_precision, ndcg, positives_at_top, roc_auc

POWERS = (-3, 3)
"""Smallest and largest power of 10 in the grid of lam and C; the paper extends it while its best value is an end."""
MAX_POWER, FOLDS = 6, 5
EARLY_GAP, EARLY_STEPS = 0.01, 500
"""Relative duality gap, and largest number of steps, of the row that stops early."""
MEASURES: dict[str, Callable[[Float64, Array], float]] = {
    "pos_at_top": positives_at_top,
    "ap": average_precision,
    "ndcg": ndcg,
    "auc": roc_auc,
}


class EarlyTopPush:
    """TopPush as in the paper: accelerated gradient steps on the dual of all samples, stopped early."""

    def __init__(self, lam: float):
        self._lam = lam

    def fit(self, X: Any, y: Array) -> Self:
        """Train."""
        self._w = accelerated_dual(X[y > 0], X[y < 0], self._lam, EARLY_GAP, max_steps=EARLY_STEPS).w
        return self

    def decision_function(self, X: Any) -> Float64:
        """Return the scores."""
        return np.asarray(X @ self._w)


class InfinitePush:
    """Agarwal's InfinitePush (SDM 2011), exactly: the largest over the negatives of the mean hinge over the positives.

    The hinge grows with the negative's score, so the largest is that of the highest negative.
    """

    def __init__(self, lam: float):
        self._lam = lam

    def fit(self, X: Any, y: Array) -> Self:
        """Train to a certified gap of 1e-3 by cutting planes."""
        positives, negatives = X[y > 0], X[y < 0]

        def oracle(w: Float64) -> Plane:
            scores = np.asarray(negatives @ w)
            highest = int(np.argmax(scores))
            weights = (scores[highest] - np.asarray(positives @ w) > -1) / positives.shape[0]
            gradient = weights.sum() * np.asarray(negatives[[highest]].sum(0)).ravel() - positives.T @ weights
            return Plane(gradient, float(weights.sum()))

        self._w = minimise(oracle, X.shape[1], 1 / self._lam, 1e-3).w
        return self

    def decision_function(self, X: Any) -> Float64:
        """Return the scores."""
        return np.asarray(X @ self._w)


LEARNERS: dict[str, Callable[[float], Any]] = {
    "toppush": TopPush,
    "toppush_early": EarlyTopPush,
    "infinite_push": InfinitePush,
    "ranksvm_ap": lambda C: RankSVM("ap", C=C),
    "ranksvm_auc": lambda C: RankSVM("auc", C=C),
    # SVMpAUC from 0 to 1/n, as in the paper, is Pos@Top's loss
    "ranksvm_pos_at_top": lambda C: RankSVM("pos_at_top", C=C),
    "ranksvm_partial_auc": lambda C: RankSVM(PartialAUCLoss(0.05), C=C),
    "logistic_regression": lambda C: LogisticRegression(C=C, max_iter=1000),
    "linear_svm": lambda C: LinearSVC(C=C, dual=False, class_weight="balanced"),
}


class Split(NamedTuple):
    """One division of a set into training and test samples."""

    name: str
    training: Samples
    test: Samples


def measured(learner: Callable[[float], Any], split: Split, seed: int) -> dict[str, Any]:
    """Return the measures of a learner on the test samples, its parameter chosen on the training samples."""
    X, y = split.training
    parameter = _best_parameter(learner, X, y, seed)
    start = time.process_time()
    model = learner(parameter).fit(X, y)
    cpu_seconds = time.process_time() - start
    scores = model.decision_function(split.test.X)
    row: dict[str, Any] = {name: measure(scores, split.test.y) for name, measure in MEASURES.items()}
    objective = float(model.objective_) if isinstance(model, TopPush) else None  # 1 if w = 0 is the minimum
    return row | {"parameter": parameter, "cpu_s": cpu_seconds, "objective": objective}


def _best_parameter(learner: Callable[[float], Any], X: Any, y: Array, seed: int) -> float:
    """Return the value of the grid with the highest mean Pos@Top over the folds; ties go to the higher mean AP."""
    folds = list(StratifiedKFold(FOLDS, shuffle=True, random_state=seed).split(X, y))

    def score(power: int) -> tuple[float, float]:
        top, ap = [], []
        for training, held_out in folds:
            scores = learner(10.0**power).fit(X[training], y[training]).decision_function(X[held_out])
            top.append(positives_at_top(scores, y[held_out]))
            ap.append(average_precision(scores, y[held_out]))
        return float(np.mean(top)), float(np.mean(ap))

    power_scores = {power: score(power) for power in range(POWERS[0], POWERS[1] + 1)}
    best = max(power_scores, key=power_scores.__getitem__)
    while best in (min(power_scores), max(power_scores)) and abs(best) < MAX_POWER:
        next_power = best + (1 if best > 0 else -1)
        power_scores[next_power] = score(next_power)
        if power_scores[next_power] <= power_scores[best]:
            break
        best = next_power
    return float(10.0**best)


def splits_of(root: Path, name: str, count: int) -> Iterator[Callable[[], Split]]:
    """Yield a function for each split of a set: the official split, if there is one, then `count` random splits."""
    official, samples = read_official_split(root, name), read_set(root, name)
    if min(np.bincount(samples.y > 0, minlength=2)) < 2 * FOLDS:
        raise DataError(f"{name} must hold {2 * FOLDS} samples of each class or more, for the folds of a split.")

    def random(seed: int) -> Split:
        indices = train_test_split(np.arange(len(samples.y)), test_size=1 / 3, stratify=samples.y, random_state=seed)
        X = scaled(*(samples.X[rows] for rows in indices))
        return Split(str(seed), *(Samples(part, samples.y[rows]) for part, rows in zip(X, indices, strict=True)))

    if official is not None:
        yield lambda: Split(OFFICIAL, *official)
    for seed in range(count):
        yield lambda seed=seed: random(seed)  # type: ignore[misc]


def run(root: Path, out: Path, sets: list[str], count: int, learners: list[str]) -> dict[str, Any]:
    """Measure the missing splits, write the tables, and return them."""
    table_files(out, "toppush", write=False)
    results = _read_results(out / "toppush.json")
    reporter = Reporter()
    for name in sets:
        done = results["splits"].setdefault(name, {})
        makers = list(splits_of(root, name, count))
        with reporter.bar(name, len(makers)) as bar:
            for make in makers:
                _measure_split(make(), done, learners, bar)
                _write(out, results)
    return _write(out, results)


def _measure_split(split: Split, done: dict[str, Any], learners: list[str], bar: Bar) -> None:
    """Add the missing rows of a split to `done`."""
    rows = done.setdefault(split.name, {})
    rows["size"] = [len(split.training.y), len(split.test.y), split.training.X.shape[1]]
    for learner in learners:
        if learner not in rows:
            with one_blas_thread(), warnings.catch_warnings():
                # w = 0 and unfinished fits at odd values of the grid are part of the search
                warnings.simplefilter("ignore")
                rows[learner] = measured(LEARNERS[learner], split, int(split.name) if split.name != OFFICIAL else 0)
    bar.step(note=split.name)


def _read_results(path: Path) -> dict[str, Any]:
    """Return the results in a file, empty ones without a file; SettingsError if they have other settings."""
    settings = {"powers": list(POWERS), "max_power": MAX_POWER, "folds": FOLDS}
    settings |= {"early_gap": EARLY_GAP, "early_steps": EARLY_STEPS}
    if not path.is_file():
        return {"settings": settings, "splits": {}}
    try:
        content = json.loads(read_regular(path, "table", SMALL_FILE))
        stored, splits = content["settings"], content["splits"]
    except (*NOT_PARSED, KeyError, TypeError) as error:
        raise DataError(f"{path} must be results of this command, got {error}.") from error
    if stored != settings:
        raise SettingsError(f"{path} must have been made with the settings {settings}, got {stored}.")
    return {"settings": settings, "splits": splits}


def _write(out: Path, results: dict[str, Any]) -> dict[str, Any]:
    """Write both tables, and return the content of toppush.json."""
    table = results | {"summary": summary(results["splits"], list(MEASURES))}
    as_json, as_text = table_files(out, "toppush")
    write_json(as_json, table)
    write_atomically(as_text, as_markdown(table["summary"], list(MEASURES)).encode())
    return table


@study_command
def main(
    out: Annotated[Path, Given(help="Folder for toppush.json and toppush.md.")],
    root: Annotated[Path | None, Given(help="Folder with the data sets.")] = None,
    sets: Annotated[str, Given(help="Data sets, separated by commas.")] = "spambase,diabetes,w8a,a9a",
    splits: Annotated[int, Given(low=0, help="Random splits of each set.")] = 30,
    learners: Annotated[str, Given(help="Learners, separated by commas.")] = ",".join(LEARNERS),
    quick: Annotated[bool, Given("--quick", help="Two splits of 90 made samples, three learners.")] = False,
) -> None:
    """Repeat the table of TopPush; a second call resumes an interrupted one."""
    named, chosen = split_names("option --sets", sets), split_names("option --learners", learners, LEARNERS)
    if quick:
        root, named, splits, chosen = out / "made", ["diabetes"], 2, [BASE, "infinite_push", "logistic_regression"]
        write_made(root / named[0])
    table = run(root or Path(), out, named, splits, chosen)
    click.echo((out / "toppush.md").read_text(encoding="utf-8"))
    print_claims(claims_of(table["splits"]))


def write_made(path: Path) -> None:
    """Write a small set in the LIBSVM format."""
    path.parent.mkdir(parents=True, exist_ok=True)
    y = np.where(np.arange(90) % 3 == 0, 1, -1)
    X = np.random.default_rng(0).normal(size=(90, 3)) + 2 * (y > 0)[:, None]
    dump_svmlight_file(X, y, str(path), zero_based=False)


if __name__ == "__main__":
    main()
