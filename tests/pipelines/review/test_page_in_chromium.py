"""The page in a real browser: keys, mouse and touch save verdicts, and nothing that was saved is lost."""

import json
import signal
from threading import Event
from urllib.parse import urlsplit

import pytest
from lapsvm.pipelines.review.assembly import write_page
from lapsvm.pipelines.review.learning import Learning
from lapsvm.pipelines.shards.windows import UnusableError
from lapsvm.pipelines.verdicts.verdict import read_verdicts

from .reviews import learn

pytestmark = pytest.mark.slow

SHOWN = "document.querySelector('#whole image') && document.querySelector('#name').textContent"

HIDDEN = "return ['views', 'verdict', 'undo'].map((id) => document.getElementById(id).offsetHeight === 0)"
VIEW = "const view = document.querySelector('#whole').viewBox.baseVal; return [view.width, view.height]"


@pytest.fixture
def review(started, run_copy):
    """Start the command as a user does; returns its process and its address."""
    return lambda: started(run_copy)


def lines(run):
    path = run / "verdicts.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def after(browser, before):
    """Wait until another picture than `before` is shown, and return its name."""
    browser.wait(f"({SHOWN}) && !document.querySelector('#name').textContent.startsWith({json.dumps(before)})")
    return browser.text("#name")


def in_whole(browser, x, y):
    """Return where a share of the picture lies in the window."""
    return browser.run(
        "const svg = document.querySelector('#whole'), view = svg.viewBox.baseVal,"
        f" point = new DOMPoint({x} * view.width, {y} * view.height).matrixTransform(svg.getScreenCTM());"
        " return [point.x, point.y];"
    )


def test_every_verdict_is_there_after_accept_pick_draw_undo_reload_and_a_killed_server(browser, review, run_copy):
    process, address = review()
    browser.open(address)
    first = browser.wait(SHOWN)
    candidates = browser.run("return document.querySelectorAll('#whole rect:not(.under)').length")
    assert candidates >= 2

    browser.key(" ")  # accept the first
    second = after(browser, first)
    browser.key("2")
    third = after(browser, second)
    width, height = browser.run(VIEW)
    browser.drag(in_whole(browser, 0.2, 0.3), in_whole(browser, 0.6, 0.7))
    fourth = after(browser, third)
    browser.key("z")
    assert after(browser, fourth).startswith(third)
    browser.key("\ue012")  # what was said of the second is marked
    assert after(browser, third) == f"{second} (so far: 1 box)"
    assert browser.run("return document.querySelectorAll('#whole rect.taken').length") == 1
    browser.key("\ue014")
    assert after(browser, second) == third
    browser.key("x")
    assert after(browser, third) == fourth

    said = lines(run_copy)
    assert [one["picture"] for one in said] == [first, second, third, third, third]
    assert [one["verdict"] for one in said] == ["boxes", "boxes", "boxes", "skip", "none"]
    assert said[0]["boxes"] == said[0]["candidates"][:1]
    assert said[1]["boxes"] == said[1]["candidates"][1:2]
    drawn = said[2]["boxes"][0]
    assert drawn == pytest.approx([0.2 * width, 0.3 * height, 0.6 * width, 0.7 * height], abs=0.02 * max(width, height))
    assert all(one["seconds"] > 0 for one in said if one["verdict"] != "skip")

    browser.reload()
    assert browser.wait(SHOWN) == fourth  # what is decided is skipped
    process.send_signal(signal.SIGKILL)
    process.wait()
    browser.key("n")
    browser.wait("!document.querySelector('#problem').hidden")
    assert "the server has ended" in browser.text("#problem")
    assert browser.text("#name") == fourth
    assert lines(run_copy) == said

    _, address = review()
    browser.open(address)
    assert browser.wait(SHOWN) == fourth
    browser.key("n")
    after(browser, fourth)
    assert lines(run_copy)[-1]["verdict"] == "absent"
    assert len(lines(run_copy)) == 6


