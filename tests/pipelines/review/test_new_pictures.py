"""New pictures of which a person says whether the decision is right, and what training makes of them."""

import json
import shutil
from types import SimpleNamespace

import pytest
from lapsvm.pipelines.context import RunContext
from lapsvm.pipelines.products.held_out import HeldOut
from lapsvm.pipelines.review.new_pictures import NewPictures
from lapsvm.pipelines.verdicts.taught import read_taught
from PIL import Image

from lapsvm.detection import AlarmThreshold, Predictor
from lapsvm.errors import StageError

from ..conftest import write_product
from .conftest import serving
from .test_page_in_chromium import SHOWN, after, in_whole

BOX = [10.0, 12.0, 26.0, 28.0]


@pytest.fixture
def taught(inspected, tmp_path, command):
    """A finished run with a threshold, and three new pictures: one of each defect, and a good one."""
    run, new = shutil.copytree(inspected, tmp_path / "RUN"), tmp_path / "new"
    assert command("threshold", "--out", run, "--max-false-alarms", "0.1").status == 0
    for kind in ("spot", "bar", "good"):
        write_product(tmp_path, f"new/{kind}", 77)
    names = {kind: f"{kind}/077.png" for kind in ("spot", "bar", "good")}

    def say(*words, options=()):
        lines = [json.dumps({"picture": names[kind], **said}) for kind, said in words]
        (tmp_path / "words.jsonl").write_text("\n".join(lines) + "\n")
        return "review", "--out", run, "--pictures", new, "--merge", tmp_path / "words.jsonl", *options

    return SimpleNamespace(run=run, new=new, say=say)


MISSED = ("spot", {"said": "missed", "class": "spot", "boxes": [BOX]})
FALSE = ("good", {"said": "false alarm"})


def new_labels(run):
    """Return class -> held-out labels of the new pictures, sorted."""
    found = {}
    for name in ("bar", "spot"):
        of = HeldOut.load(run / "heldout" / f"{name}.safetensors")
        found[name] = sorted(y for one, y in zip(of.ids, of.y.tolist(), strict=True) if one.startswith("new-"))
    return found


def test_what_a_person_says_of_new_pictures_teaches_the_next_run(taught, command, made):
    before = made(taught.run)
    result = command(*taught.say(MISSED, FALSE, ("bar", {"said": "right"})))
    assert result.status == 0, result.err
    assert "1 right, 1 missed, 1 false alarm" in result.err
    assert made(taught.run) == before
    result = command("run", "--out", taught.run)
    assert result.status == 0, result.err
    assert "3 new pictures are training pictures: 1 right, 1 missed, 1 false alarm" in " ".join(result.err.split())
    assert new_labels(taught.run) == {"bar": [-1, -1, 1], "spot": [-1, -1, 1]}
    context = RunContext.opened(taught.run, "review")
    (missed,) = [one for one in read_taught(taught.run / "taught.jsonl").values() if one.said == "missed"]
    verdict = context.verdicts.of_class("spot")[missed.picture]
    assert (verdict.boxes, verdict.counts_in_figures) == ((tuple(BOX),), False)
    stored = context.stored
    ids = [*stored.training_pictures]
    groups = stored.groups("trainval", ids, stored.shards("trainval"))
    assert sum(one.startswith("new-") for one in ids) == 3 == len({*groups[-3:]})
    alarm = AlarmThreshold.load(taught.run / "models/threshold.json")
    result = command("threshold", "--out", taught.run)
    assert result.status == 0, result.err
    said, now = " ".join(result.err.split()), AlarmThreshold.load(taught.run / "models/threshold.json")
    assert f"threshold before: {alarm.least}, for 10 % of false alarms; now: {now.least}" in said
    assert (now.max_false_alarms, now.held_out["ok"].of) == (0.1, alarm.held_out["ok"].of)
    assert "of 1 pictures taught as missed 1 alarm now, held out" in said
    command(*taught.say(*((kind, {"said": "nothing"}) for kind in ("spot", "bar", "good"))))
    assert command("run", "--out", taught.run).status == 0
    assert {**made(taught.run), **before} == made(taught.run)


