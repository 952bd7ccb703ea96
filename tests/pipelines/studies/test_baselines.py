"""Baselines on a finished run: the same files and evaluation as the run, which is not touched; what is refused."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from lapsvm.pipelines.fitting.training_bags import Halves
from lapsvm.pipelines.studies import baselines
from lapsvm.pipelines.studies.baselines import Method

from lapsvm.bags import Bags
from lapsvm.detection import Detector, demote_scores, detect
from lapsvm.errors import InputError, LapsvmError, OneClassError, StageError
from lapsvm.evaluation import read_results
from lapsvm.features import open_shards
from lapsvm.nn import WSDDN

METHODS = list(Method)


@pytest.fixture(scope="module", autouse=True)
def few_candidates():
    """Fewer constants to choose from, for they are trained here several times."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(baselines, "C_VALUES", (0.5, 5.0))
        patch.setattr(baselines, "J_VALUES", (1.0,))
        yield


@pytest.fixture(scope="module", params=METHODS)
def made_by(request, finished, tmp_path_factory, made):
    """What a baseline makes of the finished run, and the run before it."""
    if request.param is Method.WSDDN:
        pytest.importorskip("torch", reason="torch is not installed")
    before, out = made(finished, "run.toml", "evaluation.json", "models/*"), tmp_path_factory.mktemp("o")
    baselines.run(finished, out / "DIR", request.param, quiet=True)
    return SimpleNamespace(method=request.param, out=out / "DIR", before=before)


def test_the_evaluation_has_the_figures_of_a_run(made_by, finished):
    own, runs = (json.loads((folder / "evaluation.json").read_text()) for folder in (made_by.out, finished))
    for name in ("trainval", "test"):
        assert own["sets"][name]["classes"].keys() == runs["sets"][name]["classes"].keys()
        assert own["sets"][name]["mean"].keys() == runs["sets"][name]["mean"].keys()
    assert "corloc" in own["sets"]["trainval"]["mean"]
    assert "ap_11point" in own["sets"]["test"]["mean"]
    assert own["sets"]["trainval"]["mean"]["image_ap"] > 0.8


def test_the_run_is_unchanged(made_by, finished, made):
    assert made(finished, "run.toml", "evaluation.json", "models/*") == made_by.before


def test_the_same_seed_gives_the_same_bytes(made_by, finished, tmp_path, made):
    baselines.run(finished, tmp_path / "AGAIN", made_by.method, quiet=True)
    patterns = "detections/*/*", "evaluation.json", "baseline.json", "models/*"
    assert made(tmp_path / "AGAIN", *patterns) == made(made_by.out, *patterns)


def test_the_record_has_the_chosen_constants_and_the_history(made_by):
    record = json.loads((made_by.out / "baseline.json").read_text())
    assert record["method"] == made_by.method.value
    assert record["seed"] == 0
    if made_by.method is Method.WSDDN:
        assert (record["epochs"], record["lr"], record["weight_decay"]) == (20, 0.01, 0.0001)
        assert len(record["history"]) == 20
        return
    for one in record["classes"].values():
        tried = {(row["C"], row["J"]): np.mean(row["folds"]) for row in one["held_out_image_ap"]}
        assert set(tried) == {(C, J) for C in baselines.C_VALUES for J in baselines.J_VALUES}
        assert tried[one["C"], one["J"]] == pytest.approx(max(tried.values()), abs=1e-8)


def with_demotion(run_copy, amount):
    text = (run_copy / "run.toml").read_text()
    assert "demotion = 0.0" in text
    (run_copy / "run.toml").write_text(text.replace("demotion = 0.0", f"demotion = {amount}"))


def test_demotion_reaches_mi_svm_alone(made_by, run_copy, tmp_path, made):
    with_demotion(run_copy, 1.0)
    baselines.run(run_copy, tmp_path / "DIR", made_by.method, quiet=True)
    unchanged = made(tmp_path / "DIR", "detections/*/*") == made(made_by.out, "detections/*/*")
    assert unchanged == (made_by.method is Method.WSDDN)
    assert made(tmp_path / "DIR", "models/*") == made(made_by.out, "models/*")
    if unchanged:
        return
    shard = open_shards(run_copy / "shards" / "test").read(0)
    detector = Detector.load(tmp_path / "DIR" / "models" / "six.safetensors")
    rows = slice(shard.offsets[1], shard.offsets[2])
    boxes, scores = detect(demote_scores(detector.score(shard.features[rows]), 1.0), shard.boxes[rows], 0.3)
    found = read_results(tmp_path / "DIR" / "detections" / "test", "test")["six"]
    own = np.array(found.image_ids) == shard.image_ids[1]
    np.testing.assert_allclose(found.scores[own], scores)
    np.testing.assert_allclose(found.boxes[own], boxes)


def test_wsddn_combines_stored_context_features_as_in_training():
    pytest.importorskip("torch", reason="torch is not installed")
    draw = np.random.default_rng(0)
    features, halves = draw.normal(size=(40, 8)).astype(np.float32), Halves((8,), (True,), 0.25)
    seen = Bags(features[:, :4] - 0.25 * features[:, 4:], np.arange(0, 41, 5), 2.0)
    model = WSDDN(epochs=1).fit(seen, np.where(np.arange(16).reshape(8, 2) % 3, 1, -1))
    shard = SimpleNamespace(features=features, offsets=np.arange(0, 41, 5))
    found = baselines.shard_scores(model, np.full(4, 2.0), halves, shard)
    np.testing.assert_allclose(found, model.score_windows(seen), rtol=1e-4)


@pytest.mark.parametrize("there", ["run.toml", "baseline.json"])
def test_a_folder_that_holds_results_is_not_written_to(finished, tmp_path, there):
    (tmp_path / there).write_text("{}")
    with pytest.raises(InputError, match="option --out must be a folder that holds neither a run nor a baseline, got"):
        baselines.run(finished, tmp_path, Method.MI_SVM, quiet=True)


def test_a_folder_without_a_run_is_refused(tmp_path):
    with pytest.raises(StageError, match="baselines needs a run folder, but"):
        baselines.run(tmp_path / "NONE", tmp_path / "DIR", Method.MI_SVM, quiet=True)


def test_too_few_positives_for_the_folds_are_refused(run_copy, tmp_path):
    text = (run_copy / "run.toml").read_text()
    (run_copy / "run.toml").write_text(text.replace("\nfolds = 2", "\nfolds = 90", 1))
    with pytest.raises(OneClassError, match="for 90 folds"):
        baselines.run(run_copy, tmp_path / "DIR", Method.MI_SVM, quiet=True)


def test_an_expected_failure_is_one_line_and_exit_status_2(monkeypatch, capsys, tmp_path):
    def refuse(*_, **__):
        raise LapsvmError("the thing broke its rule.")

    monkeypatch.setattr(baselines, "run", refuse)
    with pytest.raises(SystemExit) as exit_:
        baselines.main(["--run", tmp_path, "--out", tmp_path, "--method", "mi_svm"])
    assert exit_.value.code == 2
    assert capsys.readouterr().err == "lapsvm: the thing broke its rule.\n"
