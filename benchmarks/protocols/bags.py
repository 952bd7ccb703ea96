"""Musk, Elephant, Fox and Tiger: accuracy and AUC of the latent estimators on bags, by nested folds.

    python benchmarks/protocols/bags.py --root FOLDER

FOLDER has the folders of five sets as the public repository jmarrietar/MILpy stores them (`data/musk1_unscaled`,
`musk2_original`, `elephant_original`, `fox_original`, `tiger_original`). Ten folds, repeated with other divisions.
C, the width of the kernel and with `either` the loss are chosen by three folds of the training bags and their AUC, the
threshold by the accuracy of five. Features are standardised; a map of Nystroem makes the linear model one of a Gaussian
kernel. The published columns are accuracies of other papers (Andrews et al., NIPS 2002; Ilse et al., ICML 2018).
"""

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from lapsvm.pipelines.cli.parsing import split_names
from lapsvm.pipelines.cli.study import Cell, Given, Into, print_table, study_command
from scipy.io import loadmat
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, StratifiedKFold, TunedThresholdClassifierCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from lapsvm.arrays import Array, Float64
from lapsvm.errors import MissingError
from lapsvm.evaluation.intervals import clopper_pearson
from lapsvm.models import BagTransformer, LatentRankSVM, LatentSVM


class BagSet(NamedTuple):
    """The files of a set, and the accuracies of mi-SVM, MI-SVM and attention networks that papers print."""

    folder: str
    instances: str
    bags: str
    labels: str
    published: tuple[float, float, float]


SETS = {
    "musk1": BagSet(
        "musk1_unscaled", "X_musk_original", "Bag2_musk_original", "bagI_musk1_original", (0.874, 0.779, 0.892)
    ),
    "musk2": BagSet("musk2_original", "X", "Bag2", "BagI", (0.836, 0.843, 0.858)),
    "elephant": BagSet("elephant_original", "X", "Bag2", "BagI", (0.822, 0.814, 0.868)),
    "fox": BagSet("fox_original", "X", "Bag2", "BagI", (0.582, 0.578, 0.615)),
    "tiger": BagSet("tiger_original", "X", "Bag2", "BagI", (0.784, 0.840, 0.839)),
}
LEARNERS: dict[str, tuple[Any, list[float]]] = {
    "AP": (LatentRankSVM("ap", top=1, tol=1e-2), [1, 10, 100]),
    "hinge": (LatentSVM(fit_intercept=True, tol=1e-2), [0.1, 1, 10]),
}
"""Learner and its values of C."""
LOSSES = {"AP": ["AP"], "hinge": ["hinge"], "either": ["AP", "hinge"]}
"""Name in the table -> learners among which the folds of the training bags choose."""
FOLDS, COMPONENTS, WIDTHS = 10, 200, (0.1, 0.3, 1.0)
"""Outer folds; dimensions of the map; widths of the kernel, times one over the number of features."""
TITLES = ("set", "bags", "loss", "kernel", "accuracy", "low", "high", "AUC", "mi-SVM", "MI-SVM", "attention")


def read_set(root: Path, name: str) -> tuple[list[Array], Array]:
    """Return the bags of a set, and their labels +1 and -1."""
    known = SETS[name]

    def table(file: str, key: str) -> Array:
        path = root / known.folder / f"{file}.mat"
        if not path.is_file():
            raise MissingError(f"{path} must be a file of the set {name}, got none there.")
        return np.asarray(loadmat(path)[key])

    rows, number = table(known.instances, "X").astype(float), table(known.bags, "Bag2").ravel()
    labels = np.where(table(known.labels, "bagI").ravel() > 0, 1, -1)
    return [rows[number == bag] for bag in range(1, len(labels) + 1)], labels


def search(loss: str, kernel: bool, dim: int) -> Any:
    """Return the learner with its parameters chosen by folds."""
    steps: list[tuple[str, Any]] = [("scale", BagTransformer(StandardScaler()))]
    widths: dict[str, list[float]] = {}
    if kernel:
        steps.append(("map", BagTransformer(Nystroem(n_components=COMPONENTS, random_state=0))))
        widths["map__transformer__gamma"] = [width / dim for width in WIDTHS]
    learners = [LEARNERS[name] for name in LOSSES[loss]]
    grid = [{"learner": [learner], "learner__C": powers, **widths} for learner, powers in learners]
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    model = Pipeline([*steps, ("learner", learners[0][0])])
    return GridSearchCV(model, grid, cv=folds, scoring="roc_auc", refit=False)


def with_threshold(chosen: Any) -> Any:
    """Return the chosen learner with its threshold by the accuracy of five other folds."""
    model = clone(chosen.estimator).set_params(**chosen.best_params_)
    folds = StratifiedKFold(5, shuffle=True, random_state=1)
    return TunedThresholdClassifierCV(model, scoring="accuracy", response_method="decision_function", cv=folds)


def repetitions(
    bags: list[Array], labels: Array, loss: str, kernel: bool, count: int
) -> Iterator[tuple[Array, Float64]]:
    """Yield for every repetition which bags are right, and the AUC of every fold; the seeds are 0, 1, ..."""
    for seed in range(count):
        right, areas = np.zeros(len(labels), bool), []
        for training, held_out in StratifiedKFold(FOLDS, shuffle=True, random_state=seed).split(labels, labels):
            taught, asked = ([bags[i] for i in part] for part in (training, held_out))
            chosen = search(loss, kernel, bags[0].shape[1]).fit(taught, labels[training])
            model = with_threshold(chosen).fit(taught, labels[training])
            right[held_out] = model.predict(asked) == labels[held_out]
            areas.append(roc_auc_score(labels[held_out], model.estimator_.decision_function(asked)))
        yield right, np.array(areas)


def rows(root: Path, names: list[str], losses: list[str], repeats: int) -> Iterator[list[Cell]]:
    """Yield the rows of the table; an interval counts every bag once, with its mean over the repetitions."""
    for name in names:
        bags, labels = read_set(root, name)
        for loss in losses:
            for kernel in (False, True):
                right, areas = map(np.array, zip(*repetitions(bags, labels, loss, kernel, repeats), strict=True))
                low, high = clopper_pearson(right.mean() * len(labels), len(labels))
                figures = [right.mean(), low, high, areas.mean(), *SETS[name].published]
                yield [name, len(labels), loss, "Gaussian" if kernel else "linear", *map(float, figures)]


def bags(
    root: Annotated[Path, Given("--root", help="The folder of the sets.")],
    sets: Annotated[str, Given(help="Names of sets, separated by commas.")] = ",".join(SETS),
    losses: Annotated[str, Given(help="Of AP, hinge and either.")] = ",".join(LOSSES),
    repeats: Annotated[int, Given(help="How often the ten folds are drawn.")] = 3,
    into: Into = None,
) -> None:
    """Print accuracy and AUC of each set, beside published accuracies."""
    warnings.filterwarnings("ignore", message="n_components > n_samples")
    warnings.filterwarnings("ignore", category=ConvergenceWarning)
    names, chosen = split_names("--sets", sets, SETS), split_names("--losses", losses, LOSSES)
    print_table(TITLES, rows(root, names, chosen, repeats), into)


main = study_command(bags)

if __name__ == "__main__":
    main()
