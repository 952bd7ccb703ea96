"""Means over splits, paired tests against TopPush, and their Markdown table."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from claims import REPRODUCED, Mean, claim

from lapsvm.evaluation import paired_t_test
from lapsvm.report import markdown_table

OFFICIAL, BASE = "official", "toppush"
LEVEL = 0.1  # significance of marked differences, as in the paper
OVERLAP = 0.5
"""Test samples per training sample: the corrected test needs it, because random splits share training samples."""

TITLES = {
    "toppush": "TopPush",
    "toppush_early": "TopPush, stopped early",
    "infinite_push": "InfinitePush",
    "ranksvm_ap": "RankSVM, AP",
    "ranksvm_auc": "RankSVM, AUC",
    "ranksvm_pos_at_top": "RankSVM, Pos@Top",
    "ranksvm_partial_auc": "RankSVM, partial AUC to .05",
    "logistic_regression": "logistic regression",
    "linear_svm": "linear SVM, balanced",
}
HEADS = {"pos_at_top": "Pos@Top", "ap": "AP", "ndcg": "NDCG", "auc": "AUC"}

PAPER = {  # set -> learner -> the paper's means in the order of HEADS
    "diabetes": {
        "toppush": (0.123, 0.872, 0.976, 0.780), "infinite_push": (0.119, 0.877, 0.978, 0.793),
        "ranksvm_ap": (0.077, 0.879, 0.969, 0.616), "ranksvm_auc": (0.087, 0.879, 0.975, 0.801),
        "ranksvm_pos_at_top": (0.053, 0.668, 0.884, 0.506), "logistic_regression": (0.064, 0.881, 0.973, 0.810),
        "linear_svm": (0.077, 0.758, 0.920, 0.624),
    },
    "spambase": {
        "toppush": (0.129, 0.922, 0.988, 0.942), "infinite_push": (0.132, 0.920, 0.987, 0.947),
        "ranksvm_ap": (0.097, 0.935, 0.984, 0.920), "ranksvm_auc": (0.069, 0.931, 0.990, 0.970),
        "ranksvm_pos_at_top": (0.073, 0.854, 0.975, 0.889), "logistic_regression": (0.071, 0.920, 0.987, 0.952),
        "linear_svm": (0.069, 0.907, 0.980, 0.941),
    },
    "w8a": {
        "toppush": (0.226, 0.710, 0.938, 0.922), "logistic_regression": (0.107, 0.450, 0.775, 0.591),
        "linear_svm": (0.118, 0.447, 0.774, 0.591),
    },
}  # fmt: skip

LEGEND = f"""\
Mean ± standard deviation over the splits; + is better than TopPush, - is worse, by a paired t-test at {LEVEL} that is
corrected for overlapping training sets. CPU seconds: one fit with the chosen parameter, on one BLAS thread."""

Splits = Mapping[str, Mapping[str, Any]]


def summary(sets: Mapping[str, Splits], measures: list[str]) -> dict[str, Any]:
    """Return the size of each set and the figures of each learner on the official and the random splits."""
    return {name: _of_set(splits, measures) for name, splits in sets.items() if splits}


def _of_set(splits: Splits, measures: list[str]) -> dict[str, Any]:
    drawn = {name: rows for name, rows in splits.items() if name != OFFICIAL}
    entry: dict[str, Any] = {"size": next(iter(splits.values()))["size"]}
    if OFFICIAL in splits:
        entry[OFFICIAL] = {key: row for key, row in splits[OFFICIAL].items() if key in TITLES}
    if drawn:
        entry["random"] = {key: _of_learner(drawn, key, measures) for key in TITLES if _values(drawn, key, "ap")}
    return entry


def _values(splits: Splits, learner: str, measure: str) -> dict[str, float]:
    """Return the value of a learner on every split that has one."""
    return {name: rows[learner][measure] for name, rows in splits.items() if learner in rows}


def _of_learner(splits: Splits, learner: str, measures: list[str]) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for measure in measures:
        row[measure] = _spread(list(_values(splits, learner, measure).values()))
        row[measure] |= _against_base(splits, learner, measure)
    row["cpu_s"] = float(np.mean(list(_values(splits, learner, "cpu_s").values())))
    row["splits"] = len(_values(splits, learner, "cpu_s"))
    if learner == BASE:
        # the objective of w = 0 is 1
        row["at_zero"] = sum(value > 1 - 1e-9 for value in _values(splits, learner, "objective").values())
    return row


def _spread(values: list[float]) -> dict[str, Any]:
    return {"mean": float(np.mean(values)), "sd": float(np.std(values, ddof=1)) if len(values) > 1 else None}


def _against_base(splits: Splits, learner: str, measure: str) -> dict[str, float]:
    """Return the p-values of the plain and of the corrected test against TopPush."""
    base, values = _values(splits, BASE, measure), _values(splits, learner, measure)
    shared = [name for name in values if name in base]
    if learner == BASE or len(shared) < 2:
        return {}
    pairs = [base[name] for name in shared], [values[name] for name in shared]
    return {"p_plain": paired_t_test(*pairs).p_value, "p_value": paired_t_test(*pairs, overlap=OVERLAP).p_value}


def claims_of(sets: Mapping[str, Splits]) -> Iterator[list[Any]]:
    """Yield the means that the paper prints beside ours, and how far TopPush leads the others in Pos@Top."""
    for name, found in sets.items():
        drawn = {split: rows for split, rows in found.items() if split != OFFICIAL}
        paper_figures = PAPER.get(name, {})
        early = {"toppush_early": paper_figures["toppush"]} if paper_figures else {}
        for key, figures in (paper_figures | early).items():
            for (measure, head), paper in zip(HEADS.items(), figures, strict=True):
                values = list(_values(drawn, key, measure).values())
                if values:
                    ours = Mean.of(values, OVERLAP)
                    word = "not: higher" if paper < ours.low else "not: lower" if paper > ours.high else REPRODUCED
                    yield claim(f"{name}, {TITLES[key]}: {head}", ours, paper, ".3f", word)
            base, values = _values(drawn, BASE, "pos_at_top"), _values(drawn, key, "pos_at_top")
            if key != BASE and base.keys() & values:
                lead = Mean.of([base[split] - values[split] for split in base if split in values], OVERLAP)
                yield claim(f"{name}, Pos@Top: TopPush less {TITLES[key]}", lead, PAPER[name][BASE][0] - figures[0])


def as_markdown(table: Mapping[str, Any], measures: list[str]) -> str:
    """Return toppush.md."""
    return "\n".join([LEGEND, "", *(line for name, entry in table.items() for line in _section(name, entry, measures))])


def _section(name: str, entry: Mapping[str, Any], measures: list[str]) -> list[str]:
    """Return the lines of one set: the tables of the random splits and of the official split."""
    training, test, features = entry["size"]
    lines = [f"## {name}", "", f"{training} training and {test} test samples, {features} features.", ""]
    random = entry.get("random", {})
    base = random.get(BASE, {})
    if random:
        title = f"{base['splits']} random splits" if base else "random splits"
        cells = {key: [_cell(row[name], base.get(name)) for name in measures] for key, row in random.items()}
        lines.append(_table(title, measures, random, cells))
    if OFFICIAL in entry:
        cells = {key: [row[name] for name in measures] for key, row in entry[OFFICIAL].items()}
        lines.append(_table("the official split", measures, entry[OFFICIAL], cells))
    if base.get("at_zero"):
        lines += [f"On {base['at_zero']} of the random splits w = 0 is TopPush's minimum at the chosen parameter.", ""]
    return lines


def _table(title: str, measures: list[str], rows: Mapping[str, Any], cells: Mapping[str, list[Any]]) -> str:
    """Return one table: a row per learner."""
    lines = [[TITLES[key], *cells[key], row["cpu_s"]] for key, row in rows.items()]
    return markdown_table([title, *(HEADS[measure] for measure in measures), "CPU s"], lines)


def _cell(figure: Mapping[str, Any], base: Mapping[str, Any] | None) -> str:
    """Return mean and standard deviation, then "+" or "-" if better or worse than TopPush by the corrected test."""
    text = f"{figure['mean']:.3f}" + ("" if figure["sd"] is None else f" ± {figure['sd']:.3f}")
    if base is None or figure.get("p_value", 1.0) > LEVEL:
        return text
    return f"{text} {'+' if figure['mean'] > base['mean'] else '-'}"
