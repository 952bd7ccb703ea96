"""Any wheel of OpenCV will do, and the run records which one it is."""

from types import SimpleNamespace

import pytest
from lapsvm.pipelines.run import folder
from lapsvm.pipelines.run.folder import RunFolder
from lapsvm.pipelines.settings.settings import Settings


@pytest.mark.parametrize("wheel", folder.OPENCV)
def test_a_run_records_the_wheel_that_is_installed(tmp_path, monkeypatch, wheel):
    def distributions(name):
        return [SimpleNamespace(name=name, version="4.12.0")] if name == wheel else []

    monkeypatch.setattr(folder, "distributions", distributions)
    run = RunFolder(tmp_path / "run")
    run.save_settings(Settings(), ["lapsvm"])
    found = run.notes("versions")
    assert [name for name in found if name in folder.OPENCV] == [wheel]
