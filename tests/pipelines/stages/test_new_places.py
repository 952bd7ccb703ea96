"""A folder of data that has moved: every verb that opens it names --root, and works with it."""

import json
import shutil

import ablation as variants
import baselines
import pytest
import repetitions
from lapsvm.pipelines.run.folder import RunFolder

from ..calls import status_of

VERBS = {
    "train": ["train", "--redo", "--C", "1,10", "--folds", "2"],
    "tune": ["tune", "--C", "1,10", "--folds", "2", "--redo"],
    "refine": ["refine", "--refine", "1"],
    "detect": ["detect", "--redo"],
    "evaluate": ["evaluate"],
    "report": ["report"],
    "export": ["export", "--format", "coco"],
    "compare": ["compare"],
    "verify": ["verify", "--pictures"],
    "extract": ["extract"],
    "run": ["run"],
}
MADE = ("run.toml", "shards/*/*", "models/*", "detections/*/*", "evaluation.json", "page/*")


@pytest.fixture
def moved_run(digits, run_copy, tmp_path):
    """A finished run whose data have moved to tmp_path / "new"."""
    old, new = tmp_path / "old", tmp_path / "new"
    shutil.copytree(digits, new)
    run = RunFolder(run_copy)
    text = run.settings_file.read_text()
    run.settings_file.write_text(text.replace(f'root = "{digits}"', f'root = "{old}"'))
    assert run.settings().data.root == str(old)
    return run_copy


def line(verb, run, tmp_path):
    """Return the command line of a verb on a run."""
    words = list(VERBS[verb])
    if verb == "compare":
        shutil.copytree(run, tmp_path / "OTHER")
        return [*words, run, tmp_path / "OTHER", "--out", tmp_path / "COMPARISON", "--draws", "50"]
    return [*words, "--out", run, *(["--to", tmp_path / "exported"] if verb == "export" else [])]


def test_the_sentence_of_every_verb_names_the_option_that_mends_it(moved_run, tmp_path, refused):
    told = f"data folder {tmp_path / 'old'} is not there; if the data have moved, name their folder with --root."
    for verb in VERBS:
        assert told in refused(*line(verb, moved_run, tmp_path)), verb


@pytest.mark.parametrize("verb", ["run", "refine", "report", "export", "compare", "verify"])
def test_a_verb_works_in_the_new_place(verb, moved_run, tmp_path, command):
    done = command(*line(verb, moved_run, tmp_path), "--root", tmp_path / "new", "--quiet")
    assert done.status == 0, done.err
    recorded = RunFolder(moved_run).settings().data.root
    assert recorded == str(tmp_path / ("old" if verb in ("export", "compare", "verify") else "new"))


STUDIES = {
    "variants": (variants, ["--variants", "unchanged", "--draws", "50", "--run"]),
    "repetitions": (repetitions, ["--draws", "50", "--row"]),
    "baselines": (baselines, ["--method", "mi_svm", "--run"]),
}


@pytest.mark.parametrize("study", STUDIES)
def test_studies_take_the_option_too(study, moved_run, tmp_path, capsys):
    module, words = STUDIES[study]
    run = [f"one={moved_run}"] if study == "repetitions" else [moved_run, "--quiet"]
    words = [*words, *run, "--out", tmp_path / "OUT"]
    assert status_of(module.main, *words) == 2
    assert f"data folder {tmp_path / 'old'} is not there; if the data have moved, name" in capsys.readouterr().err
    shutil.rmtree(tmp_path / "OUT", ignore_errors=True)
    assert not status_of(module.main, *words, "--root", tmp_path / "new"), capsys.readouterr().err


def test_one_folder_is_not_the_data_of_runs_on_several(moved_run, finished, tmp_path, capsys):
    words = ["--row", f"one={moved_run},{finished}", "--out", tmp_path / "OUT", "--root", tmp_path / "new"]
    assert status_of(repetitions.main, *words) == 2
    assert "option --root must name the data of all runs" in capsys.readouterr().err


def test_redo_takes_the_pictures_of_another_folder(digits, run_copy, tmp_path, refused, command, fast_extraction):
    other = shutil.copytree(digits, tmp_path / "other")
    for record in (other / "ImageSets" / "Main").glob("*trainval.txt"):
        record.write_text("".join(record.read_text().splitlines(keepends=True)[1:]))
    words = ["extract", "--out", run_copy, "--root", other, "--quiet"]
    assert "such as '000001'; use another --out for other pictures." in refused(*words)
    assert command(*words, "--redo").status == 0


def test_prediction_needs_no_data(moved_run, digits, command):
    picture = next((digits / "JPEGImages").iterdir())
    done = command("predict", "--model", moved_run / "models", picture, "--quiet")
    assert done.status == 0
    assert json.loads(done.out)


def test_a_new_place_leaves_the_other_settings_and_results(finished, moved_run, tmp_path, command, made):
    assert command("detect", "--out", moved_run, "--root", tmp_path / "new").status == 0
    before, after = (RunFolder(run).settings().flat() for run in (finished, moved_run))
    assert {name for name in before if before[name] != after[name]} == {"data.root"}
    assert made(moved_run) == made(finished)


def test_an_empty_folder_is_a_folder_that_moved(moved_run, tmp_path, refused):
    (tmp_path / "old").mkdir()
    assert f"data folder {tmp_path / 'old'} is empty; if the data have moved" in refused("train", "--out", moved_run)


def test_another_data_set_is_no_new_place(moved_run, tmp_path, refused, made):
    lists = tmp_path / "new" / "ImageSets" / "Main"
    gone = (lists / "test.txt").read_text().split()[0]
    for path in lists.glob("*test.txt"):
        kept = [text for text in path.read_text().splitlines() if not text.startswith(gone)]
        path.write_text("\n".join(kept) + "\n")
    before = made(moved_run, *MADE)
    told = refused("evaluate", "--out", moved_run, "--root", tmp_path / "new")
    assert f"must have the pictures of the run, but lacks 1 of set 'test', such as {gone!r}" in told
    assert made(moved_run, *MADE) == before