def test_z_takes_back_what_was_said_before_a_reload_the_last_first(browser, served, run_copy):
    browser.open(served.server.address)
    first = browser.wait(SHOWN)
    browser.key("n")
    second = after(browser, first)
    browser.key(" ")
    third = after(browser, second)
    browser.reload()
    assert browser.wait(SHOWN) == third
    for key, picture in (("z", second), ("z", first)):
        browser.key(key)
        browser.wait(f"({SHOWN}) === {json.dumps(picture)}")
    assert browser.run("return document.querySelector('#undo').disabled")
    assert [(one["picture"], one["verdict"]) for one in lines(run_copy)[2:]] == [(second, "skip"), (first, "skip")]


def test_the_tenth_picture_in_a_row_without_the_class_is_asked_for(
    browser, served_learning, learning_session, learning_run
):
    (review, *_), n_known, run_copy = learning_session.classes, 9, learning_run
    for row in review.rows[:n_known]:
        learning_session.record({"class": 0, "n": row, "verdict": "absent"})
    browser.open(served_learning.server.address)
    tenth = browser.wait(SHOWN)
    browser.key("n")
    browser.wait("!document.querySelector('#problem').hidden")
    assert browser.text("#problem").startswith(f"10 pictures in a row without {review.name}: is that so?")
    assert len(lines(run_copy)) == n_known
    browser.key("n")
    after(browser, tenth)
    browser.wait("document.querySelector('#problem').hidden")
    assert len(lines(run_copy)) == n_known + 1


def test_another_probable_box_asks_whether_there_is_more_than_one(browser, served, session, monkeypatch):
    monkeypatch.setattr(session, "second_object", lambda *_: 1)
    browser.open(served.server.address)
    browser.wait(SHOWN)
    assert browser.text("#ask").startswith("Box 2 is elsewhere and likely, too: if there is more than one, press m")
    browser.key("m")
    browser.wait("document.querySelector('#ask').textContent === ''")


@pytest.mark.parametrize("share", [1.0, 0.3])
def test_a_box_as_high_as_the_picture_has_no_close_up(browser, served, session, monkeypatch, share):
    """A close-up of a part is another picture than the whole one; one that would be the same is not shown."""
    asked = session.candidates

    def as_large_as_the_picture(*arguments):
        _, (height, width) = asked(*arguments)
        small = [0.4 * width, 0.4 * height, 0.6 * width, 0.6 * height]
        return [[0.0, 0.0, share * width, 1.0 * height], small], (height, width)

    monkeypatch.setattr(session, "candidates", as_large_as_the_picture)
    browser.open(served.server.address)
    browser.wait(SHOWN)
    assert browser.run("return document.querySelector('figure.close').offsetHeight") == 0
    browser.run("document.querySelector('#pick2').focus()")
    browser.wait("document.querySelector('figure.close').offsetHeight > 0")
    views = browser.run("return ['close', 'whole'].map((id) => document.getElementById(id).getAttribute('viewBox'))")
    assert views[0] != views[1]


def test_two_refusals_in_a_row_ask_for_a_drawn_box(browser, served):
    browser.open(served.server.address)
    shown, said = browser.wait(SHOWN), []
    for key in ("x", "1", "x", "x"):
        browser.key(key)
        shown = after(browser, shown)
        browser.wait("document.querySelector('#said').textContent !== ''")
        said.append("please draw" in browser.text("#said"))
    browser.wait("document.querySelector('#said').textContent.includes('please draw the object here (w)')")
    assert said[:3] == [False, False, False]


def test_keyboard_alone_draws_and_takes_more_than_one(browser, served, run_copy):
    browser.open(served.server.address)
    first = browser.wait(SHOWN)
    browser.key("m")
    browser.key("1")
    browser.key("2")
    browser.key("w")
    for key in ("\ue014", "\ue015"):  # arrows
        browser.key(key)
    browser.key("\ue007")  # Enter takes the drawn box
    browser.key("\ue007")  # and ends
    after(browser, first)
    (said,) = lines(run_copy)
    assert said["boxes"][:2] == said["candidates"][:2]
    assert len(said["boxes"]) == 3
    assert said["boxes"][2] not in said["candidates"]


