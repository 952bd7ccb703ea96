"""Baselines on a finished run: the same files and evaluation as the run, which is not touched; what is refused."""

import json
import shutil
from dataclasses import asdict
from types import SimpleNamespace

import baselines
import numpy as np
import pytest
from baseline_learners import fit_heads
from baseline_learners.fit_heads import HeadPictures, best_constants, joint_folds
from baseline_learners.wsddn import WSDDN
from baselines import Method
from lapsvm.pipelines.fitting.training_bags import ContextPairs
from lapsvm.pipelines.run.folder import RunFolder
from lapsvm.pipelines.settings.settings import Settings

from lapsvm.bags import Bags
from lapsvm.errors import InputError, OneClassError, StageError
from lapsvm.evaluation import read_results
from lapsvm.features import Block

from ..calls import done, status_of

METHODS = list(Method)
EPOCHS = {Method.MI_SVM: (), Method.WSDDN: (40, 80), Method.OICR: (1, 2)}


def constants(method):
    """Few constants to choose from, for they are trained here several times."""
    return {"epochs": EPOCHS[method], "lr": (0.01,)} if EPOCHS[method] else {"C": (0.5, 5.0), "J": (1.0,)}


@pytest.fixture(scope="module", params=METHODS)
def made_by(request, finished, tmp_path_factory, made):
    """What a baseline makes of the finished run, and the run before it."""
    if request.param is not Method.MI_SVM:
        pytest.importorskip("torch", reason="torch is not installed")
    before, out = made(finished, "run.toml", "evaluation.json", "models/*"), tmp_path_factory.mktemp("o")
    baselines.run(finished, out / "DIR", request.param, constants=constants(request.param), quiet=True)
    return SimpleNamespace(method=request.param, out=out / "DIR", before=before)


def test_the_evaluation_has_the_figures_of_a_run(made_by, finished):
    own, runs = (json.loads((folder / "evaluation.json").read_text()) for folder in (made_by.out, finished))
    for name in ("trainval", "test"):
        assert own["sets"][name]["classes"].keys() == runs["sets"][name]["classes"].keys()
        assert own["sets"][name]["mean"].keys() == runs["sets"][name]["mean"].keys()
    assert "corloc" in own["sets"]["trainval"]["mean"]
    assert "ap_11point" in own["sets"]["test"]["mean"]
    if made_by.method in (Method.MI_SVM, Method.WSDDN):  # the others have few steps here
        assert own["sets"]["trainval"]["mean"]["image_ap"] > 0.8


def test_the_run_is_unchanged(made_by, finished, made):
    assert made(finished, "run.toml", "evaluation.json", "models/*") == made_by.before


def test_mi_svm_has_no_chance_in_it(made_by, finished, tmp_path, made):
    if made_by.method is Method.MI_SVM:
        baselines.run(finished, tmp_path / "AGAIN", made_by.method, constants=constants(made_by.method), quiet=True)
        patterns = "detections/*/*", "evaluation.json", "baseline.json"
        assert made(tmp_path / "AGAIN", *patterns) == made(made_by.out, *patterns)


def test_the_record_has_the_chosen_constants_and_the_history(made_by):
    record = json.loads((made_by.out / "baseline.json").read_text())
    assert record["method"] == made_by.method.value
    assert record["seed"] == 0
    if made_by.method is not Method.MI_SVM:
        tried = {row["epochs"]: np.mean(row["folds"]) for row in record["held_out_image_ap"]}
        assert set(tried) == set(EPOCHS[made_by.method])
        assert tried[record["epochs"]] == pytest.approx(max(tried.values()), abs=1e-8)
        assert (record["lr"], record["weight_decay"]) == (0.01, 0.00001)
        assert len(record["history"]) == record["epochs"]
        return
    for one in record["classes"].values():
        tried = {(row["C"], row["J"]): np.mean(row["folds"]) for row in one["held_out_image_ap"]}
        assert set(tried) == {(C, J) for C in (0.5, 5.0) for J in (1.0,)}
        assert tried[one["C"], one["J"]] == pytest.approx(max(tried.values()), abs=1e-8)


def with_demotion(run_copy, amount):
    text = (run_copy / "run.toml").read_text()
    assert "demotion = 0.0" in text
    (run_copy / "run.toml").write_text(text.replace("demotion = 0.0", f"demotion = {amount}"))


