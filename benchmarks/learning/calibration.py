"""Which map from scores to probabilities is best on test pictures: `python benchmarks/learning/calibration.py RUN`.

The maps are fitted on the held-out scores of RUN's training pictures, all of them or draws of a few, and applied to the
best scores of its test pictures.
"""

import sys
from pathlib import Path

import numpy as np
from lapsvm.pipelines.results.held_out import HeldOut, read_held_out
from lapsvm.pipelines.run.context import RunContext
from lapsvm.pipelines.run.folder import RunFolder
from lapsvm.pipelines.run.progress import Reporter
from sklearn.isotonic import IsotonicRegression

from lapsvm.detection import Calibration, reliability
from lapsvm.evaluation import image_average_precision, read_results

METHODS = ("platt", "isotonic")  # the second one is not in the library
POSITIVES = (5, 10, 20, 50, 100, 200)
DRAWS = 30
Scored = tuple[np.ndarray, np.ndarray]  # best scores and labels of pictures


def main(folder: str) -> None:
    """Print the tables."""
    run = RunFolder(Path(folder))
    context = RunContext(run, run.settings(), 1, Reporter(True))
    test_set = context.settings.data.test_set
    detections = read_results(run.detections(test_set), test_set)
    known = {name: held_out for name in context.data.classes if (held_out := read_held_out(run, name)) is not None}
    tests = {name: _test(context, test_set, name, detections[name].best_scores()) for name in known}
    _print_classes(known, tests)
    _print_draws(known, tests)


def _test(context: RunContext, test_set: str, name: str, best: dict[str, float]) -> Scored:
    """Return the best scores and labels of the test pictures."""
    labels = {record.id: record.labels.get(name, 0) for record in context.data.records[test_set]}
    ids = [image for image in best if labels[image]]
    return np.array([best[image] for image in ids]), np.array([labels[image] for image in ids])


def _print_classes(known: dict[str, HeldOut], tests: dict[str, Scored]) -> None:
    """Print image AP of held-out and test pictures, and the errors of the maps of all held-out scores."""
    print(
        "| class | positives | held-out AP | test AP | ECE held out |"
        + "".join(f" {m}: ECE | Brier |" for m in METHODS)
    )
    print("|---|" + "---|" * (4 + 2 * len(METHODS)))
    for name, held_out in known.items():
        scores, y = tests[name]
        known_ece = Calibration.fit(held_out.score, held_out.y, held_out.fold).reliability.ece
        figures = [held_out.image_ap, image_average_precision(scores, y), known_ece]
        figures += _errors(held_out, np.arange(len(held_out.y)), (scores, y))
        print(f"| {name} | {(held_out.y > 0).sum()} | {' | '.join(f'{value:.3f}' for value in figures)} |")


def _print_draws(known: dict[str, HeldOut], tests: dict[str, Scored]) -> None:
    """Print mean errors of maps that were fitted on few positives, with negatives in proportion."""
    print("\n| positives | fits |" + "".join(f" {method}: ECE | Brier |" for method in METHODS))
    print("|---|" + "---|" * (1 + 2 * len(METHODS)))
    for count in POSITIVES:
        rng, errors = np.random.default_rng(0), []
        for name, held_out in known.items():
            positives, negatives = np.flatnonzero(held_out.y > 0), np.flatnonzero(held_out.y < 0)
            n_negatives = max(2, round(count * len(negatives) / len(positives)))
            for _ in range(DRAWS if count < len(positives) else 0):
                rows = np.append(rng.choice(positives, count, False), rng.choice(negatives, n_negatives, False))
                errors.append(_errors(held_out, rows, tests[name]))
        if errors:
            print(f"| {count} | {len(errors)} | {' | '.join(f'{value:.3f}' for value in np.mean(errors, axis=0))} |")


def _errors(held_out: HeldOut, rows: np.ndarray, test: Scored) -> list[float]:
    """Return ECE and Brier score on test pictures of each map fitted on some held-out pictures."""
    fitted, shows = held_out.score[rows], held_out.y[rows]
    probabilities = [Calibration.fit(fitted, shows).probability(test[0]), _isotonic(fitted, shows > 0, test[0])]
    found = [reliability(one, test[1]) for one in probabilities]
    return [value for one in found for value in (one.ece, one.brier)]


def _isotonic(scores: np.ndarray, shows: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Return probabilities by the best non-decreasing steps (Zadrozny and Elkan, KDD 2002), within Platt's targets."""
    low, high = 1 / ((~shows).sum() + 2), (shows.sum() + 1) / (shows.sum() + 2)
    model = IsotonicRegression(y_min=low, y_max=high, out_of_bounds="clip")
    return model.fit(scores, shows.astype(float)).predict(new)


if __name__ == "__main__":
    main(sys.argv[1])
