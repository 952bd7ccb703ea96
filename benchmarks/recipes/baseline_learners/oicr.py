"""WSDDN with OICR's refinement heads on fixed window features."""

from collections.abc import Callable
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lapsvm.arrays import Array, Float32, Float64, Index, check_count
from lapsvm.bags import Bags, as_bags
from lapsvm.boxes import as_boxes, iou
from lapsvm.errors import InputError

from .window_heads import DEVIATION, BagsLike, Parameters, WindowHeads, import_torch, projected
from .wsddn import log_loss, log_products, streams_of, two_streams

MIN_IOU = 0.5


class OICR(WindowHeads):
    """WSDDN and refinement heads, each taught by the head before it.

    P. Tang, X. Wang, X. Bai and W. Liu, "Multiple instance detection network with online instance classifier
    refinement", CVPR 2017. A refinement head is a softmax of each window over the classes and the background. In each
    step the head before it (WSDDN's product for the first) names the best window of every class of the picture; the
    windows near it get its class, the others the background (see `pseudo_labels`). The loss is WSDDN's plus the
    weighted cross-entropy of every refinement head, the mean over the windows. A window's score is the mean
    of the refinement heads' probabilities. The features stay as they are.

    Parameters
    ----------
    epochs : int, default 20
        Passes over the pictures; each step uses one picture, in a seeded order.
    n_refinements : int, default 3
        Number of refinement heads.
    min_iou : float, default 0.5
        A window belongs to an object if its IoU with the class's best window is larger; in [0, 1).
    lr, weight_decay, random_state, callback
        As for `WSDDN`.

    Attributes
    ----------
    class_coef_, class_intercept_, window_coef_
        As in `WSDDN`.
    refinement_coef_ : (d, n_refinements (k + 1)) float32
        Weights of the refinement heads side by side; the last column of each is the background.
    refinement_intercept_ : (n_refinements (k + 1),) float32
    history_ : list of dict
        One per epoch: epoch, loss (the mean over pictures of all heads' losses).
    """

    parts: ClassVar[tuple[str, ...]] = (
        "class_coef",
        "class_intercept",
        "window_coef",
        "refinement_coef",
        "refinement_intercept",
    )
    class_coef_: Float32
    class_intercept_: Float32
    window_coef_: Float32
    refinement_coef_: Float32
    refinement_intercept_: Float32

    def __init__(
        self,
        epochs: int = 20,
        lr: float = 1e-2,
        weight_decay: float = 1e-4,
        *,
        n_refinements: int = 3,
        min_iou: float = MIN_IOU,
        random_state: int = 0,
        callback: Callable[[dict[str, float]], None] | None = None,
    ):
        self.epochs = epochs
        self.lr = lr
        self.weight_decay = weight_decay
        self.n_refinements = n_refinements
        self.min_iou = min_iou
        self.random_state = random_state
        self.callback = callback

    def fit(self, bags: BagsLike, Y: ArrayLike, boxes: ArrayLike) -> Self:
        """Train on labelled pictures.

        Parameters
        ----------
        bags : Bags or sequence of (n_i, d) arrays
            The windows of each picture.
        Y : (n_bags, k) of +1, -1 and 0
            The labels of k classes; 0 leaves a picture out of a class.
        boxes : (n_windows, 4)
            The boxes of the windows, bag after bag.

        Returns
        -------
        self

        Raises
        ------
        DependencyError
            If torch is not installed.
        InputError
            If labels, boxes and bags do not fit, or a parameter breaks its rule.
        """
        data = as_bags(bags)
        return self._fit(data, Y, self._boxes_of(data, boxes))

    def _boxes_of(self, bags: Bags, boxes: ArrayLike | None) -> Array:
        known = as_boxes([] if boxes is None else boxes)
        if len(known) != bags.n_windows:
            raise InputError(f"boxes must be those of {bags.n_windows} windows, got {len(known)}.")
        return known

    def _check(self) -> None:
        super()._check()
        check_count("n_refinements", self.n_refinements)
        if not isinstance(self.min_iou, Real) or isinstance(self.min_iou, bool) or not 0 <= self.min_iou < 1:
            raise InputError(f"min_iou must be at least 0 and below 1, got {self.min_iou!r}.")

    def _start(self, generator: Any, d: int, k: int) -> Parameters:
        torch = import_torch("OICR")
        first = two_streams(generator, d, k)
        rows = self.n_refinements * (k + 1)
        refinement = DEVIATION * torch.randn((rows, d), generator=generator)
        return {**first, "refinement_coef": refinement, "refinement_intercept": torch.zeros(rows)}

    def _loss(self, parameters: Parameters, features: Any, labels: Any, boxes: Array | None) -> Any:
        classes, windows = streams_of(parameters, features)
        loss = log_loss(classes, windows, labels)
        scores, known = log_products(classes, windows), as_boxes([] if boxes is None else boxes)
        for head in self._refined(parameters, features):
            targets, weights = self._taught(scores, labels, known)
            loss = loss - (weights * head.gather(-1, targets[..., None])[..., 0]).mean(0)
            scores = head[..., :-1]
        return loss

    def _taught(self, log_scores: Any, labels: Any, boxes: Array) -> tuple[Any, Any]:
        """Return the pseudo labels and the weights (n, ...) that the scores (n, ..., k) of an earlier head give."""
        torch = import_torch("OICR")
        n, k = len(log_scores), log_scores.shape[-1]
        scores = log_scores.detach().exp().reshape(n, -1, k).numpy()
        of_heads = zip(np.moveaxis(scores, 1, 0), labels.reshape(-1, k).numpy(), strict=True)
        taught = [pseudo_labels(own, of_classes, boxes, self.min_iou) for own, of_classes in of_heads]
        targets, weights = (np.stack(parts, axis=1) for parts in zip(*taught, strict=True))
        shape = log_scores.shape[:-1]
        return torch.from_numpy(targets).reshape(shape), torch.from_numpy(weights.astype(np.float32)).reshape(shape)

    def _refined(self, parameters: Parameters, features: Any) -> list[Any]:
        """Return each refinement head's log probabilities (n, ..., k + 1); the last column is the background."""
        values = projected(features, parameters["refinement_coef"]) + parameters["refinement_intercept"]
        return [head.log_softmax(-1) for head in values.chunk(self.n_refinements, dim=-1)]

    def _log_scores_of(self, parameters: Parameters, features: Any) -> Any:
        heads = import_torch("OICR").stack(self._refined(parameters, features))[..., :-1]
        return heads.logsumexp(0) - float(np.log(self.n_refinements))

    def _image_scores_of(self, parameters: Parameters, features: Any) -> Any:
        return self._log_scores_of(parameters, features).amax(0)


