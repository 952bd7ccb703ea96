"""Triton's kernels are compiled to the machine code of GPUs that are not here, in a process of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("triton", reason="Triton is not installed")
LEAST_SHARED = 99 << 10
"""Bytes that a program may have on cards of compute capability 8.6, 8.9 and 12.0; others have more."""

WINDOWS = {"keep_candidates", "settle", "add_shares", "score_chosen"}
RANKINGS = {"mark", "pack", "level", "measure", "finish", "spread"}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("capability", [80, 120])
def test_every_kernel_compiles_and_fits_into_a_programs_memory(capability, tmp_path):
    environment = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.twins.kernels_for_cards", str(capability)],
        cwd=Path(__file__).parents[3],
        env=environment | {"TRITON_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    shared = json.loads(done.stdout)
    assert set(shared) == WINDOWS | RANKINGS
    assert max(max(variants.values()) for variants in shared.values()) <= LEAST_SHARED
