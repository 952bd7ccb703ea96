"""Which verdicts count, with sentences on those that do not, and the labels that they leave."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from lapsvm.ground_truth import Size
from lapsvm.texts.sentences import counted, listed

from ..run.dataset import Labels
from ..settings.settings import TrainSettings
from .verdict import Verdict, VerdictLog


def decided(verdicts: Mapping[str, Verdict]) -> dict[str, Verdict]:
    """Return the verdicts of pictures that say something: without "skip"."""
    return {picture: said for picture, said in verdicts.items() if said.verdict != "skip"}


def usable_verdicts(
    verdicts: Collection[Verdict], classes: Collection[str], size_of: Callable[[Verdict], Size | None]
) -> tuple[list[Verdict], list[str]]:
    """Return the verdicts of a run's classes whose boxes lie in their pictures, and sentences on the others.

    `size_of` returns width and height of a verdict's picture; None if they are not known.
    """
    kept, faults = list[Verdict](), defaultdict[tuple[str, str], list[str]](list)
    for verdict in verdicts:
        if verdict.class_name not in classes:
            continue
        if fault := verdict.fault(size_of(verdict)):
            faults[verdict.class_name, fault].append(verdict.picture)
        else:
            kept.append(verdict)
    notes = of_no_class(verdicts, classes)
    for (name, fault), pictures in faults.items():
        notes += counted(pictures, f"verdicts of {name!r} {fault} are left out")
    return kept, notes


def of_other_pictures(
    verdicts: Mapping[str, Verdict], present: Collection[str], hashes: Mapping[str, str]
) -> tuple[list[str], list[str]]:
    """Return the pictures of verdicts that are not `present`, and those whose pixel hash, where known, has changed."""
    unknown = [picture for picture in verdicts if picture not in present]
    changed = [name for name, said in verdicts.items() if name in hashes and not said.is_of(hashes[name])]
    return unknown, changed


def replacing(new: Iterable[Verdict], earlier: VerdictLog) -> list[str]:
    """Return a sentence on new verdicts that replace others that differ, in a list; an empty list for none."""
    pairs = ((one, earlier.of_class(one.class_name).get(one.picture)) for one in new)
    pictures = [one.picture for one, old in pairs if old and old.verdict != "skip" and not one.says_as(old)]
    return counted(pictures, "verdicts replace earlier ones of the run that differ")


def of_no_class(verdicts: Iterable[Verdict], classes: Collection[str]) -> list[str]:
    """Return a sentence on the verdicts of classes that a run lacks, in a list; an empty list for none."""
    others = [repr(verdict.class_name) for verdict in verdicts if verdict.class_name not in classes]
    names = listed(sorted({*others}))
    return [f"{len(others):,} verdicts are of classes that the run lacks and are left out: {names}"] if names else []


def not_random(verdicts: Iterable[Verdict]) -> list[str]:
    """Return a sentence on the verdicts that count in no figure, in a list; an empty list for none."""
    count = sum(verdict.order != "random" for verdict in verdicts)
    sentence = (
        f"{count:,} verdicts are on pictures that were not drawn at random, as those of a merged export: they teach, "
        "and count in no share of right boxes"
    )
    return [sentence] if count else []


def labels_after(verdicts: Mapping[str, Verdict], y: Labels, ids: Sequence[str]) -> Labels:
    """Return the labels (n,) of a class after its verdicts, for pictures that have `y` without them."""
    labels = y.copy()
    for row, picture in enumerate(ids):
        if picture in verdicts:
            labels[row] = verdicts[picture].label(int(labels[row]))
    return labels


def denial(train: TrainSettings, y: Labels) -> str:
    """Return why a class cannot be learned with the labels (n,) that its verdicts leave: "has no ..."; "" if it can.

    Cross-validation needs a positive and a negative picture for each fold, training with given constants one of both.
    """
    counts = [(int((sign * y > 0).sum()), kind) for sign, kind in ((1, "positive"), (-1, "negative"))]
    if all(count >= train.least_pictures for count, _ in counts):
        return ""
    left = " and ".join(f"{count or 'no'} {kind}" for count, kind in counts)
    return f"has {left} pictures after its verdicts, and training needs {train.least_pictures} of both"
