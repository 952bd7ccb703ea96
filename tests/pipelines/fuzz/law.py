"""The law of every door: what it reads is right, or one sentence says why not.

No other exception, no wait, no memory beyond what the input needs, no file that is not the door's, no changed input.
"""

import resource
import shutil
import signal
import sys
import time
import warnings
from contextlib import contextmanager
from pathlib import Path

from lapsvm.errors import LapsvmError
from lapsvm.texts.sentences import one_line

SECONDS = 10
MEMORY = 2**29
"""Bytes that a door may take for an input of a few kilobytes: the limits of archives and pictures lie below."""
CORPUS = Path(__file__).with_name("corpus")
FOUND = Path(__file__).parents[3] / "build" / "fuzz"
"""Where the last input of a door that breaks the law is kept, to be mended and moved into the corpus."""


class Data(bytes):
    """Bytes of which hypothesis prints the beginning alone where they are many: a shard has megabytes."""

    def __repr__(self):
        return super().__repr__() if len(self) < 1000 else f"{bytes(self[:200])!r}..."


class TooSlow(BaseException):
    """A door took longer than `SECONDS`; no reader catches it."""


@contextmanager
def in_time(seconds=SECONDS):
    """Raise TooSlow where a block takes longer."""

    def late(*_):
        raise TooSlow(f"longer than {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    of_pytest = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.signal(signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, *of_pytest)


def taken():
    """Return the most bytes of memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def content(folder):
    """Return relative path -> bytes of every file below a folder; None for folders."""
    return {str(one.relative_to(folder)): one.read_bytes() if one.is_file() else None for one in folder.rglob("*")}


def write_case(case, folder):
    """Write files by their relative paths."""
    for name, data in case.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


def read_case(folder):
    """Return the files of a case of the corpus."""
    return {name: data for name, data in content(folder).items() if data is not None}


def cases_of(door):
    """Return the cases of the corpus for a door, sorted."""
    return sorted(one for one in (CORPUS / door).glob("*") if one.is_dir())


def check_law(door, read, case, root):
    """Check that a door keeps the law for a case, whose files are written below an empty folder."""
    write_case(case, root / "given")
    before, memory = content(root), taken()
    try:
        with in_time(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", module=r"PIL\.")  # as the command line does
            _called(read, root / "given")
        assert content(root) == before, "a reader writes and changes nothing"
        assert taken() - memory < MEMORY, f"{(taken() - memory) / 2**20:.0f} MiB"
    except BaseException:
        keep(door, case)
        raise


def _called(read, folder):
    """Call a reader; its refusal must be a sentence."""
    try:
        read(folder)
    except LapsvmError as error:
        check_sentence(one_line(str(error)))


def check_sentence(text):
    """Check that a refusal is a sentence."""
    assert text
    assert text.isprintable()
    assert "Traceback" not in text


def keep(door, case):
    """Keep a case that breaks the law; the last one is the smallest that hypothesis finds."""
    shutil.rmtree(FOUND / door, ignore_errors=True)
    write_case(case, FOUND / door)


def until(seconds):
    """Yield as long as there is time, once at least."""
    end = time.monotonic() + seconds
    yield
    while time.monotonic() < end:
        yield
