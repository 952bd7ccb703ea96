"""Print the tables of `variants.py`: `python benchmarks/recipes/table.py OUT [--on trainval] [--variants a,b]`.

Figures by set, shares of the supervised ceiling by group of sets, and what the variant chosen on the other groups
gives on a group left out. A share is the mean of those of AP (11-point) and CorLoc, or of `--measure`. The ceiling on
trainval is held out: every picture has models that did not see its fold; the variants never see boxes, but all
pictures, so that a share may be more than 1. Choices are made on trainval; `--on test` reports them on test. Shares are
over the sets that all variants have. Brackets are percentile intervals at 95 % over draws of the groups, in the last
column over draws of the pictures (CorLoc alone).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from lapsvm.pipelines.cli.parsing import split_names
from lapsvm.pipelines.cli.study import Given, study_command, table_lines
from variants import CEILING, read_results

MEASURES = ("ap_11point", "corloc")
REFERENCES = ("best", "one-refinement")
DRAWS = 2000
Lines = Mapping[tuple[str, str], Mapping[str, Any]]


@study_command
def main(
    outs: Annotated[list[Path], Given(metavar="OUT", is_argument=True)],
    on: Annotated[str, Given(help="trainval or test")] = "trainval",
    variants: Annotated[str, Given(help="Names, separated by commas; all by default.")] = "",
    sets: Annotated[str, Given(help="Names, separated by commas; all by default.")] = "",
    measure: Annotated[str, Given(help="Of shares; by default the mean of all.")] = ",".join(MEASURES),
) -> None:
    """Print the tables of finished variants."""
    split_names("option --on", on, ("trainval", "test"))
    lines = [line for out in outs for line in read_results(out / "results.jsonl")]
    chosen_on, reported = (_by_pair(lines, where, sets.split(",") if sets else []) for where in ("trainval", on))
    names = variants.split(",") if variants else [name for _, name in reported if name != CEILING]
    measures = split_names("option --measure", measure, MEASURES)
    print_tables(chosen_on, reported, list(dict.fromkeys(names)), measures, on)


def print_tables(chosen_on: Lines, reported: Lines, variants: Sequence[str], measures: Sequence[str], on: str) -> None:
    """Print figures by set, shares of the ceiling, and what choices on the other groups give."""
    print(figures_table(reported, variants))
    sets = [one for one in dict.fromkeys(name for name, _ in reported) if _is_complete(reported, one, variants)]
    sets = [one for one in sets if _is_complete(chosen_on, one, variants)]
    left_out = sorted({name for name, _ in reported} - set(sets))
    print(f"\nShares of the ceiling on {on}, {', '.join(measures)}")
    print(f"Sets that a variant lacks: {', '.join(left_out) or 'none'}\n")
    if not sets:
        return
    groups = list(dict.fromkeys(reported[one, CEILING]["group"] for one in sets))
    shares = shares_of(reported, sets, groups, variants, measures)
    print(shares_table(shares, groups, variants, picture_intervals(reported, sets, groups, variants)), end="\n\n")
    print(left_out_table(shares_of(chosen_on, sets, groups, variants, measures), shares, groups, variants))


def _by_pair(lines: Sequence[Mapping[str, Any]], on: str, sets: Sequence[str]) -> Lines:
    return {(one["set"], one["variant"]): one for one in lines if one["on"] == on and (not sets or one["set"] in sets)}


def _is_complete(lines: Lines, one: str, variants: Sequence[str]) -> bool:
    return all((one, variant) in lines for variant in (*variants, CEILING))


def figures_table(lines: Lines, variants: Sequence[str]) -> str:
    """Return AP and CorLoc of every set and variant, and the CPU seconds of training and refinement."""
    sets, names = list(dict.fromkeys(name for name, _ in lines)), [*variants, CEILING]
    rows = [[one, *(_figures(lines.get((one, name))) for name in names)] for one in sets]
    return "\n".join(table_lines(["set: AP / CorLoc (CPU s)", *names], rows))


def _figures(line: Mapping[str, Any] | None) -> str:
    if line is None:
        return ""
    text = " / ".join(f"{line['mean'][measure]:.3f}" for measure in MEASURES)
    return f"{text} ({sum(line['cpu_seconds'].values()):.0f})" if "cpu_seconds" in line else text


def shares_of(
    lines: Lines, sets: Sequence[str], groups: Sequence[str], variants: Sequence[str], measures: Sequence[str]
) -> np.ndarray:
    """Return the shares of the ceiling, (groups, variants): means over the sets of a group and the measures."""

    def share(one: str, variant: str) -> float:
        values, ceiling = lines[one, variant]["mean"], lines[one, CEILING]["mean"]
        return float(np.mean([values[measure] / ceiling[measure] for measure in measures]))

    members = [[one for one in sets if lines[one, CEILING]["group"] == group] for group in groups]
    return np.array([[np.mean([share(one, name) for one in own]) for name in variants] for own in members])


def shares_table(
    shares: np.ndarray, groups: Sequence[str], variants: Sequence[str], pictures: Mapping[str, str]
) -> str:
    """Return the shares by group, their mean and least, and the difference of the mean to that of `best`."""
    reference = shares[:, variants.index(REFERENCES[0])] if REFERENCES[0] in variants else None
    rows = []
    for name, column in zip(variants, shares.T, strict=True):
        difference = "" if reference is None else _with_interval(column - reference, "+")
        numbers = [f"{value:.3f}" for value in column]
        rows.append([name, *numbers, _with_interval(column), f"{column.min():.3f}", difference, pictures[name]])
    return "\n".join(
        table_lines(["variant", *groups, "mean", "least", f"less {REFERENCES[0]}", "the same, pictures"], rows)
    )


def left_out_table(chosen_on: np.ndarray, shares: np.ndarray, groups: Sequence[str], variants: Sequence[str]) -> str:
    """Return for each group the variant that is best on the others, and its share on the group, beside references."""
    names = [name for name in REFERENCES if name in variants]
    rows, chosen = [], []
    for number, group in enumerate(groups):
        best = int(np.delete(chosen_on, number, axis=0).mean(axis=0).argmax()) if len(groups) > 1 else 0
        chosen.append(shares[number, best])
        numbers = [shares[number, best], *(shares[number, variants.index(name)] for name in names)]
        rows.append([group, variants[best], *(f"{value:.3f}" for value in numbers)])
    columns = [np.array(chosen), *(shares[:, variants.index(name)] for name in names)]
    rows.append(["mean", "", *map(_with_interval, columns)])
    rows.append(["choice less it", "", "", *(_with_interval(columns[0] - column, "+") for column in columns[1:])])
    return "\n".join(table_lines(["group left out", "chosen on the others", "its share", *names], rows))


def picture_intervals(
    lines: Lines, sets: Sequence[str], groups: Sequence[str], variants: Sequence[str]
) -> dict[str, str]:
    """Return for each variant the interval of its mean share of CorLoc less that of the reference."""
    if REFERENCES[0] not in variants:
        return dict.fromkeys(variants, "")
    of_group: dict[str, list[np.ndarray]] = {group: [] for group in groups}
    for one in sets:
        drawn = _drawn_corloc([lines[one, name]["hits"] for name in (*variants, CEILING)])
        of_group[lines[one, CEILING]["group"]].append(drawn[:-1] / np.maximum(drawn[-1], 1e-9))
    means = np.mean([np.mean(own, axis=0) for own in of_group.values()], axis=0)
    differences = means - means[variants.index(REFERENCES[0])]
    return {name: _interval(row, "+") for name, row in zip(variants, differences, strict=True)}


def _drawn_corloc(hits: Sequence[Mapping[str, str]]) -> np.ndarray:
    """Return CorLoc, the mean over the classes, of variants in draws of the pictures: (variants, draws)."""
    rng, classes = np.random.default_rng(0), []
    for name in hits[0]:
        matrix = np.array([list(own[name]) for own in hits]) == "1"
        counts = rng.multinomial(matrix.shape[1], np.full(matrix.shape[1], 1 / matrix.shape[1]), DRAWS)
        classes.append(matrix @ counts.T / matrix.shape[1])
    return np.mean(classes, axis=0)


def _with_interval(values: np.ndarray, sign: str = "") -> str:
    """Return the mean of the groups' values with its interval over draws of the groups."""
    draws = np.random.default_rng(0).integers(len(values), size=(DRAWS, len(values)))
    return f"{values.mean():{sign}.3f} {_interval(values[draws].mean(axis=1), sign)}"


def _interval(values: np.ndarray, sign: str = "") -> str:
    low, high = np.percentile(values, (2.5, 97.5))
    return f"[{low:{sign}.3f}, {high:{sign}.3f}]"


if __name__ == "__main__":
    main()
