"""Every write is cut at every point: nothing that was acknowledged is lost, and nothing half written is read."""

import json
import os
import shutil

import pytest
from lapsvm.pipelines.run.folder_lock import LOCK, is_lock
from lapsvm.pipelines.run.ownership import OwnedFiles
from lapsvm.pipelines.settings.settings import Settings
from lapsvm.pipelines.verdicts.verdict import Verdict, append_verdicts, read_verdicts

from lapsvm.detection import AlarmThreshold, Detector
from lapsvm.features import read_shard
from lapsvm.files import new_folder, write_atomically

from ..review.conftest import opened
from .simulated_disk import emptied

RESUMED = 20 if os.environ.get("FUZZ_SECONDS") else 2
"""Of the states that a crash of a run may leave, how many are continued to the end here."""


def test_a_replaced_file_is_the_old_one_or_the_new_one(tmp_path, disk_of):
    root = tmp_path / "disk"
    root.mkdir()
    write_atomically(root / "a", b"old")
    disk = disk_of(root)
    write_atomically(root / "a", b"new", b" and longer")
    disk.acknowledge()
    for moment in disk.moments:
        read = disk.text(moment.state, "a")
        assert read in ((b"new and longer",) if moment.acknowledged else (b"old", b"new and longer")), moment.cut
    assert {disk.text(one.state, "a") for one in disk.moments} == {b"old", b"new and longer"}


def test_a_new_folder_in_new_folders_is_whole_or_not_there(tmp_path, disk_of):
    root = tmp_path / "disk"
    root.mkdir()
    disk = disk_of(root)
    with new_folder(root / "deep" / "er" / "out") as folder:
        (folder / "sub").mkdir()
        (folder / "sub" / "a").write_bytes(b"content")
        (folder / "b").write_bytes(b"more")
    disk.acknowledge()
    for moment in disk.moments:
        out = {name: disk.text(moment.state, name) for name in moment.state if name.startswith("deep/er/out/")}
        whole = {"deep/er/out/sub": b"", "deep/er/out/sub/a": b"content", "deep/er/out/b": b"more"}
        assert out in ((whole,) if moment.acknowledged else ({}, whole)), moment.cut


def said(number):
    """Return a verdict."""
    return Verdict(f"picture {number}", "six", "boxes", ((1.0, 2.0, 30.0 + number, 40.0),))


@pytest.mark.parametrize("earlier", [0, 2])
def test_no_saved_verdict_is_lost_and_a_cut_line_harms_no_other(tmp_path, disk_of, earlier):
    root = tmp_path / "disk"
    root.mkdir()
    path = root / "verdicts.jsonl"
    for number in range(earlier):
        append_verdicts(path, [said(number)])
    disk = disk_of(root)
    for number in range(earlier, earlier + 3):
        append_verdicts(path, [said(number)])
        disk.acknowledge()
    for number, moment in enumerate(disk.moments):
        copy = disk.write(moment.state, tmp_path / "states" / str(number)) / "verdicts.jsonl"
        saved = {said(one).picture: said(one) for one in range(earlier + moment.acknowledged)}
        log = read_verdicts(copy)
        assert saved.items() <= log.of_class("six").items(), moment.cut
        assert log.damaged == (), moment.cut
        append_verdicts(copy, [said(99)])
        again = read_verdicts(copy).of_class("six")
        assert saved.items() <= again.items(), moment.cut
        assert again[said(99).picture] == said(99)
    assert len(disk.moments) > 6


def test_a_review_loses_no_verdict_that_it_answered(run_copy, tmp_path, disk_of):
    session, answered = opened(run_copy), []
    disk = disk_of(run_copy)
    for row in session.queue(0)[:2]:
        entry = {"class": 0, "n": row["n"], "verdict": "boxes", "boxes": session.item(0, row["n"])["candidates"][:1]}
        session.record(entry)
        answered.append(session.ids[row["n"]])
        disk.acknowledge()
    for number, moment in enumerate(disk.moments):
        copy = disk.write(moment.state, tmp_path / "states" / str(number))
        kept = read_verdicts(copy / "verdicts.jsonl").of_class(session.classes[0].name)
        assert set(answered[: moment.acknowledged]) <= set(kept), moment.cut
        check_whole(copy)
        emptied(copy)


