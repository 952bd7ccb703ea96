"""A run that has shards and is to be trained."""

import pytest


@pytest.fixture
def extracted(run_copy):
    """Return a run folder that has shards and no models."""
    for path in (run_copy / "models").iterdir():
        path.unlink()
    (run_copy / "history.csv").unlink()
    return run_copy
