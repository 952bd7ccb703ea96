"""Means over splits, paired tests against TopPush, and the table for people."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from lapsvm.evaluation import paired_t_test

OFFICIAL = "official"
BASE = "toppush"
LEVEL = 0.1
"""Of the marked differences: that of the paper."""

OVERLAP = 0.5
"""Test samples per training sample: random splits share their training samples, and the test is corrected for it."""

TITLES = {
    "toppush": "TopPush",
    "toppush_early": "TopPush, stopped early",
    "ranksvm_ap": "RankSVM, AP",
    "ranksvm_pos_at_top": "RankSVM, Pos@Top",
    "logistic_regression": "logistic regression",
    "linear_svm": "linear SVM, balanced",
}
HEADS = {"pos_at_top": "Pos@Top", "ap": "AP", "ndcg": "NDCG", "auc": "AUC"}

LEGEND = f"""\
Mean ± standard deviation over the splits; + is better than TopPush, - is worse, by a paired t-test at {LEVEL} that is
corrected for what the splits share. CPU seconds: one fit with the parameter that was chosen, on one BLAS thread."""

Splits = Mapping[str, Mapping[str, Any]]


def summary(sets: Mapping[str, Splits], measures: list[str]) -> dict[str, Any]:
    """Return for each set its size and, for the official split and the random ones, each learner's figures."""
    return {name: _of_set(splits, measures) for name, splits in sets.items() if splits}


def _of_set(splits: Splits, measures: list[str]) -> dict[str, Any]:
    drawn = {name: rows for name, rows in splits.items() if name != OFFICIAL}
    found: dict[str, Any] = {"size": next(iter(splits.values()))["size"]}
    if OFFICIAL in splits:
        found[OFFICIAL] = {key: row for key, row in splits[OFFICIAL].items() if key in TITLES}
    if drawn:
        found["random"] = {key: _of_learner(drawn, key, measures) for key in TITLES if _values(drawn, key, "ap")}
    return found


def _values(splits: Splits, learner: str, measure: str) -> dict[str, float]:
    """Return the learner's value on every split that has one."""
    return {name: rows[learner][measure] for name, rows in splits.items() if learner in rows}


def _of_learner(splits: Splits, learner: str, measures: list[str]) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for measure in measures:
        row[measure] = _spread(list(_values(splits, learner, measure).values()))
        row[measure] |= _against_base(splits, learner, measure)
    row["cpu_s"] = float(np.mean(list(_values(splits, learner, "cpu_s").values())))
    row["splits"] = len(_values(splits, learner, "cpu_s"))
    if learner == BASE:
        # the squared hinge of w = 0 is 1
        row["at_zero"] = sum(value > 1 - 1e-9 for value in _values(splits, learner, "objective").values())
    return row


def _spread(values: list[float]) -> dict[str, Any]:
    return {"mean": float(np.mean(values)), "sd": float(np.std(values, ddof=1)) if len(values) > 1 else None}


def _against_base(splits: Splits, learner: str, measure: str) -> dict[str, float]:
    """Return the p-values of the plain and of the corrected test against TopPush."""
    base, its = _values(splits, BASE, measure), _values(splits, learner, measure)
    shared = [name for name in its if name in base]
    if learner == BASE or len(shared) < 2:
        return {}
    pairs = [base[name] for name in shared], [its[name] for name in shared]
    return {"p_plain": paired_t_test(*pairs).p_value, "p_value": paired_t_test(*pairs, overlap=OVERLAP).p_value}


def as_markdown(table: Mapping[str, Any], measures: list[str]) -> str:
    """Return the table for people."""
    return "\n".join([LEGEND, "", *(line for name, found in table.items() for line in _section(name, found, measures))])


def _section(name: str, found: Mapping[str, Any], measures: list[str]) -> list[str]:
    training, test, features = found["size"]
    lines = [f"## {name}", "", f"{training} training and {test} test samples, {features} features.", ""]
    if "random" in found:
        rows = found["random"]
        lines += [*_head(f"{rows[BASE]['splits']} random splits" if BASE in rows else "random splits", measures)]
        best = rows.get(BASE)
        lines += [
            _row(TITLES[key], [_cell(row[m], best and best[m]) for m in measures], row["cpu_s"])
            for key, row in rows.items()
        ]
        lines += [""]
    if OFFICIAL in found:
        lines += _head("the official split", measures)
        lines += [
            _row(TITLES[key], [f"{row[m]:.3f}" for m in measures], row["cpu_s"]) for key, row in found[OFFICIAL].items()
        ]
        lines += [""]
    zero = found.get("random", {}).get(BASE, {}).get("at_zero", 0)
    if zero:
        lines += [f"On {zero} of the random splits w = 0 is TopPush's minimum at the parameter that was chosen.", ""]
    return lines


def _head(title: str, measures: list[str]) -> list[str]:
    heads = [title, *(HEADS[measure] for measure in measures), "CPU s"]
    return [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]


def _row(title: str, cells: list[str], cpu: float) -> str:
    return f"| {' | '.join([title, *cells, f'{cpu:.3f}'])} |"


def _cell(figure: Mapping[str, Any], base: Mapping[str, Any] | None) -> str:
    """Return mean and standard deviation; "-" behind it is worse than TopPush, "+" is better, by the corrected test."""
    text = f"{figure['mean']:.3f}" + ("" if figure["sd"] is None else f" ± {figure['sd']:.3f}")
    if base is None or figure.get("p_value", 1.0) > LEVEL:
        return text
    return f"{text} {'+' if figure['mean'] > base['mean'] else '-'}"
