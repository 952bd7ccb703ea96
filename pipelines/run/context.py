"""What every stage of a run is given."""

import sys
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lapsvm.cluster import Cluster

from .dataset import RunData, open_run_data
from .folder import RunFolder
from .progress import Reporter
from .settings import Settings

if TYPE_CHECKING:  # importing the learner takes time that `lapsvm --help` has not
    from lapsvm.latent import PassCounts


@dataclass
class RunContext:
    """What every stage gets.

    Attributes
    ----------
    run : RunFolder
    settings : Settings
    threads : int
    reporter : Reporter
    redo : bool
        Discard what the stage made before.
    shards_from : Path or None
        Another run whose shards may be taken.
    memory : str or None
        What the windows may take in training, such as "8G"; by default 80 % of what the machine has left.
    program : tuple of str
        How the command begins that ``run.toml`` repeats.
    device : "auto", "cpu" or "cuda"
        Where torch runs networks, and passes look for winners.
    cluster : Cluster or None
        Processes that extract and hold windows, if it is not this one.
    pass_counts : PassCounts or None
        Where training counts its passes.
    named : tuple of str
        The extractors that stand on this command line; those of settings files may not run code (see `trusted_code`).
    stages : tuple of str
        All stages of the command, so that the first one can check for the later ones.
    """

    run: RunFolder
    settings: Settings
    threads: int
    reporter: Reporter
    redo: bool = False
    shards_from: Path | None = None
    memory: str | None = None
    program: tuple[str, ...] = ("lapsvm",)
    device: str = "auto"
    cluster: Cluster | None = None
    pass_counts: "PassCounts | None" = None
    named: tuple[str, ...] = ()
    stages: tuple[str, ...] = ()
    _data: RunData | None = field(default=None, repr=False)

    @property
    def data(self) -> RunData:
        """The data set, opened once."""
        if self._data is None:
            self._data = open_run_data(self.settings.data, self.settings.seed)
            for name, reason in self._data.skipped.items():
                self.reporter.say(f"class {name} is left out: it {reason}")
        return self._data

    def trained_model(self, class_name: str) -> Path:
        """Return the file that training writes: the final one, unless refinement follows."""
        return self.run.first_model(class_name) if self.settings.refine.rounds else self.run.model(class_name)

    def timed(self, stage: str) -> AbstractContextManager[dict[str, Any]]:
        """Tell ``timings.json`` what a stage takes, and people if that cannot be; yields what the stage counts."""
        return self.run.timed(stage, self.reporter.say)

    def save_settings(self) -> None:
        """Write the settings into the run folder, with the command as it was typed."""
        self.run.save_settings(self.settings, [*self.program, *sys.argv[1:]])
