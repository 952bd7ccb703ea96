"""What a run says of its data before it extracts: counts per set and class, ignored files, suspicious labels."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from difflib import get_close_matches
from itertools import islice

from lapsvm.catalog import HEIC_ADVICE, ImageRecord
from lapsvm.names.kinds import HEIC, NO_CLASS, UNREAD_SUFFIXES, is_no_class_name
from lapsvm.texts.sentences import listed

from ...products.fold_models import FOLDS_ADVICE
from ...run.dataset import SHOWN, WITH_WORDS, RunData, count_labels, shown_classes
from ...settings.settings import Settings

SET_NAMES = frozenset({"trainval", "train", "training", "val", "valid", "validation", "test", "testing"})
"""Names, in lower case, that classes of objects do not have, but sets."""

LISTED = 10
"""Pictures, or pairs of pictures, that one sentence names."""

NEAR, NEAR_SINGLE = 0.9, 0.66
"""Least similarity (difflib's ratio) of a class's name to one that it may be a misspelling of.

The second is for classes with one picture: that of "cta" to "cat".
"""

NEGATIONS = frozenset({"no", "non", "not"})
"""Words beside which a word of no class means its opposite: "not ok"."""


def summary_sentences(data: RunData, left_out: Mapping[str, Collection[str]]) -> list[str]:
    """Return the sentences on the data of a run.

    Parameters
    ----------
    data : RunData
    left_out : mapping of set name to ids of the pictures that cannot be read
    """
    return [
        *(count_sentence(name, records, left_out.get(name, ())) for name, records in data.records.items()),
        *(f"split: {note}" for note in [getattr(data.dataset, "split_note", "")] if note),
        *_unused_sets(data),
        *_annotation_sentences(data),
        *_ignored_sentences(data),
        *_set_sentences(data.dataset.classes),
        *(f"labels: {hint}" for hint in misspellings(data).values()),
    ]


def count_sentence(set_name: str, records: Sequence[ImageRecord], left_out: Collection[str]) -> str:
    """Return the number of pictures of a set, and of its positive pictures per class."""
    used = [record for record in records if record.id not in left_out]
    positive, _ = count_labels(used)
    names = list(dict.fromkeys(name for record in used[:1] for name in record.labels)) or sorted(positive)
    counts = listed([f"{name} {positive[name]:,}" for name in names], SHOWN, kind=" classes")
    without = [record for record in used if not shown_classes(record)]
    parts = [
        f"set {set_name}: {len(used):,} pictures" + (f" without {len(left_out):,} left out" if left_out else ""),
        counts and f"positive: {counts}",
        f"of no class: {len(without):,}{_folders_of_no_class(without)}" if without else "",
    ]
    return "; ".join(part for part in parts if part)


def _folders_of_no_class(records: Sequence[ImageRecord]) -> str:
    """Return the folders of pictures without a class, as the end of a phrase. "" for none, as in a table."""
    folders = sorted({folder for record in records for folder in record.id.split("/")[:-1]})
    named = [name for name in folders if is_no_class_name(name)]
    return f" (folder {' and '.join(named)})" if named else ""


def too_small_classes(settings: Settings, classes: Sequence[str], records: Sequence[ImageRecord]) -> str:
    """Return why classes have too few pictures for training; "" if none has.

    Cross-validation needs a positive and a negative picture for each fold, training with given constants one of both.
    """
    needed = settings.train.least_pictures
    positive, negative = count_labels(records)
    small = [name for name in classes if min(positive[name], negative[name]) < needed]
    if not small:
        return ""
    got = listed([f"{name!r} {positive[name]} and {negative[name]}" for name in small], SHOWN, kind=" classes")
    folds, advice = (f" for {needed} folds", f"{FOLDS_ADVICE}, or ") if needed > 1 else ("", "")
    rule = f"every class must have {needed} positive and {needed} negative pictures{folds}"
    return f"{rule}, got {got}; {advice}name other --classes"


def _unused_sets(data: RunData) -> Iterator[str]:
    """Yield a sentence on sets whose pictures no set of the run has, where the reader knows them all without a file."""
    pictures: Mapping[str, Sequence[ImageRecord]] = getattr(data.dataset, "pictures", {})
    used = {record.path for records in data.records.values() for record in records}
    counts = {name: sum(record.path not in used for record in pictures[name]) for name in data.dataset.sets if pictures}
    if unused := [f"{name} {count:,} pictures" for name, count in counts.items() if count]:
        yield f"sets that are not used: {listed(unused, SHOWN)}; --train-set and --test-set choose them"


def _set_sentences(classes: Collection[str]) -> Iterator[str]:
    """Yield a question if classes have names of sets; "train" alone may be one that has rails."""
    found = sorted(name for name in classes if name.casefold() in SET_NAMES)
    if found and [name.casefold() for name in found] != ["train"]:
        yield f"labels: classes {listed([repr(name) for name in found])} have names of sets; are they sets?"


def _annotation_sentences(data: RunData) -> Iterator[str]:
    """Yield a sentence per set whose annotations the reader cannot use as a whole."""
    describe: Callable[[str], str] = getattr(data.dataset, "unusable_boxes", lambda _: "")
    for set_name in data.records:
        if sentence := describe(set_name):
            yield f"boxes of set {set_name}: {sentence}"


def _ignored_sentences(data: RunData) -> Iterator[str]:
    """Yield a sentence on the files that the reader ignores, if there are any."""
    counts: Mapping[str, int] = getattr(data.dataset, "ignored_files", dict)()
    if counts:
        kinds = listed([f"{count:,} {kind}" for kind, count in counts.items()], SHOWN, kind=" kinds")
        convert = [kind for kind in counts if kind in UNREAD_SUFFIXES]
        advice = f"; convert {' and '.join(convert)} to JPEG or PNG to use them" if convert else ""
        advice += f"; {HEIC_ADVICE}" if set(convert) & set(HEIC) else ""
        yield f"ignored files: {kinds}{advice}"


def misspellings(data: RunData) -> dict[str, str]:
    """Return class -> question, for classes with a name like a larger class's, or like `background`.

    Case, spaces and signs aside; names with digits must be equal then: "class1" and "class11" are two. A name that has
    a word of no class among others, as "good_parts", is asked for, too.
    """
    counts = Counter[str]()
    for records in data.records.values():
        counts.update(count_labels(records)[0])
    words = NO_CLASS if data.dataset.name in WITH_WORDS else frozenset[str]()
    larger = {word: word for word in words}
    found = {}
    for name in sorted(data.dataset.classes, key=lambda one: (-counts[one], one)):
        letters = "".join(filter(str.isalnum, name.casefold()))
        least = 1.0 if any(map(str.isdigit, letters)) else NEAR_SINGLE if counts[name] == 1 else NEAR
        if near := get_close_matches(letters, larger, 1, least):
            found[name] = f"class {name!r} is learned as one of its own; is it a misspelling of {larger[near[0]]!r}?"
        elif word := _word_of(name, words):
            found[name] = f"class {name!r} is learned as one of its own; does it mean {word!r}, no class?"
        larger.setdefault(letters, name)
    return dict(islice(found.items(), SHOWN))


def _word_of(name: str, words: Collection[str]) -> str | None:
    """Return the word for good pictures in a name of several words. None without one, or with one that is negated."""
    parts = re.findall(r"[^\W\d_]+", name.casefold())
    known = [word for word in parts if word in words]
    return known[0] if known and len(parts) > 1 and NEGATIONS.isdisjoint(parts) else None
