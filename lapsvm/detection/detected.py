"""The detections of one class in one picture."""

from dataclasses import dataclass

from lapsvm.arrays import Array, Float64


@dataclass(frozen=True)
class Detected:
    """Boxes of one class in one picture, the best first.

    Attributes
    ----------
    boxes : ndarray of shape (n, 4)
    scores : ndarray of shape (n,)
    probabilities : ndarray of shape (n,), or None
        None where the class's model has no calibration.
    """

    boxes: Array
    scores: Float64
    probabilities: Float64 | None = None

    def at_least(self, probability: float | None) -> "Detected":
        """Return the boxes of at least this probability; all where it is None or the model has none."""
        if probability is None or self.probabilities is None:
            return self
        kept = self.probabilities >= probability
        return Detected(self.boxes[kept], self.scores[kept], self.probabilities[kept])
