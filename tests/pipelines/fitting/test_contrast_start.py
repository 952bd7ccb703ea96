"""The start from windows against their surroundings, on pictures in which too much contrast flips training."""

import csv
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from lapsvm.pipelines.fitting import contrast_start, fit
from lapsvm.pipelines.fitting.contrast_start import ContrastStart, ContrastStarts, StoredContent
from lapsvm.pipelines.fitting.trainer import Trainer
from lapsvm.pipelines.fitting.training_bags import Halves
from lapsvm.pipelines.run.folder import RunFolder
from lapsvm.pipelines.run.progress import Reporter
from lapsvm.pipelines.run.settings import Settings

from lapsvm.bags import Bags
from lapsvm.detection import Detector
from lapsvm.latent import HingeRisk, LatentProblem

CELLS, SIZE, FEATURES = 14, 4, 12
SPANS = [(first, end) for first in range(CELLS) for end in range(first + 2, min(CELLS, first + 7) + 1)]
CONTRASTS = (0.0, 0.8, 0.9, 1.0, 1.1)


def pictures(seed: int, n: int = 60):
    """Return stored windows (n, 2 d) of rows of cells, offsets, labels, and each window's overlap with the object.

    Positive pictures hold an object, twice as strong as what their whole scene shares.
    """
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(n) % 2, 1, -1)
    rows, overlaps = [], []
    for label in y:
        cells = 0.5 * rng.normal(size=(CELLS, FEATURES))
        cells[:, 2] += 1
        first = rng.integers(2, CELLS - SIZE - 2)
        if label > 0:
            cells[:, 1] += 1
            cells[first : first + SIZE, 0] += 2
        for begin, end in SPANS:
            margin = (end - begin) // 2
            around = np.concatenate([cells[max(0, begin - margin) : begin], cells[end : end + margin]])
            rows.append(np.append(cells[begin:end].mean(axis=0), around.mean(axis=0)))
            shared = max(0, min(end, first + SIZE) - max(begin, first))
            overlaps.append(shared / (max(end, first + SIZE) - min(begin, first)))
    offsets = np.arange(n + 1) * len(SPANS)
    return np.array(rows, dtype=np.float32), offsets, y, np.array(overlaps).reshape(n, len(SPANS))


@pytest.fixture(scope="module")
def planted():
    rows, offsets, y, overlaps = pictures(0)
    halves = Halves((2 * FEATURES,), (True,), 0.5)
    bags = Bags(halves.combine(rows), offsets)
    start = ContrastStart(StoredContent(Bags(rows, offsets), halves), bags)
    return start, bags, LatentProblem(y, C=10.0, tol=0.01, top=3), overlaps


def right_windows(overlaps, problem, weights, bags) -> float:
    positives = np.flatnonzero(problem.y > 0)
    return float((overlaps[positives, bags.best(weights).index[positives]] > 0.5).mean())


def test_the_chosen_start_lies_just_before_the_flip(planted, monkeypatch):
    start, bags, problem, overlaps = planted
    monkeypatch.setattr(contrast_start, "CONTRASTS", CONTRASTS)
    (chosen,) = start.starts([problem], Trainer(candidates=0))
    assert chosen.contrast == 1.0
    assert right_windows(overlaps, problem, chosen.solution.coef, bags) > 0.5


def test_beyond_it_training_flips(planted, monkeypatch):
    start, bags, problem, overlaps = planted
    monkeypatch.setattr(contrast_start, "CONTRASTS", CONTRASTS)
    monkeypatch.setattr(contrast_start, "strongest_unflipped", lambda contrasts, _: len(contrasts) - 1)
    (chosen,) = start.starts([problem], Trainer(candidates=0))
    assert right_windows(overlaps, problem, chosen.solution.coef, bags) < 0.1


def test_the_guard_sees_negated_weights(planted, monkeypatch):
    start, bags, problem, _ = planted
    monkeypatch.setattr(contrast_start, "CONTRASTS", (0.0, 0.8))
    starts = ContrastStarts(start, [problem], 10.0, Trainer(candidates=0))
    (solution,) = Trainer(candidates=0).fit([replace(problem, init=starts.of(problem).weights)], bags)
    assert not starts.is_flipped(problem, solution)
    negated = replace(solution, coef=-solution.coef, windows=bags.best(-solution.coef).index)
    assert starts.is_flipped(problem, negated)


