"""Classes that learn while a person looks: when, from what, whose boxes come next, and what the page says."""

import json
import time
from dataclasses import replace

import numpy as np
import pytest
from lapsvm.pipelines.products import drawn
from lapsvm.pipelines.products.held_out import read_held_out
from lapsvm.pipelines.review import learning
from lapsvm.pipelines.review.class_review import BoxModels
from lapsvm.pipelines.review.learner import Learner
from lapsvm.pipelines.review.learning import ADVICE, STOP, StopRule, moved_share, n_changed
from lapsvm.pipelines.shards.windows import UnusableError
from lapsvm.pipelines.verdicts.verdict import Verdict, append_verdicts, read_verdicts

from lapsvm.bags.stores.parts import FilePart
from lapsvm.boxes import iou
from lapsvm.detection import Detector
from lapsvm.errors import DataError

from .reviews import context_of, learn, review_of, truth_of

FIVE = range(5)


def learned(session, index=0):
    """Wait until a class does not learn, and return what the page says of it."""
    end = time.monotonic() + 120
    while (state := session.learning.state(index))["busy"]:
        assert time.monotonic() < end, state
        time.sleep(0.01)
    return state


def say(session, places=FIVE, index=0, verdict="draw", **entry):
    """Say the same of pictures of a class, by their places in its order; "draw" draws the true boxes."""
    one = session.classes[index]
    truth = truth_of(session)[one.name]
    for place in places:
        row = one.rows[place]
        said = {"verdict": verdict}
        if verdict == "draw":
            said = {"verdict": "boxes", "boxes": truth[session.ids[row]].boxes.tolist()}
        session.record({"class": index, "n": row, **said, **entry})


def test_the_fifth_verdict_gives_the_class_new_boxes_and_a_new_figure(learning_session):
    one, other = learning_session.classes
    before, row = one.models[0], one.rows[7]
    shown = learning_session.item(0, row)
    say(learning_session, range(4))
    assert learned(learning_session)["version"] == 0
    say(learning_session, [4])
    state = learned(learning_session)
    assert state == {"version": 1, "busy": False, "learning": state["learning"], "advice": "", "learned": True}
    assert state["learning"].startswith("learned from 5 verdicts in ")
    assert (len(one.models), len(other.models)) == (2, 1)
    item = learning_session.item(0, row)
    assert (shown["version"], item["version"]) == (0, 1)
    box = one.held_out.boxes[one.held_out.ids.index(item["picture"])]
    assert item["candidates"][0] == pytest.approx(box.tolist(), abs=0.01)
    assert item["candidates"] != shown["candidates"]
    assert learning_session.candidates(one, row, 0)[0] == shown["candidates"]
    boxes = [one.held_out.boxes[one.held_out.ids.index(learning_session.ids[row])] for row in one.rows[:5]]
    said = [one.verdicts[learning_session.ids[row]].boxes for row in one.rows[:5]]
    right = sum(iou(box[None], np.array(true)).max() > 0.5 for box, true in zip(boxes, said, strict=True))
    assert learning_session.figure(0).startswith(f"{right} of 5 right: ")
    assert one.models[0] is before


def test_a_later_run_makes_the_model_that_the_page_had(learning_session, learning_run, made, command):
    before = made(
        learning_run, "models/*.safetensors", "heldout/*.safetensors", "first/*.safetensors", "folds/*.safetensors"
    )
    say(learning_session, range(3))
    say(learning_session, [3], verdict="none")
    say(learning_session, [4, 5, 6])
    say(learning_session, range(7, 10))
    state = learned(learning_session)
    assert state["learning"].startswith("learned from 10 verdicts"), state
    assert (
        made(learning_run, *{f"{name.split('/')[0]}/*.safetensors" for name in before}) == before
    )  # the page writes no model
    assert (learning_run / "drawn.safetensors").exists()
    learning_session.learning.stop(30)
    (one, other), name = learning_session.classes, learning_session.classes[0].name
    assert command("run", "--out", learning_run, "--quiet").status == 0
    folder = learning_session.stored.folder
    model = Detector.load(folder.model(name))
    np.testing.assert_array_equal(one.detector.coef, model.coef)
    np.testing.assert_array_equal(one.detector.scale, model.scale)
    assert one.detector.intercept == model.intercept
    held_out = read_held_out(folder, name)
    positive = held_out.y > 0
    assert positive.sum() > 10
    np.testing.assert_array_equal(one.held_out.boxes[positive], held_out.boxes[positive])
    assert folder.model(other.name).read_bytes() == before[f"models/{other.name}.safetensors"]


