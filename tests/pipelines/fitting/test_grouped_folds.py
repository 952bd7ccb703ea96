"""Folds keep copies together: what is held out says nothing of pictures that a model has seen under another name."""

import csv
import shutil

import numpy as np
import pytest
from lapsvm.pipelines.compare.folds import compare_folds
from lapsvm.pipelines.context import RunContext, StoredRun
from lapsvm.pipelines.products.fold_models import held_out_folds, too_few_pictures
from lapsvm.pipelines.products.held_out import read_held_out
from lapsvm.pipelines.run.folder import RunFolder
from PIL import Image
from sklearn.model_selection import StratifiedKFold

from lapsvm.detection import Detector
from lapsvm.errors import OneClassError
from lapsvm.evaluation import image_average_precision

CLASSES = [f"noise{number}" for number in range(4)]
N_DIFFERENT, POSITIVES = 30, 12
BASE = POSITIVES / N_DIFFERENT
QUICK = ["--extractor", "hog", "--windows", "grid", "--max-windows", "12", "--C", "1,100", "--folds", "3", "--quiet"]


def folds_of(y, groups, folds=3, seed=0):
    """Return the fold of every picture, -1 for none."""
    masks = np.array(held_out_folds(y, folds, seed, "cat", "", groups))
    assert (masks.sum(axis=0) == (y != 0)).all()
    return np.where(y != 0, masks.argmax(axis=0), -1)


def test_without_copies_folds_are_those_of_pictures():
    """Also where pictures without a label are copies: they are in no fold."""
    y = np.random.default_rng(0).choice([-1, -1, 0, 1], 60).astype(np.int8)
    labelled, groups = np.flatnonzero(y), np.arange(60)
    groups[y == 0] = np.flatnonzero(y == 0)[0]
    expected = np.full(60, -1)
    splitter = StratifiedKFold(3, shuffle=True, random_state=7)
    for number, (_, fold) in enumerate(splitter.split(labelled, y[labelled])):
        expected[labelled[fold]] = number
    for of_pictures in (None, np.arange(60), groups):
        assert (folds_of(y, of_pictures, seed=7) == expected).all()


@pytest.mark.parametrize("seed", range(60))
def test_groups_are_whole_and_every_fold_has_both_labels_where_groups_suffice(seed):
    """Groups of any sizes and mixtures of labels, down to the fewest that are enough."""
    rng = np.random.default_rng(seed)
    folds, y = int(rng.integers(2, 6)), rng.choice([-1, 0, 1], 40).astype(np.int8)
    groups = rng.integers(0, rng.integers(folds, 25), 40) ** 2 // 4
    distinct = min(len(np.unique(groups[y == label])) for label in (1, -1))
    if distinct < folds:
        with pytest.raises(OneClassError, match=f"must have {folds} positive and {folds} negative pictures"):
            folds_of(y, groups, folds)
        return
    fold = folds_of(y, groups, folds, seed)
    for group in np.unique(groups):
        assert len(set(fold[(groups == group) & (y != 0)])) <= 1
    assert all(set(y[fold == number]) == {-1, 1} for number in range(folds))
    assert (fold == folds_of(y, groups * 3 + 5, folds, seed)).all()  # names of groups mean nothing


