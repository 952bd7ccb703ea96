"""The share of right boxes by the verdicts of a person: figures, sentences, and the command to look."""

import shlex
from collections.abc import Mapping
from itertools import chain
from typing import Any

from lapsvm.evaluation.intervals import LEVEL

from ..context import StoredRun
from ..products.held_out import read_held_out
from ..run.folder import RunFolder
from ..verdicts.counting import not_random
from ..verdicts.reviewed import ReviewedClass, reviewed_by_class
from ..verdicts.right_boxes import Verified
from .evaluation import SetEvaluation

ADVICE = "nothing is known of the boxes yet: look at, or mark, 20"


def verified_classes(run: RunFolder, reviewed: Mapping[str, ReviewedClass]) -> dict[str, Verified]:
    """Return class -> figure, for the classes that have one."""
    figures = {}
    for name, of_class in reviewed.items():
        if (held_out := read_held_out(run, name)) is not None:
            figures[name] = held_out.verified(of_class.verdicts)
    return {name: figure for name, figure in figures.items() if figure is not None}


def reviewed_classes(stored: StoredRun) -> dict[str, ReviewedClass]:
    """Return class -> its verdicts, for the classes that have some; none without shards, which know the pixels."""
    log = stored.verdicts
    names = [name for name in stored.data.classes if log.of_class(name)]
    shards = stored.shards_if_any(stored.train_set) if names else None
    return {} if shards is None else reviewed_by_class(log, shards, names)


def verified_table(figures: Mapping[str, Verified]) -> dict[str, Any]:
    """Return the entry "verified" of evaluation.json."""
    return {
        "level": LEVEL,
        "interval": "wilson with held-out scores, finite population",
        "boxes": "held out",
        "classes": {name: figure.row() for name, figure in figures.items()},
    }


def verified_sentences(
    stored: StoredRun, reviewed: Mapping[str, ReviewedClass], figures: Mapping[str, Verified],
    sets: Mapping[str, SetEvaluation],
) -> list[str]:  # fmt: skip
    """Return the sentences on right boxes for the terminal and the page.

    Figures, verdicts that do not count, and the classes of whose boxes nothing is known, with how to look. Boxes that
    are known of `sets` have figures of their own.
    """
    said = [f"{name}: {figure} (verdicts on random pictures)" for name, figure in figures.items()]
    notes = [note for one in reviewed.values() for note in one.notes]
    notes += [] if said else not_random(chain.from_iterable(one.verdicts.values() for one in reviewed.values()))
    unknown = [name for name in stored.data.classes if name not in figures]
    if not unknown or any(one.truth is not None for one in sets.values()):
        return [*said, *notes]
    of = f" of {', '.join(unknown)}" if said else ""
    return [*said, *notes, f"{ADVICE}{of}: {review_command(stored.folder)}"]


def review_command(run: RunFolder) -> str:
    """Return the command, to paste into a terminal, that shows the run's boxes to a person."""
    return f"lapsvm review --out {shlex.quote(str(run.path))}"