def test_the_memory_of_the_command_changes_no_box(learning_run, learning_session, tmp_path):
    say(learning_session)
    assert learned(learning_session)["learned"]
    session, context = review_of(learning_run), context_of(learning_run)
    workspace = replace(context.workspace, memory="100K")
    one, log = learning_session.classes[0], read_verdicts(learning_run / "verdicts.jsonl")
    learner = Learner.loaded(session.stored, session.shards, workspace, context.open_extractor)
    assert any(isinstance(part, FilePart) for part in learner.pictures.pictures.bags._store.parts)
    found = learner.learn(one.name, log.of_class(one.name))
    np.testing.assert_array_equal(found.detector.coef, one.detector.coef)


def test_what_a_fold_holds_out_depends_on_no_verdict_of_its_own(learning_session):
    one = learning_session.classes[0]
    fold = dict(zip(one.held_out.ids, one.held_out.fold.tolist(), strict=True))
    places = [place for place, row in enumerate(one.rows) if fold[learning_session.ids[row]] == 1]
    say(learning_session, places)
    assert learned(learning_session)["learned"]
    old, new = one.models[0].first_boxes, one.models[-1].first_boxes
    own = [picture for picture in old if fold[picture] == 1]
    others = [learning_session.ids[row] for row in one.rows if fold[learning_session.ids[row]] != 1]
    np.testing.assert_array_equal([new[picture] for picture in own], [old[picture] for picture in own])
    assert any((new[picture] != old[picture]).any() for picture in others)


def test_a_late_verdict_records_the_boxes_that_the_person_saw(learning_session, learning_run):
    row = learning_session.classes[0].rows[9]
    shown = learning_session.item(0, row)
    say(learning_session)
    assert learned(learning_session)["version"] == 1
    learning_session.record({"class": 0, "n": row, "verdict": "none", "version": shown["version"]})
    name = learning_session.classes[0].name
    said = read_verdicts(learning_run / "verdicts.jsonl").of_class(name)[shown["picture"]]
    assert [list(box) for box in said.candidates] == shown["candidates"]
    assert shown["candidates"] != learning_session.item(0, row)["candidates"]


def test_boxes_that_nobody_saw_are_refused(learning_session, learning_run):
    for version in (2, -1, True, "0", None, 0.0, 10**30):
        with pytest.raises(LookupError):
            say(learning_session, [0], verdict="none", version=version)
    assert not (learning_run / "verdicts.jsonl").exists()


def test_a_verdict_that_comes_back_is_what_it_was(learning_session, learning_run):
    row = learning_session.classes[0].rows[0]
    say(learning_session, [0], verdict="none", seconds=3.5)
    before = learning_session.item(0, row)["candidates"]
    say(learning_session, range(1, 6))
    assert learned(learning_session)["version"] == 1
    assert learning_session.item(0, row)["candidates"] != before
    say(learning_session, [0], verdict="absent")
    say(learning_session, [0])
    say(learning_session, [0], verdict="absent", undo=True)
    say(learning_session, [0], verdict="none", undo=True)
    name, picture = learning_session.classes[0].name, learning_session.ids[row]
    said = read_verdicts(learning_run / "verdicts.jsonl").of_class(name)[picture]
    assert [list(box) for box in said.candidates] == before
    assert said.seconds == 3.5
    say(learning_session, [0], verdict="skip", undo=True)
    assert read_verdicts(learning_run / "verdicts.jsonl").of_class(name)[picture].verdict == "skip"


def test_verdicts_that_were_taken_back_do_not_count(learning_session):
    say(learning_session, range(4))
    say(learning_session, [3], verdict="skip", undo=True)
    say(learning_session, [4])
    assert learned(learning_session)["learning"] == ""
    say(learning_session, [5])
    assert learned(learning_session)["learning"].startswith("learned from 5 verdicts")
    say(learning_session, [0, 1, 2, 4], verdict="skip", undo=True)
    assert learned(learning_session)["version"] == 1
    say(learning_session, [5], verdict="skip", undo=True)
    assert learned(learning_session)["learning"].startswith("learned from 0 verdicts")


