"""What a review asks and remembers: the order, the boxes to choose from, resumed and merged verdicts."""

import json
import os
from dataclasses import replace

import numpy as np
import pytest
from lapsvm.pipelines.review.assembly import write_page
from lapsvm.pipelines.review.session import candidate_boxes, random_order
from lapsvm.pipelines.verdicts.verdict import Verdict, append_verdicts, read_verdicts

from lapsvm.boxes import areas, iou

from .reviews import review_of


def reopened(run):
    return review_of(run)


def test_the_order_is_random_fixed_and_the_same_with_more_pictures():
    ids = [f"{number}.jpg" for number in range(100)]
    order = random_order(ids, "cat", 0)
    assert sorted(order) == list(range(100))
    assert order == random_order(ids, "cat", 0)
    assert order != random_order(ids, "dog", 0)
    assert order != random_order(ids, "cat", 1)
    assert abs(np.corrcoef(order, range(100))[0, 1]) < 0.3
    fewer = [ids[place] for place in random_order(ids[:50], "cat", 0)]
    assert [ids[place] for place in order if place < 50] == fewer


def test_candidates_are_of_different_extents():
    first = np.array([20.0, 20, 80, 80])
    boxes = np.array([[22.0, 20, 80, 80], [30, 30, 60, 60], [5, 5, 95, 95], [82, 82, 99, 99], [31, 30, 60, 60]])
    found = candidate_boxes(first, boxes, np.array([9.0, 5, 6, 8, 4]))
    assert found.tolist() == [first.tolist(), boxes[2].tolist(), boxes[1].tolist()]
    assert iou(found, found)[np.triu_indices(3, 1)].max() < 0.6
    assert areas(found[1:2]) > areas(first[None]) > areas(found[2:])


def testsecond_object_comes_where_there_is_no_part():
    first = np.array([20.0, 20, 80, 80])
    boxes = np.array([[22.0, 20, 80, 80], [82, 82, 99, 99]])
    assert candidate_boxes(first, boxes, np.array([1.0, 2])).tolist() == [first.tolist(), boxes[1].tolist()]
    assert candidate_boxes(first, boxes[:1], np.array([1.0])).tolist() == [first.tolist()]


def test_the_first_candidate_is_the_held_out_box(session):
    for index, one in enumerate(session.classes):
        for row in one.rows[:5]:
            item = session.item(index, row)
            held_out = one.held_out.boxes[one.held_out.ids.index(session.ids[row])]
            assert item["candidates"][0] == pytest.approx(held_out.tolist(), abs=0.01)
            assert 1 <= len(item["candidates"]) <= 3


def test_only_positive_pictures_are_asked_for(session):
    for one in session.classes:
        labels = {session._records[row].labels[one.name] for row in one.rows}
        assert labels == {1}


def test_verdicts_are_there_when_a_review_begins_again(session, run_copy):
    row = session.classes[0].rows[0]
    session.record({"class": 0, "n": row, "verdict": "absent"})
    again = reopened(run_copy)
    assert again.queue(0)[0]["verdict"] == "absent"
    assert again.overview()[0]["left"] == len(again.queue(0)) - 1


def test_what_was_said_last_comes_last_also_when_a_review_begins_again(session, run_copy):
    first, second, third, *_ = session.classes[0].rows
    for row in (second, first, third):
        session.record({"class": 0, "n": row, "verdict": "absent"})
    for review in (session, reopened(run_copy)):
        assert [one["said"] for one in review.queue(0)[:4]] == [1, 0, 2, -1]
    session.record({"class": 0, "n": second, "verdict": "none"})
    assert [one["said"] for one in session.queue(0)[:3]] == [0, 2, 1]


def test_a_candidate_apart_from_the_first_that_is_probable_may_be_asecond_object(session, monkeypatch):
    review, row = session.classes[0], session.classes[0].rows[0]
    boxes = np.array(session.shards.picture(session.ids[row]).boxes, dtype=float)
    first, apart = boxes[[boxes[:, 2].argmin(), boxes[:, 0].argmax()]].tolist()  # the leftmost and the rightmost
    assert first[2] <= apart[0]
    detector = review.models[-1].detector
    for probability, expected in ((0.6, 1), (0.4, None)):
        monkeypatch.setattr(type(detector), "probability", lambda _, scores, p=probability: np.full(len(scores), p))
        assert session.second_object(review, row, 0, [first, apart]) == expected
        assert session.second_object(review, row, 0, [first, first]) is None


