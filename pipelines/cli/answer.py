"""What a verb answers a program with ``--json``: one JSON object on standard output, and all text on standard error."""

import json
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, TextIO

from lapsvm.errors import WriteError

STDOUT = Path("-")
"""The file of `lapsvm evaluate --json` that is none: standard output."""


@dataclass(frozen=True)
class Outcome:
    """The result of a verb.

    Attributes
    ----------
    made : mapping of str to Path
        What was made, by its kind -> the file or folder where it is.
    figures : mapping
        As JSON has them.
    next_words : sequence of str
        The words of the command that usually follows; none where the work is done.
    """

    made: Mapping[str, Path] = field(default_factory=dict)
    figures: Mapping[str, Any] = field(default_factory=dict)
    next_words: Sequence[str] = ()

    def entry(self, verb: str) -> dict[str, Any]:
        """Return the object that is printed; its paths are absolute."""
        made = {kind: str(path.resolve()) for kind, path in self.made.items()}
        command = shlex.join(self.next_words) or None
        return {"verb": verb, "made": made, "figures": dict(self.figures), "next": command}


class Answer:
    """The stream for the answer of the running verb. None if nobody wants an answer."""

    verb: ClassVar[str] = ""
    stream: ClassVar[TextIO | None] = None


@contextmanager
def answering(verb: str, *, wanted: bool) -> Iterator[None]:
    """Let `give` print the answer of a verb while the block runs; other prints go to standard error."""
    if not wanted:
        yield
        return
    Answer.verb, Answer.stream = verb, sys.stdout
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        Answer.stream = None


def is_wanted() -> bool:
    """Say whether the running verb owes an answer, so that nothing is read for one in vain."""
    return Answer.stream is not None


def give(outcome: Outcome | None) -> None:
    """Print the answer if the user wants it; a verb that serves until it is interrupted calls this itself."""
    if outcome is not None and Answer.stream is not None:
        print_json(outcome.entry(Answer.verb), Answer.stream)


def print_json(value: Any, stream: TextIO | None = None) -> None:
    """Write JSON to a stream, by default standard output, in ASCII, which carries any file name through any terminal.

    Raises
    ------
    WriteError
        If it cannot be written, for instance because a disk is full.
    BrokenPipeError
        If the program that reads it has ended.
    """
    try:
        print(json.dumps(value, indent=1), file=stream, flush=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise WriteError(f"standard output cannot be written: {error.strerror}.") from None
