"""Stages, recipes and the command line: what turns the library into runs."""


def run_command(*words: object) -> None:
    """Run a verb of the command line in this process, as in ``run_command("export", "--out", run, ...)``.

    Parameters
    ----------
    *words : objects that are written as text
        The verb, its options and their values.

    Raises
    ------
    LapsvmError
        As the verb does, in place of the line that the command ``lapsvm`` prints.
    """
    from .commands.verbs import app

    app([str(word) for word in words], standalone_mode=False)