def test_means_are_those_of_content_less_surroundings(planted):
    start, *_ = planted
    rows = pictures(0)[0].reshape(60, len(SPANS), 2, FEATURES).astype(float).mean(axis=1)
    np.testing.assert_allclose(start._stored.means(0.8), rows[:, 0] - 0.8 * rows[:, 1], atol=1e-5)


def test_one_pass_over_the_stored_windows_serves_every_contrast(planted, monkeypatch):
    start, *_ = planted
    stored, passes, means = StoredContent(start._stored._bags, start._stored.halves), [], Bags.means
    monkeypatch.setattr(Bags, "means", lambda bags: passes.append(1) or means(bags))
    for contrast in contrast_start.CONTRASTS:
        stored.means(contrast)
    assert len(passes) == 1


def training(bags, said, **settings):
    """Return what trains on these bags, and appends what it reports to `said`."""
    reporter = Reporter(quiet=True)
    reporter.say = said.append
    context = SimpleNamespace(
        settings=SimpleNamespace(train=fit.TrainSettings(init="contrast", candidates=0, **settings)), reporter=reporter
    )
    return fit._Training(context, bags, {"candidates": 0})


def test_stored_windows_stay_in_their_files_where_a_cluster_holds_the_training_pictures(planted, monkeypatch):
    start, bags, *_ = planted
    stored, opened = start._stored._bags, []

    def open_bags(path, set_name, **given):
        opened.append(given)
        return stored

    made = {"features": {"extractor": {"halves": [True]}}}
    shards = SimpleNamespace(n_windows=bags.n_windows, provenance=made)
    settings = Settings().with_values({"train.init": "contrast"})
    context = SimpleNamespace(run=RunFolder("RUN"), settings=settings, threads=1, memory="1 GB", cluster=object())
    monkeypatch.setattr(contrast_start, "open_shards", lambda _: shards)
    monkeypatch.setattr(contrast_start.Halves, "of", lambda *_: start._stored.halves)
    monkeypatch.setattr(contrast_start.Bags, "open", open_bags)
    assert contrast_start.open_contrast_start(context, bags) is not None
    assert opened == [{"memory": 0, "threads": 1}]


def test_what_flips_is_trained_from_content_alone(planted, monkeypatch):
    start, bags, problem, _ = planted
    monkeypatch.setattr(contrast_start, "CONTRASTS", (0.0, 0.8))
    monkeypatch.setattr(fit, "open_contrast_start", lambda *_: start)
    monkeypatch.setattr(ContrastStarts, "is_flipped", lambda *_: True)
    said = []
    ((solution,),) = fit._guarded(training(bags, said, C=(10.0,)), "train", [(problem, [10.0])], ["eight"], 1)
    trainer = Trainer(candidates=0)
    (plain,) = start.starts([problem], trainer)
    (expected,) = trainer.fit([replace(problem, init=plain.plain)], bags)
    np.testing.assert_array_equal(solution.coef, expected.coef)
    assert said[1:] == ["train: eight flipped and was trained from the content of windows alone."]
    assert all("seconds" in step for step in solution.history)


def test_what_started_from_content_alone_is_not_trained_again(planted, monkeypatch):
    start, bags, problem, _ = planted
    monkeypatch.setattr(contrast_start, "CONTRASTS", (0.0,))
    monkeypatch.setattr(fit, "open_contrast_start", lambda *_: start)
    monkeypatch.setattr(ContrastStarts, "is_flipped", lambda *_: True)
    said = []
    fit._guarded(training(bags, said, C=(10.0,)), "train", [(problem, [10.0])], ["eight"], 1)
    assert said == ["train: starts at the strongest contrast before training flips: eight 0."]


