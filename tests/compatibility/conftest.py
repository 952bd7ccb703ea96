"""What tests of the files of every version share."""

import shutil
from pathlib import Path

import pytest
from lapsvm.datasets.digits import write_digits
from lapsvm.pipelines.commands.verbs import main


@pytest.fixture
def status():
    """A function that runs a command and returns its exit status."""

    def run(*arguments):
        with pytest.raises(SystemExit) as exit_:
            main([str(argument) for argument in arguments])
        return exit_.value.code

    return run


@pytest.fixture
def copy(request, tmp_path):
    """A copy of a version's run, the module's OLD, that a test may change."""
    return Path(shutil.copytree(request.module.OLD, tmp_path / "RUN"))


@pytest.fixture
def digits(request, tmp_path):
    """The pictures that the run was made of, by the module's DIGITS."""
    write_digits(tmp_path / "digits", **request.module.DIGITS)
    return tmp_path / "digits"
