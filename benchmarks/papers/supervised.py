"""Supervised AP-SVM and NDCG-SVM against the 0-1 SVM: does the loss that is the measure rank better?

    python benchmarks/papers/supervised.py DATA

Tables 1 and 4 of Mohapatra et al. ("Efficient Optimization for Rank-based Loss Functions"; 1 and 2 of its supplement)
on features that can be had: whole pictures of VOC2007 by pooled network features and by HOG, letters, and small sets.
DATA has `voc2007_vehicles_cat` and `libsvm_sets`. For every class five folds test; on the other four, three inner folds
choose C by the measure. Differences to the 0-1 SVM are pairs of class and fold: a fold's mean over the classes, with
Student's interval corrected for shared training samples. "better" counts classes at 5 %, each by its own folds.
"""

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
from claims import Mean, claim, print_claims
from lapsvm.pipelines.cli.study import Cell, Given, Into, print_table, study_command
from libsvm_sets import read_set
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold

from lapsvm.arrays import Array, Float64
from lapsvm.catalog import read_image
from lapsvm.evaluation import paired_t_test
from lapsvm.features import open_extractor
from lapsvm.models import RankSVM
from lapsvm.ranking import average_precision, ndcg

EXTRACTORS = {"network": "efficientnet_lite0?output=stride32&norm=none", "HOG": "hog"}
SETS = ("diabetes", "german.numer", "heart_scale", "spambase")
LETTERS, LEAST = 3_000, 40  # rows that are drawn; positives that a class needs
POWERS, FOLDS, INNER = range(-2, 4), 5, 3
MEASURES = {"AP": average_precision, "NDCG": ndcg}
PAPER = {"AP": 0.51196 - 0.47934, "NDCG": 0.85521 - 0.84382}
LOSSES = ("zero_one", "ap", "ndcg")


class Problem(NamedTuple):
    """Samples, and for each class which of them are positive."""

    X: Float64
    classes: dict[str, Array]


def problems(data: Path) -> Iterator[tuple[str, Problem]]:
    """Yield the title and the problem of each data set in the folder."""
    root = data / "voc2007_vehicles_cat"
    for title, extractor in EXTRACTORS.items():
        yield f"VOC pictures, {title}", pictures(root, extractor)
    yield "letters", letters(data / "libsvm_sets" / "letter-recognition.data")
    for name in SETS:
        samples = read_set(data / "libsvm_sets", name)
        X = samples.X if isinstance(samples.X, np.ndarray) else samples.X.toarray()
        yield name, Problem((X - X.mean(0)) / (X.std(0) + 1e-9), {"positive": samples.y > 0})


def pictures(root: Path, extractor: str) -> Problem:
    """Return the features of whole pictures, and the classes with enough of them."""
    lists = root / "ImageSets" / "Main"
    labels: dict[str, dict[str, bool]] = {}
    for path in sorted(lists.glob("*_trainval.txt")) + sorted(lists.glob("*_test.txt")):
        name = path.stem.rsplit("_", 1)[0]
        lines = (line.split() for line in path.read_text().splitlines())
        labels.setdefault(name, {}).update({one: sign == "1" for one, sign in lines})
    names, opened = sorted(next(iter(labels.values()))), open_extractor(extractor)
    read = (read_image(root / "JPEGImages" / f"{name}.jpg") for name in names)
    X = np.array([opened(pixels, [[0, 0, pixels.shape[1], pixels.shape[0]]])[0] for pixels in read], np.float64)
    return Problem(X, _frequent({name: np.array([of[one] for one in names]) for name, of in labels.items()}))


def letters(path: Path) -> Problem:
    """Return some rows of UCI's letters, each letter against the others."""
    rows = [line.split(",") for line in path.read_text().splitlines()[1:]]
    chosen = np.random.default_rng(0).permutation(len(rows))[:LETTERS]
    X, kinds = np.array([rows[k][1:] for k in chosen], np.float64), np.array([rows[k][0] for k in chosen])
    return Problem((X - X.mean(0)) / X.std(0), _frequent({kind: kinds == kind for kind in np.unique(kinds)}))


def _frequent(classes: dict[str, Array]) -> dict[str, Array]:
    return {name: positive for name, positive in classes.items() if positive.sum() >= LEAST}