def test_every_training_is_shown_with_its_class_and_its_steps_have_seconds(planted, monkeypatch):
    start, bags, problem, _ = planted
    monkeypatch.setattr(contrast_start, "CONTRASTS", (0.0, 0.8))
    monkeypatch.setattr(fit, "open_contrast_start", lambda *_: start)
    shown, show = [], fit.training_progress

    def noted(reporter, title, names, *rest):
        shown.append((title, names))
        return show(reporter, title, names, *rest)

    monkeypatch.setattr(fit, "training_progress", noted)
    starts = [(problem, [10.0]), (replace(problem, y=-problem.y), [1.0])]
    solved = fit._guarded(training(bags, [], C=(10.0,)), "train", starts, ["eight", "nine"], 2)
    assert shown[:2] == [("train: starts", ["eight", "nine"] * 2), ("train", ["nine"])]
    assert all("seconds" in step for path in solved for solution in path for step in solution.history)


def test_problems_that_differ_in_C_alone_are_shown_once(planted):
    _, _, problem, _ = planted
    other = replace(problem, y=-problem.y)
    names = contrast_start.start_names([problem, replace(problem, C=1.0), other], ["one", "two", "three"])
    assert names == ["one", "three"] * len(contrast_start.CONTRASTS)


def test_without_surroundings_training_starts_from_the_mean(run_copy, finished, command):
    said = command("train", "--out", run_copy, "--init", "contrast", "--redo")
    assert said.status == 0
    sentence = "--init contrast needs features of networks with --beside; training starts as with --init mean."
    assert (said.out + said.err).count(sentence) == 1
    for path in (finished / "models").glob("*.safetensors"):
        np.testing.assert_array_equal(Detector.load(run_copy / "models" / path.name).coef, Detector.load(path).coef)
    with (run_copy / "history.csv").open() as file:
        assert {row["role"] for row in csv.DictReader(file)} >= {"final"}


def test_a_training_that_chose_a_start_is_not_repeated(planted, monkeypatch):
    start, bags, problem, _ = planted
    monkeypatch.setattr(contrast_start, "CONTRASTS", (0.0, 0.8))
    trainer = Trainer(candidates=0)
    starts = ContrastStarts(start, [problem], 10.0, trainer)
    paths = [(problem, [10.0]), (problem, [1.0])]
    (same,), (other,) = fit._solve_from(starts, training(bags, [], C=(10.0, 1.0)), "train", paths, ["eight"] * 2)
    assert same is starts.of(problem).solution
    (expected,) = trainer.fit([replace(problem, C=1.0, init=starts.of(problem).weights)], bags)
    np.testing.assert_array_equal(other.coef, expected.coef)


@pytest.mark.parametrize("other", [{"risk": HingeRisk(3.0)}, {"trim": 0.4}])
def test_problems_of_equal_labels_but_other_constants_have_their_own_training(planted, monkeypatch, other):
    start, bags, problem, _ = planted
    monkeypatch.setattr(contrast_start, "CONTRASTS", (0.0,))
    one = replace(problem, risk=HingeRisk(1.0))
    problems, trainer = [one, replace(one, **other)], Trainer(candidates=0)
    starts = ContrastStarts(start, problems, 10.0, trainer)
    paths = [(each, [10.0]) for each in problems]
    solved = fit._solve_from(starts, training(bags, [], C=(10.0,)), "train", paths, ["eight"] * 2)
    for each, (solution,) in zip(problems, solved, strict=True):
        (expected,) = trainer.fit([replace(each, init=starts.of(each).weights)], bags)
        np.testing.assert_array_equal(solution.coef, expected.coef)
    assert not np.array_equal(solved[0][0].coef, solved[1][0].coef)


@pytest.mark.parametrize(
    ("halves", "n_windows", "reason"),
    [((False,), 4, "features of networks with --beside"), ((True,), 5, "all windows, not those of --keep-windows")],
)
def test_what_the_start_needs_is_named(halves, n_windows, reason):
    provenance = {"features": {"extractor": {"halves": halves}}}
    shards = SimpleNamespace(provenance=provenance, n_windows=n_windows)
    assert contrast_start.obstacle(shards, Bags(np.ones((4, 2)), np.array([0, 4]))) == reason
    shards = SimpleNamespace(provenance={"features": {"extractor": {"halves": (True,)}}}, n_windows=4)
    assert contrast_start.obstacle(shards, Bags(np.ones((4, 2)), np.array([0, 4]))) == ""
