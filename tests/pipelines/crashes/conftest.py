"""A disk that is looked at."""

import pytest

from .simulated_disk import SimulatedDisk


@pytest.fixture
def disk_of(monkeypatch):
    """Return a maker of simulated disks, which look from now on."""
    made = []

    def make(root):
        made.append(SimulatedDisk(root))
        made[-1].watch(monkeypatch)
        return made[-1]

    yield make
    monkeypatch.undo()
    for disk in made:
        disk.close()
