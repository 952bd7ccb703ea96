"""Expressions of users find what Python's own matcher finds, and end."""

import re
import time
from threading import Thread
from unicodedata import normalize

import numpy as np
import pytest

from lapsvm.errors import OptionError
from lapsvm.names import patterns
from lapsvm.names.patterns import check_pattern, found_in

NEVER = ["(.*){30}x", "(a+)+$", "(a|a)*$", "(a|aa)+$", "(?:a?){40}a{40}b", r"(\w*)*-", "((a*)*)*b"]


def by_hand(expression, name):
    match = re.search(expression, name)
    if match is None:
        return ""
    return (match.group(1) if match.re.groups else match.group(0)) or ""


@pytest.mark.parametrize("seed", range(5))
def test_what_is_found_is_what_python_finds(seed):
    rng = np.random.default_rng(seed)
    names = ["".join(rng.choice([*"abc-_/1 2\n\udc80"], rng.integers(12))) for _ in range(200)]
    pieces = ["a", "[bc]", r"\d+", "(a)?", "(b|c)", "^", "$", ".*?", "(?=1)", "-", "(?i:B)"]
    for _ in range(5):
        expression = "".join(rng.choice(pieces, rng.integers(1, 5)))
        assert found_in(expression, names) == [by_hand(expression, name) for name in names]


@pytest.mark.parametrize("expression", NEVER)
def test_an_expression_that_never_ends_is_refused(monkeypatch, expression):
    monkeypatch.setattr(patterns, "SECONDS", 0.6)
    begun = time.monotonic()
    with pytest.raises(OptionError, match="must find its matches in 1 names within 1 seconds"):
        found_in(expression, ["a" * 60 + "!"])
    assert time.monotonic() - begun < 60


def test_an_expression_ends_off_the_main_thread(monkeypatch):
    monkeypatch.setattr(patterns, "SECONDS", 0.6)
    refused = []

    def ask():
        try:
            found_in(NEVER[0], ["b" * 40])
        except OptionError as error:
            refused.append(str(error))

    thread = Thread(target=ask)
    thread.start()
    thread.join(60)
    assert ["repeats inside of repeats" in one for one in refused] == [True]


def test_the_form_of_accents_does_not_count():
    for form in ("NFC", "NFD"):
        for other in ("NFC", "NFD"):
            assert found_in(normalize(form, "^(pièce[éè])_"), [normalize(other, "pièceé_1")]) == ["pièceé"]


def test_no_name_needs_no_search():
    assert found_in(NEVER[0], []) == []


@pytest.mark.parametrize(
    "expression", ["(", "a{2,1}", "*", "a{99999999999999999999}", "(" * 5000, "x" * 1001, "[" * 900]
)
def test_what_is_no_expression_is_refused(expression):
    with pytest.raises(OptionError, match=r"^option --group must be a regular expression"):
        check_pattern("option --group", expression)


def test_an_expression_that_warns_says_nothing(recwarn):
    check_pattern("option --group", "[[a]")
    assert not recwarn.list
