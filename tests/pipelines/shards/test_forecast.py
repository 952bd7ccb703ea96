"""What a run says of its time, memory and disk before it starts."""

import re
from types import SimpleNamespace

import pytest
from lapsvm.pipelines.products import projection
from lapsvm.pipelines.run.progress import roughly
from lapsvm.pipelines.shards import extraction, forecast

UNITS = {"MB": 1e6, "GB": 1e9}


def said_sizes(text):
    """Return the bytes of memory and of disk that the line names."""
    line = next(line for line in text.splitlines() if line.startswith("before it starts, by 5 pictures: "))
    size = "(?:at most )?(.*) (MB|GB)"
    found = re.search(rf"about .* for the features of 60 pictures, {size} of memory, {size} of disk", line)
    return float(found[1]) * UNITS[found[2]], float(found[3]) * UNITS[found[4]]


def line(digits, out, *options):
    data = ["--data", "voc", "--root", digits, "--classes", "six", "--extractor", "hog", "--jobs", "2", "--out", out]
    return ["extract", *data, *options]


@pytest.mark.parametrize(
    "options",
    [
        ["--max-windows", "150"],  # selective search, which finds fewer in some pictures
        ["--windows", "grid", "--max-windows", "20", "--pca", "30"],
        ["--windows", "grid", "--max-windows", "20", "--set", "features.dtype=float32"],
    ],
)
def test_the_disk_is_forecast_within_a_factor_of_one_and_a_half(digits, tmp_path, command, options):
    memory, disk = said_sizes(command(*line(digits, tmp_path / "RUN", *options)).err)
    actual = sum(path.stat().st_size for path in tmp_path.glob("RUN/shards/*/*"))
    assert actual / 1.5 < disk < 1.5 * actual
    assert memory > disk / 3  # of the shards of one set, and the program


@pytest.mark.parametrize("options", [[], ["--pca", "5"]])
def test_pictures_that_are_measured_are_seen_once(digits, tmp_path, command, monkeypatch, options):
    seen, prepare = [], extraction.prepare_record

    def counted(record, *rest):
        seen.append(record.id)
        return prepare(record, *rest)

    for module in (extraction, projection, forecast):
        monkeypatch.setattr(module, "prepare_record", counted)
    options = ["--windows", "grid", "--max-windows", "9", *options]
    assert command(*line(digits, tmp_path / "RUN", *options)).status == 0
    assert len(seen) == len(set(seen)) == 60
    monkeypatch.undo()
    assert command(*line(digits, tmp_path / "QUIET", *options), "--quiet").err == ""
    shards = [sorted(tmp_path.glob(f"{run}/shards/*/*")) for run in ("RUN", "QUIET")]
    assert [path.read_bytes() for path in shards[0]] == [path.read_bytes() for path in shards[1]]


def test_a_disk_that_is_too_small_is_told_with_the_remedies(digits, tmp_path, command, monkeypatch):
    monkeypatch.setattr(forecast.shutil, "disk_usage", lambda _: SimpleNamespace(free=1000))
    said = " ".join(command(*line(digits, tmp_path / "RUN", "--windows", "grid", "--max-windows", "9")).err.split())
    assert "RUN may become full: the shards need " in said
    assert "and 0.0 MB are free; take another --out, fewer --max-windows, or fewer features (--pca)." in said


def test_a_share_of_the_variance_is_at_most_all_features(digits, tmp_path, command):
    said = command(*line(digits, tmp_path / "RUN", "--windows", "grid", "--max-windows", "9", "--pca", "0.5")).err
    _, disk = said_sizes(said)
    assert "at most" in said
    assert disk > sum(path.stat().st_size for path in tmp_path.glob("RUN/shards/*/*"))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "5 s"), (43, "45 s"), (89, "90 s"), (91, "2 min"), (1000, "17 min"), (5400, "1 h 30 min"), (7150, "2 h")],
)
def test_durations_are_rounded(seconds, text):
    assert roughly(seconds) == text


def test_training_is_in_it_where_the_recipe_is_the_one_that_was_measured(digits, tmp_path, command):
    line = ["run", "--data", "voc", "--root", digits, "--classes", "six", "--extractor", "hog"]
    options = ["--windows", "grid", "--max-windows", "9", "--pca", "5", "--set", "train.C=1", "--jobs", "2"]
    plain, refined = (
        command(*line, *options, "--set", f"refine.rounds={rounds}", "--out", tmp_path / str(rounds))
        for rounds in (0, 1)
    )
    assert "for the features of 60 pictures, " in plain.err
    assert re.search("for the features of 60 pictures and [^,]* s for training and detection, ", refined.err)
