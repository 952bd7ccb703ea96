"""The benchmark that runs variants of a recipe over the development sets, on tiny folders and made-up results."""

import json
import sys
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
from lapsvm.pipelines.context import RunContext
from lapsvm.pipelines.run.folder import RunFolder
from lapsvm.pipelines.run.progress import Reporter

from lapsvm.errors import OptionError

FOLDER = "recipes"
MODULES = (
    "mixed_set", "development_sets", "shared_extraction", "supervised_ceiling", "figures", "variants", "table",
)  # fmt: skip


@pytest.fixture
def recipes(siblings):
    return siblings


def write_voc(root, ids, **classes):
    """Write a VOC folder without content; `classes` are the ids of the positives."""
    for folder in ("JPEGImages", "Annotations", "ImageSets/Main"):
        (root / folder).mkdir(parents=True)
    for image_id in ids:
        (root / "JPEGImages" / f"{image_id}.jpg").touch()
        (root / "Annotations" / f"{image_id}.xml").touch()
    for set_name in ("trainval", "test"):
        (root / "ImageSets" / "Main" / f"{set_name}.txt").write_text("\n".join(ids))
        for name, positives in classes.items():
            lines = [f"{one} {1 if one in positives else -1}" for one in ids]
            (root / "ImageSets" / "Main" / f"{name}_{set_name}.txt").write_text("\n".join(lines))


@pytest.mark.parametrize(
    ("options", "negatives"),
    [({}, "abcdef"), ({"without": ["cat"]}, "bdf"), ({"only": ["cat"]}, "ace"), ({"every": 3}, "ad"),
     ({"only": ["cat"], "every": 2}, "ae")],
)  # fmt: skip
def test_negatives_of_a_mixed_set(recipes, tmp_path, options, negatives):
    write_voc(tmp_path / "RACCOON", ["r1", "r2"])
    write_voc(tmp_path / "VOC", list("abcdef"), cat="ace")
    recipes["mixed_set"].mix(tmp_path / "RACCOON", "raccoon", tmp_path / "VOC", tmp_path / "OUT", **options)
    lines = (tmp_path / "OUT" / "ImageSets" / "Main" / "raccoon_trainval.txt").read_text().split()
    assert lines == ["r1", "1", "r2", "1", *(word for one in negatives for word in (one, "-1"))]
    assert (tmp_path / "OUT" / "JPEGImages" / f"{negatives[0]}.jpg").is_symlink()


def test_draws_have_positives_of_every_class(recipes, tmp_path):
    sets, ids = recipes["development_sets"], [f"{number:03}" for number in range(400)]
    rare = {name: ids[12 * n : 12 * n + 12] for n, name in enumerate(sets.VOC_CLASSES)}
    write_voc(tmp_path / "data" / sets.VOC, ids, **rare)
    draws = sets.development_sets(tmp_path / "data", tmp_path / "out", {}, ["voc150_0", "voc150_1"]).values()
    drawn = [set(recipes["mixed_set"].ids_of(one.root, "trainval")) for one in draws]
    assert [len(one) for one in drawn] == [150, 150]
    assert drawn[0] != drawn[1]
    assert all(len(own.intersection(of_class)) >= 10 for own in drawn for of_class in rare.values())
    assert {one.group for one in draws} == {"voc150"}


def test_an_unknown_set_is_refused(recipes, tmp_path):
    with pytest.raises(OptionError, match="got 'nosuch'"):
        recipes["development_sets"].development_sets(tmp_path, tmp_path, {}, ["nosuch"])


def test_variants_come_from_names_and_files(recipes, tmp_path):
    file = tmp_path / "own.toml"
    file.write_text('[mild]\n"refine.C" = 2.0\n[short.train]\ntop = 5.0\n')
    found = recipes["variants"].read_variants(f"best,no-refinement,{file}")
    assert found == {
        "best": {},
        "no-refinement": {"refine.rounds": 0},
        "mild": {"refine.C": 2.0},
        "short": {"train.top": 5.0},
    }
    assert set(recipes["variants"].PARTS) <= set(recipes["variants"].read_variants("parts"))


def lines_of(results):
    """Return lines of a results file from set -> variant -> AP; CorLoc is the same."""
    return {
        (one, variant): {
            "set": one, "group": one.split("_")[0], "variant": variant, "on": "trainval",
            "mean": {"ap_11point": value, "corloc": value}, "classes": {}, "hits": {"thing": "1100"},
        }
        for one, of_set in results.items()
        for variant, value in (of_set | {"ceiling": 0.8}).items()
    }  # fmt: skip


