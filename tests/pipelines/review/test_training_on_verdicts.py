"""What verdicts do to training, and what they leave as it is."""

import csv
import json
import re
import shutil
from dataclasses import replace

import numpy as np
import pytest
from lapsvm.pipelines.fitting.refining import teaching
from lapsvm.pipelines.products.held_out import read_held_out
from lapsvm.pipelines.run.folder import RunFolder
from lapsvm.pipelines.verdicts.verdict import Verdict, append_verdicts

from lapsvm.boxes import iou
from lapsvm.detection import Detector
from lapsvm.features import open_shards, read_shard
from lapsvm.latent.refinement import OverlapLimits

from .reviews import review_of, truth_of

CLASS, OTHER = "six", "three"
REFINE = ["--refine", "1", "--redo", "--quiet"]


@pytest.fixture
def run(refined, tmp_path):
    """A refined run that a test may change."""
    return shutil.copytree(refined, tmp_path / "REFINED")


def say(run, *verdicts):
    folder = RunFolder(run)
    folder.files.claim([folder.verdicts_file])
    append_verdicts(folder.verdicts_file, verdicts)


def pictures(run, name=CLASS):
    """Return picture -> shown boxes and hash of a class's positives, in the order of review."""
    session = review_of(run, name)
    (one,) = session.classes
    return {session.ids[row]: (session.candidates(one, row)[0], session.hashes[row]) for row in one.rows}


def true_boxes(run, name=CLASS):
    """Return picture -> its objects."""
    return {picture: of.boxes for picture, of in truth_of(review_of(run, name))[name].items()}


def drawn(run, count, name=CLASS):
    """Return verdicts in which a person has drawn the true boxes of some random pictures."""
    truth = true_boxes(run, name)
    shown = list(pictures(run, name).items())[:count]
    return [
        Verdict(picture, name, "boxes", tuple(map(tuple, truth[picture].tolist())), (), pixels, "random")
        for picture, (_, pixels) in shown
    ]


def models(made, run):
    return made(run, "models/*.safetensors", "first/*.safetensors", "heldout/*.safetensors")


def test_verdicts_that_say_nothing_new_leave_every_byte(run, made, command):
    before = models(made, run)
    (picture, (_, pixels)), (other, _), *_ = pictures(run).items()
    say(
        run,
        Verdict(picture, CLASS, "skip"),
        Verdict(other, CLASS, "none", pixels=pixels),  # of another picture: changed
        Verdict("unknown", CLASS, "absent"),
        Verdict(other, OTHER, "absent") if other not in pictures(run, OTHER) else Verdict(other, "cow", "absent"),
    )
    for verb in ("train", "refine"):
        assert command(verb, "--out", run).status == 0
    assert models(made, run) == before
    assert command("train", "--out", run, "--redo", "--quiet").status == 0
    assert command("refine", "--out", run, *REFINE).status == 0
    assert models(made, run) == before


def test_boxes_retrain_their_class_alone_and_are_recorded(run, made, command):
    before = models(made, run)
    say(run, *drawn(run, 6))
    for verb in ("train", "refine", "detect"):
        said = command(verb, "--out", run, "--quiet")
        assert said.status == 0, said.err
    after = models(made, run)
    changed = {name for name in after if after[name] != before[name]}
    assert changed == {f"models/{CLASS}.safetensors", f"heldout/{CLASS}.safetensors"}
    recorded = Detector.load(RunFolder(run).model(CLASS)).provenance["verdicts"]
    assert recorded["reviewed_pictures"] == 6
    assert command("refine", "--out", run, "--quiet").status == 0
    assert models(made, run) == after  # nothing to do


def test_what_a_fold_holds_out_depends_on_no_verdict_of_its_own(run, command):
    """Boxes that a person drew in one fold must not move that fold's held-out boxes by its own chain."""
    folder = RunFolder(run)
    before = read_held_out(folder, CLASS)
    of_fold = {picture for picture, fold in zip(before.ids, before.fold, strict=True) if fold == 1}
    say(run, *(one for one in drawn(run, 99) if one.picture in of_fold))
    assert command("refine", "--out", run, "--quiet").status == 0
    after = read_held_out(folder, CLASS)
    rows = before.fold == 1
    np.testing.assert_array_equal(after.boxes[rows], before.boxes[rows])
    assert (after.boxes[~rows] != before.boxes[~rows]).any()