def test_pictures_are_copied_on_request_and_those_that_change_teach_nothing(taught, command):
    assert command(*taught.say(MISSED, options=["--copy"])).status == 0
    assert command(*taught.say(FALSE)).status == 0
    spot, good = read_taught(taught.run / "taught.jsonl").values()
    assert spot.file.startswith("taught/new-")
    assert good.file == str((taught.new / "good/077.png").resolve())
    (taught.new / "spot/077.png").unlink()
    shutil.copy(taught.new / "bar/077.png", good.file)
    result = command("run", "--out", taught.run)
    assert result.status == 0, result.err
    assert "1 taught pictures have changed since and teach nothing" in " ".join(result.err.split())
    assert new_labels(taught.run) == {"bar": [-1], "spot": [1]}
    assert command("verify", "--out", taught.run, "--pictures").status == 0


def test_a_new_kind_becomes_a_class_when_it_has_pictures_for_every_fold(taught, command, refused):
    names = [f"{number:03}" for number in range(3)]
    for number, _ in enumerate(names):
        write_product(taught.new.parent, "new/hole", number)
    words = [{"picture": f"hole/{name}.png", "said": "missed", "class": "hole"} for name in names]
    line = refused(*taught.say(*(("spot", word) for word in words[:2])))
    assert "a missed class must be one of bar, spot, got 'hole'" in line
    assert "option --class must name a class" in refused(*taught.say(FALSE, options=["--class", "../hole"]))
    assert command(*taught.say(*(("spot", word) for word in words[:2]), options=["--class", "hole"])).status == 0
    result = command("run", "--out", taught.run)
    assert result.status == 0, result.err
    assert "class hole is left out: it is new and has 2 of the 3 pictures that its folds need" in result.err.replace(
        "\n", " "
    )
    assert command(*taught.say(("spot", words[2]))).status == 0
    assert command("run", "--out", taught.run).status == 0
    assert sorted(path.stem for path in (taught.run / "models").glob("*.safetensors")) == ["bar", "hole", "spot"]
    of_hole = HeldOut.load(taught.run / "heldout/hole.safetensors")
    assert (of_hole.y > 0).sum() == 3
    assert (of_hole.y < 0).sum() == len(HeldOut.load(taught.run / "heldout/bar.safetensors").ids) - 3


@pytest.mark.parametrize(
    ("word", "said"),
    [
        (("spot", {"said": "missed", "class": "dent"}), "a missed class must be one of bar, spot, got 'dent'"),
        (("spot", {"said": "missed", "class": "spot", "boxes": [[0, 0, 200, 9]]}), "lie in the picture of 96 x 80"),
        (("spot", {"said": "right", "boxes": [BOX]}), "boxes must be a list of [x1, y1, x2, y2] of what was missed"),
        (("spot", {"said": "wrong"}), "said (right, missed, false alarm, nothing), got {'picture':"),
        (
            ("spot", {"picture": "none.png", "said": "right"}),
            "picture must be one of --pictures, such as 'bar/077.png', got 'none.png'.",
        ),
        (("spot", {"picture": "none.png"}), "a line must have a picture of --pictures"),
    ],
)
def test_words_that_break_a_rule_are_refused_by_line(taught, command, refused, word, said):
    assert said in refused(*taught.say(FALSE, word)).replace("words.jsonl, line 2: ", "", 1)
    assert [one.said for one in read_taught(taught.run / "taught.jsonl").values()] == ["false alarm"]


def test_without_a_threshold_there_is_nothing_to_judge(taught, refused):
    (taught.run / "models/threshold.json").unlink()
    assert "review --pictures needs a threshold" in refused(*taught.say(FALSE))


@pytest.fixture
def judged(taught):
    """A session over the new pictures, in the order bar, good, spot."""
    context = RunContext.opened(taught.run, "review")
    return NewPictures(context.run, Predictor.open(taught.run), sorted(taught.new.rglob("*.png")), copies=False)


