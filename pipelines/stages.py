"""The stages in order: each reads what the one before wrote, so that any of them can be run alone."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .labels import RunData, open_run_data
from .progress import Reporter
from .run_folder import RunFolder
from .settings import Settings


@dataclass
class Context:
    """What every stage gets.

    Attributes
    ----------
    run : RunFolder
    settings : Settings
    threads : int
    reporter : Reporter
    redo : bool
        Discard what the stage made before.
    """

    run: RunFolder
    settings: Settings
    threads: int
    reporter: Reporter
    redo: bool = False
    _data: RunData | None = field(default=None, repr=False)

    @property
    def data(self) -> RunData:
        """The data set, opened once."""
        if self._data is None:
            self._data = open_run_data(self.settings.data, self.settings.seed)
            for name, reason in self._data.skipped.items():
                self.reporter.say(f"class {name} is left out: it {reason}")
        return self._data


def run_stages(
    out: Path, names: Sequence[str], values: Mapping[str, Any], *, threads: int, quiet: bool, redo: bool,
    command: list[str],
) -> None:  # fmt: skip
    """Run some stages on a run folder.

    Parameters
    ----------
    out : Path
    names : sequence of str
        "extract", "train", "detect", "evaluate", "report".
    values : mapping
        Dotted settings that were given; others come from the folder's ``run.toml``, or are the defaults.
    threads : int
    quiet, redo : bool
    command : list of str
        As it was typed, for ``run.toml``.
    """
    run = RunFolder(out)
    old = run.settings() if names[0] == "extract" else run.require_settings(names[0])
    settings = old.with_values(values)
    context = Context(run, settings, threads, Reporter(quiet), redo)
    if names[0] == "extract":
        _ = context.data  # a wrong class or folder is refused before the run folder is made
    with run.held():
        for name in names:
            STAGES[name](context)
            if name in ("extract", "train"):
                run.save_settings(settings, command)


def _extract(context: Context) -> None:
    from lapsvm.features import open_extractor

    from .extract import extract_sets

    extractor = open_extractor(list(context.settings.features.extractors))
    extract_sets(
        context.run, context.data.records, context.settings, extractor, context.threads, context.reporter, context.redo
    )


def _train(context: Context) -> None:
    from .train import train_classes

    train_classes(context)


def _detect(context: Context) -> None:
    from .detect import detect_sets

    detect_sets(context)


def _evaluate(context: Context) -> None:
    from .evaluate import evaluate_run

    evaluate_run(context)


def _report(context: Context) -> None:
    from .report import write_report

    write_report(context)


STAGES: dict[str, Callable[[Context], None]] = {
    "extract": _extract,
    "train": _train,
    "detect": _detect,
    "evaluate": _evaluate,
    "report": _report,
}
