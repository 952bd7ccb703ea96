"""The experiments with losses on frozen features, on tiny generated data."""

import io
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import t as student
from sklearn.metrics import average_precision_score

torch = pytest.importorskip("torch", reason="the experiments train with torch")

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
PAGE = Path(__file__).parents[2] / "docs" / "measurements" / "deep" / "rank_losses.md"
MODULES = ("cifar_features", "frozen_features", "head_training")


@pytest.fixture(scope="module")
def deep():
    """The modules of the experiments by name; they import each other as siblings."""
    sys.path.insert(0, str(BENCHMARKS / "deep"))
    try:
        yield {name: __import__(name) for name in MODULES}
    finally:
        sys.path.remove(str(BENCHMARKS / "deep"))
        for name in MODULES:
            sys.modules.pop(name, None)


def made_up(n=300, d=8, n_classes=3, seed=0):
    rng = np.random.default_rng(seed)
    classes = rng.integers(0, n_classes, n)
    X = rng.standard_normal((n, d)) + np.eye(n_classes, d)[classes] * 2
    return torch.tensor(X / d**0.5, dtype=torch.float32), torch.tensor(classes)


@pytest.mark.parametrize("digits", [1, 6], ids=["ties", "no ties"])
def test_average_precision_is_that_of_scikit_learn(deep, digits):
    rng = np.random.default_rng(0)
    scores, classes = rng.standard_normal((80, 4)).round(digits), rng.integers(0, 4, 80)
    found = deep["head_training"].evaluate(torch.tensor(scores), torch.tensor(classes))
    columns = [(classes == column, scores[:, column]) for column in range(4)]
    assert found == pytest.approx(100 * np.mean([average_precision_score(*column) for column in columns]))


@pytest.mark.parametrize("batch", [300, 60])
def test_every_loss_learns(deep, batch):
    training = deep["head_training"]
    X, classes = made_up()
    for name, kind in training.LOSSES.items():
        torch.manual_seed(0)
        head = torch.nn.Linear(8, 3)
        before = training.evaluate(head(X).detach(), classes)
        settings = training.Settings(0.03, kind.scales[1], 0.01)
        training.train(head, X, classes, kind, settings, batch=batch, passes=8, seed=0)
        after = training.evaluate(kind.to_rank(head(X).detach(), settings.scale), classes)
        assert after > before + 5, name