def test_the_page_says_misses_and_false_alarms(judged, taught):
    with serving(judged) as served:
        page = served.get("")[2]
        assert b'id="right"' in page
        assert all(words in page for words in (b"Is the decision right?", b"it is in the first box", b"false alarm"))
        assert not any(words in page for words in (b"Which box is", b"none of these", b"not in the picture"))
        assert [one["name"] for one in served.json("state")] == ["bar", "spot"]
        assert [one["verdict"] for one in served.json("queue/0")] == [None] * 3
        item = served.json("item/1/2")
        assert (item["width"], item["height"]) == (96, 80)
        assert item["picture"].startswith("spot/077.png: ")
        assert served.get("picture/2")[0] == 200

        def say(row, verdict, index=1, **more):
            status, _, content = served.post({"class": index, "n": row, "verdict": verdict, **more})
            assert status == 200, content
            return json.loads(content)

        def shows():
            return [one.shows for one in read_taught(taught.run / "taught.jsonl").values()]

        assert say(2, "boxes", boxes=[BOX])["figure"] == "1 missed"
        assert shows() == [{"spot": (tuple(BOX),)}]
        assert served.json("item/1/2")["boxes"] == [BOX]
        assert say(2, "none", index=0)["replaced"] == {"verdict": "boxes", "boxes": []}
        assert shows() == [{"spot": (tuple(BOX),), "bar": ()}]
        say(2, "boxes", boxes=[BOX], undo=True)
        assert shows() == [{"spot": (tuple(BOX),)}]
        assert say(1, "absent")["figure"] == "1 missed, 1 false alarm"
        say(1, "skip", undo=True)
        assert [one["verdict"] for one in served.json("queue/0")] == [None, None, "boxes"]
        for entry in ({"class": 0, "n": 9, "verdict": "right"}, {"class": 4, "n": 0, "verdict": "right"}):
            assert served.post(entry)[0] == 404
        assert served.post({"class": 0, "n": 0, "verdict": "perhaps"})[0] == 400
        assert served.get("item/0/9")[0] == 404
    again = NewPictures(judged.run, judged.predictor, judged.files, copies=False)
    assert [one["verdict"] for one in again.queue(0)] == [None, None, "boxes"]


def test_a_picture_that_cannot_be_read_is_named(judged, taught):
    Image.new("RGB", (8, 8)).save(taught.new / "spot/077.png")
    (taught.new / "spot/077.png").write_bytes(b"no picture")
    with serving(judged) as served:
        status, _, content = served.get("item/0/2")
        assert status == 409
        assert b"077.png" in content


def test_a_session_needs_decisions(inspected):
    with pytest.raises(StageError, match="lapsvm threshold --out"):
        NewPictures(RunContext.opened(inspected, "review").run, Predictor.open(inspected), [], copies=False)


@pytest.mark.slow
def test_keys_and_a_drawn_box_teach(browser, started, taught):
    process, address = started(taught.run, "--pictures", str(taught.new), "--class", "hole")
    browser.open(address)
    bar = browser.wait(SHOWN)
    assert bar.startswith("bar/077.png: ")
    assert browser.run("return document.querySelector('#class').selectedOptions[0].textContent") == "hole"
    browser.key(" ")
    good = after(browser, bar)
    browser.key("n")
    spot = after(browser, good)
    browser.drag(in_whole(browser, 0.2, 0.3), in_whole(browser, 0.6, 0.7))
    browser.wait("document.querySelector('#said').textContent.startsWith('No picture')")
    said = [(one.said, [*one.shows]) for one in read_taught(taught.run / "taught.jsonl").values()]
    shown = [] if bar.endswith(": ok") else [bar.split()[1]]
    assert said == [("right", shown), ("false alarm", []), ("missed", ["hole"])]
    assert spot.startswith("spot/077.png: ")
    process.kill()
