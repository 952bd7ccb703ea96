"""The process that reads MATLAB's files: it is not trusted, and what happens to it is not the fault of a file."""

import json
import os
import pickle
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from scipy.io import savemat

from lapsvm.errors import ExternalFileError
from lapsvm.features.external import mat_process
from lapsvm.features.external.mat_files import _READER, read_mat_variables

FORK = """
import os, sys, threading, time
from pathlib import Path
from lapsvm.features.external.mat_files import read_mat_variables

path = Path(sys.argv[1])
read_mat_variables(path)
threading.Thread(target=lambda: [read_mat_variables(path) for _ in range(10**6)], daemon=True).start()
for _ in range(5):
    time.sleep(0.03)
    child = os.fork()
    if not child:
        os._exit(list(read_mat_variables(path)) != ["x"])
    assert os.waitpid(child, 0)[1] == 0
read_mat_variables(path)
os._exit(0)
"""


@pytest.fixture
def path(tmp_path):
    """A sound file."""
    savemat(tmp_path / "a.mat", {"x": np.eye(2)})
    return tmp_path / "a.mat"


@pytest.fixture
def replaced(monkeypatch):
    """Return a function that makes a text of Python, with a function `answer`, the process that reads."""

    def call(text):
        code = f"""
import json, os, struct, sys, time
def answer(header, data=b""):
    text = json.dumps(header).encode() if not isinstance(header, bytes) else header
    os.write(1, struct.pack("<Q", len(text)) + text + data)
answer("ready")
os.read(0, 10**6)
{text}
time.sleep(60)
"""
        line = [sys.executable, "-c", code]
        start = lambda: subprocess.Popen(  # noqa: E731
            line, bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        _READER._end()
        monkeypatch.setattr(mat_process, "new_process", start)

    yield call
    _READER._end()


def test_the_process_is_kept_and_a_killed_one_is_replaced(path):
    read_mat_variables(path)
    process = _READER._process
    read_mat_variables(path)
    assert _READER._process is process
    os.kill(process.pid, signal.SIGKILL)
    np.testing.assert_array_equal(read_mat_variables(path)["x"], np.eye(2))
    assert _READER._process is not process


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        ("os.kill(os.getpid(), 9)", "cannot be read: the process that reads it was ended by SIGKILL, as the system"),
        ("os.kill(os.getpid(), 15)", "cannot be read: the process that reads it was ended by SIGTERM"),
        ("os.kill(os.getpid(), 11)", "is truncated or damaged: the process that reads it ended"),
        ("os._exit(3)", "is truncated or damaged: the process that reads it ended"),
    ],
)
def test_what_ends_the_process_says_whose_fault_it_is(path, replaced, end, reason):
    replaced(end)
    with pytest.raises(ExternalFileError, match=reason):
        read_mat_variables(path)


@pytest.mark.skipif(os.name != "posix", reason="the program that ends at once is a script")
def test_a_process_that_cannot_start_is_no_damage(path, tmp_path, monkeypatch):
    stub = tmp_path / "python"
    stub.write_text("#!/bin/sh\nexit 3\n")
    stub.chmod(0o755)
    for python in (stub, tmp_path / "none"):
        _READER._end()
        with monkeypatch.context() as changed:
            changed.setattr("sys.executable", str(python))
            with pytest.raises(ExternalFileError, match="cannot be read: the process that reads such files does not"):
                read_mat_variables(path)
    assert read_mat_variables(path)["x"].shape == (2, 2)


class Marker:
    """Makes a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


@pytest.mark.parametrize(
    "answer",
    [
        "None",
        "7",
        "[1]",
        "{'x': 7}",
        "{'x': {'array': 7}}",
        "{'x': {'array': ['float64', [1], 3]}}",
        "{'x': {'other': []}}",
        "{'x': {'struct': []}}",
        "{'struct': {}, 'array': []}",
        *(
            f"{{'struct': {{'x': {{'array': {entry}}}}}}}"
            for entry in (
                "['object', [1]]",
                "['V8', [1]]",
                "[['float64'], [1]]",
                "['float64', 'ab']",
                "['float64', [-1, 1]]",
                "['float64', [True]]",
                "['float64', [1.0]]",
                "['float64', [2**50, 0]]",
                "['float64', [2**20, 2**20]]",
                "['float64', [1] * 100]",
            )
        ),
        "b'{'",
        "b'[' * 10**5",
        "b'\\xff'",
    ],
)
def test_an_answer_that_breaks_its_rule_is_a_sentence(path, replaced, answer):
    replaced(f"answer({answer}, bytes(64))")
    with pytest.raises(ExternalFileError, match="gave no answer that can be read"):
        read_mat_variables(path)


def test_a_header_without_end_is_not_waited_for(path, replaced):
    replaced("os.write(1, struct.pack('<Q', 2**60) + bytes(100))")
    began = time.monotonic()
    with pytest.raises(ExternalFileError, match="gave no answer that can be read"):
        read_mat_variables(path)
    assert time.monotonic() - began < 30


def test_an_answer_runs_no_code(path, replaced, tmp_path):
    content = pickle.dumps(Marker(tmp_path / "mark"))
    for text in (f"os.write(1, {content!r})", f"answer({content!r})", f"answer('{content.hex()}')"):
        replaced(text)
        with pytest.raises(ExternalFileError):
            read_mat_variables(path)
    assert not (tmp_path / "mark").exists()


def test_bits_of_a_flag_are_one_flag(path, replaced):
    replaced("answer({'struct': {'x': {'array': ['bool', [1, 4]]}}}, bytes([0, 1, 2, 255]))")
    assert read_mat_variables(path)["x"].tolist() == [[False, True, True, True]]


def test_what_goes_over_the_pipe_comes_back(path):
    values = {"a": [np.arange(6.0).reshape(2, 3), "\ud800é", [], None], "b": {"c": np.zeros((0, 4), np.uint8)}}
    arrays = []
    text = json.dumps(mat_process._encoded(values, arrays)).encode()
    reading, writing = os.pipe()
    with open(writing, "wb", buffering=0) as out, open(reading, "rb", buffering=0) as into:
        mat_process._send(out, json.loads(text), arrays)
        found = mat_process.received(into, 2**20)
    np.testing.assert_array_equal(found["a"][0], values["a"][0])
    assert found["a"][1:] == values["a"][1:]
    assert (found["b"]["c"].shape, found["b"]["c"].dtype) == ((0, 4), np.uint8)


def test_what_ctrl_c_leaves_of_an_answer_is_not_that_to_the_next_file(path, tmp_path, monkeypatch):
    savemat(tmp_path / "b.mat", {"b": np.eye(2)})
    read_mat_variables(path)
    process = _READER._process

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(mat_process, "received", interrupted)
        with pytest.raises(KeyboardInterrupt):
            read_mat_variables(path)
    assert list(read_mat_variables(tmp_path / "b.mat")) == ["b"]
    assert process.poll() is not None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes fork on POSIX alone")
def test_a_fork_while_another_thread_reads_waits_for_nobody(path):
    subprocess.run([sys.executable, "-W", "ignore", "-c", FORK, path], check=True, timeout=60)