def test_verdicts_from_before_count_when_new_ones_come(learning_session, learning_run):
    say(learning_session, range(4))
    assert learning_session.learning.stop(30)
    again = review_of(learning_run)
    learn(again)
    say(again, range(4, 8))
    assert learned(again)["learning"] == ""
    say(again, [8])
    assert learned(again)["learning"].startswith("learned from 9 verdicts")
    assert again.learning.stop(30)


def test_new_verdicts_are_those_that_differ():
    a, b = Verdict("a", "cat", "none"), Verdict("b", "cat", "absent")
    assert n_changed({}, {}) == 0
    assert n_changed({"a": a}, {"a": replace(a)}) == 0
    assert n_changed({"a": a}, {"a": replace(a, verdict="absent")}) == 1
    assert n_changed({"a": a}, {"b": b}) == 2


def test_every_picture_that_does_not_show_the_class_is_learned_as_one(learning_session):
    say(learning_session, verdict="absent")
    assert learned(learning_session)["learning"].startswith("learned from 5 verdicts")
    assert learning_session.figure(0) == ""


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (DataError("the disk is\n gone."), "the disk is gone."),
        (MemoryError(), "MemoryError: "),
    ],
)
def test_a_failure_is_one_sentence_and_loses_nothing(learning_session, learning_run, monkeypatch, error, reason):
    def fail(*_):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(Learner, "loaded", fail)
        say(learning_session)
        state = learned(learning_session)
    assert state["learning"] == f"boxes stay as they are, because learning failed: {reason}".rstrip()
    assert (state["version"], state["learned"]) == (0, False)
    assert len((learning_run / "verdicts.jsonl").read_text().splitlines()) == 5
    assert learning_session.item(0, learning_session.classes[0].rows[6])["version"] == 0
    say(learning_session, range(5, 10))
    assert learned(learning_session)["learning"].startswith("learned from 10 verdicts")


def test_a_class_that_loses_all_its_pictures_says_so_and_others_learn(learning_session):
    say(learning_session, range(len(learning_session.classes[0].rows)), verdict="absent")
    assert "learning failed: six has no positive and" in learned(learning_session)["learning"]
    say(learning_session, index=1)
    assert learned(learning_session, 1)["learned"]


def test_a_review_that_begins_without_pictures_of_a_class_teaches_the_others(learning_run):
    context = context_of(learning_run)
    context.run.files.claim([context.run.verdicts_file])
    shown = [one.id for one in context.data.records["trainval"] if one.labels["six"] == 1]
    append_verdicts(context.run.verdicts_file, [Verdict(picture, "six", "absent") for picture in shown])
    session = review_of(learning_run)
    learn(session)
    say(session, index=1)
    assert learned(session, 1)["learned"]
    session.learning.stop(30)


def test_a_run_that_lost_its_trained_models_says_so(learning_run):
    for path in (learning_run / "first").glob("*"):
        path.unlink()
    session = review_of(learning_run)
    learn(session)
    say(session)
    state = learned(session)
    assert state["learning"].startswith("boxes stay as they are, because learning failed: learning needs a model of")
    assert session.learning.stop(30)


def test_a_run_without_refinement_does_not_learn(session):
    learn(session)
    say(session)
    reason = "the run has no refinement, so boxes stay as they are while you look"
    assert session.overview()[0]["learning"] == reason
    assert session.learning.state(0) == {
        "version": 0, "busy": False, "learning": reason, "advice": "", "learned": False
    }  # fmt: skip


def test_a_class_without_held_out_boxes_does_not_learn(learning_run):
    for path in (learning_run / "heldout").glob("six*"):
        path.unlink()
    session = review_of(learning_run, "six")
    learn(session)
    say(session)
    assert (
        session.learning.state(0)["learning"] == "six has no held-out boxes, so boxes stay as they are while you look"
    )


def test_boxes_of_pictures_that_are_gone_are_learned_by_the_nearest_windows(
    learning_session, learning_run, monkeypatch
):
    def gone(*_):
        raise UnusableError("it is gone.")

    monkeypatch.setattr(drawn, "run_pixels", gone)
    say(learning_session, range(10))
    assert learned(learning_session)["learned"]
    assert not (learning_run / "drawn.safetensors").exists()


def test_drawn_boxes_of_another_class_keep_their_features(learning_session, learning_run):
    say(learning_session, range(10))
    assert learned(learning_session)["learned"]
    before = (learning_run / "drawn.safetensors").read_bytes()
    say(learning_session, index=1, verdict="none")
    assert learned(learning_session, 1)["learned"]
    assert (learning_run / "drawn.safetensors").read_bytes() == before


