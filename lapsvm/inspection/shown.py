"""Which boxes of a picture are shown, by one rule for prediction, drawings, and their help."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from lapsvm.arrays import Float64
    from lapsvm.inspection.threshold import AlarmThreshold

PROBABLE = 0.5
"""The probability from which a picture counts as one that shows a class, where no threshold is given."""
_ALL, _BEST = slice(None), slice(1)
Rows = Any
"""An index of boxes: a slice, or bool of shape (n,)."""


@dataclass(frozen=True)
class Shown:
    """The rule by which boxes of a picture are shown.

    Attributes
    ----------
    threshold : float, optional
        The least probability of a box, 0 for all.
    alarm : AlarmThreshold, optional
        Without `threshold`: the best box of each class that raises an alarm, and further ones of at least the
        probability of an alarm and `PROBABLE`.

    Without both, a picture in which no class is probable shows the best box of each class, and another one all boxes.
    A class without probabilities shows all its boxes.
    """

    threshold: float | None = None
    alarm: "AlarmThreshold | None" = None

    HELP: ClassVar[str] = (
        "without it the boxes of classes that raise an alarm, or, if no threshold is stored, all boxes of pictures in "
        f"which a class has {PROBABLE}"
    )

    def rows(self, probabilities: Mapping[str, "Float64 | None"], of_picture: Mapping[str, float]) -> dict[str, Rows]:
        """Return which boxes of each class are shown.

        Parameters
        ----------
        probabilities : mapping of class name to ndarray of shape (n,), or None
            Of the boxes, the best first; None without a calibration.
        of_picture : mapping of class name to float
            The probability of each class in the picture, where it has one.
        """
        if self.threshold is None and self.alarm is None:
            is_improbable = 0 < len(of_picture) == len(probabilities) and max(of_picture.values()) < PROBABLE
            return dict.fromkeys(probabilities, _BEST if is_improbable else _ALL)
        known = {name: of_class for name, of_class in probabilities.items() if of_class is not None}
        return dict.fromkeys(probabilities, _ALL) | {
            name: self._reached(of_class, of_picture.get(name, 0.0)) for name, of_class in known.items()
        }

    def _reached(self, probabilities: "Float64", of_picture: float) -> Rows:
        """Return which boxes of a class with probabilities reach a threshold."""
        if self.threshold is not None or self.alarm is None:
            return probabilities >= (self.threshold or 0.0)
        least = self.alarm.probability
        kept = probabilities >= max(least, PROBABLE)
        kept[:1] = True
        return kept & (of_picture >= least)

    @property
    def least(self) -> float:
        """The least probability of a drawn box, among shown ones."""
        if self.threshold is not None:
            return self.threshold
        if self.alarm is None:
            return PROBABLE
        return 0.0 if self.alarm.pictures else self.alarm.probability  # whole pictures chose the boxes already

    @property
    def sentence(self) -> str:
        """The property of a drawn box, for a sentence."""
        is_by_picture = self.threshold is None and self.alarm is not None and self.alarm.pictures
        return "an alarm of their class" if is_by_picture else f"a probability of at least {self.least:g}"
