"""Files of heads: the same scores and bytes, and damaged ones named."""

import numpy as np
import pytest

from lapsvm.errors import MissingError, ModelFileError
from lapsvm.model_files import read_model, write_model
from lapsvm.nn import OICR, WSDDN, TrainedHeads, load_heads

pytest.importorskip("torch", reason="torch is not installed")

rng = np.random.default_rng(0)
FEATURES = rng.normal(size=(24, 5)).astype(np.float16)
OFFSETS = np.arange(0, 25, 4)
Y = np.where(np.arange(12).reshape(6, 2) % 3, 1, -1)
CORNERS = rng.integers(0, 20, (24, 2))
BOXES = np.hstack([CORNERS, CORNERS + 9])
BAGS = [part.astype(float) * 2 for part in np.split(FEATURES, OFFSETS[1:-1])]
FITS = {
    "wsddn": lambda: WSDDN(epochs=1).fit(BAGS, Y),
    "oicr": lambda: OICR(epochs=1, n_refinements=2, callback=print).fit(BAGS, Y, BOXES),
}


@pytest.fixture(params=FITS)
def heads(request):
    return TrainedHeads(FITS[request.param](), ("cat", "dog"), np.full(5, 2.0), {"cat": {"seed": 1}, "dog": {}})


def test_scores_and_bytes_survive(heads, tmp_path):
    heads.save(tmp_path / "a.safetensors")
    loaded = load_heads(tmp_path / "a.safetensors")
    loaded.save(tmp_path / "b.safetensors")
    assert (tmp_path / "a.safetensors").read_bytes() == (tmp_path / "b.safetensors").read_bytes()
    np.testing.assert_array_equal(loaded.score(FEATURES, OFFSETS), heads.score(FEATURES, OFFSETS))
    np.testing.assert_allclose(heads.score(FEATURES, OFFSETS), heads.model.score_windows(BAGS), rtol=1e-4, atol=1e-6)
    assert loaded.classes == ("cat", "dog")
    assert loaded.provenance == {"cat": {"seed": 1}, "dog": {}}
    assert loaded.model.history_ == heads.model.history_
    assert loaded.weights_hash() == heads.weights_hash()


def test_parameters_may_be_numpy_numbers(tmp_path):
    model = OICR(np.int64(1), lr=np.float32(0.25), min_iou=np.float32(0.5)).fit(BAGS, Y, BOXES)
    TrainedHeads(model, ("cat", "dog"), np.ones(5), {"cat": {}, "dog": {}}).save(tmp_path / "a.safetensors")
    params = load_heads(tmp_path / "a.safetensors").model.get_params()
    assert (params["epochs"], params["lr"], params["min_iou"]) == (1, 0.25, 0.5)


@pytest.mark.parametrize("kind", FITS)
def test_training_under_no_grad_is_the_same(kind):
    with pytest.importorskip("torch").no_grad():
        model = FITS[kind]()
    np.testing.assert_array_equal(model.class_coef_, FITS[kind]().class_coef_)


def test_the_hash_depends_on_weights_and_scale(heads):
    before = heads.weights_hash()
    other = TrainedHeads(heads.model, heads.classes, heads.scale * 2, {})
    assert other.weights_hash() != before
    heads.model.class_coef_ = heads.model.class_coef_ + np.float32(1)
    assert heads.weights_hash() != before


@pytest.mark.parametrize("change", ["other", "shape", "nan", "missing", "params", "values", "classes", "provenance"])
def test_a_damaged_file_is_named(heads, tmp_path, change):
    path = tmp_path / "a.safetensors"
    heads.save(path)
    description, tensors = read_model(path, "lapsvm heads", 1)
    if change == "other":
        description["head"] = "Nothing"
    elif change == "shape":
        tensors["class_coef"] = tensors["class_coef"][:3]
    elif change == "nan":
        tensors["class_intercept"] = tensors["class_intercept"] * np.float32(np.nan)
    elif change == "missing":
        del tensors["class_coef"]
    elif change == "params":
        description["params"] = {"nosuch": 1}
    elif change == "values":
        description["params"]["epochs"] = "many"
    elif change == "provenance":
        description["provenance"] = {"cat": {}}
    else:
        description["classes"] = ["cat"]
    write_model(path, description, tensors, "it")
    with pytest.raises(ModelFileError, match=r"^model .*a\.safetensors (is damaged|must hold one of)"):
        load_heads(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(MissingError, match=r"is not there\."):
        load_heads(tmp_path / "none.safetensors")