def test_the_same_seed_gives_the_same_bytes_and_demotion_reaches_mi_svm_alone(made_by, run_copy, tmp_path, made):
    with_demotion(run_copy, 1.0)
    baselines.run(run_copy, tmp_path / "DIR", made_by.method, constants=constants(made_by.method), quiet=True)
    patterns = "detections/*/*.txt", "evaluation.json", "baseline.json"
    unchanged = made(tmp_path / "DIR", *patterns) == made(made_by.out, *patterns)
    assert unchanged == (made_by.method is not Method.MI_SVM)
    first, second = (
        read_results(out / "detections" / "test", "test")["six"] for out in (tmp_path / "DIR", made_by.out)
    )
    assert max(first.scores) == max(second.scores)  # the best box of a picture keeps its score
    assert (np.sort(first.scores) <= np.sort(second.scores)).all()


def test_heads_score_stored_context_as_in_training():
    pytest.importorskip("torch", reason="torch is not installed")
    draw = np.random.default_rng(0)
    features, pairs = draw.normal(size=(40, 8)).astype(np.float32), ContextPairs((Block(8, True),), 0.25)
    seen = Bags(features[:, :4] - 0.25 * features[:, 4:], np.arange(0, 41, 5), 2.0)
    model = WSDDN(epochs=1).fit(seen, np.where(np.arange(16).reshape(8, 2) % 3, 1, -1))
    shard = SimpleNamespace(features=features, offsets=np.arange(0, 41, 5))
    found = fit_heads.scores(model, HeadPictures(seen, None, np.full(4, 2.0), pairs), shard)
    np.testing.assert_allclose(found, model.score_windows(seen), rtol=1e-4)


def test_evaluate_and_compare_take_the_folder_of_a_baseline(made_by, finished, tmp_path, command, made):
    folder = tmp_path / "DIR"
    shutil.copytree(made_by.out, folder)
    before = made(folder, "detections/*/*", "evaluation.json")
    assert command("evaluate", "--out", folder, "--quiet").status == 0
    assert made(folder, "detections/*/*", "evaluation.json") == before
    out = tmp_path / "COMPARISON"
    told = command("compare", "--out", out, finished, folder, "--draws", "50")
    assert told.status == 0
    assert "CPU seconds" in told.out
    table = json.loads((out / "comparison.json").read_text())
    seconds = [json.loads((run / "timings.json").read_text())["train"]["cpu_seconds"] for run in (finished, folder)]
    assert table["cpu_seconds"] == seconds
    expected = json.loads((folder / "evaluation.json").read_text())["sets"]["test"]["mean"]["ap_area"]
    assert table["measures"]["ap_area"]["mean"]["values"][1] == pytest.approx(expected)


def test_an_interrupted_study_goes_on(finished, tmp_path):
    source, target = RunFolder(finished), RunFolder(tmp_path / "DIR")
    for _ in range(2):
        baselines.take_shards(source, target, ["trainval", "test"])
        for name in ("trainval", "test"):
            (shard, *_) = sorted(source.shards(name).glob("*.safetensors"))
            assert (target.shards(name) / shard.name).samefile(shard)


def test_with_one_number_of_epochs_and_one_step_nothing_is_chosen(finished, tmp_path):
    pytest.importorskip("torch", reason="torch is not installed")
    baselines.run(finished, tmp_path / "DIR", Method.WSDDN, constants={"epochs": (3,), "lr": (0.01,)}, quiet=True)
    record = json.loads((tmp_path / "DIR" / "baseline.json").read_text())
    assert record["held_out_image_ap"] == []
    assert (record["epochs"], len(record["history"])) == (3, 3)


def test_joint_folds_have_their_share_of_every_class():
    draw = np.random.default_rng(0)
    labels = np.where(draw.random((60, 3)) < (0.1, 0.3, 0.7), 1, -1)
    folds = joint_folds(labels, ("a", "b", "c"), 3, seed=4)
    np.testing.assert_array_equal(np.sum(folds, axis=0), 1)
    assert [fold.sum() for fold in folds] == [20, 20, 20]
    rare = [(labels[fold, 0] > 0).sum() for fold in folds]
    assert max(rare) - min(rare) <= 1
    assert min((labels[fold] > 0).sum(axis=0).min() for fold in folds) >= 1
    assert not np.array_equal(folds, joint_folds(labels, ("a", "b", "c"), 3, seed=5))


