"""A served review of a small run, and a browser that is driven as a person would use it."""

import http.client
import json
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from contextlib import contextmanager

import pytest
from lapsvm.datasets.digits import write_digits
from lapsvm.pipelines.review.server import ReviewServer
from lapsvm.pipelines.verdicts.verdict import read_verdicts

from lapsvm.annotations.export import EXPORTED, read_exported

from ..calls import done
from .reviews import learn, review_of

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--window-size=1200,900",
         "--disable-background-networking", "--disable-component-update", "--disable-sync"]  # fmt: skip
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"


def opened(run):
    """Return a review of a run, which may write verdicts, as the command does."""
    session = review_of(run)
    session.stored.folder.files.claim([session.stored.folder.verdicts_file])
    return session


@pytest.fixture
def session(run_copy):
    """The review of a small run that a test may change."""
    return opened(run_copy)


@pytest.fixture(scope="session")
def looked_at(fast, tmp_path_factory):
    """A refined run on more digits, so that there is enough to look at; not to be changed."""
    folder = tmp_path_factory.mktemp("more")
    write_digits(folder / "digits", seed=3, n_train=110, n_test=10)
    line = ["run", "--data", "voc", "--root", folder / "digits", "--out", folder / "RUN", *fast, "--refine", "1"]
    done(*line, "--quiet")
    return folder / "RUN"


@pytest.fixture
def learning_run(looked_at, tmp_path):
    """A refined run that a test may change."""
    return shutil.copytree(looked_at, tmp_path / "LOOKED_AT")


@pytest.fixture
def learning_session(learning_run):
    """The review of a refined run, whose classes learn."""
    session = opened(learning_run)
    learning = learn(session)
    yield session
    learning.stop(30)


class Client:
    """Requests to a review server as a program would send them."""

    def __init__(self, server):
        self.server = server

    def request(self, method, path, body=None, token=None, **headers):
        host = f"127.0.0.1:{self.server.server_port}"
        connection = http.client.HTTPConnection(host, timeout=30)
        connection._encode_request = lambda line: line.encode("latin-1")  # as a hostile program would
        named = {"Host": host} | {name.replace("_", "-"): value for name, value in headers.items()}
        connection.putrequest(method, f"/{self.server.token if token is None else token}/{path}", skip_host=True)
        for name, value in named.items():
            if value is not None:
                connection.putheader(name, value)
        data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        if data is not None and "Content_Length" not in headers:
            connection.putheader("Content-Length", str(len(data)))
        connection.endheaders(data)
        reply = connection.getresponse()
        content = reply.read()
        connection.close()
        return reply.status, dict(reply.getheaders()), content

    def get(self, path, **headers):
        return self.request("GET", path, **headers)

    def post(self, body, **headers):
        usual = {"Origin": f"http://127.0.0.1:{self.server.server_port}", "Content_Type": "application/json"}
        return self.request("POST", "verdict", body, **(usual | headers))

    def json(self, path):
        status, _, content = self.get(path)
        assert status == 200, content
        return json.loads(content)


@contextmanager
def serving(session):
    """Serve a review while a block runs."""
    with ReviewServer(session) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield Client(server)
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def served(session):
    """Return a client of a review server, which ends with the test."""
    with serving(session) as client:
        yield client


@pytest.fixture
def served_learning(learning_session):
    """Return a client of a server whose classes learn."""
    with serving(learning_session) as client:
        yield client


@pytest.fixture
def started():
    """Start the command on a run as a user does; returns its process and its address."""
    processes = []

    def start(run, *options):
        line = [sys.executable, "-m", "lapsvm.pipelines", "review", "--out", str(run), "--no-browser", *options]
        process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        processes.append(process)
        return process, re.search(r"http://\S+", process.stdout.readline())[0]

    yield start
    for process in processes:
        process.kill()
        process.communicate()


class Browser:
    """A little of WebDriver."""

    def __init__(self, address, profile):
        self.address = address
        options = {"args": [*FLAGS, f"--user-data-dir={profile}"], "binary": CHROMIUM}
        wanted = {"capabilities": {"alwaysMatch": {"browserName": "chrome", "goog:chromeOptions": options}}}
        self.session = self._call("POST", "/session", wanted)["sessionId"]

    def _call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(  # noqa: S310 - its address is our own
            self.address + path, data, {"Content-Type": "application/json"}, method=method
        )
        with urllib.request.urlopen(request, timeout=120) as reply:  # noqa: S310
            return json.loads(reply.read())["value"]

    def _in_session(self, method, path, body=None):
        return self._call(method, f"/session/{self.session}{path}", body)

    def open(self, address):
        self._in_session("POST", "/url", {"url": address})

    def reload(self):
        self._in_session("POST", "/refresh", {})

    def run(self, script):
        return self._in_session("POST", "/execute/sync", {"script": script, "args": []})

    def key(self, key):
        actions = [{"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]
        self._in_session("POST", "/actions", {"actions": [{"type": "key", "id": "keys", "actions": actions}]})

    def drag(self, start, end, pointer="mouse"):
        moves = [
            {"type": "pointerMove", "duration": 0, "x": round(start[0]), "y": round(start[1])},
            {"type": "pointerDown", "button": 0},
            {"type": "pointerMove", "duration": 50, "x": round(end[0]), "y": round(end[1])},
            {"type": "pointerUp", "button": 0},
        ]
        source = {"type": "pointer", "id": pointer, "parameters": {"pointerType": pointer}, "actions": moves}
        self._in_session("POST", "/actions", {"actions": [source]})

    def click(self, selector):
        found = self._in_session("POST", "/element", {"using": "css selector", "value": selector})
        self._in_session("POST", f"/element/{found[ELEMENT]}/click", {})

    def text(self, selector):
        return self.run(f"return document.querySelector({json.dumps(selector)}).textContent")

    def wait(self, script, seconds=30):
        """Wait until an expression is true, and return its value."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if value := self.run(f"return {script}"):
                return value
            time.sleep(0.05)
        raise AssertionError(f"{script} stayed false; the page shows {self.run('return document.body.innerText')!r}")

    def end(self):
        self._call("DELETE", f"/session/{self.session}")


@pytest.fixture
def browser(tmp_path):
    """A headless Chromium."""
    if CHROMIUM is None or DRIVER is None:
        pytest.skip("chromium or chromedriver is not installed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    driver = subprocess.Popen([DRIVER, f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(200):
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                time.sleep(0.05)
        opened = Browser(f"http://127.0.0.1:{port}", tmp_path / "profile")
        yield opened
        opened.end()
    finally:
        driver.terminate()
        driver.wait()


@pytest.fixture
def exported(run_copy, tmp_path, command):
    """Return a function that exports the training pictures in a format, and returns the folder and the pictures."""

    def export(form):
        folder = tmp_path / form
        line = ("export", "--out", run_copy, "--to", folder, "--set", "trainval", "--quiet", "--per-class", "1")
        assert command(*line, "--format", form).status == 0
        return folder, list(read_exported(folder / EXPORTED).values())

    return export


@pytest.fixture
def merge(run_copy, command):
    """Return a function that merges a path, and returns the warnings and the verdicts."""

    def merge(path, *options):
        said = command("review", "--out", run_copy, "--merge", path, *options)
        assert said.status == 0, said.err
        return said.out + said.err, list(read_verdicts(run_copy / "verdicts.jsonl"))

    return merge
