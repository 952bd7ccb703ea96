"""Names of classes that look like another one misspelled."""

from collections import Counter
from collections.abc import Mapping
from difflib import get_close_matches
from itertools import islice

from lapsvm.catalog import NO_CLASS

from ...run.dataset import SHOWN, RunData, count_labels

CLOSE = 0.66
"""Least similarity (difflib's ratio) of a name to one that it may be a misspelling of; that of "cta" to "cat"."""

_SHORTEST = 4
"""Letters of the shorter of two names that differ by one letter: "car" and "cart" are two things."""


def misspellings(data: RunData) -> dict[str, str]:
    """Return class -> question, for classes whose name may be a misspelling.

    That of a class with one picture is compared with those of larger classes. Other names are compared more strictly:
    case, spaces and signs aside, they are the same, or have one letter more, or two letters swapped.
    """
    counts = Counter[str]()
    for records in data.records.values():
        counts.update(count_labels(records)[0])
    found = _of_no_class(data) | _nearly_equal(data, counts) | _single(data, counts)
    return dict(islice(found.items(), SHOWN))


def _single(data: RunData, counts: Mapping[str, int]) -> dict[str, str]:
    larger = {name.casefold(): name for name in counts if counts[name] > 1}
    single = [name for name in data.dataset.classes if counts[name] == 1]
    found = {name: get_close_matches(name.casefold(), larger, 1, CLOSE) for name in islice(single, SHOWN)}
    return {
        name: f"class {name!r} has one picture; is it a misspelling of {larger[close[0]]!r}?"
        for name, close in found.items()
        if close
    }


def _nearly_equal(data: RunData, counts: Mapping[str, int]) -> dict[str, str]:
    """Return the smaller class of two with nearly the same name -> question."""
    by_letters: dict[str, str] = {}
    questions = {}
    for name in sorted(data.dataset.classes, key=lambda one: (-counts[one], one)):
        other = by_letters.setdefault(_letters(name), name)
        if other != name:
            questions[name] = _question(name, other)
    for letters, name in by_letters.items():
        for near in _misspelled(letters):
            if near in by_letters:
                small, large = sorted((name, by_letters[near]), key=lambda one: (counts[one], one))
                questions[small] = _question(small, large)
    return questions


def _of_no_class(data: RunData) -> dict[str, str]:
    """Return class -> question, for folders of classes that may be of pictures without a class."""
    if data.dataset.name != "folder":
        return {}
    found = {}
    for name in data.dataset.classes:
        letters = _letters(name)
        for word in sorted(NO_CLASS):
            if letters in _misspelled(word) or word in _misspelled(letters):
                found[name] = (
                    f"class {name!r} is learned as a class; is it a misspelling of {word!r}, the folder of pictures "
                    "without a class? Then rename the folder."
                )
    return found


def _question(small: str, large: str) -> str:
    return f"classes {small!r} and {large!r} have nearly the same name; if they are one class, give both one name."


def _letters(name: str) -> str:
    """Return a name without case, spaces and signs."""
    return "".join(filter(str.isalnum, name.casefold())) or name


def _misspelled(word: str) -> set[str]:
    """Return a word with one letter left out, or two neighbours swapped; its first letter and digits stay."""
    shorter = {
        word[:i] + word[i + 1 :]
        for i in range(1, len(word))
        if word[i].isalpha() and (len(word) > _SHORTEST or (word[i:] == "s" and i > 2))
    }
    swapped = {
        word[:i] + word[i + 1] + word[i] + word[i + 2 :]
        for i in range(1, len(word) - 1)
        if word[i : i + 2].isalpha() and word[i] != word[i + 1] and len(word) >= _SHORTEST
    }
    return shorter | swapped
