"""What tests of the files of every version share."""

import pytest
from lapsvm.pipelines.commands.verbs import main


@pytest.fixture
def status():
    """A function that runs a command and returns its exit status."""

    def run(*arguments):
        with pytest.raises(SystemExit) as exit_:
            main([str(argument) for argument in arguments])
        return exit_.value.code

    return run