READERS = {
    "*.json": lambda path: json.loads(path.read_text()),
    "run.toml": Settings.read,
    "shards/*/*": read_shard,
    "models/*.safetensors": Detector.load,
    "models/threshold.json": AlarmThreshold.load,
    "page/index.html": lambda path: path.read_text().rstrip().index("</html>"),
}


def check_whole(folder, state=None, checked=None):
    """Check that every file which has its name can be read; those of a state that are not `checked` yet."""
    for pattern, read in READERS.items():
        for path in (one for one in folder.glob(pattern) if not one.name.startswith(".")):
            own = (path.name, None if state is None else state[next(one for one in state if str(path).endswith(one))])
            if checked is None or own not in checked:
                read(path)
            if checked is not None:
                checked.add(own)
    if any(not path.name.startswith(".") for path in folder.iterdir()):
        assert OwnedFiles(folder).is_marked, "files without their list are another program's"


def test_a_run_that_is_cut_anywhere_has_whole_files_and_ends_with_the_same_bytes(
    digits, finished, tmp_path, disk_of, command, made, fast, monkeypatch
):
    root = tmp_path / "disk"
    root.mkdir()
    disk = disk_of(root)
    line = ["run", "--data", "voc", "--root", digits, "--quiet", *fast]
    assert command(*line, "--out", root / "new" / "RUN").status == 0
    disk.acknowledge()
    monkeypatch.undo()
    whole, checked = made(finished), set()
    for number, moment in enumerate(disk.moments):
        copy = disk.write(moment.state, tmp_path / "states" / str(number)) / "new" / "RUN"
        if copy.is_dir():
            check_whole(copy, moment.state, checked)
        if moment.acknowledged:
            assert made(copy) == whole, moment.cut
        emptied(copy)
    assert len(disk.moments) > 100
    for number in range(RESUMED):
        moment = disk.moments[(2 * number + 1) * len(disk.moments) // (2 * RESUMED)]
        copy = disk.write(moment.state, tmp_path / "resumed" / str(number)) / "new" / "RUN"
        again = command(*line, "--out", copy)
        assert again.status == 0, (moment.cut, again.err)
        assert made(copy) == whole, moment.cut


@pytest.mark.parametrize("earlier", [False, True])
def test_a_threshold_that_is_cut_anywhere_is_the_old_one_or_the_new_one(
    inspected, tmp_path, disk_of, command, monkeypatch, earlier
):
    root, ask = shutil.copytree(inspected, tmp_path / "disk"), ["threshold", "--quiet", "--out"]
    known = {None}
    if earlier:
        assert command(*ask, root, "--max-false-alarms", 0.4).status == 0
        known = {AlarmThreshold.load(root / "models/threshold.json").max_false_alarms}
    disk = disk_of(root)
    assert command(*ask, root, "--max-false-alarms", 0.2).status == 0
    disk.acknowledge()
    monkeypatch.undo()
    shares = set()
    for moment in disk.moments:
        (tmp_path / "cut.json").write_bytes(disk.text(moment.state, "models/threshold.json"))
        is_there = "models/threshold.json" in moment.state
        share = AlarmThreshold.load(tmp_path / "cut.json").max_false_alarms if is_there else None
        assert share in ({0.2} if moment.acknowledged else known | {0.2}), moment.cut
        shares.add(share)
    assert shares == known | {0.2}
    last = disk.write(disk.moments[-1].state, tmp_path / "last")
    check_whole(last)
    assert command("verify", "--out", last).status == 0


OURS = (b"", b"pro", b"process 12 o", b"process 12 on mach", bytes(60), b"process 1" + bytes(30))


@pytest.mark.parametrize("text", [*OURS, b"mine", b"processor", b"process twelve", b"\0mine"])
def test_a_lock_that_was_cut_short_is_ours_and_another_programs_is_not(tmp_path, text):
    (tmp_path / LOCK).write_bytes(text)
    assert is_lock(tmp_path / LOCK) == (text in OURS)
