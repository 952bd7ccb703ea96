"""`Figures`: rows that JSON keeps, in the order of the table, with means, selections and differences."""

import json

import numpy as np
import pytest

from lapsvm.evaluation import ClassHits, Draws, Figure, Figures, MeasuredClass, Ranking, read_figures
from lapsvm.evaluation.figures import ANY_CLASS, MEAN
from lapsvm.evaluation.measures import MEASURES, Pictures, Shown

IDS = tuple(map(str, range(40)))
Y = np.where(np.arange(40) < 15, 1, -1)


def measured(seed):
    """Return a class with a ranking, and hits among its pictures."""
    random = np.random.default_rng(seed)
    hits = ClassHits(IDS[:15], random.random(15) < 0.6)
    return MeasuredClass(Ranking(IDS, random.normal(size=40) + Y, Y), has_none=True, corloc={0.5: hits})


@pytest.fixture
def figures():
    classes = {"cat": measured(1), "dog": measured(2)}
    return Figures.of("test", Pictures.TEST, classes, Draws.of(IDS, 0, draws=50), measured(3))


def test_json_keeps_every_row_and_its_intervals(figures):
    entry = json.loads(json.dumps(figures.to_json()))
    read = Figures.from_json(entry, "test")
    assert json.dumps(read.to_json()) == json.dumps(entry)
    assert (read.drawn, [name for name, _ in read.rows()]) == (figures.drawn, ["cat", "dog", ANY_CLASS, MEAN])
    for (_, row), (_, again) in zip(figures.rows(), read.rows(), strict=True):
        assert {key: (one.value, one.interval) for key, one in row.items()} == {
            key: (one.value, one.interval) for key, one in again.items()
        }


def test_measures_stand_in_the_order_of_the_table_whatever_the_file_says(figures):
    entry = figures.to_json()
    turned = {**entry, "classes": {name: dict(reversed(row.items())) for name, row in entry["classes"].items()}}
    assert list(entry["classes"]["cat"]) == ["corloc", "image_ap", "image_auroc"]
    assert list(entry["intervals"]["classes"]["cat"]) == ["image_ap", "image_auroc", "corloc"]  # shares last, as ever
    assert Figures.from_json(turned).measures() == figures.measures()
    assert [one.key for one in figures.measures(Shown.FIT)] == ["corloc"]


def test_a_selection_has_means_of_its_own_and_differs_from_others_class_by_class(figures):
    alone = figures.select(["dog"])
    assert alone.mean["image_ap"].value == figures.value("dog", "image_ap")
    found = figures.difference(figures, "image_ap")
    assert found["classes"].keys() == {"cat", "dog"}
    assert found["mean"]["difference"] == 0
    swapped = Figures.of("test", Pictures.TEST, {"cat": measured(2)}, Draws.of(IDS, 0, draws=50))
    difference = swapped.difference(figures, "image_ap")["classes"]["cat"]["difference"]
    assert difference == figures.value("dog", "image_ap") - figures.value("cat", "image_ap")


def test_pictures_that_a_model_has_seen_have_intervals_of_hits_alone():
    classes = {"cat": measured(1)}
    entry = Figures.of("trainval", Pictures.TRAINING, classes, Draws.of(IDS, 0, draws=50)).to_json()
    assert set(entry["intervals"]["mean"]) == {"corloc"}
    classes = {"cat": MeasuredClass(measured(1).ranking)}
    assert "intervals" not in Figures.of("trainval", Pictures.TRAINING, classes, Draws.of(IDS, 0)).to_json()


def test_a_figure_without_a_value_has_no_interval_and_stays_in_the_file():
    nothing = MeasuredClass(Ranking(IDS, np.zeros(40), np.full(40, -1)))
    entry = Figures.of("test", Pictures.TEST, {"cat": nothing}, Draws.of(IDS, 0, draws=50)).to_json()
    assert entry["classes"]["cat"] == entry["mean"] == {"image_ap": None}
    assert entry["intervals"]["classes"]["cat"] == entry["intervals"]["mean"] == {"image_ap": None}
    assert Figures.from_json(entry).to_json() == entry
    assert Figure(0.5).interval is None


def test_sets_are_read_with_unseen_pictures_first():
    row = {"classes": {"cat": {"image_ap": 0.5}}, "mean": {"image_ap": 0.5}}
    sets = {"trainval": {**row, "held_out": row}, "test": row}
    found = [(one.set_name, one.pictures) for one in read_figures(sets, "trainval")]
    assert found == [("test", Pictures.TEST), ("trainval", Pictures.HELD_OUT), ("trainval", Pictures.TRAINING)]
    assert MEASURES["image_ap"] in read_figures(sets, "trainval")[0].measures(Shown.TOP)
