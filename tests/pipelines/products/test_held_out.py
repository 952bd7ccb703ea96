"""The file of held-out scores: what it holds, what it refuses."""

import numpy as np
import pytest
from lapsvm.pipelines.products.held_out import HeldOut, read_held_out
from lapsvm.pipelines.products.models import weights_hash
from lapsvm.pipelines.run.folder import RunFolder

from lapsvm.catalog import GroundTruth
from lapsvm.detection import Detector
from lapsvm.errors import InputError, ModelFileError
from lapsvm.model_files import read_model, write_model

BOXES = np.array([[0, 0, 10, 10], [5, 5, 20, 20], [0, 0, 4, 4], [1, 1, 3, 3]], dtype=float)


def held_out(**changes):
    values = {
        "ids": ("a", "b", "c", "d e"),
        "y": np.array([1, 1, -1, -1], dtype=np.int8),
        "fold": np.array([1, 2, 1, 2]),
        "score": np.array([2.0, 0.5, 1.0, -1.0]),
        "boxes": BOXES,
        "agreement": np.array([1.0, 0.25, 0.0, 1.0]),
    }
    return HeldOut(**(values | changes))


def test_it_comes_back_from_its_file_as_it_was(tmp_path):
    one = held_out(model="00ff")
    for name in "ab":
        one.save(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    loaded = HeldOut.load(tmp_path / "a")
    assert (loaded.ids, loaded.model) == (one.ids, "00ff")
    for name in ("y", "fold", "score", "boxes", "agreement"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(one, name))


def test_image_ap_and_its_chance_level():
    assert held_out().image_ap == pytest.approx((1 + 2 / 3) / 2)
    assert held_out().chance == 0.5


@pytest.mark.parametrize(
    ("measure", "shown", "others", "row"),
    [(HeldOut.corloc, ("a", "b"), ("c", "d e"), 0), (HeldOut.pointing, ("d e", "b"), ("a", "c"), 2)],
)
def test_corloc_and_pointing_count_pictures_of_the_folds_alone(measure, shown, others, row):
    objects = {name: GroundTruth(BOXES[row : row + 1], np.zeros(1, dtype=bool)) for name in (*shown, "f")}
    objects |= dict.fromkeys(others, GroundTruth(np.zeros((0, 4)), np.zeros(0, dtype=bool)))
    found = measure(held_out(), "cat", objects)
    assert (found.image_ids, found.hits.tolist()) == (shown, [True, False])


def test_scores_of_another_model_are_not_read(tmp_path):
    run, model = RunFolder(tmp_path), Detector("cat", np.arange(3.0))
    assert read_held_out(run, "cat") is None
    for folder in (run.models, run.held_out_scores):
        folder.mkdir()
    held_out(model=weights_hash(model)).save(run.held_out("cat"))
    assert read_held_out(run, "cat") is None
    model.save(run.model("cat"))
    assert read_held_out(run, "cat").ids == held_out().ids
    Detector("cat", np.ones(3)).save(run.model("cat"))
    assert read_held_out(run, "cat") is None


@pytest.mark.parametrize("change", [{"ids": ["a"]}, {"ids": None}, {"model": None}])
def test_damage_is_named(tmp_path, change):
    held_out().save(tmp_path / "a")
    description, tensors = read_model(tmp_path / "a", "lapsvm held-out scores", 1)
    description = {name: value for name, value in (description | change).items() if value is not None}
    write_model(tmp_path / "a", description, tensors, "ids")
    with pytest.raises(ModelFileError, match=r"held-out scores .* are damaged: "):
        HeldOut.load(tmp_path / "a")


def test_every_picture_needs_every_value():
    with pytest.raises(InputError, match=r"one row per picture, 4, got \{'score': 3\}"):
        held_out(score=np.zeros(3))


@pytest.mark.parametrize(
    "changes",
    [
        {"ids": ["a", "b", "c", {}]},
        {"ids": ["a", "b", "c", "c"]},
        {"ids": ["a", "b", "c", 3]},
        {"ids": 4},
        {"model": ["00ff"]},
        {"y": np.array([1, 1, 0, -1], dtype=np.int8)},
        {"y": np.ones((4, 2), dtype=np.int8)},
        {"y": np.array([1.0, 1, -1, -1])},
        {"fold": np.array([0, 1, 2, 1])},
        {"fold": np.array([1.5, 1, 2, 1])},
        {"score": np.array([1, np.nan, 0, 0])},
        {"score": np.array(1.0)},
        {"agreement": np.array([1, np.inf, 0, 0])},
        {"boxes": np.ones((4, 3))},
        {"boxes": BOXES * np.nan},
    ],
)
def test_a_file_that_somebody_changed_is_refused_though_its_digest_fits(tmp_path, changes):
    held_out(model="00ff").save(tmp_path / "a")
    description, tensors = read_model(tmp_path / "a", "lapsvm held-out scores", 1)
    for name, value in changes.items():
        (tensors if isinstance(value, np.ndarray) else description)[name] = value
    write_model(tmp_path / "a", description, tensors, "x")
    with pytest.raises(ModelFileError, match=r"held-out scores .*a are damaged"):
        HeldOut.load(tmp_path / "a")
