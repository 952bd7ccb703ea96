"""Tables of a few seeds: means, standard deviations, and 95 % intervals of Student's t."""

from typing import Any

import numpy as np
from scipy.stats import t as student


def interval(values: np.ndarray) -> tuple[float, float]:
    """Return the mean and the half width of its 95 % interval."""
    n = len(values)
    return float(values.mean()), float(student.ppf(0.975, n - 1) * values.std(ddof=1) / n**0.5)


def comparison(found: dict[str, list[dict[str, Any]]], base: str) -> None:
    """Print a row per loss: its metrics, and the differences to the base, seed by seed; settings are medians."""
    print("| loss | step, scale, decay | mean AP | sd | minus", base, "| NDCG | sd | minus", base, "| CPU s |")
    print("|" + "---|" * 9)
    for name, records in found.items():
        cells = []
        for metric in ("ap", "ndcg"):
            values, others = (np.array([record[metric] for record in rows]) for rows in (records, found[base]))
            mean, half = interval(values - others)
            cells += [f"{values.mean():.2f}", f"{values.std(ddof=1):.2f}", f"{mean:+.2f} ± {half:.2f}"]
        settings = [record["key"]["settings"] for record in records]
        chosen = ", ".join(f"{value:g}" for value in np.median(settings, axis=0))
        print("|", " | ".join([name, chosen, *cells, f"{np.median([row['cpu'] for row in records]):.2f}"]), "|")
