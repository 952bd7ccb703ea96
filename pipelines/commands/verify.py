"""`lapsvm verify`: every byte of shards, models, threshold, projection and normal map is compared with its checksum."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from lapsvm.errors import MissingError, ShardError

from ..cli.answer import Outcome, give, is_wanted
from ..cli.parameters import add_verb
from ..cli.parsing import thread_count
from ..settings.option import Option
from ..settings.options import panel


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
    from ..run.folder import RunFolder
    from ..run.ownership import is_of_another_program
    from ..run.progress import Reporter
    from ..shards.jobs import failed_checks
    from .integrity import advice, lost_files, picture_checks, signed_checks, unsigned_checks

    run, reporter = RunFolder(options["out"]), Reporter(options["quiet"])
    pictures, repair = options["pictures"], options["repair"]
    remove = options["remove"] or repair
    jobs = list(signed_checks(run))
    jobs += [job for job in unsigned_checks(run) if job[0].is_file()] if repair and jobs else []
    if not jobs:
        raise MissingError(f"run folder {run.path} holds neither shards nor models.")
    removed: list[Path] = []
    with run.lock("lapsvm verify", writes=remove):
        failures = failed_checks(reporter, "verify", jobs, thread_count(options))
        if pictures:
            intact = list(picture_checks(run, options["root"], {path for path, _ in failures}))
            failures += failed_checks(reporter, "verify pictures", intact, thread_count(options))
        lost = lost_files(run)
        # an answer has the files, and a failure is one line
        say = (Reporter(quiet=True) if is_wanted() else reporter).say
        for path in lost:
            say(f"{path} is not there: it was lost, or the command that makes it was interrupted.")
        gone = list(lost)
        for path, reason in failures:  # files that lapsvm did not write, and files behind links, stay
            removable = run.files.owns(path) and not is_of_another_program(path)
            say(f"{reason}{(' It is removed.' if removable else ' It stays.') if remove else ''}")
            if remove and removable:
                gone += run.files.remove([path])
                removed.append(path)
        for sentence in advice(run, gone) if repair else ():
            say(sentence)

    def maker(paths: Sequence[Path]) -> str:
        return "threshold" if set(paths) == {run.threshold_file} else "run"

    out, n_intact = ("--out", str(run.path.resolve())), len(jobs) - len(failures)
    again = ("lapsvm", maker([*removed, *lost]), *out) if removed or lost else ()
    outcome = Outcome({}, _figures(n_intact, failures, lost, removed), again)
    if len(failures) > len(removed):
        removal = ("lapsvm", "verify", *out, *(["--pictures"] if pictures else []), "--remove")
        give(outcome if remove else replace(outcome, next_words=removal))
        kinds = "damaged, or made from other pictures" if pictures else "damaged"
        count = f"{len(failures)} of {len(jobs)} files are {kinds}, the first is {failures[0][0]}"
        verb = maker([path for path, _ in failures])
        raise ShardError(f"{count}; verify with --remove, then {verb} again to make only these again.")
    if lost and not remove:
        give(outcome)
        count = f"{len(lost)} of {len(lost) + len(jobs)} files are not there, the first is {lost[0]}"
        raise ShardError(f"{count}; lapsvm run makes only these again.")
    reporter.say(f"{n_intact} files are intact" + (f", {len(removed)} removed." if removed else "."))
    return outcome


def _figures(
    n_intact: int, failures: Sequence[tuple[Path, str]], lost: Sequence[Path], removed: Sequence[Path]
) -> dict[str, Any]:
    """Return what the answer says of the files, by absolute paths."""
    return {
        "intact": n_intact,
        "damaged": {str(path.absolute()): reason for path, reason in failures},
        "lost": [str(path.absolute()) for path in lost],
        "removed": [str(path.resolve()) for path in removed],
    }