def test_the_verdicts_of_a_class_are_forgotten_and_their_lines_stay(session, run_copy, command, refused):
    name, other = (one.name for one in session.classes[:2])
    for index in (0, 1):
        for row in session.classes[index].rows[:2]:
            session.record({"class": index, "n": row, "verdict": "absent"})
    path = run_copy / "verdicts.jsonl"
    before = path.read_bytes()
    said = refused("review", "--out", run_copy, "--forget", "zebra")
    assert f"a class with verdicts ({name}, {other}), got" in said
    assert path.read_bytes() == before
    said = command("review", "--out", run_copy, "--forget", name, "--json")
    assert said.status == 0, said.err
    assert json.loads(said.out)["figures"] == {"forgotten": 2}
    assert path.read_bytes().startswith(before)
    again = reopened(run_copy)
    assert [len(list(again.open_rows(review))) - len(review.rows) for review in again.classes[:2]] == [0, -2]
    assert "must not go together" in refused("review", "--out", run_copy, "--forget", name, "--merge", path)


def test_a_picture_whose_verdict_was_taken_back_is_left_to_look_at(session):
    row = session.classes[0].rows[0]
    for verdict in ("absent", "skip"):
        session.record({"class": 0, "n": row, "verdict": verdict})
    assert session.overview()[0]["left"] == len(session.queue(0))


def test_a_verdict_is_answered_with_the_one_that_it_replaces(session):
    row = session.classes[0].rows[0]
    box = session.item(0, row)["candidates"][0]
    said = [{"verdict": "boxes", "boxes": [box]}, {"verdict": "absent"}, {"verdict": "none"}]
    replaced = [session.record({"class": 0, "n": row, **one})["replaced"] for one in said]
    assert replaced == [
        {"verdict": None, "boxes": []}, {"verdict": "boxes", "boxes": [box]}, {"verdict": "absent", "boxes": []}
    ]  # fmt: skip


def test_verdicts_of_unknown_and_changed_pictures_are_named_and_not_used(session, run_copy, tmp_path, command):
    one = session.classes[0]
    named = Verdict(session.ids[one.rows[0]], one.name, "none", order="random", pixels="0" * 32)
    append_verdicts(run_copy / "verdicts.jsonl", [named, replace(named, picture="unknown")])
    again = reopened(run_copy)
    assert again.queue(0)[0]["verdict"] is None
    assert again.figure(0) == ""
    said = command("review", "--out", run_copy, "--page", tmp_path / "page.html").err
    assert f"verdicts of {one.name!r} are of pictures that the training set lacks, and are left out: 'unknown'." in said
    assert (
        f"verdicts of {one.name!r} are of pictures that have changed since, and are left out: {named.picture!r}" in said
    )
    sound = replace(named, pixels=session.hashes[one.rows[0]])
    append_verdicts(run_copy / "verdicts.jsonl", [sound])
    assert reopened(run_copy).queue(0)[0]["verdict"] == "none"
    append_verdicts(run_copy / "verdicts.jsonl", [replace(sound, pixels="")])
    assert reopened(run_copy).queue(0)[0]["verdict"] == "none"


def test_the_picture_that_the_page_shows_first_is_made_before_it_asks(session):
    session.record({"class": 0, "n": session.classes[0].rows[0], "verdict": "absent"})
    session.prepare()
    session.image(session.classes[0].rows[1])
    assert session.image.cache_info().hits == 1
    for row in session.classes[0].rows:
        session.record({"class": 0, "n": row, "verdict": "absent"})
    session.prepare()
    session.image(session.classes[1].rows[0])
    assert session.image.cache_info().hits == 2


def test_one_class_can_be_chosen(run_copy, refused):
    (one,) = review_of(run_copy, "six").classes
    assert one.name == "six"
    assert "option --class must be a class of the run" in refused("review", "--out", run_copy, "--class", "cow")


def test_a_run_without_shards_or_models_is_refused(run_copy, refused, tmp_path):
    assert "run.toml" in refused("review", "--out", tmp_path / "none")
    for shard in (run_copy / "shards" / "trainval").glob("*"):
        shard.unlink()
    assert "holds no shards" in refused("review", "--out", run_copy)


