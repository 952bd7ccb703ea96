"""What every test shares: the folder of real data, when there is one."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder that LAPSVM_TEST_DATA names; the test is skipped, saying why, where it names none."""
    folder = os.environ.get("LAPSVM_TEST_DATA")
    if not folder:
        pytest.skip("LAPSVM_TEST_DATA names no folder of real data")
    return Path(folder)