def test_drawn_boxes_teach_beside_labels(run, command):
    verdicts = drawn(run, 99)[1:]
    say(run, *verdicts)
    said = command("refine", "--out", run)
    assert f"the objects of {len(verdicts)} reviewed pictures teach {CLASS} beside its labels" in said.err
    result, settings = Detector.load(RunFolder(run).model(CLASS)).provenance["result"], RunFolder(run).settings()
    assert (result["reviewed"], result["C"]) == (len(verdicts), teaching.WIDER * settings.refine.C)
    with (run / "history.csv").open() as file:
        last = [row for row in csv.DictReader(file) if (row["class"], row["role"]) == (CLASS, "round 1")][-1]
    assert float(last["C"]) == result["C"]
    assert "objective" not in result  # the weights are a mean, and no training's
    assert command("verify", "--out", run, "--quiet").status == 0


def test_a_drawn_box_that_no_window_covers_becomes_a_window(run, command):
    folder = RunFolder(run)
    own, verdicts = _windows(folder), drawn(run, 12)
    lacking = {
        one.picture
        for one in verdicts
        if (iou(own[one.picture], np.array(one.boxes)).max(axis=0) < OverlapLimits().pos_iou).any()
    }
    assert 0 < len(lacking) < 12
    say(run, *verdicts)
    said = command("refine", "--out", run, "--quiet")
    assert said.status == 0, said.err
    shard = read_shard(folder.drawn_windows)
    assert set(shard.image_ids) == lacking
    for name, boxes in zip(shard.image_ids, _by_picture(shard), strict=True):
        (true,) = (one.boxes for one in verdicts if one.picture == name)
        assert (iou(boxes, np.array(true)).max(axis=1) > 0.9).all()
    assert command("verify", "--out", run, "--quiet").status == 0


def test_a_drawn_box_that_is_a_window_adds_none(run, command):
    folder = RunFolder(run)
    own = _windows(folder)
    said = [replace(one, boxes=(tuple(own[one.picture][7].tolist()),)) for one in drawn(run, 6)]
    say(run, *said)
    assert command("refine", "--out", run, "--quiet").status == 0
    assert Detector.load(folder.model(CLASS)).provenance["verdicts"]["reviewed_pictures"] == 6
    assert not folder.drawn_windows.exists()


def _windows(folder):
    """Return picture -> its windows (n, 4)."""
    shards = open_shards(folder.shards("trainval"))
    return {name: boxes for shard in shards for name, boxes in zip(shard.image_ids, _by_picture(shard), strict=True)}


def _by_picture(shard):
    return np.split(shard.boxes, shard.offsets[1:-1])


def test_a_label_that_a_person_mends_replaces_that_of_the_data_set(run, command, refused):
    (picture, (_, pixels)), *_ = pictures(run).items()
    say(run, Verdict(picture, CLASS, "absent", pixels=pixels, order="random"))
    assert "run lapsvm train first" in refused("refine", "--out", run)
    for verb in ("train", "refine", "detect", "evaluate"):
        said = command(verb, "--out", run, "--quiet")
        assert said.status == 0, said.err
    held_out = read_held_out(RunFolder(run), CLASS)
    assert held_out.y[held_out.ids.index(picture)] == -1
    assert Detector.load(RunFolder(run).model(CLASS)).provenance["verdicts"]["mended_labels"] == 1
    assert "verified" not in json.loads((run / "evaluation.json").read_text())  # it counts neither way