def test_newer_verdicts_replace_those_that_wait(learning_session, monkeypatch):
    asked, inner = [], Learner.learn

    def learn(self, name, verdicts):
        if not asked:
            say(learning_session, range(5, 15))  # while the first five are learned
        asked.append(len(verdicts))
        return inner(self, name, verdicts)

    monkeypatch.setattr(Learner, "learn", learn)
    say(learning_session)
    state = learned(learning_session)
    assert asked == [5, 15]
    assert state["learning"].startswith("learned from 15 verdicts")
    assert state["version"] == 2


def test_a_stop_leaves_a_running_training_and_every_verdict(learning_session, learning_run):
    say(learning_session)
    time.sleep(0.2)
    assert learning_session.learning.stop(30)
    state = learning_session.learning.state(0)
    assert state["busy"] or state["learned"]
    assert len((learning_run / "verdicts.jsonl").read_text().splitlines()) == 5


# ---- when more looks pay little ----
@pytest.mark.parametrize(
    ("verdicts", "moved", "holds"),
    [
        (10, [0.04, 0.0], True),
        (10, [0.9, 0.04, 0.0], True),
        (9, [0.0, 0.0], False),
        (10, [0.0], False),
        (10, [], False),
        (10, [0.05, 0.0], False),
        (10, [0.0, 0.05], False),
        (10, [0.0, None], False),
    ],
)
def test_the_stop_rule(verdicts, moved, holds):
    assert StopRule(10, 2, 0.05) == STOP
    assert STOP.holds(verdicts, moved) == holds


def test_the_page_says_when_boxes_hardly_change(learning_session, monkeypatch):
    monkeypatch.setattr(learning, "STOP", StopRule(10, 2, 1.1))
    say(learning_session)
    assert learned(learning_session)["advice"] == ""
    say(learning_session, range(5, 10))
    assert learned(learning_session)["advice"] == ADVICE
    monkeypatch.setattr(learning, "STOP", StopRule(10, 2, 0.0))
    say(learning_session, range(10, 15))
    assert learned(learning_session)["advice"] == ""


def test_the_share_of_moved_boxes_is_that_of_a_loop(learning_session):
    one = learning_session.classes[0]
    say(learning_session)
    assert learned(learning_session)["learned"]
    old, new = one.models
    pictures = [learning_session.ids[row] for row in one.rows[5:]]
    moved = 0
    for picture in pictures:
        moved += iou(old.first_boxes[picture][None], new.first_boxes[picture][None])[0, 0] <= 0.5
    assert moved_share(old, new, pictures) == pytest.approx(moved / len(pictures))
    assert moved_share(old, old, [*pictures, "unknown"]) == 0
    assert moved_share(old, new, ["unknown"]) is None
    assert moved_share(old, BoxModels(new.detector, None), pictures) is None


# ---- over the network ----
def test_two_windows_see_the_same_verdicts_and_lose_none(served_learning, learning_session, learning_run):
    from concurrent.futures import ThreadPoolExecutor

    queue = [one["n"] for one in served_learning.json("queue/0")]

    def post(row):
        shown = served_learning.json(f"item/0/{row}")
        return served_learning.post({"class": 0, "n": row, "verdict": "none", "version": shown["version"]})[0]

    with ThreadPoolExecutor(2) as windows:
        assert set(windows.map(post, queue)) == {200}
    lines = [json.loads(line) for line in (learning_run / "verdicts.jsonl").read_text().splitlines()]
    assert sorted(line["picture"] for line in lines) == sorted(learning_session.ids[row] for row in queue)
    assert {one["verdict"] for one in served_learning.json("queue/0")} == {"none"}
    assert learned(learning_session)["learned"]
    assert served_learning.json("state")[0]["learning"].startswith("learned from ")


def test_the_reply_to_a_verdict_says_how_learning_goes(served_learning, learning_session):
    queue = [one["n"] for one in served_learning.json("queue/0")]
    replies = [served_learning.post({"class": 0, "n": row, "verdict": "none"})[2] for row in queue[:5]]
    said = [json.loads(reply) for reply in replies]
    assert [one["busy"] for one in said] == [False] * 4 + [True]
    assert said[4]["learning"] == "learning from 5 verdicts..."
    assert learned(learning_session)["learned"]
    first, *_ = served_learning.json("state")
    assert (first["version"], first["busy"]) == (1, False)
