"""Which detections of a picture become annotations."""

from dataclasses import dataclass

import numpy as np

from lapsvm.arrays import Float64, Index, check_count
from lapsvm.errors import OptionError


@dataclass(frozen=True)
class BoxChoice:
    """A rule for the detections of one class in one picture.

    Without a threshold and a number, the rule selects the best box of each class that the picture is labelled with.

    Attributes
    ----------
    threshold : float, optional
        Minimum probability of a box.
    per_class : int, optional
        Number of best boxes.
    labelled_only : bool, default False
        Only classes that the picture is labelled with.

    Raises
    ------
    OptionError
        If both a threshold and a number are given, or the threshold is not in [0, 1].
    InputError
        If the number is not a whole number of 1 or more.
    """

    threshold: float | None = None
    per_class: int | None = None
    labelled_only: bool = False

    def __post_init__(self) -> None:
        if self.threshold is not None and self.per_class is not None:
            raise OptionError("options --threshold and --per-class exclude each other, got both.")
        if self.threshold is not None and not 0 <= self.threshold <= 1:
            raise OptionError(f"option --threshold must be a probability between 0 and 1, got {self.threshold}.")
        if self.per_class is not None:
            check_count("option --per-class", self.per_class)

    @property
    def needs_labels(self) -> bool:
        """Whether only classes with label +1 are selected."""
        return self.labelled_only or (self.threshold is None and self.per_class is None)

    def indices(self, scores: Float64, probabilities: Float64 | None, label: int) -> Index:
        """Return the indices of the selected boxes, best first.

        Parameters
        ----------
        scores : ndarray of shape (n,)
        probabilities : ndarray of shape (n,), or None
        label : int
            +1, -1 or 0 for the class of these boxes.

        Raises
        ------
        OptionError
            If there is a threshold but no probabilities.
        """
        if self.threshold is not None and probabilities is None:
            raise OptionError("this run's models have no probabilities for --threshold; use --per-class K.")
        if self.needs_labels and label != 1:
            return np.empty(0, dtype=np.intp)
        order = np.argsort(-scores, kind="stable")
        if self.threshold is not None and probabilities is not None:
            return order[probabilities[order] >= self.threshold]
        return order[: self.per_class or 1]

    def __str__(self) -> str:
        """Return the rule as part of a sentence."""
        rules = [] if self.threshold is None else [f"a probability of at least {self.threshold:g}"]
        rules += ["a class that its picture is labelled with"] if self.needs_labels else []
        return " and ".join(rules or ["an area inside its picture"])
