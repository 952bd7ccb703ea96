"""Estimators in files: round trips, equal bytes, damage, files of another kind."""

import json
import re
import struct

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from lapsvm import __version__
from lapsvm.detection import Detector
from lapsvm.errors import InputError, MissingError, ModelFileError
from lapsvm.model_files import write_model
from lapsvm.models import LatentRankSVM, LatentStructSVM, LatentSVM, RankSVM, TopPush, load, save
from lapsvm.ranking import APLoss, NDCGLoss

rng = np.random.default_rng(0)
Y = np.where(np.arange(18) % 3 == 0, 1, -1)
BAGS = list(rng.normal(size=(18, 4, 3)) + 2.0 * (Y > 0)[:, None, None])
X = rng.normal(size=(40, 3)) + 2.0 * (np.arange(40) % 4 == 0)[:, None]
TARGETS = np.where(np.arange(40) % 4 == 0, "with", "out")

ON_BAGS = [
    LatentRankSVM("ndcg", C=5.0, top=2),
    LatentRankSVM(APLoss(), init="random", n_init=2, random_state=3),
    LatentRankSVM(init=np.zeros(18, dtype=np.int32)),
    LatentSVM(C=3.0, J=np.float64(2.0), fit_intercept=True, c=0.25, init=np.array([1.0, 0.0, 0.5])),
    LatentStructSVM(C=5.0, scale=None),
]
ON_SAMPLES = [RankSVM("auc", C=3.0), RankSVM("zero_one", fit_intercept=True), TopPush(0.01, loss="logistic")]


def fitted(model):
    return clone(model).fit(*((X, TARGETS) if model in ON_SAMPLES else (BAGS, Y)))


def same(first, second):
    if isinstance(first, np.ndarray):
        assert first.dtype == second.dtype
        np.testing.assert_array_equal(first, second)
    else:
        assert type(first) is type(second)
        assert first == second


@pytest.mark.parametrize("model", [*ON_BAGS, *ON_SAMPLES], ids=str)
def test_a_loaded_model_is_the_saved_one_bit_for_bit(tmp_path, model):
    one = fitted(model)
    save(one, tmp_path / "one.safetensors")
    back = load(tmp_path / "one.safetensors")
    assert type(back) is type(one)
    names = {name for name in vars(one) if name.endswith("_")}
    assert names == {name for name in vars(back) if name.endswith("_")}
    for name in names:
        same(getattr(one, name), getattr(back, name))
    save(back, tmp_path / "two.safetensors")
    assert (tmp_path / "one.safetensors").read_bytes() == (tmp_path / "two.safetensors").read_bytes()


@pytest.mark.parametrize("model", ON_BAGS, ids=str)
def test_a_loaded_latent_model_answers_the_same(tmp_path, model):
    one = fitted(model)
    save(one, tmp_path / "a")
    back = load(tmp_path / "a")
    for ask in ("decision_function", "predict", "best_windows", "score_windows"):
        np.testing.assert_array_equal(getattr(back, ask)(BAGS), getattr(one, ask)(BAGS))
    again = clone(back).fit(BAGS, Y)
    np.testing.assert_array_equal(again.coef_, one.coef_)


@pytest.mark.parametrize("model", ON_SAMPLES, ids=str)
def test_a_loaded_ranker_answers_the_same_in_the_callers_classes(tmp_path, model):
    one = fitted(model)
    save(one, tmp_path / "a")
    back = load(tmp_path / "a")
    np.testing.assert_array_equal(back.predict(X), one.predict(X))
    np.testing.assert_array_equal(
        back.decision_function(sparse.csr_array(X)), one.decision_function(sparse.csr_array(X))
    )
    assert set(back.predict(X)) <= {"with", "out"}
    np.testing.assert_array_equal(clone(back).fit(X, TARGETS).coef_, one.coef_)


@pytest.mark.parametrize("classes", [[False, True], [2.0, 3.0], [3, 7], ["a", "ü"], np.array(["no", "yes"], object)])
def test_classes_of_every_kind_come_back(tmp_path, classes):
    one = RankSVM().fit(X, np.asarray(classes)[(TARGETS == "with").astype(int)])
    save(one, tmp_path / "a")
    same(one.classes_, load(tmp_path / "a").classes_)


