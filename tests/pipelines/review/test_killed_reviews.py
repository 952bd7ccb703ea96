"""A review that is killed again and again while classes learn: every answer is stored, and the run is intact."""

import http.client
import json
import os
import random
import shutil
import threading
import time
import urllib.request

import pytest
from lapsvm.pipelines.verdicts.verdict import read_verdicts

from lapsvm.features import read_shard
from lapsvm.files import is_temporary

KILLS = int(os.environ.get("LAPSVM_KILLS", "50" if os.environ.get("FUZZ_SECONDS") else "1"))
MANY = 10
KEPT = "*/**/*.safetensors", "*.json", "run.toml"
"""What a review never changes; `drawn.safetensors` gains the features of drawn boxes."""
KINDS = ("boxes", "drawn", "none", "skip", "boxes")


class Person:
    """Someone who judges pictures of all classes, one after the other, until the server is gone.

    Parameters
    ----------
    address : str
    chance : random.Random
        Which pictures and verdicts.

    Attributes
    ----------
    answered : list of (class name, picture, verdict, number of boxes)
        In the order in which the server acknowledged them.
    pending : tuple or None
        What was sent last, if nothing came back.
    """

    def __init__(self, address, chance):
        self.address, self.chance, self.answered, self.pending = address, chance, [], None
        self.is_busy = threading.Event()
        self.names = [one["name"] for one in self._asked("state")]
        self.rows = [[row["n"] for row in self._asked(f"queue/{index}")] for index in range(len(self.names))]

    def _asked(self, path, body=None):
        headers = {"Origin": "/".join(self.address.split("/")[:3]), "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.address + path, data, headers)  # noqa: S310 - the command's own address
        with urllib.request.urlopen(request, timeout=60) as reply:  # noqa: S310
            return json.loads(reply.read())

    def judge(self):
        """Judge until the server does not answer any more."""
        try:
            while True:
                self._judge_one()
        except (OSError, http.client.HTTPException, ValueError):
            pass

    def _judge_one(self):
        index = self.chance.randrange(len(self.names))
        row, kind = self.chance.choice(self.rows[index]), self.chance.choice(KINDS)
        item = self._asked(f"item/{index}/{row}")
        boxes = {"boxes": item["candidates"][:1], "drawn": [[3.5, 4, 30 + self.chance.random(), 33]]}.get(kind, [])
        verdict = "boxes" if boxes else kind
        self.pending = self.names[index], item["picture"], verdict, boxes
        reply = self._asked("verdict", {"class": index, "n": row, "verdict": verdict, "boxes": boxes})
        self.answered.append(self.pending)
        self.pending = None
        if reply["busy"]:
            self.is_busy.set()


@pytest.mark.slow
@pytest.mark.timeout(0 if KILLS >= MANY else 300)
def test_a_review_that_is_killed_while_it_learns_keeps_every_answer(
    started, looked_at, learning_run, made, command, tmp_path
):
    chance, said = random.Random(3), {}  # noqa: S311
    kept = made(learning_run, *KEPT)
    n_busy = 0
    for kill in range(KILLS):
        process, address = started(learning_run)
        person = Person(address, chance)
        judging = threading.Thread(target=person.judge)
        judging.start()
        n_busy += person.is_busy.wait(30)
        time.sleep(chance.random() * (0.2 if kill % 2 else 2))
        process.kill()
        process.communicate()
        judging.join()
        said |= {(name, picture): (verdict, boxes) for name, picture, verdict, boxes in person.answered}
        check_stored(learning_run, person, said)
        assert made(learning_run, *KEPT) == kept
        for path in learning_run.glob("drawn.safetensors"):
            read_shard(path)
    assert n_busy == KILLS, "the kills are to fall while a class learns"
    assert command("verify", "--out", learning_run).status == 0
    assert command("run", "--out", learning_run, "--quiet").status == 0
    assert not [path for path in learning_run.rglob("*") if is_temporary(path.name)]
    if KILLS >= MANY:  # else the comparison takes longer than the kills
        fresh = shutil.copytree(looked_at, tmp_path / "FRESH")
        shutil.copy(learning_run / "verdicts.jsonl", fresh)
        assert command("run", "--out", fresh, "--verdicts", fresh / "verdicts.jsonl", "--quiet").status == 0
        assert made(learning_run) == made(fresh)


def check_stored(run, person, said):
    """Check that the file has every answered verdict, or the one that was sent last without an answer."""
    log = read_verdicts(run / "verdicts.jsonl")
    assert log.damaged == ()
    for (name, picture), answered in list(said.items()):
        stored = log.of_class(name)[picture]
        found = stored.verdict, [list(box) for box in stored.boxes]
        if found != answered:
            assert person.pending is not None
            assert (name, picture, *found) == person.pending
            said[name, picture] = found
