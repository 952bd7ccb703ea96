"""A product is missing, damaged, stale or current, and says in one sentence why."""

import json
from pathlib import Path

import pytest
from lapsvm.pipelines.products.models import ModelFile
from lapsvm.pipelines.products.product import Condition, Product, State

from lapsvm.errors import DataError, MissingError, SettingsError

INPUTS = {"C": 1, "seed": 0}


def read(path):
    """Return the recorded inputs of a file of JSON."""
    try:
        return json.loads(path.read_text())
    except ValueError:
        raise DataError(f"{path} is damaged.") from None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, State(Condition.MISSING)),
        ("{", State(Condition.DAMAGED, "PATH is damaged.")),
        ('{"C": 10, "seed": 0}', State(Condition.STALE, "PATH was made with C 10 instead of 1")),
        ('{"seed": 0}', State(Condition.STALE, "PATH was made with C (not set) instead of 1")),
        (json.dumps(INPUTS), State(Condition.CURRENT)),
    ],
)
def test_the_state_follows_from_the_recorded_inputs(tmp_path, monkeypatch, text, expected):
    monkeypatch.chdir(tmp_path)
    path = Path("PATH")
    if text is not None:
        path.write_text(text)
    assert Product(path, INPUTS, read).state() == expected


def test_a_file_that_goes_while_it_is_read_is_missing(tmp_path):
    (tmp_path / "one").touch()

    def gone(path):
        raise MissingError(f"{path} is not there.")

    assert Product(tmp_path / "one", INPUTS, gone).state() == State(Condition.MISSING)


def test_other_settings_are_refused_and_everything_else_is_made(tmp_path):
    path = tmp_path / "one"
    product = Product(path, INPUTS, read)
    assert product.is_to_make("take another --out")
    path.write_text(json.dumps(INPUTS))
    assert not product.is_to_make("take another --out")
    path.write_text('{"C": 10, "seed": 0}')
    with pytest.raises(SettingsError) as refused:
        product.is_to_make("take another --out")
    assert str(refused.value) == f"{path} was made with C 10 instead of 1; take another --out."


DATA = {"pictures": "a", "labels": "b", "positives": 3}


@pytest.mark.parametrize(
    ("change", "followed"),
    [
        ({}, []),
        ({"data": {**DATA, "labels": "c"}}, ["data"]),
        ({"data": {**DATA, "groups": "g"}}, ["data"]),
        ({"data": {**DATA, "positives": 4}}, []),  # no label has changed: then it is a setting
        ({"data": {}}, []),
        ({"verdicts": {"labels": 1}}, ["verdicts"]),
        ({"training": {"C": 2}}, []),
    ],
)
def test_a_model_follows_data_and_verdicts_alone(change, followed):
    now = {"training": {"C": 1}, "data": DATA, "shards": {}}
    model = ModelFile(Path("one"), now, lambda _: {})
    state = model.compared({**now, **change})
    assert list(state.followed) == followed
    assert state.is_current == (not change)
    assert bool(state.sentence) == ("data" in change or "training" in change)
