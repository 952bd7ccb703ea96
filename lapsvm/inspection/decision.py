"""The program's decision on a whole picture; a verdict is the word of a person."""

from dataclasses import dataclass
from typing import Any

OK = "ok"
"""The name of a picture without an alarm."""

UNKNOWN = "unknown"
"""The name of what good pictures do not have, and no known class is."""


@dataclass(frozen=True)
class Decision:
    """The decision on a whole picture: ok, the class that raises an alarm, or unknown.

    Attributes
    ----------
    class_name : str or None
        The most probable class if it raises an alarm, "unknown" if the picture is unlike good ones, else None.
    probability : float
        Of the most probable known class.
    box : tuple of 4 floats, optional
        Where an unknown picture is least like good ones, x1, y1, x2, y2 in pixels.
    """

    class_name: str | None
    probability: float
    box: tuple[float, float, float, float] | None = None

    @property
    def is_ok(self) -> bool:
        """Whether the picture raises no alarm."""
        return self.class_name is None

    @property
    def name(self) -> str:
        """The class, or "ok"."""
        return OK if self.class_name is None else self.class_name

    def as_json(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        unknown = {} if self.box is None else {UNKNOWN: {"box": list(self.box)}}
        return {"verdict": self.name, "probability": self.probability, **unknown}

    def __str__(self) -> str:
        if self.box is not None:
            return f"{self.class_name} at {', '.join(f'{side:.0f}' for side in self.box)}"
        return OK if self.class_name is None else f"{self.class_name} ({self.probability:.3g})"
