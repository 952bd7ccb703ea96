"""`lapsvm verify`: every byte of shards, models, threshold, projection and normal map is compared with its checksum."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lapsvm.errors import MissingError, ShardError

from ..cli.answer import Outcome, give, is_wanted
from ..cli.parameters import add_verb
from ..cli.parsing import thread_count
from ..settings.option import Option
from ..settings.options import panel

if TYPE_CHECKING:
    from ..run.folder import RunFolder
    from ..run.progress import Reporter


@add_verb("verify", *panel(
    "Verification",
    Option("pictures", "--pictures", bool, "Compare the pictures with those the shards were made from.", default=False),
    Option("remove", "--remove", bool, "Remove damaged files, to be made again.", default=False),
    Option("repair", "--repair", bool, "Remove damaged files of every kind, and say which command makes them again.",
           default=False),
))  # fmt: skip
def verify(options: dict[str, Any]) -> Outcome:
    """Read every byte of a run's shards and models, and name those that are not what was written.

    Example: lapsvm verify --out RUN
    """
    from ..products.table import begins_anew, stored_files
    from ..run.folder import RunFolder
    from ..run.ownership import is_of_another_program
    from ..run.progress import Reporter
    from ..shards.jobs import failed_checks
    from .integrity import picture_checks
    from .lost_files import advice, is_run, lost_files, lost_sentences

    run, reporter = RunFolder(options["out"]), Reporter(options["quiet"])
    pictures, repair = options["pictures"], options["repair"]
    is_listed = run.files.is_marked or not is_run(run)  # without the list nothing is removed
    remove = (options["remove"] or repair) and is_listed
    jobs, lost = list(stored_files(run, is_signed=True)), lost_files(run)
    if not lost and not any(path != run.settings_file for path, _ in jobs):
        raise MissingError(f"run folder {run.path} holds neither shards nor models.")
    jobs += stored_files(run, is_signed=False) if repair else ()
    removed: list[Path] = []
    with run.lock("lapsvm verify", writes=remove) if is_listed else nullcontext():
        failures = failed_checks(reporter, "verify", jobs, thread_count(options))
        if pictures:
            intact = list(picture_checks(run, options["root"], {path for path, _ in failures}))
            failures += failed_checks(reporter, "verify pictures", intact, thread_count(options))
        # an answer has the files, and a failure is one line
        say = (Reporter(quiet=True) if is_wanted() else reporter).say
        for sentence in lost_sentences(run, lost):
            say(sentence)
        gone = list(lost)
        for path, reason in failures:  # settings, files that lapsvm did not write, and files behind links, stay
            removable = path != run.settings_file and run.files.owns(path) and not is_of_another_program(path)
            say(f"{reason}{(' It is removed.' if removable else ' It stays.') if remove else ''}")
            if remove and removable:
                gone += run.files.remove([path])
                removed.append(path)
        for sentence in advice(run, gone) if repair else ():
            say(sentence)
        if remove:
            run.files.forget(path for path in gone if begins_anew(run, path))
    return _concluded(run, reporter, pictures, remove, Found(len(jobs), failures, lost, removed))


class Found(NamedTuple):
    """What verification found: the number of files, those that are damaged with the reason, lost ones, removed ones."""

    n_files: int
    failures: Sequence[tuple[Path, str]]
    lost: Sequence[Path]
    removed: Sequence[Path]


def _concluded(run: "RunFolder", reporter: "Reporter", pictures: bool, remove: bool, found: Found) -> Outcome:
    """Return the outcome; ShardError if a file is damaged or lost, and `lapsvm run` alone does not mend that."""
    from ..products.table import begins_anew
    from .lost_files import how_made, is_copy_without_shards, made_by, mending

    n_files, failures, lost, removed = found
    gone = [*lost, *removed]
    out, n_intact = ("--out", str(run.path.resolve())), n_files - len(failures)
    is_mended = all(made_by(run, path) for path in gone if not begins_anew(run, path))  # by lapsvm run alone
    again = ("lapsvm", "run", *out) if gone and is_mended else ()
    outcome = Outcome({}, _figures(n_intact, failures, lost, removed), again)
    if len(failures) > len(removed):
        removal = ("lapsvm", "verify", *out, *(["--pictures"] if pictures else []), "--remove")
        give(outcome if remove else replace(outcome, next_words=removal))
        kinds = "damaged, or made from other pictures" if pictures else "damaged"
        stay = [path for path, _ in failures if path not in removed]
        count = f"{len(failures)} of {n_files} files are {kinds}, the first is {stay[0]}"
        raise ShardError(f"{count}; {mending(run, stay, remove)}.")
    if is_copy_without_shards(run, gone):
        reporter.say("a copy of a run may be without its shards.")
    elif lost and not (remove and is_mended):
        give(outcome)
        count = f"{len(lost)} of {len(lost) + n_files} files are not there, the first is {lost[0]}"
        raise ShardError(f"{count}; {how_made(run, lost)}.")
    reporter.say(f"{n_intact} files are intact" + (f", {len(removed)} removed." if removed else "."))
    return outcome


def _figures(
    n_intact: int, failures: Sequence[tuple[Path, str]], lost: Sequence[Path], removed: Sequence[Path]
) -> dict[str, Any]:
    """Return the figures of the answer: files by absolute paths."""
    return {
        "intact": n_intact,
        "damaged": {str(path.absolute()): reason for path, reason in failures},
        "lost": [str(path.absolute()) for path in lost],
        "removed": [str(path.resolve()) for path in removed],
    }
