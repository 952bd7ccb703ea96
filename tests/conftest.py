"""What every test shares: fixed seeds, the folder of real data when there is one, and what the tests cost."""

import os
import shutil
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import settings

# The same examples in every run; HYPOTHESIS_PROFILE=search looks for new ones.
settings.register_profile("fixed", derandomize=True, deadline=None)
settings.register_profile("search", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder that LAPSVM_TEST_DATA names; the test is skipped, saying why, where it names none."""
    folder = os.environ.get("LAPSVM_TEST_DATA")
    if not folder:
        pytest.skip("LAPSVM_TEST_DATA names no folder of real data")
    return Path(folder)


class Cost:
    """The time and the disk that tests take: what they write, and the most that lies in the temporary folder at once.

    Others may use that disk, too; bytes written are those of this process, its workers and all processes they waited
    for, where the system counts them.
    """

    def __init__(self) -> None:
        self.began, self.free = time.monotonic(), self._free()
        self.least, self.of_workers = self.free, 0

    @staticmethod
    def _free() -> int:
        return shutil.disk_usage(tempfile.gettempdir()).free

    def pytest_runtest_logreport(self) -> None:
        """Look at the disk when a part of a test has ended."""
        self.least = min(self.least, self._free())

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Tell the process that started this one, if there is one, what was written."""
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput["written"] = _written()

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object) -> None:
        """Add the bytes that a worker has written."""
        self.of_workers += getattr(node, "workeroutput", {}).get("written", 0)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say it in one line."""
        minutes, seconds = divmod(round(time.monotonic() - self.began), 60)
        written, most = _written() + self.of_workers, self.free - self.least
        terminalreporter.write_line(
            f"cost: {minutes} min {seconds} s; {written / 1e9:.1f} GB written, {most / 1e9:.1f} GB at once"
        )


def _written() -> int:
    """Return the bytes that this process and its children have written to a disk; 0 where the system says nothing."""
    try:
        lines = Path("/proc/self/io").read_text().splitlines()
    except OSError:
        return 0
    return next(int(line.split()[1]) for line in lines if line.startswith("write_bytes"))


def pytest_configure(config: pytest.Config) -> None:
    """Measure from the start."""
    config.pluginmanager.register(Cost(), "cost")
