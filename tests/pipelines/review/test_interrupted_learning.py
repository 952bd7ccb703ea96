"""The command that is ended while a class learns: at once, and without the loss of a verdict."""

import json
import signal
import urllib.request


def look(address, count):
    """Reject some pictures of the first class, as the page does, and return the last reply."""
    origin = "/".join(address.split("/")[:3])

    def asked(path, body=None):
        headers = {"Origin": origin, "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(address + path, data, headers)  # noqa: S310 - the command's own address
        with urllib.request.urlopen(request, timeout=60) as reply:  # noqa: S310
            return json.loads(reply.read())

    rows = [one["n"] for one in asked("queue/0")][:count]
    return [asked("verdict", {"class": 0, "n": row, "verdict": "none", "version": 0}) for row in rows][-1]


def test_ctrl_c_ends_while_a_class_learns(started, learning_run, command):
    process, address = started(learning_run)
    assert look(address, 10)["busy"]
    assert "is in use by process" in command("review", "--out", learning_run, "--no-browser").err
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in said
    assert "the same command continues" not in said
    train = f"lapsvm run --out {learning_run}"
    assert said.splitlines()[-1] == f"lapsvm: the review has ended, every verdict is saved; train on them: {train}"
    assert len((learning_run / "verdicts.jsonl").read_text().splitlines()) == 10
