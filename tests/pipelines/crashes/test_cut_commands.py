"""Commands that are no stage are cut at every point: an export is whole or not there, a repair can be repeated."""

import os
import shutil

import pytest

from lapsvm.files import write_atomically

from .simulated_disk import emptied
from .test_lost_writes import check_whole

RESUMED = 8 if os.environ.get("FUZZ_SECONDS") else 1
"""Of the states that a crash of a repair may leave, how many are run to the end here."""
FORMATS = {
    "coco": [],
    "cvat": [],
    "label-studio": [],
    "voc": ["--copy"],
    "yolo": [],  # links
}


def test_the_disk_may_lose_either_of_two_renames_that_were_not_synced(tmp_path, disk_of):
    root = tmp_path / "disk"
    (root / "sub").mkdir(parents=True)
    for name in ("a.new", "b.new", "b", "c.new"):
        write_atomically(root / name, name.encode())
    disk = disk_of(root)
    for name, to in (("a.new", "a"), ("b.new", "b"), ("c.new", "sub/c")):
        os.replace(root / name, root / to)
    last = {frozenset(one.state) - {"sub"}: disk.text(one.state, "b") for one in disk.moments}
    names = {"a.new": "a", "b.new": "b", "c.new": "sub/c"}
    for done in [(name,) for name in names] + [tuple(names.keys() - {name}) for name in names]:
        state = {names[name] if name in done else name for name in names} | {"b"}
        assert last[frozenset(state)] == (b"b.new" if "b.new" in done else b"b"), done


@pytest.mark.parametrize("name", FORMATS)
def test_an_export_that_is_cut_anywhere_is_whole_or_not_there(finished, tmp_path, disk_of, command, name):
    export = ["export", "--out", finished, "--set", "trainval", "--format", name, *FORMATS[name], "--to"]
    assert command(*export, tmp_path / "whole").status == 0
    whole = {str(one.relative_to(tmp_path / "whole")) for one in (tmp_path / "whole").rglob("*")}
    root = tmp_path / "disk"
    root.mkdir()
    disk = disk_of(root)
    assert command(*export, root / "deep" / "out").status == 0
    disk.acknowledge()
    for moment in disk.moments:
        prefix = "deep/out/"
        out = {name.removeprefix(prefix): name for name in moment.state if name.startswith(prefix)}
        assert out.keys() in ((whole,) if moment.acknowledged else (set(), whole)), moment.cut
        for path in filter(lambda one: moment.state[one], out.values()):
            original = tmp_path / "whole" / path.removeprefix(prefix)
            if original.is_symlink():
                assert disk.text(moment.state, path).endswith(os.readlink(original).encode()), (moment.cut, path)
            elif original.name != "data.yaml":  # which names its folder
                assert disk.text(moment.state, path) == original.read_bytes(), (moment.cut, path)
    shutil.rmtree(tmp_path / "whole")


DAMAGED = {
    "shards/trainval/0000001.safetensors": lambda content: content[:-1] + bytes([content[-1] ^ 1]),
    "shards/test/0000000.safetensors": lambda content: content[: len(content) // 2],
    "models/six.safetensors": lambda content: content[:300],
    "evaluation.json": lambda content: content[:-9],
    "history.csv": lambda _: b"\0" * 40,
    "page/index.html": lambda content: content[: len(content) // 2],
    "detections/test/detections.json": lambda _: b"",
}


def test_a_repair_that_is_cut_anywhere_can_be_repeated(run_copy, tmp_path, disk_of, command, made, monkeypatch):
    whole = made(run_copy)
    for name, damage in DAMAGED.items():
        (run_copy / name).write_bytes(damage((run_copy / name).read_bytes()))
    intact = {str(path.relative_to(run_copy)) for path in run_copy.rglob("*")} - DAMAGED.keys() - {".lock"}
    disk = disk_of(run_copy)
    said = command("verify", "--out", run_copy, "--repair", "--json")
    assert said.status == 0, said.err
    disk.acknowledge()
    monkeypatch.undo()
    for number, moment in enumerate(disk.moments):
        assert intact <= moment.state.keys(), moment.cut
        assert not moment.acknowledged or not DAMAGED.keys() & moment.state.keys(), moment.cut
        copy = disk.write(moment.state, tmp_path / "states" / str(number))
        again = command("verify", "--out", copy, "--repair")
        assert again.status == 0, (moment.cut, again.err)
        assert not any((copy / name).exists() for name in DAMAGED), moment.cut
        if number % -(-len(disk.moments) // RESUMED) == 0:
            assert command("run", "--out", copy, "--quiet").status == 0
            assert made(copy) == whole, moment.cut
            check_whole(copy)
        emptied(copy)
    assert len(disk.moments) > len(DAMAGED)
