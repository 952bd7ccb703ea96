"""The cache folder: whole or absent, made again where it is damaged, and another one where home is read-only."""

import errno
import os
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest

from lapsvm.errors import WriteError
from lapsvm.features.extractors.efficientnet import cache as cache_module
from lapsvm.features.extractors.efficientnet.cache import cached

CONTENT = bytes(range(256)) * 100
DIGEST = sha256(CONTENT).hexdigest()


@pytest.fixture
def make():
    """Make the content and count how often."""

    def make_content():
        make_content.times += 1
        return CONTENT

    make_content.times = 0
    return make_content


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home, and a folder for temporary files, of their own."""
    for name in ("LAPSVM_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    return tmp_path / "home"


@pytest.fixture
def refusing(monkeypatch):
    """Have the system refuse to write below a folder, as a read-only or full disk does."""
    real = cache_module.write_atomically

    def refuse(folder, number):
        def write(path, content):
            if Path(path).is_relative_to(folder):
                reason = OSError(number, os.strerror(number))
                raise WriteError(f"file {path} could not be written: {reason.strerror}.") from reason
            real(path, content)

        monkeypatch.setattr(cache_module, "write_atomically", write)

    return refuse


def temporary(tmp_path):
    return tmp_path / "temporary" / f"lapsvm-{os.getuid()}" / "file"


def test_a_file_is_made_once_and_whole(home, make):
    assert [cached("file", DIGEST, make) for _ in range(3)] == [CONTENT] * 3
    assert make.times == 1
    assert [path.name for path in (home / ".cache" / "lapsvm").iterdir()] == ["file"]


def test_the_environment_names_the_folder(home, make, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    cached("file", DIGEST, make)
    assert (tmp_path / "xdg" / "lapsvm" / "file").read_bytes() == CONTENT
    monkeypatch.setenv("LAPSVM_CACHE", str(tmp_path / "own"))
    cached("file", DIGEST, make)
    assert (tmp_path / "own" / "file").read_bytes() == CONTENT
    assert not home.exists()


def test_a_relative_xdg_folder_does_not_count(home, make, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    cached("file", DIGEST, make)
    assert (home / ".cache" / "lapsvm" / "file").is_file()


@pytest.mark.parametrize("damaged", [b"", CONTENT[:-1], CONTENT + b"\0", b"\1" + CONTENT[1:]])
def test_a_damaged_file_is_made_again(home, make, damaged):
    cached("file", DIGEST, make)
    path = home / ".cache" / "lapsvm" / "file"
    path.write_bytes(damaged)
    assert cached("file", DIGEST, make) == CONTENT
    assert path.read_bytes() == CONTENT
    assert make.times == 2


def test_other_content_is_used_and_not_kept(home, make):
    assert cached("file", "0" * 64, make) == CONTENT
    assert not (home / ".cache").exists()


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES])
def test_a_home_that_cannot_be_written_has_a_folder_elsewhere(home, make, tmp_path, refusing, number):
    refusing(home, number)
    assert cached("file", DIGEST, make) == CONTENT
    assert temporary(tmp_path).read_bytes() == CONTENT
    assert temporary(tmp_path).parent.stat().st_mode & 0o777 == 0o700
    assert cached("file", DIGEST, make) == CONTENT
    assert make.times == 1


def test_a_file_in_place_of_the_folder_is_got_around(home, make, tmp_path):
    home.mkdir()
    (home / ".cache").write_bytes(b"")
    assert cached("file", DIGEST, make) == CONTENT
    assert temporary(tmp_path).is_file()


def test_a_folder_that_is_named_and_cannot_be_written_is_one_sentence(make, tmp_path, monkeypatch):
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("LAPSVM_CACHE", str(tmp_path / "file"))
    with pytest.raises(
        WriteError, match=r"^cache file name could not be kept in .*/file: File exists; set the .*LAPSVM_CACHE"
    ):
        cached("name", DIGEST, make)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_one_sentence(home, make, tmp_path, refusing, number):
    refusing(home, number)
    with pytest.raises(WriteError, match=r"^cache file file could not be kept in .*/home/.cache/lapsvm: .*") as caught:
        cached("file", DIGEST, make)
    assert os.strerror(number) in str(caught.value)
    assert not temporary(tmp_path).exists()
    assert not list(home.rglob("*.partial"))


def test_a_temporary_folder_that_is_a_link_is_not_followed(home, make, tmp_path, refusing):
    refusing(home, errno.EROFS)
    (tmp_path / "other").mkdir()
    temporary(tmp_path).parent.symlink_to(tmp_path / "other")
    with pytest.raises(WriteError, match="Read-only file system"):
        cached("file", DIGEST, make)
    assert not list((tmp_path / "other").iterdir())


@pytest.mark.parametrize("make_file", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")])
def test_a_pipe_or_device_in_the_cache_is_not_waited_for(home, make, make_file):
    path = home / ".cache" / "lapsvm" / "file"
    path.parent.mkdir(parents=True)
    make_file(path)
    assert cached("file", DIGEST, make) == CONTENT
    assert path.read_bytes() == CONTENT


def test_a_cache_of_another_user_is_not_used(home, make, tmp_path, monkeypatch):
    """Whoever owns the folder could put a pipe there, or another file after the check."""
    for path in (home / ".cache/lapsvm/file", temporary(tmp_path)):
        path.parent.mkdir(parents=True)
        path.write_bytes(CONTENT)
    monkeypatch.setattr(cache_module.os, "getuid", lambda: 12345)
    monkeypatch.setattr(cache_module, "SYSTEM", 54321)
    with pytest.raises(WriteError, match=r"could not be kept in .*/\.cache/lapsvm: belongs to another user"):
        cached("file", DIGEST, make)
    assert make.times == 1


OPEN = """
import sys
from lapsvm.features import open_extractor
print(open_extractor("efficientnet_lite0?output=stride32").dim)
"""


def test_two_processes_make_it_at_once(cache):
    line = [sys.executable, "-c", OPEN]
    running = [subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    said = [process.communicate(timeout=250) for process in running]
    assert said == [("1280\n", "")] * 3
    assert [path.name for path in cache.iterdir()] == ["efficientnet_lite0.onnx"]
