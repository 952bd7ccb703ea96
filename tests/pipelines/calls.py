"""Commands called in this process with the words that a user would type."""

import pytest
from lapsvm.pipelines.commands.verbs import main


def status_of(command, *words):
    """Return the exit status of a command, the function that takes its words."""
    with pytest.raises(SystemExit) as ended:
        command([str(word) for word in words])
    return ended.value.code


def done(*words, command=main):
    """Call a command, by default lapsvm, and raise unless it succeeds."""
    assert not status_of(command, *words)
