"""The server of a review: it answers its own page alone, and loses no verdict."""

import json
import shutil
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from lapsvm.pipelines.commands.review import _open_browser
from lapsvm.pipelines.review.server import ReviewServer
from lapsvm.pipelines.verdicts.verdict import read_verdicts

from lapsvm.errors import OptionError

from .conftest import opened, serving


@pytest.fixture(scope="module")
def refusing(finished, tmp_path_factory):
    """Return a client of a server that shall save nothing, with the file that it would save verdicts in."""
    run = shutil.copytree(finished, tmp_path_factory.mktemp("refusing") / "RUN")
    with serving(opened(run)) as client:
        client.verdicts_file = run / "verdicts.jsonl"
        yield client


def first(served, index=0):
    """Return the first picture of a class, as the page asks for it."""
    return served.json(f"item/{index}/{served.json(f'queue/{index}')[0]['n']}")


def test_the_page_its_files_and_pictures_are_served_with_a_strict_policy(refusing):
    item = first(refusing)
    for path, kind in {
        "": "text/html",
        "transport.js": "text/javascript",
        "review.js": "text/javascript",
        "review.css": "text/css",
        f"picture/{item['n']}": "image/jpeg",
    }.items():
        status, headers, content = refusing.get(path)
        assert status == 200
        assert content
        assert headers["Content-Type"].startswith(kind)
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        assert "unsafe" not in headers["Content-Security-Policy"]
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Cache-Control"] == "no-store"


def test_a_verdict_is_in_the_file_before_the_answer(served, run_copy):
    item = first(served)
    status, _, content = served.post({"class": 0, "n": item["n"], "verdict": "boxes", "boxes": item["candidates"][:1]})
    assert status == 200
    name = served.json("state")[0]["name"]
    said = read_verdicts(run_copy / "verdicts.jsonl").of_class(name)[item["picture"]]
    assert [list(box) for box in said.boxes] == item["candidates"][:1]
    assert [list(box) for box in said.candidates] == item["candidates"]
    assert said.order == "random"
    assert len(said.pixels) == 32
    assert json.loads(content)["figure"] == "1 of 1 right: 21 to 100 %"
    assert served.json("queue/0")[0]["verdict"] == "boxes"


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": None},
        {"Host": "127.0.0.1"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
    ],
)
def test_other_sites_get_and_save_nothing(refusing, headers):
    item = first(refusing)
    for status, _, content in (
        refusing.get("state", **headers),
        refusing.post({"class": 0, "n": item["n"], "verdict": "none"}, **headers),
    ):
        assert status in (400, 403)
        assert b'"name"' not in content
    assert not refusing.verdicts_file.exists()


def test_no_verdict_comes_without_an_origin_or_as_a_form(refusing):
    entry = {"class": 0, "n": first(refusing)["n"], "verdict": "none"}
    assert refusing.post(entry, Origin=None)[0] == 403
    assert refusing.post(entry, Content_Type="text/plain")[0] == 415
    assert refusing.post(entry, Content_Type="application/x-www-form-urlencoded")[0] == 415
    assert not refusing.verdicts_file.exists()


@pytest.mark.parametrize("token", ["", "x", "é", "A" * 32, "..", "%2e%2e"])
def test_a_wrong_token_opens_nothing(refusing, token):
    for path in ("", "state", "transport.js", "review.js", "picture/0"):
        assert refusing.request("GET", path, token=token.encode("utf-8").decode("latin-1"))[0] == 404


