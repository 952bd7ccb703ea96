"""The structured hinge of a batch, one ranking per class, without torch."""

import time

import numpy as np
from numpy.typing import NDArray

from lapsvm.arrays import Float64
from lapsvm.ranking import RankLoss, ZeroOneLoss, most_violated_ranking


class SummedHinge:
    """The sum over classes of max over R of Delta(R) + F(R) - F(R*), with scores times `scale`.

    It does not fall as a negative's score rises, nor as a positive's falls, for every rank loss and the 0-1 loss: in F,
    no ranking has a smaller weight for a negative, or a larger one for a positive, than R*.

    Attributes
    ----------
    seconds : float
        CPU time of the loss-augmented inference so far.
    """

    def __init__(self, loss: RankLoss | ZeroOneLoss, scale: float, method: str):
        self._loss, self._scale, self._method = loss, scale, method
        self.seconds = 0.0

    def __call__(self, scores: Float64, positive: NDArray[np.bool_]) -> tuple[float, Float64]:
        """Return the value and its gradient (n, K) for scores (n, K); classes without both kinds count 0."""
        begin = time.process_time()
        value, gradient = 0.0, np.zeros(scores.shape)
        for k in np.flatnonzero(positive.any(axis=0) & ~positive.all(axis=0)):
            found = most_violated_ranking(self._scale * scores[:, k], positive[:, k], self._loss, self._method)
            value += found.violation
            gradient[:, k] = -self._scale * found.coefficients
        self.seconds += time.process_time() - begin
        return value, gradient