def pseudo_labels(
    scores: NDArray[np.floating], labels: Array, boxes: Array, min_iou: float = MIN_IOU
) -> tuple[Index, Float64]:
    """Return the class and the weight of each window of one picture.

    P. Tang, X. Wang, X. Bai and W. Liu, "Multiple instance detection network with online instance classifier
    refinement", CVPR 2017, algorithm 1: each window belongs to the positive class whose best-scored window overlaps it
    most, the first of equal ones. Its weight is that best score. With an IoU of at most `min_iou` it is background, of
    the same weight.

    A picture in which every class is absent is not in the paper; here all its windows are background of weight 1.
    Without a positive class and with a label of 0 nothing is known of the windows, and the weights are 0.

    Parameters
    ----------
    scores : (n, k)
        Scores of the windows by the earlier head, in [0, 1].
    labels : (k,) of +1, -1 and 0
    boxes : (n, 4)
    min_iou : float, default 0.5

    Returns
    -------
    classes : (n,) intp
        Class indices; k is the background.
    weights : (n,) float64
    """
    n, background = scores.shape
    positive = np.flatnonzero(labels > 0)
    if not len(positive):
        return np.full(n, background), np.full(n, float(bool((labels < 0).all())))
    best = scores[:, positive].argmax(axis=0)
    overlaps = iou(boxes, boxes[best])
    nearest = overlaps.argmax(axis=1)
    is_object = overlaps[np.arange(n), nearest] > min_iou
    weights = scores[best, positive].astype(np.float64)[nearest]
    return np.where(is_object, positive[nearest], background), weights