@pytest.mark.parametrize(
    "path",
    [
        "../run.toml",
        "../../../../etc/passwd",
        "%2e%2e/run.toml",
        "..%2frun.toml",
        "/etc/passwd",
        "review.html",
        "session.py",
        "picture/../run.toml",
        "picture/-1",
        "picture/99999",
        "picture/1e1",
        "picture/\u0661".encode().decode("latin-1"),
        "picture/9999999999999999",
        "item/0/99999",
        "item/99/0",
        "queue/99",
        "state?x",
        "state/",
        "verdict",
    ],
)
def test_no_other_path_opens_anything(refusing, path):
    status, _, content = refusing.get(path)
    assert status == 404
    assert content == b"There is nothing at this address."


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "HEAD", "TRACE"])
def test_no_other_method_is_known(refusing, method):
    assert refusing.request(method, "state")[0] == 501


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"verdict": "maybe"}, 400),
        ({"verdict": "boxes"}, 400),
        ({"verdict": "boxes", "boxes": [[0, 0, 1e6, 1e6]]}, 400),
        ({"verdict": "boxes", "boxes": [[-50, 0, 10, 10]]}, 400),
        ({"verdict": "none", "boxes": [[0, 0, 1, 1]]}, 400),
        ({"seconds": -1}, 400),
        ({"class": 99}, 404),
        ({"class": -1}, 404),
        ({"class": True}, 404),
        ({"class": "0"}, 404),
        ({"n": 10**9}, 404),
        ({"n": [0]}, 404),
    ],
)
def test_a_wrong_verdict_is_refused_in_a_sentence(refusing, change, status):
    entry = {"class": 0, "n": first(refusing)["n"], "verdict": "none"} | change
    answer, _, content = refusing.post(entry)
    assert answer == status
    assert content.decode().endswith(".")
    assert not refusing.verdicts_file.exists()


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff", b"[" * 60_000, b"null"])
def test_a_body_that_is_no_verdict_is_refused(refusing, body):
    assert refusing.post(body)[0] == 400


@pytest.mark.parametrize("length", ["-1", "1e3", "99999999", "x"])
def test_a_body_of_a_wrong_length_is_not_read(refusing, length):
    assert refusing.post(b"{}", Content_Length=length)[0] in (400, 413)


def test_a_page_cannot_choose_what_identifies_its_verdict(served, run_copy):
    entry = {"class": 0, "n": first(served)["n"], "verdict": "none"}
    assert (
        served.post(entry | {"picture": "other", "pixels": "other", "order": "next", "candidates": [[0, 0, 1, 1]]})[0]
        == 200
    )
    (of_class,) = read_verdicts(run_copy / "verdicts.jsonl").by_class.values()
    (said,) = of_class.values()
    assert said.picture == first(served)["picture"]
    assert said.order == "random"
    assert [list(box) for box in said.candidates] == first(served)["candidates"]


def test_a_changed_picture_is_refused_and_named(served, session, digits):
    item = first(served)
    path = session._records[item["n"]].path
    before = path.read_bytes()
    try:
        path.write_bytes(session._records[item["n"] - 1].path.read_bytes())
        status, _, content = served.get(f"picture/{item['n']}")
    finally:
        path.write_bytes(before)
    assert status == 409
    assert content.decode() == f"picture {item['picture']} has changed since the run was made, so it is left out."


def test_a_taken_port_is_named(served, session):
    port = served.server.server_port
    with pytest.raises(OptionError, match=f"^option --port must be a free port, got {port}: "):
        ReviewServer(session, port)


def test_the_token_differs_every_time(session):
    with ReviewServer(session) as one, ReviewServer(session) as other:
        assert one.token != other.token
        assert len(one.token) >= 32
        assert one.server_address[0] == "127.0.0.1"


def test_the_address_reaches_the_browser_by_a_file_of_this_user_alone(monkeypatch):
    """Command lines, and so an address among their arguments, are visible to other users' processes."""
    given = []
    monkeypatch.setattr("webbrowser.open", given.append)
    path = _open_browser("http://127.0.0.1:1/secret/")
    try:
        assert "secret" not in given[0]
        assert Path(unquote(urlsplit(given[0]).path)) == path
        assert "http://127.0.0.1:1/secret/" in path.read_text()
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    finally:
        path.unlink()
        path.parent.rmdir()


def test_verdicts_at_the_same_time_are_all_saved_whole(served, run_copy):
    rows = [one["n"] for one in served.json("queue/0")] * 3
    with ThreadPoolExecutor(8) as pool:
        answers = pool.map(lambda row: served.post({"class": 0, "n": row, "verdict": "none"})[0], rows)
    assert set(answers) == {200}
    lines = (run_copy / "verdicts.jsonl").read_text().splitlines()
    assert len(lines) == len(rows)
    assert not read_verdicts(run_copy / "verdicts.jsonl").damaged


def test_a_torn_last_line_costs_no_verdict(served, session, run_copy):
    queue = served.json("queue/0")
    assert served.post({"class": 0, "n": queue[0]["n"], "verdict": "absent"})[0] == 200
    with (run_copy / "verdicts.jsonl").open("a") as file:
        file.write('{"picture": "cut sh')
    assert served.post({"class": 0, "n": queue[1]["n"], "verdict": "absent"})[0] == 200
    said = read_verdicts(run_copy / "verdicts.jsonl").of_class(session.classes[0].name)
    assert set(said) == {session.ids[one["n"]] for one in queue[:2]}
