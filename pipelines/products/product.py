"""A product of a run: a file, the inputs that decide its content, and the state that follows from what it records."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from lapsvm.errors import LapsvmError, MissingError, SettingsError, StageError
from lapsvm.features import settings_difference


class Condition(Enum):
    """How a file stands to its inputs."""

    MISSING = "missing"
    DAMAGED = "damaged"
    STALE = "stale"
    CURRENT = "current"


@dataclass(frozen=True)
class State:
    """The condition of a product.

    Attributes
    ----------
    condition : Condition
    sentence : str
        The damage, or which inputs made the file instead: "FILE was trained with train.C 1 instead of 10".
    followed : sequence of str
        The inputs that differ and that a product follows without a word, such as labels: it is then made again.
    """

    condition: Condition
    sentence: str = ""
    followed: Sequence[str] = ()

    @property
    def is_current(self) -> bool:
        """Whether the file is there, whole, and made from the present inputs."""
        return self.condition is Condition.CURRENT

    @property
    def is_stale(self) -> bool:
        """Whether the file is whole and made from other inputs."""
        return self.condition is Condition.STALE

    def refusal(self, stage: str, need: str, verb: str) -> StageError:
        """Return the error of a stage that needs the product as `need`, which another verb makes."""
        return unmet(stage, need, self.sentence, verb)


@dataclass(frozen=True)
class Product:
    """One file of a run.

    Attributes
    ----------
    path : Path
    inputs : mapping
        The present inputs, plain JSON.
    read : callable
        Returns the inputs that the file at a path records; LapsvmError if the file is damaged.
    origin : str
        How a sentence on other inputs begins.
    """

    path: Path
    inputs: Mapping[str, Any]
    read: Callable[[Path], Mapping[str, Any]]
    origin: str = "{path} was made with"

    def state(self) -> State:
        """Return the state of the file."""
        try:
            recorded = self.read(self.path) if self.path.is_file() else None
        except MissingError:
            recorded = None
        except LapsvmError as error:
            return State(Condition.DAMAGED, str(error))
        return State(Condition.MISSING) if recorded is None else self.compared(recorded)

    def compared(self, recorded: Mapping[str, Any]) -> State:
        """Return the state of a whole file by the inputs that it records."""
        difference = settings_difference(self.deciding(recorded), self.deciding(self.inputs))
        followed = self.changed(recorded)
        sentence = f"{self.origin.format(path=self.path)} {difference}" if difference else ""
        return State(Condition.STALE if difference or followed else Condition.CURRENT, sentence, followed)

    def deciding(self, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the inputs that decide the content, of recorded or of present ones."""
        return inputs

    def changed(self, recorded: Mapping[str, Any]) -> Sequence[str]:
        """Return the inputs that differ and that the product follows without a word; here it follows none."""
        del recorded  # for subclasses
        return ()

    def is_to_make(self, advice: str) -> bool:
        """Return whether the file is to be made; SettingsError, which ends with `advice`, if other settings made it."""
        state = self.state()
        if state.is_stale and not state.followed:
            raise SettingsError(f"{state.sentence}; {advice}.")
        return not state.is_current


def unmet(stage: str, need: str, but: str, verb: str) -> StageError:
    """Return the error of a stage that needs something which another verb makes."""
    return StageError(f"{stage} needs {need}, but {but}; run lapsvm {verb} first.")
