"""Objectness beside features: of positive training pictures alone, the same for any threads, and recorded."""

import numpy as np
import pytest
from lapsvm.pipelines.fitting.training_bags import window_objectness_of
from lapsvm.pipelines.run.folder import RunFolder

from lapsvm.catalog import read_image
from lapsvm.errors import SettingsError
from lapsvm.features import open_shards
from lapsvm.objectness import ObjectnessSource

from .bright_source import (
    LABELS,
    QUICK,
    TRAINED,
    Brightest,
    are_measured,
    features,
    files,
    hashes,
    label,
    measured,
    twin,
)


def test_positive_training_pictures_alone_are_measured_by_their_labels(root, tmp_path, extract, source):
    extract(out="PLAIN")
    bright = source(Brightest())
    assert isinstance(bright, ObjectnessSource)
    extract("--quiet", objectness="bright")
    assert sorted(bright.seen) == hashes(root, TRAINED)
    assert are_measured(tmp_path / "RUN") == TRAINED
    assert set(measured(tmp_path / "RUN", "test").values()) == {None}
    for shard in open_shards(tmp_path / "RUN" / "shards" / "trainval"):
        for one in shard.pictures():
            if one.objectness is not None:
                expected = twin(bright, read_image(root / f"{one.image_id}.png"), one.boxes)
                np.testing.assert_allclose(one.objectness, expected, atol=1e-6)
                assert max(expected) > 0.2
    shards = open_shards(tmp_path / "RUN" / "shards" / "trainval")
    assert shards.objectness == {"kind": "brightest", "level": 128}
    assert features(tmp_path / "RUN") == features(tmp_path / "PLAIN")
    plain = open_shards(tmp_path / "PLAIN" / "shards" / "trainval")
    assert shards.provenance == plain.provenance
    column = window_objectness_of(shards)
    assert (column.dtype, len(column)) == (np.float32, shards.n_windows)
    own = [np.full(8, np.nan) if one is None else one for one in measured(tmp_path / "RUN").values()]
    np.testing.assert_array_equal(column, np.concatenate(own))
    assert window_objectness_of(plain) is None


def test_a_class_that_the_run_has_not_makes_no_picture_positive(root, tmp_path, extract, source):
    bright = source(Brightest())
    extract("--quiet", "--classes", "dog", objectness="bright")
    assert sorted(bright.seen) == hashes(root, {name for name in TRAINED if LABELS[name] == "dog"})


@pytest.mark.parametrize("more", [[], ["--pca", "5"]], ids=["plain", "projected"])
def test_bytes_are_the_same_for_any_threads_and_where_pictures_are_kept(root, tmp_path, extract, source, more):
    made = []
    for out, options in {"ONE": ["--jobs", "1"], "THREE": ["--jobs", "3"], "QUIET": ["--quiet"]}.items():
        bright = source(Brightest())
        extract(*options, *more, out=out, objectness="bright")
        assert sorted(bright.seen) == hashes(root, TRAINED)  # fewer than a forecast is made for
        made.append(files(tmp_path / out))
    assert made[0] == made[1] == made[2]
    assert b'"objectness"' in made[0]["shards/trainval/0000000.safetensors"]


def test_a_source_whose_numbers_break_the_rule_stops_the_run_with_the_picture(tmp_path, extract, source, monkeypatch):
    source(Brightest())
    monkeypatch.setattr("lapsvm.pipelines.shards.objectness.picture_objectness", lambda *_: np.full(8, 1.5))
    assert "objectness of picture 00 must be from 0 to 1, got 1.5" in extract(objectness="bright", expected=2)


def test_what_is_not_known_is_refused_before_any_work(root, tmp_path, refused):
    line = ["extract", "--data", "csv", "--root", root, "--out", tmp_path / "RUN", *QUICK]
    assert "nosuch" in refused(*line, "--objectness", "nosuch")
    assert "absent.onnx" in refused(*line, "--objectness", "onnx:absent.onnx")
    assert not (tmp_path / "RUN" / "shards").exists()


def test_the_time_of_many_pictures_is_forecast(root, tmp_path, extract, source):
    label(root, dict.fromkeys(LABELS, "cat") | {"01": "dog"})
    bright = source(Brightest())
    said = extract(objectness="bright")
    assert "before it starts, by 1 picture: about 5 s more for the objectness of 30 pictures" in said
    assert len(bright.seen) == 31
    bright = source(Brightest())
    assert "objectness" not in extract("--quiet", out="QUIET", objectness="bright")
    assert len(bright.seen) == 30


def test_refinement_needs_the_objectness_that_the_run_asks_for(root, tmp_path, extract, source, command, refused):
    source(Brightest())
    extract(objectness="bright")
    label(root, LABELS | {"01": "dog"})
    out = tmp_path / "RUN"
    assert command("train", "--out", out, "--C", "1", "--folds", "2").status == 0
    said = refused("refine", "--out", out, "--refine", "1")
    assert "refine needs the objectness of all positive pictures, but " in said
    assert "lacks that of 1, the first is '01'; run lapsvm extract first." in said
    extract(objectness="bright")
    assert command("refine", "--out", out, "--refine", "1").status == 0


