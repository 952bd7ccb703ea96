"""A multiple-instance head with gated attention over windows."""

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from lapsvm.arrays import Array, Float32, check_count
from lapsvm.nn.baselines.window_heads import DEVIATION, HeadsOfPictures, Parameters, import_torch, projected


class AttentionMIL(HeadsOfPictures):
    """Gated attention over the windows of a picture, one for each class, on fixed features.

    M. Ilse, J. Tomczak and M. Welling, "Attention-based deep multiple instance learning", ICML 2018, section 2.4,
    equation 9: the attention of window x is the softmax over the picture of ``w . (tanh(V x) * sigmoid(U x))``. V and
    U are shared by the classes, w is a class's own. A linear classifier scores the attention-weighted mean of the
    windows; the loss is the binary log loss, summed over the classes. As the classifier is linear, that
    score is the attention-weighted mean of the windows' class scores. A window's score as a detection is its
    attention times the sigmoid of its class score.

    Parameters
    ----------
    epochs : int, default 20
        Passes over the pictures; each step uses one picture, in a seeded order.
    hidden : int, default 64
        Rows of V and of U.
    lr, weight_decay, random_state, callback
        As for `WSDDN`.

    Attributes
    ----------
    gate_coef_ : (d, 2 hidden) float32
        V and U side by side, transposed.
    gate_intercept_ : (2 hidden,) float32
    attention_coef_ : (hidden, k) float32
    class_coef_ : (d, k) float32
    class_intercept_ : (k,) float32
    history_ : list of dict
        One per epoch: epoch, loss (the mean over pictures of the sum over classes).
    """

    parts: ClassVar[tuple[str, ...]] = (
        "gate_coef",
        "gate_intercept",
        "attention_coef",
        "class_coef",
        "class_intercept",
    )
    gate_coef_: Float32
    gate_intercept_: Float32
    attention_coef_: Float32
    class_coef_: Float32
    class_intercept_: Float32

    def __init__(
        self,
        epochs: int = 20,
        lr: float = 1e-2,
        weight_decay: float = 1e-4,
        *,
        hidden: int = 64,
        random_state: int = 0,
        callback: Callable[[dict[str, float]], None] | None = None,
    ):
        self.epochs = epochs
        self.lr = lr
        self.weight_decay = weight_decay
        self.hidden = hidden
        self.random_state = random_state
        self.callback = callback

    def _check(self) -> None:
        super()._check()
        check_count("hidden", self.hidden)

    def _start(self, generator: Any, d: int, k: int) -> Parameters:
        torch = import_torch("AttentionMIL")
        gates = torch.randn((2 * self.hidden, d), generator=generator) / float(np.sqrt(d))
        attention = torch.randn((k, self.hidden), generator=generator) / float(np.sqrt(self.hidden))
        return {
            "gate_coef": gates,
            "gate_intercept": torch.zeros(2 * self.hidden),
            "attention_coef": attention,
            "class_coef": DEVIATION * torch.randn((k, d), generator=generator),
            "class_intercept": torch.zeros(k),
        }

    def _values(self, parameters: Parameters, features: Any) -> tuple[Any, Any]:
        """Return the logarithm of the attention and the class scores, both (n, ..., k)."""
        gates = projected(features, parameters["gate_coef"]) + parameters["gate_intercept"]
        content, gate = gates.chunk(2, dim=-1)
        hidden = (content.tanh() * gate.sigmoid())[..., None, :]
        attention = (hidden @ parameters["attention_coef"].mT)[..., 0, :]
        classes = projected(features, parameters["class_coef"]) + parameters["class_intercept"]
        return attention.log_softmax(0), classes

    def _logits(self, parameters: Parameters, features: Any) -> Any:
        """Return the picture's score (..., k) of each class before the sigmoid."""
        attention, classes = self._values(parameters, features)
        return (attention.exp() * classes).sum(0)

    def _loss(self, parameters: Parameters, features: Any, labels: Any, boxes: Array | None) -> Any:  # noqa: ARG002
        softplus = import_torch("AttentionMIL").nn.functional.softplus
        return (softplus(-labels * self._logits(parameters, features)) * labels.abs()).sum(-1)

    def _log_scores_of(self, parameters: Parameters, features: Any) -> Any:
        attention, classes = self._values(parameters, features)
        return attention + import_torch("AttentionMIL").nn.functional.logsigmoid(classes)

    def _image_scores_of(self, parameters: Parameters, features: Any) -> Any:
        logits = self._logits(parameters, features)
        return import_torch("AttentionMIL").nn.functional.logsigmoid(logits.double())
