"""What every test shares: fixed seeds, and the folder of real data when there is one."""

import os
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