def test_the_fewest_epochs_then_the_smallest_step_within_the_margin_are_taken():
    tried = ((5, 0.01, 0.90), (10, 0.003, 0.94), (10, 0.01, 0.941), (20, 0.003, 0.93), (20, 0.01, 0.95))
    candidates = [{"epochs": epochs, "lr": lr, "folds": [ap, ap]} for epochs, lr, ap in tried]
    chosen = [best_constants(candidates, margin) for margin in (0.0, 0.009, 0.02, 0.05)]
    assert chosen == [(20, 0.01), (10, 0.01), (10, 0.003), (5, 0.01)]


@pytest.fixture(scope="module")
def of_seeds(finished, tmp_path_factory):
    """What OICR makes of the finished run with two seeds and two steps."""
    pytest.importorskip("torch", reason="torch is not installed")
    out = tmp_path_factory.mktemp("seeds")
    constants = {"epochs": (1, 2), "lr": (0.003, 0.01)}
    baselines.run_seeds(finished, out, Method.OICR, [3, 1], constants, quiet=True)
    return out


def test_seeds_leave_a_run_each_with_the_constants_of_the_first(of_seeds, finished, command):
    first, other = (json.loads((of_seeds / f"oicr-{seed}" / "baseline.json").read_text()) for seed in (3, 1))
    assert (first["seed"], other["seed"], other["held_out_image_ap"]) == (3, 1, [])
    tried = {(row["epochs"], row["lr"]): np.mean(row["folds"]) for row in first["held_out_image_ap"]}
    assert set(tried) == {(1, 0.003), (1, 0.01), (2, 0.003), (2, 0.01)}
    assert tried[first["epochs"], first["lr"]] == pytest.approx(max(tried.values()), abs=1e-8)
    assert (other["epochs"], other["lr"]) == (first["epochs"], first["lr"])
    for seed in (3, 1):
        folder = of_seeds / f"oicr-{seed}"
        assert json.loads((folder / "timings.json").read_text())["train"]["cpu_seconds"] > 0
        assert command("evaluate", "--out", folder, "--quiet").status == 0
    assert command("compare", "--out", of_seeds / "C", finished, of_seeds / "oicr-1", "--draws", "50").status == 0


@pytest.mark.parametrize(
    ("method", "given", "message"),
    [
        ("mi_svm", ["--seeds", "0,1"], "option --seeds is for wsddn, oicr; mi_svm draws folds alone, see --seed."),
        ("wsddn", ["--seeds", "0,0"], "option --seeds must name different seeds, got 0,0."),
        ("wsddn", ["--seeds", "0,x"], "option --seeds must be whole numbers from 0 to 4294967295, got '0,x'."),
        *(
            (
                "wsddn",
                ["--seeds", "0,1", "--seed", seed],
                f"options --seeds and --seed must not go together, got '0,1' and {seed}.",
            )
            for seed in "03"
        ),
        *(
            (method, [f"--{constant}", "1"], f"option --{constant} is not one of --method {method}.")
            for method, constant in (("mi_svm", "epochs"), ("mi_svm", "weight-decay"), ("oicr", "C"), ("wsddn", "J"))
        ),
    ],
)
def test_wrong_seeds_and_constants_of_another_method_are_refused(finished, tmp_path, capsys, method, given, message):
    line = ["--run", finished, "--out", tmp_path / "A", "--method", method, *given]
    assert status_of(baselines.main, *line) == 2
    assert capsys.readouterr().err == f"lapsvm: {message}\n"
    assert not (tmp_path / "A").exists()


@pytest.mark.parametrize("given", [[], ["--seed", "3"]])
def test_the_seed_is_0_unless_it_is_given(monkeypatch, tmp_path, given):
    found = []
    monkeypatch.setattr(baselines, "run", lambda *arguments, **_: found.append(arguments[3]))
    done("--run", tmp_path, "--out", tmp_path / "A", "--method", "wsddn", *given, command=baselines.main)
    assert found == [3 if given else 0]


@pytest.mark.parametrize("method", METHODS)
def test_all_settings_of_detection_but_demotion_are_those_of_the_run(method):
    """Score smoothing and box voting, too, so that methods compare on equal terms."""
    own = {"nms_threshold": 0.4, "max_detections": 7, "demotion": 1.5}
    own |= {"score_smoothing": 0.5, "box_voting": 0.6, "box_voting_iou": 0.45}
    runs = Settings().with_values({f"detect.{name}": value for name, value in own.items()})
    assert asdict(runs.detect) == own
    expected = own if method is Method.MI_SVM else {**own, "demotion": 0.0}
    assert asdict(baselines.baseline_settings(runs, method).detect) == expected


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