def test_merged_verdicts_replace_those_of_the_run_once(session, run_copy, tmp_path, command, refused):
    session.record({"class": 0, "n": session.classes[0].rows[0], "verdict": "absent"})
    name, picture = session.classes[0].name, session.ids[session.classes[0].rows[0]]
    other = tmp_path / "other.json"  # as a browser may call it
    append_verdicts(other, [Verdict(picture, name, "none"), Verdict("b", name, "none")])
    for count in (2, 0):
        said = command("review", "--out", run_copy, "--merge", other)
        assert f"review: {count} new verdicts" in said.err + said.out
        assert (
            "1 verdicts are of pictures that the training set lacks, and say nothing until it has them: 'b'" in said.err
        )
    log = read_verdicts(run_copy / "verdicts.jsonl").of_class(name)
    assert {one: log[one].verdict for one in log} == {picture: "none", "b": "none"}
    before = (run_copy / "verdicts.jsonl").read_bytes()
    (tmp_path / "junk").write_text("{}\n" + Verdict("c", name, "none").line())
    for junk in (tmp_path / "junk", run_copy / "run.toml"):
        said = refused("review", "--out", run_copy, "--merge", junk)
        assert "must hold verdicts alone, one a line; " in said
        assert "lines are none, the first line 1: a verdict must be a JSON object" in said
    (tmp_path / "wide").write_text(Verdict("c", name, "none").line(), encoding="utf-16")
    assert "got UTF-16; save it as UTF-8" in refused("review", "--out", run_copy, "--merge", tmp_path / "wide")
    assert "is not there" in refused("review", "--out", run_copy, "--merge", tmp_path / "gone")
    assert (run_copy / "verdicts.jsonl").read_bytes() == before


def test_a_merged_skip_replaces_no_verdict(session, run_copy, tmp_path, command):
    session.record({"class": 0, "n": session.classes[0].rows[0], "verdict": "absent"})
    name, picture = session.classes[0].name, session.ids[session.classes[0].rows[0]]
    append_verdicts(tmp_path / "other.jsonl", [Verdict(picture, name, "skip")])
    said = command("review", "--out", run_copy, "--merge", tmp_path / "other.jsonl")
    assert "review: 0 new verdicts" in said.err + said.out
    assert read_verdicts(run_copy / "verdicts.jsonl").of_class(name)[picture].verdict == "absent"


def test_a_file_of_another_program_gets_no_verdicts(run_copy, refused):
    (run_copy / "verdicts.jsonl").write_text("mine\n")
    assert "was not written by lapsvm" in refused("review", "--out", run_copy, "--no-browser")
    assert (run_copy / "verdicts.jsonl").read_text() == "mine\n"


@pytest.mark.parametrize("verb", ["merge", "look"])
def test_verdicts_that_were_put_there_by_hand_name_the_way_in(run_copy, tmp_path, refused, command, verb):
    (run_copy / "verdicts.jsonl").write_text(Verdict("000001", "six", "none").line())
    (tmp_path / "more").write_text(Verdict("000002", "six", "none").line())
    more = ["--merge", tmp_path / "more"] if verb == "merge" else ["--page", tmp_path / "page.html"]
    said = refused("review", "--out", run_copy, *more)
    assert "were put there by hand, so nothing is added to them; move the file away" in said
    assert f"lapsvm review --out {run_copy} --merge FILE" in said
    (run_copy / "verdicts.jsonl").rename(tmp_path / "mine.jsonl")
    assert command("review", "--out", run_copy, "--merge", tmp_path / "mine.jsonl").status == 0
    assert command("review", "--out", run_copy, *more).status == 0


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: path.write_text("mine")])
def test_a_page_is_written_over_no_pipe_folder_or_other_file(run_copy, tmp_path, refused, make):
    make(tmp_path / "page.html")
    assert "page" in refused("review", "--out", run_copy, "--page", tmp_path / "page.html")
    assert "in a folder that is there" in refused("review", "--out", run_copy, "--page", tmp_path / "none" / "p.html")


def test_the_page_to_mail_is_one_file_and_replaces_no_other(session, run_copy, tmp_path, command, refused):
    page = tmp_path / "page.html"
    said = command("review", "--out", run_copy, "--page", page)
    assert said.status == 0
    text = page.read_text()
    assert "default-src 'none'; script-src 'sha256-" in text
    assert "src=" not in text
    data = json.loads(text.split('id="data">')[1].split("</script>")[0])
    assert [one["name"] for one in data["classes"]] == [one.name for one in session.classes]
    assert all(1 <= len(queue) <= 20 for queue in data["queues"])
    assert command("review", "--out", run_copy, "--page", page).status == 0
    page.write_text("mine")
    assert "must name a new file" in refused("review", "--out", run_copy, "--page", page)
    assert page.read_text() == "mine"


def test_a_name_cannot_end_the_script(session, tmp_path):
    session.classes[0].name = "</script><script>alert(1)</script>"
    write_page(session, tmp_path / "page.html")
    assert "alert(1)</script>" not in (tmp_path / "page.html").read_text()
