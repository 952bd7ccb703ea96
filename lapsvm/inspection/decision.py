"""The program's decision on a whole picture; a verdict is the word of a person."""

from dataclasses import dataclass

OK = "ok"
"""The name of a picture without an alarm."""


@dataclass(frozen=True)
class Decision:
    """The decision on a whole picture: ok, or the class that raises an alarm.

    Attributes
    ----------
    class_name : str or None
        The most probable class if the picture raises an alarm, else None.
    probability : float
        Of the most probable class.
    """

    class_name: str | None
    probability: float

    @property
    def is_ok(self) -> bool:
        """Whether the picture raises no alarm."""
        return self.class_name is None

    @property
    def name(self) -> str:
        """The class, or "ok"."""
        return OK if self.class_name is None else self.class_name

    def __str__(self) -> str:
        return OK if self.class_name is None else f"{self.class_name} ({self.probability:.3g})"