def test_space_takes_the_first_box_or_the_drawn_one_never_another(browser, served, run_copy):
    browser.open(served.server.address)
    first = browser.wait(SHOWN)
    for key in ("m", "2", " ", "\ue007"):
        browser.key(key)
    second = after(browser, first)
    for key in ("w", "\ue014", " "):
        browser.key(key)
    after(browser, second)
    several, drawn = lines(run_copy)
    assert several["boxes"] == [several["candidates"][1], several["candidates"][0]]
    assert drawn["boxes"][0] not in drawn["candidates"]


def test_a_thin_box_is_drawn_and_a_click_draws_nothing(browser, served, run_copy):
    browser.open(served.server.address)
    first = browser.wait(SHOWN)
    _, height = browser.run(VIEW)
    browser.drag(in_whole(browser, 0.5, 0.2), in_whole(browser, 0.5, 0.2))
    browser.drag(in_whole(browser, 0.5, 0.2), in_whole(browser, 0.5, 0.8))
    after(browser, first)
    (said,) = lines(run_copy)
    ((x1, y1, x2, y2),) = said["boxes"]
    assert 1 <= x2 - x1 < 2
    assert y2 - y1 == pytest.approx(0.6 * height, rel=0.1)


def test_keys_work_after_a_class_was_chosen_with_the_mouse(browser, served, session, run_copy):
    browser.open(served.server.address)
    first = browser.wait(SHOWN)
    browser.click("#class option:nth-child(2)")
    second = after(browser, first)
    browser.key("n")
    after(browser, second)
    assert [(one["class"], one["verdict"]) for one in lines(run_copy)] == [(session.classes[1].name, "absent")]


def test_a_class_that_is_chosen_while_an_answer_is_late_opens_after_it(browser, served, session, run_copy, monkeypatch):
    is_chosen, record = Event(), session.record
    monkeypatch.setattr(session, "record", lambda entry: is_chosen.wait(60) and record(entry))
    browser.open(served.server.address)
    browser.wait(SHOWN)
    browser.key("n")
    browser.click("#class option:nth-child(2)")
    browser.wait("document.querySelector('#said').textContent === 'Waiting for the server...'")
    is_chosen.set()
    other = session.classes[1]
    browser.wait(f"({SHOWN}) === {json.dumps(session.ids[other.rows[0]])}")
    browser.key("n")
    after(browser, session.ids[other.rows[0]])
    assert [one["class"] for one in lines(run_copy)] == [session.classes[0].name, other.name]


def test_arrows_pass_a_picture_that_cannot_be_shown(browser, served, session, monkeypatch):
    lost = session.classes[0].rows[1]
    image = session.image

    def gone(row):
        if row == lost:
            raise UnusableError("picture two is gone.")
        return image(row)

    monkeypatch.setattr(session, "image", gone)
    browser.open(served.server.address)
    first = browser.wait(SHOWN)
    browser.key("\ue014")
    assert after(browser, first) == session.ids[session.classes[0].rows[2]]
    assert browser.text("#problem") == "picture two is gone."
    assert ", 0 decided, " in browser.text("#progress")
    browser.key("\ue012")
    assert after(browser, session.ids[session.classes[0].rows[2]]) == first


def test_taking_back_gives_back_what_another_window_said(browser, served, session, run_copy):
    browser.open(served.server.address)
    first = browser.wait(SHOWN)
    assert served.post({"class": 0, "n": session.classes[0].rows[0], "verdict": "none"})[0] == 200  # another window
    browser.key("n")
    second = after(browser, first)
    browser.key("z")
    after(browser, second)
    name = session.classes[0].name
    assert read_verdicts(run_copy / "verdicts.jsonl").of_class(name)[first].verdict == "none"


def test_a_window_of_a_review_that_was_started_again_says_so(browser, started, run_copy):
    process, address = started(run_copy)
    browser.open(address)
    first = browser.wait(SHOWN)
    process.kill()
    process.wait()
    started(run_copy, "--port", str(urlsplit(address).port))
    browser.key("n")
    browser.wait("!document.querySelector('#problem').hidden")
    assert "open the address that lapsvm review prints" in browser.text("#problem")
    assert browser.text("#name") == first
    assert lines(run_copy) == []