def made() -> Iterator[tuple[str, Problem]]:
    """Yield a small problem."""
    X, y = make_classification(150, 8, n_informative=4, n_classes=3, flip_y=0.1, random_state=0)
    yield "made", Problem(X, {str(k): y == k for k in range(3)})


def measured(problem: Problem, powers: range) -> dict[str, Float64]:
    """Return measure of loss -> its values (classes, folds) on the test folds."""
    X = problem.X / np.linalg.norm(problem.X, axis=1).mean()
    found: dict[str, list] = {f"{measure} of {loss}": [] for measure in MEASURES for loss in LOSSES}
    for positive in problem.classes.values():
        for row in found.values():
            row.append([])
        for training, test in StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(X, positive):
            for loss in LOSSES:
                for measure, C in chosen(X[training], positive[training], loss, powers).items():
                    scores = fitted(X[training], positive[training], loss, C).decision_function(X[test])
                    found[f"{measure} of {loss}"][-1].append(MEASURES[measure](scores, positive[test]))
    return {name: np.array(values) for name, values in found.items()}


def chosen(X: Float64, positive: Array, loss: str, powers: range) -> dict[str, float]:
    """Return the C of the highest mean over the inner folds, for each measure."""
    folds = list(StratifiedKFold(INNER, shuffle=True, random_state=1).split(X, positive))
    means: dict[str, dict[float, float]] = {measure: {} for measure in MEASURES}
    for C in (10.0**power for power in powers):
        scores = [fitted(X[seen], positive[seen], loss, C).decision_function(X[out]) for seen, out in folds]
        for name, measure in MEASURES.items():
            values = [measure(of, positive[out]) for of, (_, out) in zip(scores, folds, strict=True)]
            means[name][C] = float(np.mean(values))
    return {name: max(of, key=of.__getitem__) for name, of in means.items()}


def fitted(X: Float64, positive: Array, loss: str, C: float) -> RankSVM:
    return RankSVM(loss, C=C, fit_intercept=loss == "zero_one").fit(X, positive.astype(int))


@study_command
def main(
    data: Annotated[Path | None, Given(help="The folder of the data.", is_argument=True)] = None,
    quick: Annotated[bool, Given("--quick", help="A small made problem.")] = False,
    into: Into = None,
) -> None:
    """Compare the losses on all data."""
    warnings.simplefilter("ignore", ConvergenceWarning)
    found: dict[str, dict[str, Float64]] = {}

    def rows() -> Iterator[list[Cell]]:
        for title, problem in made() if quick or data is None else problems(data):
            found[title] = measured(problem, range(2) if quick else POWERS)
            yield row_of(title, found[title])

    titles = [f"{measure} of {loss}" for measure in MEASURES for loss in LOSSES]
    print_table(["data, classes", *titles, "AP: better, worse", "NDCG: better, worse"], rows(), into)
    print()
    print_claims(claims_of(found))


def row_of(title: str, values: dict[str, Float64]) -> list[Cell]:
    """Return the row of a data set."""
    counts = (counted(values[f"{measure} of {measure.lower()}"], values[f"{measure} of zero_one"])
              for measure in MEASURES)  # fmt: skip
    return [f"{title}, {len(values['AP of ap'])}", *(float(of.mean()) for of in values.values()), *counts]


def counted(own: Float64, base: Float64) -> str:
    """Return in how many classes a loss is surely better and worse than the base, by corrected tests over folds."""
    tests = [paired_t_test(*pair, overlap=1 / (FOLDS - 1)) for pair in zip(base, own, strict=True)]
    sure = [test.difference > 0 for test in tests if test.p_value < 0.05]
    return f"{sum(sure)}, {len(sure) - sum(sure)}"


def claims_of(found: dict[str, dict[str, Float64]]) -> Iterator[list[Cell]]:
    """Yield the papers' claims on each data set, and on all, of which each counts the same."""
    for measure, paper in PAPER.items():
        less = {title: (of[f"{measure} of {measure.lower()}"] - of[f"{measure} of zero_one"]).mean(axis=0)
                for title, of in found.items()}  # fmt: skip
        for title, by_fold in {**less, "all": np.mean(list(less.values()), axis=0)}.items():
            difference = Mean.of(by_fold, 1 / (FOLDS - 1))
            yield claim(f"{title}: mean {measure} of {measure}-SVM less 0-1 SVM", difference, paper)


if __name__ == "__main__":
    main()
