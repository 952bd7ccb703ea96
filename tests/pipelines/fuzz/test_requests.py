"""Requests that no browser sends: the review server answers each, or closes the connection, and goes on."""

import json
import os
import socket
import sys

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lapsvm.pipelines.review.server import ReviewServer
from lapsvm.pipelines.verdicts.verdict import read_verdicts

from ..review.conftest import opened, serving
from .law import Data, content, until
from .trees import ATOMS, altered, damaged, json_text, often_whole

SECONDS = float(os.environ.get("FUZZ_SECONDS", "0"))
VERDICT = {
    "class": 0,
    "n": 0,
    "verdict": "boxes",
    "boxes": [[1, 2, 30, 40]],
    "seconds": 1.5,
    "version": 0,
    "undo": False,
}
PATHS = ("", "state", "queue/0", "queue/9", "item/0/0", "item/0/99999", "picture/0", "picture/99999", "review.js",
         "verdict",
         "../", "%2e%2e/run.toml", "queue/0?x", "queue/-1", "item/٠/٠", "x" * 3000, "\0", "a b")  # fmt: skip
METHODS = ("GET", "GET", "POST", "POST", "HEAD", "PUT", "OPTIONS", "get", "", "G\0T")
HEADERS = (
    ("Host", "evil.example"), ("Host", ""),
    ("Origin", "http://evil.example"), ("Origin", "null"), ("Content-Length", "-1"),
    ("Content-Length", "9" * 30), ("Content-Length", "5"), ("Content-Length", "0"),
    ("Content-Length", "1_0"), ("X", "y" * 5000),
    ("Transfer-Encoding", "chunked"), ("Expect", "100-continue"), ("Content-Type", "text/plain"), ("Range", "bytes=0-"),
    ("Sec-Fetch-Site", "cross-site"), ("Connection", "keep-alive"), ("", ""), ("a b", "c"), ("Upgrade", "websocket"),
)  # fmt: skip
QUIET = (ConnectionError, TimeoutError)
"""What a browser that goes away leaves behind."""


@st.composite
def requests(draw, host, token):
    """Draw the bytes of a request: mostly one that the page could send, with something changed."""
    body = draw(st.just(b"") | often_whole(altered(VERDICT).map(json_text)))
    method, path = draw(st.sampled_from(METHODS)), draw(st.sampled_from(PATHS))
    own = draw(st.sampled_from((token, token, token, token, "", "x", token[:-1])))
    headers = {
        "Host": host,
        "Origin": f"http://{host}",
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
    }
    rows = [*headers.items(), *draw(st.lists(st.sampled_from(HEADERS), max_size=2))]
    for name in draw(st.lists(st.sampled_from(sorted(headers)), max_size=1)):
        rows = [row for row in rows if row[0] != name]
    version = draw(st.sampled_from(("HTTP/1.1", "HTTP/1.1", "HTTP/1.0", "HTTP/9.9", "")))
    head = "\r\n".join([f"{method} /{own}/{path} {version}", *(f"{name}: {value}" for name, value in rows), "", ""])
    request = head.encode("utf-8") + body
    return Data(request if draw(st.integers(0, 4)) else draw(damaged(request)))


def sent(address, request):
    """Send bytes, end the connection's half, and return what comes back."""
    with socket.create_connection(address, 10) as connection:
        try:
            connection.sendall(request)
            connection.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: connection.recv(65536), b""))
        except TimeoutError:
            raise
        except OSError:  # the server has refused, and does not read the rest
            return b""


def test_the_server_answers_every_request_or_closes_and_goes_on(run_copy, monkeypatch):
    errors = []
    monkeypatch.setattr(ReviewServer, "handle_error", lambda *_: errors.append(sys.exc_info()[1]))
    verdicts = run_copy / "verdicts.jsonl"
    with serving(opened(run_copy)) as client:
        address = ("127.0.0.1", client.server.server_port)
        before = content(run_copy)

        @settings(
            max_examples=150,
            deadline=None,
            derandomize=not SECONDS,
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(requests(f"127.0.0.1:{address[1]}", client.server.token))
        def search(request):
            saved = verdicts.read_bytes() if verdicts.exists() else b""
            answer = sent(address, request)
            head, _, _ = answer.partition(b"\r\n\r\n")
            assert not head.startswith(b"HTTP/1.1 2") or b"default-src 'none'" in head
            assert not head.startswith(b"HTTP/1.1 4") or b"default-src 'none'" in head
            assert b"<!DOCTYPE" not in head, "no page comes without its policy"
            assert not [error for error in errors if not isinstance(error, QUIET)]
            now = verdicts.read_bytes() if verdicts.exists() else b""
            assert now.startswith(saved), "a verdict is lost"
            assert now == saved or b" 200 " in answer.split(b"\r\n")[0]

        for _ in until(SECONDS / 8):
            search()
        assert client.json("state")
        assert {name: data for name, data in content(run_copy).items() if name != verdicts.name} == {
            name: data for name, data in before.items() if name != verdicts.name
        }
    assert read_verdicts(verdicts).damaged == ()


def test_every_kind_of_value_is_refused_or_saved_as_a_verdict(run_copy):
    with serving(opened(run_copy)) as client:
        for name in VERDICT:
            for value in ATOMS:
                status, _, said = client.post(json_text({**VERDICT, "n": client.json("queue/0")[0]["n"], name: value}))
                assert status in (200, 400, 404), said
                assert status == 200 or (said.decode().isprintable() and b"Traceback" not in said)
    saved = (run_copy / "verdicts.jsonl").read_text().splitlines()
    assert all(json.loads(line)["verdict"] in ("boxes", "none", "absent", "skip") for line in saved)
    assert read_verdicts(run_copy / "verdicts.jsonl").damaged == ()