def test_the_end_of_a_class_takes_no_further_verdict_and_says_what_comes_next(browser, served, session, run_copy):
    for index, one in enumerate(session.classes):
        for row in one.rows[:-1]:
            session.record({"class": index, "n": row, "verdict": "absent"})
    browser.open(served.server.address)
    lasts = [session.ids[one.rows[-1]] for one in session.classes]
    assert browser.wait(SHOWN) == lasts[0]
    browser.key("x")
    browser.wait("document.querySelector('#said').textContent.startsWith('No picture of this class is left')")
    assert browser.text("#said").endswith(f"Choose another above: {session.classes[1].name}.")
    browser.key(" ")
    assert browser.run(HIDDEN) == [True, True, False]
    browser.key("z")
    browser.wait("!document.querySelector('#views').hidden")
    browser.key("n")
    browser.wait("document.querySelector('#views').hidden")
    browser.click("#class option:nth-child(2)")
    browser.wait("!document.querySelector('#views').hidden")
    assert browser.text("#name") == lasts[1]
    browser.key("x")
    browser.wait("document.querySelector('#said').textContent.includes('Ctrl-C')")
    browser.key("\ue012")
    browser.wait("!document.querySelector('#views').hidden")
    assert browser.text("#name") == f"{lasts[1]} (so far: none of these)"
    said = [(one["picture"], one["verdict"]) for one in lines(run_copy)][-4:]
    assert said == [(lasts[0], "none"), (lasts[0], "skip"), (lasts[0], "absent"), (lasts[1], "none")]


def test_a_mailed_page_that_is_done_can_still_be_downloaded(browser, session, tmp_path):
    for one in session.classes:
        one.rows[:] = one.rows[:1]
    write_page(session, tmp_path / "review.html")
    browser.open((tmp_path / "review.html").as_uri())
    browser.wait(SHOWN)
    browser.key("n")
    browser.wait("document.querySelector('#said').textContent.includes('Choose another above')")
    browser.reload()  # opens the class that is left
    assert browser.wait(SHOWN) == session.ids[session.classes[1].rows[0]]
    browser.key("n")
    browser.wait("document.querySelector('#said').textContent.includes('download the verdicts')")
    assert browser.run("return document.querySelector('#download').offsetHeight") > 0


def test_buttons_and_a_finger_do_what_keys_do(browser, served, run_copy):
    browser.open(served.server.address)
    first = browser.wait(SHOWN)
    browser.click("#hide")
    assert browser.run("return getComputedStyle(document.querySelector('#whole rect')).display") == "none"
    browser.click("#hide")
    browser.click("#next")
    second = after(browser, first)
    browser.click("#previous")
    assert after(browser, second) == first
    browser.click("#draw")
    browser.drag(in_whole(browser, 0.1, 0.1), in_whole(browser, 0.5, 0.5), "touch")
    after(browser, first)
    browser.click("#absent")
    after(browser, second)
    browser.key(" ")  # a clicked button does not keep Space for itself
    browser.wait("document.querySelector('#progress').textContent.startsWith('3 of')")
    assert [one["verdict"] for one in lines(run_copy)] == ["boxes", "absent", "boxes"]


def test_everything_has_a_name_and_fits_at_twice_the_size(browser, served):
    browser.open(served.server.address)
    browser.wait(SHOWN)
    named = (
        "[...document.querySelectorAll('button, select')].every((one) => one.textContent.trim() || one.labels.length)"
    )
    assert browser.run(f"return {named}")
    title = browser.text("#whole-title")
    assert "box 1: from" in title
    browser.run("document.documentElement.style.fontSize = '200%'; dispatchEvent(new Event('resize'))")
    assert browser.run("return document.documentElement.scrollWidth <= innerWidth")


