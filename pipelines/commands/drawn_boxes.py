"""Which of a picture's boxes `lapsvm predict` draws, and how strongly."""

from collections.abc import Mapping

import numpy as np

from lapsvm.arrays import Array
from lapsvm.detection.detected import Detected

from .box_captions import shown_name
from .draw import DrawnBox

PROBABLE = 0.5
"""Least probability of a drawn box where no threshold is given."""


def drawn_boxes(detected: Mapping[str, Detected], least: float) -> list[DrawnBox]:
    """Return the boxes of a picture to draw, the strongest first.

    Without probabilities the zero of scores means nothing, but classes that a picture does not show score much lower
    than those that it shows. So of classes without, boxes are drawn that score at least half as much as the best of all
    these boxes in the picture, if that is positive.

    Parameters
    ----------
    detected : mapping of class name to Detected
        The number of a class in it chooses the colour.
    least : float
        Least probability.
    """
    best = max((one.scores.max(initial=0) for one in detected.values() if one.probabilities is None), default=0)
    drawn: list[DrawnBox] = []
    for number, (name, found) in enumerate(detected.items()):
        shown = shown_name(name, number + 1)
        for index, strength in enumerate(_strengths(found, least, best).tolist()):
            if strength >= 0:
                box = found.boxes[index].tolist()
                drawn.append(DrawnBox(box, shown, _value(found, index), number, strength))
    return sorted(drawn, key=lambda box: -box.strength)


def _strengths(found: Detected, least: float, best: float) -> Array:
    """Return the strength of each box in [0, 1]; negative for those that are not drawn."""
    if found.probabilities is None:
        return found.scores / best * 2 - 1 if best > 0 else np.full(len(found.scores), -1.0)
    room = max(1 - least, 1e-9)  # a threshold of 1 draws what is certain
    return np.asarray((found.probabilities - least) / room)


def _value(found: Detected, index: int) -> str:
    """Return the probability of a box in whole percent, rounded down, or its score."""
    if found.probabilities is None:
        return f"{found.scores[index]:.2f}"
    return f"{int(100 * found.probabilities[index])}%"