def test_equal_models_give_equal_bytes_whenever_they_are_fitted(tmp_path):
    for name in "ab":
        save(fitted(ON_BAGS[0]), tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def header(path):
    content = path.read_bytes()
    (size,) = struct.unpack("<Q", content[:8])
    return json.loads(content[8 : 8 + size])["__metadata__"]


def test_a_file_says_what_it_is_in_one_key_with_sorted_json(tmp_path):
    save(fitted(ON_BAGS[0]), tmp_path / "a")
    metadata = header(tmp_path / "a")
    assert list(metadata) == ["lapsvm"]
    description = json.loads(metadata["lapsvm"])
    assert metadata["lapsvm"] == json.dumps(description, sort_keys=True)
    assert description["format"] == "lapsvm estimator"
    assert description["version"] == 1
    assert description["lapsvm"] == __version__
    assert description["estimator"] == "LatentRankSVM"
    assert description["params"]["loss"] == "ndcg"
    assert str(tmp_path) not in metadata["lapsvm"]


def test_a_callback_is_left_out(tmp_path):
    one = LatentRankSVM(callback=print).fit(BAGS, Y)
    save(one, tmp_path / "a")
    assert load(tmp_path / "a").callback is None


def test_a_loss_without_settings_of_its_own_is_kept_by_its_name(tmp_path):
    save(RankSVM(APLoss()).fit(X, TARGETS), tmp_path / "a")
    assert load(tmp_path / "a").loss == "ap"


class Derived(RankSVM):
    pass


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (RankSVM(NDCGLoss(k=2)), "loss must be a number, a text, None or an array of these to be saved, got NDCGLoss("),
        (
            Derived(),
            "model must be one of LatentRankSVM, LatentSVM, LatentStructSVM, RankSVM, TopPush",
        ),
    ],
)
def test_a_model_that_cannot_be_kept_is_refused_and_no_file_is_made(tmp_path, model, message):
    model.fit(X, TARGETS)
    with pytest.raises(InputError, match=re.escape(message)):
        save(model, tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


def test_a_model_that_is_not_fitted_is_not_saved(tmp_path):
    with pytest.raises(NotFittedError):
        save(RankSVM(), tmp_path / "a")


def test_what_is_no_model_is_not_saved(tmp_path):
    with pytest.raises(InputError, match=r"^model must be one of .*, got int\.$"):
        save(3, tmp_path / "a")


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(MissingError, match=r"^model .*none is not there\.$"):
        load(tmp_path / "none")


def test_damage_anywhere_is_refused_with_one_sentence(tmp_path):
    path = tmp_path / "a"
    save(RankSVM().fit(X, TARGETS), path)
    whole = path.read_bytes()
    damaged = [whole[:n] for n in range(0, len(whole), 5)]
    damaged += [whole[:n] + bytes([whole[n] ^ 0x15]) + whole[n + 1 :] for n in range(0, len(whole), 2)]
    damaged += [whole + b"\0", bytes(len(whole)), b"not a model"]
    for content in damaged:
        path.write_bytes(content)
        with pytest.raises(ModelFileError) as caught:
            load(path)
        assert str(path) in str(caught.value)
        assert "\n" not in str(caught.value)


def written(path, tensors=None, **changes):
    """Write a file that is whole but says something else."""
    description = {
        "format": "lapsvm estimator",
        "version": 1,
        "lapsvm": "0",
        "estimator": "RankSVM",
        "params": {"C": 2.0},
        "fitted": {
            "coef_": {"tensor": "coef_"},
            "classes_": [0, 1],
            "intercept_": 0.5,
            "n_features_in_": 2,
        },
    }
    write_model(path, description | changes, {"coef_": np.ones(2)} if tensors is None else tensors, "test")
    return path


def test_what_the_file_does_not_say_of_the_parameters_is_the_default(tmp_path):
    model = load(written(tmp_path / "a"))
    assert (model.C, model.loss) == (2.0, "ap")
    assert model.decision_function([[1.0, 2.0]]).tolist() == [3.5]


FITTED = {"coef_": {"tensor": "coef_"}, "classes_": [0, 1], "intercept_": 0.5, "n_features_in_": 2}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"version": 2}, "must have format version 1, got 2; it was written by a newer lapsvm, which can read it."),
        ({"version": "x"}, "must have format version 1, got 'x'."),
        ({"format": "lapsvm shard 1"}, "is no estimator of lapsvm, but 'lapsvm shard 1'."),
        ({"estimator": "SVC"}, "must hold one of LatentRankSVM, "),
        ({"estimator": ["RankSVM"]}, "must hold one of LatentRankSVM, "),
        ({"params": {"kernel": "rbf"}}, "is damaged: "),
        ({"params": 3}, "is damaged: "),
        ({"fitted": FITTED | {"coef_": {"tensor": "w"}}}, "is damaged: 'w'."),
        ({"fitted": FITTED | {"coef_": [1.0, "x"]}}, "is damaged: coef_ must be numbers"),
        ({"fitted": FITTED | {"n_features_in_": 3}}, "is damaged: coef_ must have n_features_in_ entries."),
        ({"fitted": FITTED | {"classes_": [0]}}, "is damaged: classes_ must hold two classes."),
        ({"fitted": FITTED | {"intercept_": "x"}}, "is damaged: intercept_ must be numbers"),
        ({"fitted": FITTED | {"fit": 3}}, "is damaged: 'fit' is not a fitted attribute."),
        ({"fitted": FITTED | {"__class__": 3}}, "is damaged: '__class__' is not a fitted attribute."),
        ({"fitted": {}}, "is damaged: "),
    ],
)
def test_a_file_that_says_something_else_is_refused(tmp_path, changes, message):
    with pytest.raises(ModelFileError, match=re.escape(message)):
        load(written(tmp_path / "a", **changes))


def test_a_number_that_is_none_is_refused(tmp_path):
    with pytest.raises(ModelFileError, match=r"is damaged: coef_ must be finite, got nan at index 1"):
        load(written(tmp_path / "a", {"coef_": np.array([1.0, np.nan])}))


def test_detectors_and_estimators_do_not_read_each_others_files(tmp_path):
    Detector("cat", np.ones(2)).save(tmp_path / "detector")
    with pytest.raises(ModelFileError, match="is no estimator of lapsvm, but 'lapsvm detector'"):
        load(tmp_path / "detector")
    with pytest.raises(ModelFileError, match="is no detector of lapsvm, but 'lapsvm estimator'"):
        Detector.load(written(tmp_path / "estimator"))


def test_what_a_pickle_would_run_is_never_run(tmp_path):
    import pickle

    class Bomb:
        def __reduce__(self):
            return (exec, ("raise SystemExit",))

    (tmp_path / "a").write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(ModelFileError, match="got a Python pickle, which could run code"):
        load(tmp_path / "a")
