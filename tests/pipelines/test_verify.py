"""Verification: every byte of a run's files, and just the damaged ones made again."""

import pytest


def flip(path, place):
    """Change one bit of a file."""
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(bytes(content))


def test_a_finished_run_is_whole(finished, command):
    said = command("verify", "--out", finished)
    assert said.status == 0
    assert "files are whole." in said.err


@pytest.mark.parametrize("pattern", ["shards/trainval/*", "shards/test/*", "models/*"])
@pytest.mark.parametrize("place", [-1, -5000, 400])
def test_one_flipped_bit_is_found_and_named(run_copy, command, pattern, place):
    path = sorted(run_copy.glob(pattern + ".safetensors"))[-1]
    flip(path, max(place, -path.stat().st_size + 9))
    said = command("verify", "--out", run_copy)
    assert said.status == 2
    assert "1 of " in said.err
    assert str(path) in said.err
    assert path.exists()


def test_what_is_removed_is_made_again_to_the_same_bytes(run_copy, command, made):
    before = made(run_copy)
    shard, model = run_copy / "shards" / "trainval" / "0000001.safetensors", run_copy / "models" / "six.safetensors"
    flip(shard, -1)
    model.write_bytes(model.read_bytes()[:300])
    times = {path: path.stat().st_mtime_ns for path in run_copy.glob("shards/*/*")}
    said = command("verify", "--out", run_copy, "--remove")
    assert said.status == 0
    assert "2 removed." in said.err
    assert command("run", "--out", run_copy, "--quiet").status == 0
    assert made(run_copy) == before
    changed = [path for path in run_copy.glob("shards/*/*") if path.stat().st_mtime_ns != times[path]]
    assert changed == [shard]


def test_a_folder_without_files_is_told_from_a_whole_one(tmp_path, command):
    said = command("verify", "--out", tmp_path / "none")
    assert said.status == 2
    assert "holds neither shards nor models" in said.err
