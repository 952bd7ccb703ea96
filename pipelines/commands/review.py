"""`lapsvm review`: the local page on which a person judges boxes, the page to mail, and verdicts that come back."""

import os
import shlex
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

from lapsvm.errors import OptionError, StageError
from lapsvm.files import open_regular
from lapsvm.settings import Range

from ..cli.answer import Outcome, give
from ..cli.parameters import add_verb
from ..cli.parsing import check_in_folder, thread_count
from ..cli.signals import Farewell
from ..settings.option import Option
from ..settings.options import REPEATED, RUN_FOLDER, panel

if TYPE_CHECKING:
    from ..context import RunContext
    from ..review.new_pictures import NewPictures
    from ..review.session import ReviewSession
    from ..run.progress import Reporter
    from ..verdicts.verdict import Verdict


@add_verb("review", *panel(
    "Verdicts of a person",
    RUN_FOLDER,
    Option("class_name", "--class", str, "The only class; all by default. With --pictures: a class that the "
           "run does not have yet."),
    Option("port", "--port", int, "The port on 127.0.0.1; a free one by default.", rule=Range(1, 65535)),
    Option("no_browser", "--no-browser", bool, "Print the address, and open no browser.", default=False),
    Option("page", "--page", Path, "Write one file to mail, with the first pictures of each class, and end."),
    Option("merge", "--merge", Path, "Take the verdicts of a file, such as the page's download, or of a mended export, "
           "and end."),
    Option("forget", "--forget", str, "Take back all verdicts of this class, and end."),
    Option("accept_unchanged", "--accept-unchanged", bool, "With --merge: boxes of an export that were left as they "
           "were are right.", default=False),
    Option("pictures", "--pictures", Path, "New pictures, files or folders, to say of the decision on each that it is "
           "right, a false alarm, or has missed a class: they teach the next run.", several=REPEATED),
    Option("copy", "--copy", bool, "With --pictures: copy those that teach into the run; otherwise their place is "
           "stored.", default=False),
))  # fmt: skip
def review(options: dict[str, Any]) -> Outcome | None:
    """A local page on which a person judges boxes: how many are right, and what training shall use.

    Example: lapsvm review --out RUN
    """
    from lapsvm.bags.stores.memory import as_bytes

    from ..context import RunContext
    from ..review.session import ReviewSession
    from ..verdicts.verdict import check_own_verdicts

    ends = [f"--{name}" for name in ("page", "merge", "forget") if options[name]]
    if len(ends) > 1:
        raise OptionError(f"options {ends[0]} and {ends[1]} must not go together; one after the other.")
    if options["pictures"] and ends and not options["merge"]:
        raise OptionError(f"options --pictures and {ends[0]} must not go together: it is for pictures of the run.")
    if options["copy"] and not options["pictures"]:
        raise OptionError("option --copy copies new pictures, so it needs --pictures.")
    if options["page"]:
        _check_page(options["page"])
    as_bytes(options["memory"])  # refused now, not when something is learned
    context = RunContext.opened(
        options["out"], "review", options["root"], threads=thread_count(options), quiet=options["quiet"]
    )
    context.memory, run = options["memory"], context.run
    with run.lock("lapsvm review", writes=not options["page"]):
        if options["pictures"]:
            return _review_new(options, context)
        if options["merge"]:
            return _merge(options, context)
        if options["forget"]:
            return _forget(options["forget"], context)
        check_own_verdicts(run)
        if not context.data.classes:
            raise StageError("review needs a class; --pictures NEW --class NAME says which new pictures show one.")
        session = ReviewSession(context.stored, options["class_name"])
        for note in session.notes:
            context.reporter.warn(note)
        if options["page"]:
            return _write(session, options["page"], context.reporter)
        run.files.claim([run.verdicts_file])
        Thread(target=session.prepare, daemon=True).start()
        session.learn(context.workspace, context.open_extractor)
        _serve(session, context, options["port"] or 0, browse=not options["no_browser"])
        return None


def _review_new(options: Mapping[str, Any], context: "RunContext") -> Outcome | None:
    """Let a person say of new pictures whether the decisions on them are right, or take what a file says."""
    from lapsvm.detection import Predictor

    from ..review.new_pictures import NewPictures, say_all
    from .drawing.files import picture_files

    run, reporter = context.run, context.reporter
    files = picture_files(options["pictures"], reporter.say)
    with reporter.warnings():
        predictor = Predictor.open(run.path)
    new = NewPictures(run, predictor, [file.path for file in files], copies=options["copy"],
                      new_class=options["class_name"])  # fmt: skip
    run.files.claim([run.taught_file])
    if options["merge"] is None:
        _serve(new, context, options["port"] or 0, browse=not options["no_browser"])
        return None
    say_all(new, options["merge"], {file.place.as_posix(): row for row, file in enumerate(files)})
    reporter.say(f"review: {new.sentence}, in {run.taught_file}. Train on them: {shlex.join(_training(context))}")
    return Outcome({"taught": run.taught_file}, {"pictures": len(files)}, _training(context))


