"""Verdicts of other files, such as the download of a mailed page, become a run's."""

from pathlib import Path

from lapsvm.errors import DataError
from lapsvm.files import check_regular

from .folder import RunFolder
from .verdicts import append_verdicts, read_verdicts


def merge_verdicts(run: RunFolder, path: Path) -> int:
    """Append the verdicts of a file that the run does not have yet, and return how many there were.

    The verdicts of the file replace those of the run on the same picture and class.

    Raises
    ------
    MissingError
        If the file is not there.
    DataError
        If a line of it is damaged; then nothing is taken.
    SettingsError
        If the run's file of verdicts is another program's.
    WriteError
        If they could not be saved.
    """
    check_regular(path, "verdicts")
    given = read_verdicts(path)
    if given.damaged or (path.stat().st_size and not given.by_class):
        raise DataError(f"{path} must hold verdicts alone; {given.damage or 'it holds none.'}")
    present = read_verdicts(run.verdicts_file)
    new = [
        one
        for name, of_class in given.by_class.items()
        for one in of_class.values()
        if present.of_class(name).get(one.picture) != one
    ]
    if new:
        run.files.claim([run.verdicts_file])
        append_verdicts(run.verdicts_file, new)
    return len(new)