def test_pairs_are_stratified_as_well_as_pictures():
    y = np.repeat(np.where(np.arange(90) < 20, 1, -1), 2).astype(np.int8)
    fold = folds_of(y, np.arange(180) // 2)
    assert sorted(np.bincount(fold[y > 0])) == [12, 14, 14]
    assert sorted(np.bincount(fold)) in ([58, 60, 62], [60, 60, 60])
    assert (fold != folds_of(y, np.arange(180) // 2, seed=1)).any()


def test_too_few_different_pictures_are_too_few():
    y, groups = np.array([1, 1, 1, -1, -1, -1, -1], dtype=np.int8), np.array([0, 0, 0, 3, 4, 5, 6])
    once = "got 1 and 4, those that are the same or of one --group counted once"
    with pytest.raises(OneClassError) as error:
        held_out_folds(y, 2, 0, "cat", "lower --folds", groups)
    rule = "class 'cat' must have 2 positive and 2 negative pictures for 2 folds"
    assert str(error.value) == f"{rule}, {once}; lower --folds."
    expected = f"scores of cat have no probabilities, which need 2 pictures with it and 2 without, {once}."
    assert too_few_pictures("cat", y, 2, groups) == expected
    assert too_few_pictures("cat", y, 2, np.arange(7)) == ""


@pytest.fixture(scope="module")
def copies(tmp_path_factory):
    """Noise with random labels, every picture twice."""
    root, rng = tmp_path_factory.mktemp("copies") / "DATA", np.random.default_rng(3)
    root.mkdir()
    shown = np.array([rng.permutation(N_DIFFERENT) < POSITIVES for _ in CLASSES])
    with (root / "labels.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["image", "label"])
        for number in rng.permutation(2 * N_DIFFERENT):
            picture, name = number // 2, f"{number // 2:02}{'ab'[number % 2]}.png"
            pixels = np.random.default_rng([9, picture]).integers(0, 256, (9, 12, 3)).repeat(4, axis=0)
            Image.fromarray(pixels.repeat(4, axis=1).astype(np.uint8)).save(root / name)
            rows.writerows([name, CLASSES[one]] for one in np.flatnonzero(shown[:, picture]))
            if not shown[:, picture].any():
                rows.writerow([name, ""])
    return root


@pytest.fixture
def line(copies, tmp_path):
    return ["run", "--data", "csv", "--root", copies, "--out", tmp_path / "RUN", *QUICK]


@pytest.fixture
def ungrouped(monkeypatch):
    """Let every picture be one of its own, as it was before groups."""
    with monkeypatch.context() as patch:
        patch.setattr(StoredRun, "groups", lambda _, __, ids, shards: np.arange(len(ids)))
        yield patch


def figures(out):
    """Return the mean held-out image AP, and that of the folds by which constants were chosen."""
    found = [read_held_out(RunFolder(out), name) for name in CLASSES]
    results = [Detector.load(out / "models" / f"{name}.safetensors").provenance["result"] for name in CLASSES]
    in_folds = [entry["folds"] for result in results for entry in result["held_out_image_ap"]]
    return np.mean([one.image_ap for one in found]), np.mean(in_folds)


def chance(count, pictures, positives):
    """Return the mean AP of `count` random rankings of pictures that each appear twice, and its highest value."""
    rng, y = np.random.default_rng(0), np.where(np.arange(pictures) < positives, 1, -1).repeat(2)
    scores = [[rng.random(pictures).repeat(2) for _ in range(count)] for _ in range(300)]
    means = [np.mean([image_average_precision(one, y) for one in each]) for each in scores]
    return np.mean(means), np.quantile(means, 0.998)


@pytest.mark.parametrize("refinement", [[], ["--refine", "1"]])
def test_random_labels_of_copies_stay_at_chance(line, tmp_path, command, refinement):
    """Held-out scores, the folds that choose constants, and the folds of `compare`."""
    assert command(*line, *refinement).status == 0
    held_out, chosen_by = figures(tmp_path / "RUN")
    assert held_out < chance(len(CLASSES), N_DIFFERENT, POSITIVES)[1] < 0.7
    assert chosen_by < chance(3 * len(CLASSES), N_DIFFERENT // 3, POSITIVES // 3)[1] < 0.7
    found = read_held_out(RunFolder(tmp_path / "RUN"), CLASSES[0])
    assert len({(name[:2], fold) for name, fold in zip(found.ids, found.fold.tolist(), strict=True)}) == N_DIFFERENT
    if refinement:
        return
    context = RunContext.opened(tmp_path / "RUN", "compare", quiet=True)
    table = compare_folds([(context.stored, context.workspace)] * 2, CLASSES, 3, 1, 0)
    assert table["mean"]["means"][0] < chance(3 * len(CLASSES), N_DIFFERENT // 3, POSITIVES // 3)[1]


def test_a_run_whose_folds_divide_copies_is_trained_again_or_refused(line, tmp_path, command, ungrouped):
    assert command(*line).status == 0
    before = figures(tmp_path / "RUN")
    assert min(before) > 0.85  # random labels are learned
    ungrouped.undo()
    for verb in ("refine", "detect", "threshold"):
        said = command(verb, "--out", tmp_path / "RUN", *(["--refine", "1"] if verb == "refine" else []))
        assert said.status == 2
        assert "was trained with data.groups (not set) instead of '" in said.err
        assert "; run lapsvm train --redo first." in said.err
    done = command(*line[:-1])
    assert done.status == 0
    assert "train: pictures, labels or groups have changed; trained again: noise0, noise1" in done.err
    assert figures(tmp_path / "RUN")[0] < before[0] - 0.2


def test_names_say_which_pictures_show_one_object(copies, line, tmp_path, command, refused):
    """Pictures that differ in one value are no copies; an expression keeps them together all the same."""
    data = shutil.copytree(copies, tmp_path / "DATA")
    for path in data.glob("*b.png"):
        pixels = np.array(Image.open(path))
        pixels[0, 0, 0] ^= 1
        Image.fromarray(pixels).save(path)
    line = [data if word == copies else word for word in line]
    assert command(*line).status == 0
    apart = figures(tmp_path / "RUN")
    assert command(*line, "--group", r"^\d+").status == 0
    together = figures(tmp_path / "RUN")
    high = chance(len(CLASSES), N_DIFFERENT, POSITIVES)[1]
    assert max(high, 0.7) < min(apart)
    assert together[0] < high
    assert together[1] < chance(3 * len(CLASSES), N_DIFFERENT // 3, POSITIVES // 3)[1]
    assert 'group = "^\\\\d+"' in (tmp_path / "RUN" / "run.toml").read_text()
    said = refused(*line, "--group", r"^\d", "--folds", "11")
    assert "must have 11 positive and 11 negative pictures for 11 folds, got 3 and 3, those that are" in said


def test_an_expression_that_is_none_is_refused(line, refused):
    said = refused(*line, "--group", "(")
    assert "option --group must be a regular expression, got '(': missing )" in said


def test_too_few_different_pictures_are_refused_before_features_are_computed(tmp_path, refused):
    for name, different in (("cat", 1), ("dog", 4)):
        (tmp_path / "DATA" / name).mkdir(parents=True)
        for number in range(4):
            pixels = np.random.default_rng([len(name), number % different, ord(name[0])]).integers(0, 256, (36, 48, 3))
            Image.fromarray(pixels.astype(np.uint8)).save(tmp_path / "DATA" / name / f"{number}.png")
    said = refused("run", "--data", "folder", "--root", tmp_path / "DATA", "--out", tmp_path / "RUN", *QUICK)
    assert "class 'cat' must have 3 positive and 3 negative pictures for 3 folds, got 1 and 4, those that are" in said
    assert not (tmp_path / "RUN" / "shards").exists()
