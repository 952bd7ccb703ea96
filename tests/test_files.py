"""A file is there whole or not at all."""

import os

import pytest

from lapsvm.errors import OptionError, WriteError
from lapsvm.files import new_folder, remove_stale, write_atomically


def test_a_file_is_replaced(tmp_path):
    path = tmp_path / "a"
    write_atomically(path, b"old")
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["a"]


def test_a_failed_write_keeps_the_old_file_and_leaves_nothing(tmp_path, monkeypatch):
    path = tmp_path / "a"
    write_atomically(path, b"old")

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(WriteError, match="could not be written: No space left on device"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a"]


def test_what_a_killed_run_left_is_removed(tmp_path):
    (tmp_path / ".a.0123abcd.partial").write_bytes(b"half")
    (tmp_path / "b").write_bytes(b"whole")
    remove_stale(tmp_path)
    assert os.listdir(tmp_path) == ["b"]


def test_the_temporary_file_of_a_temporary_file_is_removed_with_it(tmp_path):
    (tmp_path / "..a.0123abcd.partial.89abcdef.partial").write_bytes(b"half")
    assert remove_stale(tmp_path, lambda name: name == "b") == []
    remove_stale(tmp_path, lambda name: name == "a")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", [".a.partial", ".a.0123.partial", "a.0123abcd.partial", ".a.0123ABCD.partial"])
def test_files_of_other_names_stay(tmp_path, name):
    (tmp_path / name).write_bytes(b"mine")
    assert remove_stale(tmp_path) == []
    assert os.listdir(tmp_path) == [name]


def test_links_and_files_that_the_caller_does_not_know_stay(tmp_path):
    (tmp_path / "mine").write_bytes(b"mine")
    (tmp_path / ".a.0123abcd.partial").symlink_to(tmp_path / "mine")
    (tmp_path / ".b.0123abcd.partial").write_bytes(b"half")
    (tmp_path / ".c.0123abcd.partial").write_bytes(b"half")
    assert [path.name for path in remove_stale(tmp_path, lambda name: name != "b")] == [".c.0123abcd.partial"]
    assert (tmp_path / "mine").read_bytes() == b"mine"
    assert (tmp_path / ".a.0123abcd.partial").is_symlink()


def test_a_new_folder_appears_whole(tmp_path):
    with new_folder(tmp_path / "deep/er/out") as folder:
        (folder / "sub").mkdir()
        (folder / "sub/file").write_text("content")
        (folder / "link").symlink_to(tmp_path / "nowhere")
        assert not (tmp_path / "deep/er/out").exists()
    assert (tmp_path / "deep/er/out/sub/file").read_text() == "content"
    assert [path.name for path in (tmp_path / "deep/er").iterdir()] == ["out"]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt(), ValueError()])
def test_nothing_is_left_of_a_new_folder_that_fails(tmp_path, error):
    (tmp_path / "out").mkdir()

    def write():
        with new_folder(tmp_path / "out") as folder:
            (folder / "file").write_text("content")
            raise error

    with pytest.raises(WriteError if isinstance(error, OSError) else type(error)):
        write()
    assert list(tmp_path.rglob("*")) == [tmp_path / "out"]


def test_a_new_folder_takes_no_folder_with_files_and_no_file(tmp_path):
    (tmp_path / "file").touch()
    for taken in (tmp_path, tmp_path / "file"):
        with pytest.raises(OptionError, match="must be empty or not exist"), new_folder(taken):
            pass
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_new_folder_removes_those_of_killed_processes_but_not_of_living_ones(tmp_path):
    (tmp_path / ".out.0badc0de.partial").mkdir()
    (tmp_path / ".out.0badc0de.partial/file").touch()
    (tmp_path / ".other.0badc0de.partial").mkdir()
    with new_folder(tmp_path / "out") as first:
        with new_folder(tmp_path / "out"):
            assert first.is_dir()
        (tmp_path / "out").rmdir()
    assert sorted(path.name for path in tmp_path.iterdir()) == [".other.0badc0de.partial", "out"]
