"""The law of `--memory`: what training takes beside imports stays below four thirds of it, on any number of threads."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from lapsvm.pipelines.fitting.training_bags import beside_candidates

from .windows import write_run

MEMORY, WINDOWS, DIM = 96 << 20, 200 << 20, 256  # bytes of the memory and of all windows
PICTURES, PER_SHARD = 200, 4


@pytest.fixture
def run(tmp_path):
    """Windows of 200 pictures in 50 shards, twice as many as fit."""
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(WINDOWS // PICTURES // DIM // 2, DIM)).astype(np.float16) for _ in range(PICTURES)]
    return write_run(tmp_path, arrays, np.float16, PER_SHARD)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc, which knows a process's peak of memory")
def test_training_takes_at_most_four_thirds_of_the_memory(run):
    stored = beside_candidates(MEMORY, WINDOWS)
    line = [sys.executable, Path(__file__).with_name("peak_of_training.py"), run, str(stored), "8"]
    found = subprocess.run(line, check=True, capture_output=True, text=True)
    assert int(found.stdout) < MEMORY * 4 // 3