RESULTS = {
    "a_0": {"best": 0.4, "one-refinement": 0.2},
    "a_1": {"best": 0.8, "one-refinement": 0.2},
    "b": {"best": 0.2, "one-refinement": 0.4},
    "c": {"best": 0.2, "one-refinement": 0.4},
}


def test_sets_of_a_group_count_as_one(recipes):
    shares = recipes["table"].shares_of(lines_of(RESULTS), list(RESULTS), "abc", ["best", "one-refinement"], ["corloc"])
    np.testing.assert_allclose(shares, [[0.75, 0.25], [0.25, 0.5], [0.25, 0.5]])


def test_the_choice_for_a_group_does_not_see_it(recipes):
    shares = recipes["table"].shares_of(lines_of(RESULTS), list(RESULTS), "abc", ["best", "one-refinement"], ["corloc"])
    table = recipes["table"].left_out_table(shares, shares, "abc", ["best", "one-refinement"])
    rows = [row.split(" | ") for row in table.splitlines()]
    assert [row[1] for row in rows[2:5]] == ["one-refinement", "best", "best"]
    assert [row[2] for row in rows[2:5]] == ["0.250", "0.250", "0.250"]


def test_tables_of_a_results_file(recipes, tmp_path, monkeypatch, capsys):
    lines = [*lines_of(RESULTS).values(), *lines_of({"d": {"best": 0.1}}).values()]
    (tmp_path / "results.jsonl").write_text("\n".join(map(json.dumps, lines)))
    monkeypatch.setattr(sys, "argv", ["table.py", str(tmp_path)])
    with pytest.raises(SystemExit) as ended:
        recipes["table"].main()
    assert ended.value.code == 0
    printed = capsys.readouterr().out
    assert "| a_1 | 0.800 / 0.800 | 0.200 / 0.200 | 0.800 / 0.800 |" in printed
    assert "Sets that a variant lacks: d" in printed
    assert "| one-refinement | 0.250 | 0.500 | 0.500 | 0.417" in printed


def test_a_picture_of_two_sets_is_prepared_once(recipes, tmp_path, monkeypatch):
    shared, seen = recipes["shared_extraction"], []
    picture = SimpleNamespace(seen=SimpleNamespace(nbytes=1))
    monkeypatch.setattr(shared, "prepare_record", lambda record, *_: seen.append(record.path.name) or (picture, ""))
    one, other = (SimpleNamespace(path=tmp_path / name) for name in ("one.jpg", "other.jpg"))
    pictures = shared.SharedPictures(Counter({one.path: 2, other.path: 1}))
    for records in ([one, other], [one]):
        for record in records:
            assert pictures(record, None, object()) == (picture, "")
        pictures.finish(records)
    assert seen == ["one.jpg", "other.jpg"]
    assert not pictures.kept


def open_run(path):
    """Return the context of a finished run."""
    run = RunFolder(path)
    return RunContext(run, run.settings(), 1, Reporter(True))


def test_the_held_out_ceiling_sees_no_boxes_of_a_picture(recipes, finished, monkeypatch):
    context, ceiling = open_run(finished), recipes["supervised_ceiling"]
    fitted, whole = [], ceiling.fit_classifier
    monkeypatch.setattr(ceiling, "fit_classifier", lambda bags, sides, C: fitted.append(sides) or whole(bags, sides, C))
    found = ceiling.held_out_detections(context, folds=2)
    n_classes, ids = len(context.data.classes), set(next(iter(found.values())).image_ids)
    assert len(fitted) == 2 * n_classes
    for first, second in zip(fitted[:n_classes], fitted[n_classes:], strict=True):
        seen = [
            [len(positive) > 0 or bool(negative.any()) for positive, negative in sides] for sides in (first, second)
        ]
        assert np.array_equal(seen[0], np.logical_not(seen[1]))
    assert ids == {record.id for record in context.data.records["trainval"]}


def test_figures_are_those_of_the_evaluation(recipes, finished):
    context, stored = open_run(finished), json.loads((finished / "evaluation.json").read_text())["sets"]
    train, test = (recipes["figures"].run_figures(context, name) for name in ("trainval", "test"))
    for key in ("ap_11point", "ap_area", "image_ap"):
        assert test["mean"][key] == stored["test"]["mean"][key]
    assert train["mean"]["corloc"] == stored["trainval"]["mean"]["corloc"]
    assert train["mean"]["pointing"] == stored["trainval"]["mean"]["pointing"]
    for key in ("corloc", "pointing"):
        assert train["mean"][f"held_out_{key}"] == stored["trainval"]["held_out"]["mean"][key]
    shares = [np.mean([hit == "1" for hit in hits]) for hits in train["hits"].values()]
    np.testing.assert_allclose(np.mean(shares), train["mean"]["corloc"])
    assert set(train["cpu_seconds"]) <= {"train", "refine"}
