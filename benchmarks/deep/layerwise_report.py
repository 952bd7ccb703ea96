"""Tables of layerwise training over seeds, with intervals over the seeds and over the test pictures.

Two 95 % intervals stand behind each mean difference: Student's t over the seeds, which differ in the training pictures,
the weights at the start and the order; and percentiles over resamplings of the test pictures, the same for all seeds
and both sides of the difference.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
from tables import interval

from lapsvm.ranking import average_precision, ndcg

BASE = ("cross-entropy", "cross-entropy")
METRICS = ("mean AP", "mean NDCG", "accuracy")
Key = tuple[str, str]
"""The stage and the loss."""
Rows = dict[Key, list[dict[str, Any]]]


def figures(scores: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Mean AP, mean NDCG and accuracy, in per cent."""
    columns = range(scores.shape[1])
    means = [np.mean([metric(scores[:, k], classes == k) for k in columns]) for metric in (average_precision, ndcg)]
    return 100 * np.array([*means, (scores.argmax(axis=1) == classes).mean()])


def resampled(scores: np.ndarray, classes: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return the figures (R, 3) of R resamplings, in which picture i appears counts[r, i] times.

    Copies of a picture share a group of equal scores, as in the metrics; equal scores of two pictures do not.
    """
    gains = np.concatenate([[0.0], np.cumsum(1 / np.log2(np.arange(2, counts.sum(axis=1).max() + 2)))])
    found = np.zeros((len(counts), 3))
    for k in range(scores.shape[1]):
        order = np.argsort(-scores[:, k], kind="stable")
        positive = classes[order] == k
        last = counts[:, order].cumsum(axis=1)[:, positive]
        copies = counts[:, order[positive]]
        retrieved = copies.cumsum(axis=1)
        n_positives = retrieved[:, -1]
        found[:, 0] += (copies * retrieved / np.maximum(last, 1)).sum(axis=1) / n_positives
        found[:, 1] += (gains[last] - gains[last - copies]).sum(axis=1) / gains[n_positives]
    found[:, :2] /= scores.shape[1]
    found[:, 2] = counts @ (scores.argmax(axis=1) == classes) / counts.sum(axis=1)
    return 100 * found


def store(folder: Path, row: dict[str, Any], scores: np.ndarray, classes: np.ndarray) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "classes.npy", classes)
    np.save(folder / _name(row), scores)
    with (folder / "rows.jsonl").open("a") as file:
        file.write(json.dumps(row) + "\n")
    print(json.dumps(row), flush=True)


def _name(row: dict[str, Any]) -> str:
    parts = (row["stage"], row["loss"], row.get("activations", ""), str(row["seed"]))
    return "_".join(parts).replace(" ", "-").replace(",", "") + ".npy"


def stored(folder: Path) -> Rows:
    """Return the rows of each stage and loss by seed; of rows for the same, the last one."""
    lines = (folder / "rows.jsonl").read_text().splitlines()
    latest = {_name(row): row for row in map(json.loads, lines)}
    found: Rows = {}
    for row in sorted(latest.values(), key=lambda row: row["seed"]):
        bounded = ", bounded" if row.get("activations") == "bounded" else ""
        found.setdefault((row["stage"] + bounded, row["loss"]), []).append(row)
    return found


def show(folder: Path, n_resamples: int) -> None:
    rows, classes = stored(folder), np.load(folder / "classes.npy")
    rng, n = np.random.default_rng(0), len(classes)
    counts = rng.multinomial(n, np.full(n, 1 / n), size=n_resamples)
    drawn = {
        key: {row["seed"]: resampled(np.load(folder / _name(row)), classes, counts) for row in found}
        for key, found in rows.items()
    }
    for place, metric in enumerate(METRICS):
        print(f"\n| trained | by | seeds | {metric} | sd | minus cross-entropy | pictures | minus 0-1 | pictures |")
        print("|" + "---|" * 9)
        for key, found in rows.items():
            values = np.array([row["figures"][place] for row in found])
            deviation = f"{values.std(ddof=1):.2f}" if len(values) > 1 else ""
            cells = [*key, str(len(found)), f"{values.mean():.2f}", deviation]
            for other in (BASE, (key[0], "zero_one")):
                cells += [""] * 2 if other == key or other not in rows else _difference(rows, drawn, key, other, place)
            print("|", " | ".join(cells), "|")
    _costs(rows)


def _difference(rows: Rows, drawn: dict[Key, dict[int, np.ndarray]], key: Key, other: Key, place: int) -> list[str]:
    """Return the mean difference with its interval over the seeds that both have, and the one over pictures."""
    values, others = ({row["seed"]: row["figures"][place] for row in rows[one]} for one in (key, other))
    seeds = sorted(values.keys() & others.keys())
    differences = np.array([values[seed] - others[seed] for seed in seeds])
    mean, half = interval(differences) if len(seeds) > 1 else (differences.mean(), np.nan)
    over_pictures = np.mean([drawn[key][seed] - drawn[other][seed] for seed in seeds], axis=0)[:, place]
    low, high = np.percentile(over_pictures, [2.5, 97.5])
    return [f"{mean:+.2f} ± {half:.2f}", f"[{low:+.2f}, {high:+.2f}]"]


def _costs(rows: Rows) -> None:
    print("\n| trained | by | CPU s | inference s | share | objective before | after | weights kept |")
    print("|" + "---|" * 8)
    for key, found in rows.items():
        if "seconds" in found[0]:
            seconds, inside = (np.mean([row[name] for row in found]) for name in ("seconds", "inference_seconds"))
            cells = [*key, f"{seconds:.1f}", f"{inside:.3f}", f"{100 * inside / seconds:.1f} %"]
            if "objectives" in found[0]:
                ends = np.mean([[row["objectives"][0], row["objectives"][-1]] for row in found], axis=0)
                kept = [kept for row in found for kept in row["kept"]]
                cells += [*(f"{end:.3f}" for end in ends), ", ".join(f"{kept.count(k)} {k}" for k in sorted(set(kept)))]
            else:
                cells += [""] * 3
            print("|", " | ".join(cells), "|")