def test_losses_that_compare_classes_rank_by_probability_or_margin(deep):
    training = deep["head_training"]
    scores = torch.randn(20, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    ranked = training.LOSSES["cross-entropy"].to_rank(scores, 3.0)
    np.testing.assert_allclose(ranked.exp(), torch.softmax(3 * scores, 1))
    margins = training.LOSSES["0-1, multi-class hinge"].to_rank(scores, 3.0)
    for row, found in zip(scores.tolist(), margins.tolist(), strict=True):
        assert found == pytest.approx([value - max(row[:k] + row[k + 1 :]) for k, value in enumerate(row)])
    assert training.LOSSES["AP ramp, direct up"].to_rank(scores, 3.0) is scores


def test_every_loss_has_as_many_candidates_and_keeps_the_best(deep, tmp_path):
    training = deep["head_training"]
    for number, (name, kind) in enumerate(training.LOSSES.items()):
        tried = []

        def run(seed, settings, part, tried=tried, kind=kind):
            tried.append((seed, settings, part))
            return 50 + (settings.step == 0.03) + 2 * (settings.scale == kind.scales[2]) + (settings.decay == 1.0)

        task = training.Task(run, {"loss": name})
        records = training.Records(tmp_path / f"{number}.jsonl")
        rows = training.measure(kind, task, records, range(3), task)
        search = [entry for entry in tried if entry[2] == "validation"]
        assert (len(search), len(tried)) == (10, 13)
        assert {seed for seed, _, _ in search} == {training.SEARCH_SEED}
        assert [settings for _, settings, part in tried if part == "test"] == [(0.03, kind.scales[2], 1.0)] * 3
        again = training.measure(kind, task, training.Records(tmp_path / f"{number}.jsonl"), range(3), task)
        assert len(tried) == 13
        assert [row["ap"] for row in again] == [row["ap"] for row in rows]
        other = training.Task(run, {"loss": name, "noise": 0.2})
        training.measure(kind, task, records, range(3), other)  # the tests are known
        assert [part for _, _, part in tried[13:]] == ["validation"] * 10
        assert (tmp_path / f"{number}.jsonl").read_text().count('"noise"') == 10


def test_noise_moves_the_share_that_it_says_to_other_classes(deep):
    classes = torch.arange(10).repeat(2000)
    moved = deep["frozen_features"].flipped(classes, 0.2, np.random.default_rng(0))
    wrong = moved != classes
    assert 0.19 < wrong.double().mean() < 0.21
    assert set(moved.tolist()) == set(range(10))
    shifts = ((moved - classes) % 10)[wrong]
    assert 400 < min(torch.bincount(shifts, minlength=10)[1:]) <= max(torch.bincount(shifts)) < 500
    assert torch.equal(deep["frozen_features"].flipped(classes, 0.0, np.random.default_rng(0)), classes)


def test_a_cell_has_the_interval_of_student(deep):
    values, others = np.array([1.0, 2.0, 4.0, 4.5, 9.0]), np.array([2.0, 0.0, 1.0, 3.5, 2.0])
    records, base = ([{"ap": value} for value in column] for column in (values, others))
    low, high = student.interval(0.95, 4, loc=1, scale=(values - others).std(ddof=1) / 5**0.5)
    mean = (values - others).mean()
    assert deep["frozen_features"].difference_text(records, base) == f"4.10, {mean:+.2f}±{(high - low) / 2:.2f}"


@pytest.fixture
def tiny_folder(deep, tmp_path, monkeypatch):
    """Features of a zip of small pictures, by HOG."""
    from PIL import Image

    rng = np.random.default_rng(0)
    with zipfile.ZipFile(tmp_path / "pictures.zip", "w") as file:
        for part, count in (("train", 9), ("test", 4)):
            for kind in range(10):
                for number in range(count):
                    pixels = rng.integers(0, 60, (32, 32, 3), dtype=np.uint8)
                    pixels[3 * kind : 3 * kind + 4] += 150
                    content = io.BytesIO()
                    Image.fromarray(pixels).save(content, "JPEG")
                    file.writestr(f"{part}/class{kind}/{number:04}.jpg", content.getvalue())
    monkeypatch.setattr(deep["cifar_features"], "EXTRACTOR", "hog")
    monkeypatch.setattr(deep["cifar_features"], "VALIDATION", 30)
    deep["cifar_features"].extract(tmp_path / "pictures.zip", tmp_path / "features")
    return tmp_path / "features"


def test_commands_put_a_row_per_loss_into_their_page(deep, tiny_folder, monkeypatch, capsys):
    frozen, training = deep["frozen_features"], deep["head_training"]
    data = deep["cifar_features"].load(tiny_folder)
    assert [len(part.classes) for part in data] == [60, 30, 40]
    assert (data.pool.X.square().sum(1).mean(), data.pool.X.dtype) == (pytest.approx(1, abs=0.2), torch.float32)
    changed = {"TRAINING": 50, "FULL": 50, "PASSES": {50: 3, 25: 2, 200: 2}, "BATCHES": (50, 200), "SEEDS": range(2)}
    for name, value in changed.items():
        monkeypatch.setattr(frozen, name, value)
    monkeypatch.setattr(frozen, "NOISE_BATCH", 25)
    monkeypatch.setattr(training, "STEPS", (0.03,))
    monkeypatch.setattr(training, "DECAYS", ())
    few = {name: training.LOSSES[name] for name in ("cross-entropy", "BCE", "AP hinge")}
    monkeypatch.setattr(frozen, "LOSSES", few)
    monkeypatch.setattr(frozen, "NOISE_LOSSES", ("BCE", "AP hinge"))
    page = tiny_folder / "page.md"
    page.write_bytes(PAGE.read_bytes())
    for work, base, n_columns in ((frozen.losses, "cross-entropy", 2), (frozen.noise, "BCE", 4)):
        work(tiny_folder, page)
        printed = capsys.readouterr().out
        assert printed in page.read_text("utf-8")
        _, _, *rows = ([cell.strip() for cell in line[1:-1].split("|")] for line in printed.splitlines())
        for name, *cells in rows:
            assert len(cells) == n_columns
            assert all(20 < float(cell.split(",")[0]) <= 100 for cell in cells)
            assert all(("±" in cell) == (name != base) for cell in cells)