def _merge(options: Mapping[str, Any], context: "RunContext") -> Outcome:
    """Take the verdicts of a file, or of a mended export."""
    from ..verdicts.counting import not_random, replacing
    from ..verdicts.verdict import read_verdicts

    path, run = options["merge"], context.run
    earlier = read_verdicts(run.verdicts_file)
    if _is_export(path):
        new = _merge_export(path, context, accept_unchanged=options["accept_unchanged"])
    else:
        new = context.merge_verdicts(path)
    next_step = f" Train on them: lapsvm run --out {shlex.quote(str(run.path))}" if new else ""
    context.reporter.say(f"review: {len(new)} new verdicts of {path} are in {run.verdicts_file}.{next_step}")
    for note in (*replacing(new, earlier), *not_random(new)):
        context.reporter.say(f"review: {note}.")
    return Outcome({"verdicts": run.verdicts_file} if new else {}, {"new": len(new)}, _training(context) if new else ())


def _forget(class_name: str, context: "RunContext") -> Outcome:
    """Take back the verdicts of a class: each gets a line that says nothing, and the lines before it stay."""
    from ..verdicts.counting import decided
    from ..verdicts.verdict import append_verdicts, check_own_verdicts

    run, log = context.run, context.verdicts
    known = decided(log.of_class(class_name))
    if not known:
        names = ", ".join(name for name in log.by_class if decided(log.of_class(name))) or "none has any"
        raise OptionError(f"option --forget must be a class with verdicts ({names}), got {class_name!r}.")
    check_own_verdicts(run)
    append_verdicts(run.verdicts_file, [replace(one, verdict="skip", boxes=(), seconds=None) for one in known.values()])
    context.reporter.say(
        f"review: {len(known)} verdicts of {class_name} are taken back. Train without them: "
        f"lapsvm run --out {shlex.quote(str(run.path))}"
    )
    return Outcome({"verdicts": run.verdicts_file}, {"forgotten": len(known)}, _training(context))


def _is_export(path: Path) -> bool:
    """Return whether a path is a folder or file of another program; a file of verdicts may have any name."""
    from ..review.mended_files import named_format
    from ..verdicts.verdict import read_verdicts

    return path.is_dir() or (named_format(path) is not None and not read_verdicts(path).by_class)


def _training(context: "RunContext") -> tuple[str, ...]:
    """Return the words of the command that trains on verdicts."""
    return "lapsvm", "run", "--out", str(context.run.path.resolve())


def _merge_export(path: Path, context: "RunContext", *, accept_unchanged: bool) -> "list[Verdict]":
    """Merge an edited export: warn about unusable entries, and return the new verdicts."""
    from ..review.mended_export import MendedExport, unseen_pictures
    from ..verdicts.verdict import add_verdicts

    mended = MendedExport(path, context.shards(context.train_set).hashes, context.data.classes)
    verdicts = mended.verdicts(context.verdicts, accept_unchanged=accept_unchanged)
    unseen = unseen_pictures(verdicts, context.stored.training_pictures)
    for sentence in [*mended.sentences, *unseen.values()]:
        context.reporter.say(f"review: {path} ({mended.format_name}): {sentence}")
    return add_verdicts(context.run, [verdict for verdict in verdicts if verdict.picture not in unseen])


def _check_page(path: Path) -> None:
    """Raise OptionError unless the page may be written: in a folder that is there, over no file of another kind."""
    check_in_folder("--page", path)
    if path.exists():
        with open_regular(path, "page") as file:
            if b"<title>Review of boxes</title>" not in file.read(4096):
                raise OptionError(f"option --page must name a new file, or a page of this kind, got {path}.")


def _write(session: "ReviewSession", path: Path, reporter: "Reporter") -> Outcome:
    """Write the page as one file."""
    from ..review.assembly import write_page

    count = write_page(session, path)
    out = session.stored.folder.path
    reporter.say(
        f"review: {path} holds {count} pictures; take its verdicts back with "
        f"lapsvm review --out {shlex.quote(str(out))} --merge FILE."
    )
    next_words = ("lapsvm", "review", "--out", str(out.resolve()), "--merge", "verdicts.jsonl")
    return Outcome({"page": path}, {"pictures": count}, next_words)


def _serve(session: "ReviewSession | NewPictures", context: "RunContext", port: int, *, browse: bool) -> None:
    """Serve the page, and at the end say what is known."""
    from ..review.server import ReviewServer

    with ReviewServer(session, port) as server:
        print(f"review: {server.address} (Ctrl-C ends; every verdict is saved as it falls)", flush=True)  # noqa: T201
        give(Outcome({}, {"address": server.address}, _training(context)))
        out = shlex.quote(str(context.run.path))
        Farewell.line = f"lapsvm: the review has ended, every verdict is saved; train on them: lapsvm run --out {out}"
        opened = _open_browser(server.address) if browse else None
        try:
            server.serve_forever(poll_interval=0.2)
        finally:
            session.end()
            if opened is not None:
                with suppress(OSError):
                    opened.unlink()
                    opened.parent.rmdir()
            for sentence in session.figures():
                context.reporter.say(f"review: {sentence}")


def _open_browser(address: str) -> Path:
    """Open the address in a browser by a file that only this user reads: command lines are visible to others."""
    import webbrowser
    from html import escape
    from tempfile import mkdtemp

    path = Path(mkdtemp(prefix="lapsvm-review-")) / "open.html"
    target = escape(address, quote=True)
    text = f'<!DOCTYPE html><meta http-equiv="refresh" content="0; url={target}"><a href="{target}">review</a>'
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    webbrowser.open(path.as_uri())
    return path
