"""WSDDN with OICR's refinement heads on fixed window features."""

from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lapsvm.arrays import Array, Float64, Index, check_count
from lapsvm.bags import Bags
from lapsvm.boxes import as_boxes, iou
from lapsvm.errors import InputError

from .window_heads import DEVIATION, Parameters, import_torch, projected
from .wsddn import WSDDN, log_loss, log_products, streams_of

MIN_IOU = 0.5


@dataclass(eq=False, repr=False)
class OICR(WSDDN):
    """WSDDN and refinement heads, each taught by the head before it.

    P. Tang, X. Wang, X. Bai and W. Liu, "Multiple instance detection network with online instance classifier
    refinement", CVPR 2017. A refinement head is a softmax of each window over the classes and the background. In each
    step the head before it (WSDDN's product for the first) names the best window of every class of the picture; the
    windows near it get its class, the others the background (see `pseudo_labels`). The loss is WSDDN's plus the
    weighted cross-entropy of every refinement head, the mean over the windows. A window's score is the mean
    of the refinement heads' probabilities. The features stay as they are.

    Fitted are the arrays of `WSDDN`, `refinement_coef_` (d, n_refinements (k + 1)) float32, the weights of the heads
    side by side, in which the last column of each is the background, and `refinement_intercept_`.
    """

    parts: ClassVar[tuple[str, ...]] = (*WSDDN.parts, "refinement_coef", "refinement_intercept")
    _: KW_ONLY
    n_refinements: int = 3
    min_iou: float = MIN_IOU  # a window belongs to an object if its IoU with the class's best window is larger

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
        torch, first = import_torch("OICR"), super()._start(generator, d, k)
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

    `scores` (n, k) are those of the windows by the earlier head, in [0, 1], `labels` (k,) are +1, -1 and 0. The classes
    (n,) intp are indices; k is the background.
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
