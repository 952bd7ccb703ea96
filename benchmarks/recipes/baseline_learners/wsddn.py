"""WSDDN's two-stream head on fixed window features: all classes of a data set at once, from image-level labels."""

from typing import Any, ClassVar

from lapsvm.arrays import Array

from .window_heads import DEVIATION, Parameters, WindowHeads, import_torch, projected


class WSDDN(WindowHeads):
    """The two linear heads of a weakly supervised deep detection network.

    H. Bilen and A. Vedaldi, "Weakly supervised deep detection networks", CVPR 2016, section 3: one head's
    softmax over classes classifies each window; the other head's softmax over a picture's windows weighs the windows
    for each class. The sum of their product over the windows is the picture's score of the class, in [0, 1], and is
    trained with the binary log loss of each class. The network that computes the features is not trained, and the
    paper's regulariser of overlapping windows is left out. With a single class, the softmax over classes is that over
    the class and a background whose value is 0.

    Its parameters are those of `WindowHeads`. All scores are logarithms, because products of softmaxes over thousands
    of windows underflow; the order is the same.

    Fitted are `class_coef_` (d, k) and `class_intercept_` (k,), float32, of the head with the softmax over classes, and
    `window_coef_` (d, k) of the one with the softmax over windows, in which an intercept would cancel.
    """

    parts: ClassVar[tuple[str, ...]] = ("class_coef", "class_intercept", "window_coef")

    def _start(self, generator: Any, d: int, k: int) -> Parameters:
        torch = import_torch("WSDDN")
        heads = [(DEVIATION * torch.randn((d, k), generator=generator)).T.contiguous() for _ in range(2)]
        return {"class_coef": heads[0], "class_intercept": torch.zeros(k), "window_coef": heads[1]}

    def _loss(self, parameters: Parameters, features: Any, labels: Any, boxes: Array | None) -> Any:  # noqa: ARG002
        return log_loss(*streams_of(parameters, features), labels)

    def _log_scores_of(self, parameters: Parameters, features: Any) -> Any:
        return log_products(*streams_of(parameters, features))

    def _image_scores_of(self, parameters: Parameters, features: Any) -> Any:
        return self._log_scores_of(parameters, features).double().logsumexp(0)


def streams_of(parameters: Parameters, features: Any) -> tuple[Any, Any]:
    """Return the two heads' values (n, ..., k) for the parameters of one head or of several, stacked."""
    classes = projected(features, parameters["class_coef"]) + parameters["class_intercept"]
    return classes, projected(features, parameters["window_coef"])


def log_products(classes: Any, windows: Any) -> Any:
    """Return the logarithm of the product of both softmaxes (n, ..., k), as a tensor."""
    return _log_shares(classes) + windows.log_softmax(0)


def log_loss(classes: Any, windows: Any, labels: Any) -> Any:
    """Return the binary log loss of one picture (...), summed over the classes whose label is not 0, as a tensor.

    The score s of a class is the sum over windows of p q, p being the softmax over classes and q that over windows.
    As q sums to 1, 1 - s is the sum of (1 - p) q, and 1 - p is the other classes' share. Both logarithms are accurate
    for every s without clipping, which would give the worst scores a zero gradient.
    """
    weights = windows.log_softmax(0)
    present = (_log_shares(classes) + weights).logsumexp(0)
    absent = (_log_other_shares(classes) + weights).logsumexp(0)
    return -(present.masked_fill(labels <= 0, 0).sum(-1) + absent.masked_fill(labels >= 0, 0).sum(-1))


def _log_shares(classes: Any) -> Any:
    """Return the logarithm of the softmax over the classes; a single class has a background of value 0 beside it."""
    if classes.shape[-1] == 1:
        return import_torch("WSDDN").nn.functional.logsigmoid(classes)
    return classes.log_softmax(-1)


def _log_other_shares(classes: Any) -> Any:
    """Return the logarithm of what the softmax leaves to all but each class (n, ..., k).

    A share of at most 1/2 leaves log1p(-share) without cancellation. Only the largest share can exceed 1/2; what it
    leaves is summed over the other classes.
    """
    torch = import_torch("WSDDN")
    if classes.shape[-1] == 1:
        return torch.nn.functional.logsigmoid(-classes)
    shares = classes.log_softmax(-1)
    largest = shares.argmax(-1, keepdim=True)
    beside_largest = shares.scatter(-1, largest, -float("inf"))
    return (-beside_largest.exp()).log1p().scatter(-1, largest, beside_largest.logsumexp(-1, keepdim=True))
