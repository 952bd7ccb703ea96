"""Tables of a few seeds: means, standard deviations, and 95 % intervals of Student's t."""

from typing import Any

import numpy as np
from lapsvm.pipelines.cli.study import print_table
from scipy.stats import t as student


def interval(values: np.ndarray) -> tuple[float, float]:
    """Return the mean and the half width of its 95 % interval."""
    n = len(values)
    return float(values.mean()), float(student.ppf(0.975, n - 1) * values.std(ddof=1) / n**0.5)


def comparison(found: dict[str, list[dict[str, Any]]], base: str) -> None:
    """Print a row per loss: its metrics, and the differences to the base, seed by seed; settings are medians."""
    titles = ["loss", "step, scale, decay", "mean AP", "sd", f"minus {base}", "NDCG", "sd", f"minus {base}", "CPU s"]
    print_table(titles, (loss_row(name, records, found[base]) for name, records in found.items()))


def loss_row(name: str, records: list[dict[str, Any]], base: list[dict[str, Any]]) -> list[str]:
    cells = []
    for metric in ("ap", "ndcg"):
        values, others = (np.array([record[metric] for record in rows]) for rows in (records, base))
        mean, half = interval(values - others)
        cells += [f"{values.mean():.2f}", f"{values.std(ddof=1):.2f}", f"{mean:+.2f} ± {half:.2f}"]
    chosen = np.median([record["key"]["settings"] for record in records], axis=0)
    seconds = np.median([record["cpu"] for record in records])
    return [name, ", ".join(f"{value:g}" for value in chosen), *cells, f"{seconds:.2f}"]