def test_a_mailed_page_gives_its_verdicts_back(browser, session, run_copy, tmp_path, command):
    page = tmp_path / "review.html"
    write_page(session, page)
    browser.open(page.as_uri())
    first = browser.wait(SHOWN)
    browser.key(" ")
    second = after(browser, first)
    browser.key("x")
    third = after(browser, second)
    browser.key("n")
    after(browser, third)
    browser.key("z")  # says nothing of the third picture
    browser.wait("document.querySelector('#figure').textContent === '2 verdicts to download'")
    browser.run(
        "URL.createObjectURL = (blob) => {"
        " blob.text().then((text) => { document.body.dataset.text = text; }); return 'blob:x'; };"
        " HTMLAnchorElement.prototype.click = () => {};"
    )
    browser.click("#download")
    text = browser.wait("document.body.dataset.text")
    (tmp_path / "verdicts.jsonl").write_text(text)
    said = command("review", "--out", run_copy, "--merge", tmp_path / "verdicts.jsonl")
    assert said.status == 0, said.err
    name = session.classes[0].name
    of_class = read_verdicts(run_copy / "verdicts.jsonl").of_class(name)
    assert {picture: one.verdict for picture, one in of_class.items()} == {first: "boxes", second: "none"}
    assert all(one.order == "random" and len(one.pixels) == 32 and one.candidates for one in of_class.values())


PICTURE = "return document.querySelector('#name').textContent"
RECTANGLES = "return [...document.querySelectorAll('#whole rect')].map((one) => one.outerHTML).join()"
PLACE = "const box = document.querySelector('#review').getBoundingClientRect(); return [box.top, box.height]"


def test_boxes_become_new_while_one_looks_but_not_those_that_one_looks_at(
    browser, served_learning, learning_session, learning_run, monkeypatch
):
    is_shown, use = Event(), Learning._use  # a slow browser would show the picture after the class has learned
    monkeypatch.setattr(Learning, "_use", lambda self, *learned: is_shown.wait(60) and use(self, *learned))
    browser.open(served_learning.server.address)
    browser.wait(SHOWN)
    assert browser.text("#learning") == ""
    place = browser.run(PLACE)
    for number in range(5):
        before = browser.run(PICTURE)
        browser.key("x")
        after(browser, before)
        if number < 4:
            assert browser.text("#learning") == ""
    picture, rectangles = browser.run(PICTURE), browser.run(RECTANGLES)
    is_shown.set()
    told = "document.querySelector('#learning').textContent"
    browser.wait(f"{told}.startsWith('learned from 5 verdicts in')")
    assert browser.text("#learning").endswith(": the next boxes are new")
    assert browser.text("#figure").startswith("0 of 5 right")
    assert (browser.run(PICTURE), browser.run(RECTANGLES)) == (picture, rectangles)
    assert browser.run(PLACE) == place
    browser.key("x")
    following = after(browser, picture)
    assert browser.text("#learning").endswith(": these boxes are new")
    one = learning_session.classes[0]
    row = next(row for row in one.rows if learning_session.ids[row] == following)
    shown = browser.run(
        "const box = document.querySelector('#whole rect.one');"
        " return ['x', 'y', 'width', 'height'].map((name) => Number(box.getAttribute(name)))"
    )
    (x1, y1, x2, y2), *_ = learning_session.candidates(one, row)[0]
    assert shown == pytest.approx([x1, y1, x2 - x1, y2 - y1])
    said = lines(learning_run)[-1]
    assert said["picture"] == picture
    old = learning_session.candidates(one, learning_session.ids.index(picture), 0)[0]
    assert said["candidates"] == old  # those that were looked at
    browser.reload()
    browser.wait(SHOWN)
    assert browser.text("#learning").endswith(": these boxes are new")


def test_a_second_window_sees_what_was_decided_in_the_first(browser, served_learning, learning_session):
    browser.open(served_learning.server.address)
    first = browser.wait(SHOWN)
    one = learning_session.classes[0]
    for row in one.rows[1:4]:  # as another window does
        assert served_learning.post({"class": 0, "n": row, "verdict": "none", "version": 0})[0] == 200
    browser.key(" ")
    assert after(browser, first) == learning_session.ids[one.rows[4]]
    assert "4 of the first" in browser.text("#progress")


def test_a_run_that_does_not_learn_says_why(browser, served, session):
    learn(session)
    browser.open(served.server.address)
    browser.wait(SHOWN)
    assert browser.text("#learning") == "the run has no refinement, so boxes stay as they are while you look"