def test_figures_are_in_the_evaluation_and_on_the_page(run, command):
    verdicts = drawn(run, 8)
    say(run, *verdicts, replace(verdicts[0], class_name=OTHER, order="next"))
    said = command("evaluate", "--out", run)
    entry = json.loads((run / "evaluation.json").read_text())["verified"]
    held_out = read_held_out(RunFolder(run), CLASS)
    boxes = dict(zip(held_out.ids, held_out.boxes, strict=True))
    right = sum(iou(boxes[one.picture][None], np.array(one.boxes)).max() > 0.5 for one in verdicts)
    assert set(entry["classes"]) == {CLASS}
    assert (entry["classes"][CLASS]["right"], entry["classes"][CLASS]["of"]) == (right, len(verdicts))
    sentence = f"{CLASS}: {right} of {len(verdicts)} right: "
    assert sentence in said.err + said.out
    assert command("report", "--out", run).status == 0
    assert sentence in (run / "page" / "index.html").read_text()


def test_verdicts_of_a_file_are_added_before_a_stage(run, tmp_path, command, refused):
    file = tmp_path / "verdicts.jsonl"
    append_verdicts(file, drawn(run, 5))
    assert command("refine", "--out", run, "--verdicts", file, "--quiet").status == 0
    assert Detector.load(RunFolder(run).model(CLASS)).provenance["verdicts"]["reviewed_pictures"] == 5
    assert len((run / "verdicts.jsonl").read_text().splitlines()) == 5
    assert "is not there" in refused("train", "--out", run, "--verdicts", tmp_path / "none")


@pytest.mark.parametrize("had", [0, 2])
def test_a_refused_stage_takes_no_verdicts(run, tmp_path, refused, had):
    file, found = tmp_path / "verdicts.jsonl", drawn(run, 5)
    if had:
        say(run, *found[:had])
    append_verdicts(file, [replace(found[4], verdict="absent", boxes=())])
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    assert "trained with the labels that verdicts mend" in refused("refine", "--out", run, "--verdicts", file)
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


def test_without_boxes_and_verdicts_the_page_says_that_nobody_looked(run, digits, command, tmp_path):
    unboxed = tmp_path / "unboxed"
    shutil.copytree(digits, unboxed, ignore=shutil.ignore_patterns("Annotations"))
    said = command("evaluate", "--out", run, "--root", unboxed)
    assert said.status == 0, said.err
    sentence = f"nothing is known of the boxes yet: look at, or mark, 20: lapsvm review --out {run}"
    assert sentence in said.err + said.out
    assert command("report", "--out", run).status == 0
    page = (run / "page" / "index.html").read_text()
    assert page.index(">Boxes</h3>") < page.index(sentence) < page.index(">Whole pictures</h3>")


def test_after_verdicts_the_page_names_the_classes_that_nobody_looked_at(run, digits, command, tmp_path):
    unboxed = tmp_path / "unboxed"
    shutil.copytree(digits, unboxed, ignore=shutil.ignore_patterns("Annotations"))
    others = [name for name in RunFolder(run).settings().data.classes if name != CLASS]
    say(run, *drawn(run, 6))
    assert command("run", "--out", run, "--root", unboxed, "--quiet").status == 0
    page = (run / "page" / "index.html").read_text()
    assert f"nothing is known of the boxes yet: look at, or mark, 20 of {', '.join(others)}: lapsvm review" in page
    assert re.search(rf'>{CLASS}</th><td class="number">\d of 6 right: [^<]*%', page)
    assert f'>{others[0]}</th><td class="number">nothing</td>' in page
    steps = (
        page[page.index("Next steps</h2>") : page.index(">Class by class</h2>")] if "Next steps</h2>" in page else ""
    )
    unsettled = steps[steps.index("Boxes are not settled") :] if "Boxes are not settled" in steps else ""
    assert f">{CLASS}</span> (" not in unsettled


def test_a_plain_run_goes_on_with_new_verdicts_alone(run, made, command):
    assert command("run", "--out", run, "--quiet").status == 0
    before = models(made, run)
    say(run, *drawn(run, 6))
    said = command("run", "--out", run, "--quiet")
    assert said.status == 0, said.err
    changed = {name for name, content in models(made, run).items() if before[name] != content}
    assert changed == {f"models/{CLASS}.safetensors", f"heldout/{CLASS}.safetensors"}
    assert CLASS in json.loads((run / "evaluation.json").read_text())["verified"]["classes"]
