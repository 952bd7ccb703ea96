"""The application: every expected failure is one line on standard error and exit status 2.

Ctrl-C at any time, and SIGTERM, is one line and exit status 130, whatever the libraries above make of a
KeyboardInterrupt. A signal that was ignored when the program began (a background job's Ctrl-C) stays ignored.
"""

import os
import select
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from types import FrameType
from typing import Any

import click

from lapsvm.errors import LapsvmError
from lapsvm.texts.sentences import one_line

from .flags import with_flags
from .signals import INTERRUPTED, LINE, SIGNALS, UNHEARD, Farewell, leave

FAILED = 2
COMPLETION = "_LAPSVM_COMPLETE"  # the variable by which a shell asks for completions


def call(app: click.Command, arguments: list[str], name: str | None = None) -> None:
    """Run an application and exit as `main` does; `name` is its name in usage lines, by default its file."""
    warnings.filterwarnings("ignore", module=r"PIL\.")  # messages of a picture's decoder are reported with its name
    if isinstance(sys.stdout, TextIOWrapper):  # a name that is no UTF-8 is written with escapes
        sys.stdout.reconfigure(errors="backslashreplace")
    Farewell.line = LINE
    with interruptible() as interruption:
        try:
            status, line = _outcome(app, arguments, name)
        except BaseException:  # what a half-imported library makes of the interruption
            if not interruption.came:
                raise
        if interruption.came:  # the parser may have caught it and handed out another status
            status, line = INTERRUPTED, Farewell.line
    if line:
        click.echo(line, err=True)
    sys.exit(status)


def _outcome(app: click.Command, arguments: list[str], name: str | None) -> tuple[int, str]:
    """Run an application and return its exit status, with the line of a failure."""
    try:
        return _status(app, arguments, name), ""
    except LapsvmError as error:
        reason = with_flags(str(error))
    except OSError as error:
        if _lost_its_reader(error):
            return UNHEARD, ""
        reason = f"{error.filename}: {error.strerror}." if error.filename and error.strerror else str(error)
    except MemoryError as error:
        reason = f"memory is not enough for this: {error or 'the system has no more'}."
    except click.ClickException as error:
        reason = error.format_message()
    except (KeyboardInterrupt, EOFError, click.Abort):
        return INTERRUPTED, Farewell.line
    except SystemExit as error:
        if COMPLETION in os.environ:
            return (FAILED if error.code else 0), ""
        if _lost_its_reader(error.__context__):  # the console ends the program itself
            return UNHEARD, ""
        # code that users bring: a data set's reader, a network
        reason = f"code that is not lapsvm's ended the command with SystemExit({error.code!r})."
    return FAILED, "lapsvm: " + one_line(reason)


def _status(app: click.Command, arguments: list[str], name: str | None) -> int:
    """Run an application and return its exit status; not by `main` of click, which hides that a reader has ended."""
    if COMPLETION in os.environ:
        app.main(arguments, name)  # answers the shell and ends the program
    try:
        with app.make_context(name or Path(sys.argv[0]).name, list(arguments)) as context:
            app.invoke(context)
    except click.exceptions.Exit as end:  # of an option such as --help
        return end.exit_code
    return 0


def _lost_its_reader(error: BaseException | None) -> bool:
    """Return whether an error came because the program that reads our output has ended, as in ``lapsvm ... | head``."""
    if not isinstance(error, BrokenPipeError):
        return False
    poll = select.poll()
    for descriptor in (1, 2):
        poll.register(descriptor, 0)
    silenced = os.fstat(1).st_rdev == os.stat(os.devnull).st_rdev  # by the console, which has met the same error
    return silenced or any(event & select.POLLERR for _, event in poll.poll(0))


def check_device(name: str) -> None:
    """Raise OptionError unless the device is available."""
    if name == "cuda":
        from lapsvm.features.extractors.torch_running import choose_device

        choose_device(name)


@dataclass
class Interruption:
    """Whether a signal came."""

    came: bool = False

    def receive(self, number: int, frame: FrameType | None) -> None:
        """Raise KeyboardInterrupt at the first signal; end the process at the second. No file is left half written."""
        if self.came:
            leave(number, frame)
        self.came = True
        sys.unraisablehook = _say_nothing  # an exception that a destructor swallows is the interruption itself
        raise KeyboardInterrupt


@contextmanager
def interruptible() -> Iterator[Interruption]:
    """Raise KeyboardInterrupt at the first signal while the block runs; yields whether it came."""
    interruption, hook = Interruption(), sys.unraisablehook
    with handled(interruption.receive):
        try:
            yield interruption
        finally:
            sys.unraisablehook = hook


@contextmanager
def handled(handler: Callable[[int, FrameType | None], Any]) -> Iterator[None]:
    """Answer both signals with a handler while the block runs."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    for number in SIGNALS:
        if before[number] != signal.SIG_IGN:
            signal.signal(number, handler)
    try:
        yield
    finally:
        for number in SIGNALS:
            signal.signal(number, before[number])


def _say_nothing(_: Any) -> None:
    """Take the place of a hook."""
