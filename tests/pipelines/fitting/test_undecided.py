"""A warning where image AP cannot choose between constants, and only then."""

import numpy as np
import pytest
from lapsvm.pipelines.cli.parsing import assigned_values
from lapsvm.pipelines.fitting.selection import undecided_message
from lapsvm.pipelines.settings.options import settings_of
from PIL import Image


def entry(*folds):
    return {"C": 1.0, "folds": list(folds)}


@pytest.mark.parametrize("verb", ["run", "train", "tune"])
def test_a_choice_without_differences_names_a_setting_that_every_verb_takes(verb):
    sentence = undecided_message("cat", [entry(1.0, 1.0), entry(1.0, 1.0)])
    assignment = sentence.split("--set ")[1].split()[0]
    assert assigned_values([assignment], settings_of(verb)) == {"train.margin": 0.05}


@pytest.mark.parametrize(
    ("candidates", "counts"),
    [
        ([], ""),
        ([entry(1.0, 1.0)], ""),
        ([entry(1.0, 0.998), entry(1.0, 1.0)], "2 of 2"),
        ([entry(0.9, 1.0), entry(1.0, 1.0)], ""),
        ([entry(1.0), entry(1.0), entry(0.5)], "2 of 3"),
    ],
)
def test_what_is_perfect_is_counted(candidates, counts):
    sentence = undecided_message("cat", candidates)
    assert counts in sentence
    assert bool(sentence) == bool(counts)
    assert not sentence or (sentence.startswith("cat: ") and sentence.endswith("."))


def two_worlds(folder):
    """Write pictures of a class that are striped across, and others that are striped down."""
    rng = np.random.default_rng(0)
    rows = ["image,label"]
    for i in range(20):
        stripes = np.where(np.arange(48) // 4 % 2, 200, 60)[:, None].repeat(64, axis=1)
        pixels = stripes if i % 2 else np.where(np.arange(64) // 4 % 2, 200, 60)[None].repeat(48, axis=0)
        noisy = np.clip(pixels + rng.normal(0, 10, (48, 64)), 0, 255).astype(np.uint8)
        Image.fromarray(noisy).save(folder / f"{i}.png")
        rows.append(f"{i}.png,{'across' if i % 2 else ''}")
    (folder / "labels.csv").write_text("\n".join(rows) + "\n")


def test_separable_sets_are_reported_on_the_command_line_and_on_the_page(tmp_path, command):
    root, out = tmp_path / "pictures", tmp_path / "RUN"
    root.mkdir()
    two_worlds(root)
    line = ["run", "--data", "csv", "--root", root, "--out", out, "--windows", "grid", "--max-windows", "20"]
    line += ["--extractor", "hog"]
    result = command(*line, "--C", "1,10", "--folds", "2")
    assert result.status == 0, result.err
    assert any("train: across: held-out image AP is 1.000 for 2 of 2" in said for said in result.err.splitlines())
    assert "2 of 2 candidates" in (out / "page" / "index.html").read_text()


def test_digits_cause_no_warning(finished):
    assert 'class="warnings"' not in (finished / "page" / "index.html").read_text()