def test_numbers_of_two_sources_are_refused_where_they_are_used(root, tmp_path, extract, source, refused, command):
    source(Brightest())
    extract(objectness="bright")
    bright = source(Brightest(180))
    bright.fails_after = sum(name < "16" for name in TRAINED)
    extract("--jobs", "1", objectness="bright", expected=2)
    with pytest.raises(SettingsError, match="level 128 instead of 180"):
        window_objectness_of(open_shards(tmp_path / "RUN" / "shards" / "trainval"))
    assert command("train", "--out", tmp_path / "RUN", "--C", "1", "--folds", "2").status == 0
    assert "run lapsvm extract again" in refused("refine", "--out", tmp_path / "RUN", "--refine", "1")


def test_a_later_verb_changes_no_source(root, tmp_path, extract, source, command, refused):
    source(Brightest())
    extract(objectness="bright")
    assert "names no setting" in refused("train", "--out", tmp_path / "RUN", "--set", "objectness.source=none")
    recipe = tmp_path / "mine.toml"
    recipe.write_text('[objectness]\nsource = "none"\n[train]\nC = [1.0]\nfolds = 2\n')
    assert command("train", "--out", tmp_path / "RUN", "--recipe", recipe).status == 0
    assert RunFolder(tmp_path / "RUN").settings().objectness.source == "bright"


def test_a_file_is_a_path_in_run_toml_and_a_hash_in_shards(root, tmp_path, extract, network, monkeypatch):
    monkeypatch.chdir(network.parent)
    extract(objectness=f"onnx:{network.name}")
    assert RunFolder(tmp_path / "RUN").settings().objectness.source == f"onnx:{network}"
    assert are_measured(tmp_path / "RUN") == TRAINED
    best = [numbers.max() for numbers in measured(tmp_path / "RUN").values() if numbers is not None]
    assert min(best) > 0.1
    assert not any(str(network.parent).encode() in content for content in files(tmp_path / "RUN").values())


@pytest.mark.slow
def test_workers_measure_the_same_bytes(root, tmp_path, extract, network):
    pytest.importorskip("distributed", reason="dask is not installed")
    extract(out="HERE", objectness=f"onnx:{network}")
    extract(out="LATER")
    extract("--executor", "dask", out="LATER", objectness=f"onnx:{network}")
    assert files(tmp_path / "LATER") == files(tmp_path / "HERE")


def write_import(root, folder, objectness):
    """Write an .npz file per picture with some windows, and the arrays that `objectness` gives for its name."""
    folder.mkdir()
    for name in LABELS:
        boxes = np.array([[0, 0, 48, 36], [4, 4, 20, 20], [8, 8, 30, 30], [4, 4, 20, 20]], dtype=np.float64)
        features = np.random.default_rng(int(name)).normal(size=(4, 5))
        gt = [False, True, False, False]
        np.savez(folder / f"{name}.npz", boxes=boxes, features=features, gt=gt, **objectness(name))
    return ["import", folder, "--data", "csv", "--root", root]


def test_imported_numbers_stand_beside_the_windows_that_are_kept(root, tmp_path, command):
    def numbers(name):
        return {} if name == "07" else {"objectness": [int(name) / 100, 0.9, 1.0, 0.0]}

    line = write_import(root, tmp_path / "files", numbers)
    done = command(*line, "--out", tmp_path / "RUN")
    assert done.status == 0, done.err
    for set_name in ("trainval", "test"):
        for name, found in measured(tmp_path / "RUN", set_name).items():
            expected = None if name == "07" else np.float32([int(name) / 100, 1.0, 0.0]).tolist()
            assert (None if found is None else found.tolist()) == expected
    shards = open_shards(tmp_path / "RUN" / "shards" / "trainval")
    assert shards.objectness == {"kind": "imported"}
    assert RunFolder(tmp_path / "RUN").settings().objectness.source == "none"
    before = files(tmp_path / "RUN")
    assert command(*line, "--out", tmp_path / "RUN").status == 0
    assert files(tmp_path / "RUN") == before
    other = write_import(root, tmp_path / "others", lambda name: {"objectness": [0.5, 0.5, 0.5, 0.5]})
    assert "was made from other content" in command(*other, "--out", tmp_path / "RUN").err


def test_the_array_of_imported_numbers_may_have_another_name(root, tmp_path, command, refused):
    line = write_import(root, tmp_path / "files", lambda name: {"saliency": [0.5, 0.5, 0.25, 0.75]})
    assert command(*line, "--out", tmp_path / "PLAIN").status == 0
    assert set(measured(tmp_path / "PLAIN").values()) == {None}
    named = [*line, "--set", "windows.source.objectness_name=saliency"]
    assert command(*named, "--out", tmp_path / "RUN").status == 0
    assert measured(tmp_path / "RUN")["00"].tolist() == [0.5, 0.25, 0.75]
    named[-1] = "windows.source.objectness_name=nosuch"
    assert "must hold an array named nosuch" in refused(*named, "--out", tmp_path / "NO")


@pytest.mark.parametrize(
    ("numbers", "sentence"),
    [
        ([0.5, 0.5, np.nan, 0.5], "objectness must be from 0 to 1, got nan"),
        ([0.5, 0.5, 0.5, 2.0], "objectness must be from 0 to 1, got 2"),
        ([0.5, 0.5], "objectness must have one number per box, got 2 for 4 boxes"),
    ],
)
def test_imported_numbers_that_break_the_rule_are_one_sentence(root, tmp_path, refused, numbers, sentence):
    line = write_import(root, tmp_path / "files", lambda name: {"objectness": numbers} if name == "00" else {})
    assert f"00.npz: {sentence}." in refused(*line, "--out", tmp_path / "RUN", "--quiet")
