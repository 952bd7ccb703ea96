"""The training that heads on fixed window features share: one picture a step, Adam, a seed, all classes at once."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from lapsvm.arrays import Array, Float64, as_floats, check_count, check_positive, check_same_length
from lapsvm.bags import Bags, as_bags
from lapsvm.bfloat16 import widened
from lapsvm.errors import DependencyError, InputError, ShapeError, install_extra

BagsLike = Bags | Sequence[ArrayLike]
Parameters = dict[str, Any]  # name of the fitted attribute without "_" -> tensor

DEVIATION = 0.01  # standard deviation of the initial weights


@dataclass(eq=False, repr=False)
class WindowHeads(BaseEstimator):  # type: ignore[misc]
    """Base of the heads; a subclass has `parts`, `_start`, `_loss`, `_log_scores_of` and `_image_scores_of`.

    After training `history_` has one dict per epoch: epoch, loss (the mean over pictures of the sum over classes).
    """

    parts: ClassVar[tuple[str, ...]]
    """Names of the fitted arrays without "_", in the order of training."""
    epochs: int = 20  # passes over the pictures; each step uses one picture, in a seeded order
    lr: float = 1e-2  # Adam's learning rate, > 0, for features with a mean norm near 1
    weight_decay: float = 1e-4  # weight of |w|^2 / 2 in each step, at least 0
    _: KW_ONLY
    random_state: int = 0  # seed of the initial weights and of the order of the pictures
    callback: Callable[[dict[str, float]], None] | None = None  # called after every epoch with its `history_` record

    def score_windows(self, bags: BagsLike) -> Float64:
        """Return the logarithm of every window's score of each class (n_windows, k), bag after bag."""
        return np.concatenate(self._applied(bags, self._log_scores_of))

    def decision_function(self, bags: BagsLike) -> Float64:
        """Return the logarithm of each picture's score of each class (n_bags, k), at most 0."""
        return np.stack(self._applied(bags, self._image_scores_of))

    def _start(self, generator: Any, d: int, k: int) -> Parameters:
        """Return the initial parameters, weights as (rows, d): torch multiplies windows by few columns faster so."""
        raise NotImplementedError

    def _loss(self, parameters: Parameters, features: Any, labels: Any, boxes: Array | None) -> Any:
        """Return the loss of one picture as a tensor, the losses (m,) for stacked parameters and labels (m, k)."""
        raise NotImplementedError

    def _log_scores_of(self, parameters: Parameters, features: Any) -> Any:
        """Return the logarithm of the scores (n, ..., k) of one picture's windows as a tensor."""
        raise NotImplementedError

    def _image_scores_of(self, parameters: Parameters, features: Any) -> Any:
        """Return the logarithm of the scores (..., k) of one picture as a tensor."""
        raise NotImplementedError

    def fit(self, bags: BagsLike, Y: ArrayLike, boxes: ArrayLike | None = None) -> Self:
        """Train on labelled pictures.

        `Y` (n_bags, k) holds +1, -1 and 0 for k classes; 0 leaves a picture out of a class. `boxes` (n_windows, 4)
        are those of the windows, bag after bag, for heads that use them. Raises DependencyError without torch, and
        InputError if labels, boxes and bags do not fit, or a parameter breaks its rule.
        """
        from .head_stacks import HeadStack

        HeadStack([self]).fit(bags, [Y], boxes)
        return self

    def _set_fitted(self, parameters: Parameters, d: int) -> None:
        for name in self.parts:
            array = parameters[name].detach().numpy()
            setattr(self, f"{name}_", array.T if array.ndim == 2 else array)
        self.n_features_in_ = d

    def _applied(self, bags: BagsLike, function: Callable[[Parameters, Any], Any]) -> list[Float64]:
        """Return a function of the fitted parameters and each picture's windows."""
        check_is_fitted(self)
        torch, data = import_torch(type(self).__name__), as_unrestricted_bags(bags)
        if data.dim != self.n_features_in_:
            raise ShapeError(f"windows must have {self.n_features_in_} features, got {data.dim}.")
        parameters = self._tensors()
        pictures = Pictures(data)
        with torch.no_grad(), single_thread(torch):
            found = [function(parameters, pictures.windows(bag)) for bag in range(len(data))]
        return [part.numpy().astype(np.float64) for part in found]

    def _tensors(self) -> Parameters:
        """Return the fitted parameters as training has them, weights as (rows, d)."""
        check_is_fitted(self)
        from_numpy = import_torch(type(self).__name__).from_numpy
        return {name: from_numpy(np.ascontiguousarray(getattr(self, f"{name}_").T)) for name in self.parts}

    def _seed(self) -> int:
        """Return the seed; raise InputError if torch cannot take it."""
        seed = check_count("random_state", self.random_state, least=0)
        if seed >= 2**64:  # torch's limit
            raise InputError(f"random_state must be below 2**64, got {seed.bit_length()} bits.")
        return seed

    def _boxes_of(self, bags: Bags, boxes: ArrayLike | None) -> Array | None:  # noqa: ARG002
        """Return the boxes of the windows, checked; None for heads that do not use them."""
        return None

    def _check(self) -> None:
        """Raise InputError unless every parameter keeps its rule."""
        check_count("epochs", self.epochs)
        check_positive("lr", self.lr)
        if self.weight_decay != 0:
            check_positive("weight_decay", self.weight_decay)
        if self.callback is not None and not callable(self.callback):
            raise InputError(f"callback must be callable or None, got {self.callback!r}.")


class Pictures:
    """The scaled windows of each picture as a float32 tensor, in memory that the next picture takes over."""

    def __init__(self, bags: Bags) -> None:
        torch = import_torch("a head")
        self._bags, self._from_numpy = bags, torch.from_numpy
        self._memory = torch.empty((int(np.diff(bags.offsets).max(initial=0)), bags.dim))
        self._scale = torch.from_numpy(np.broadcast_to(bags.scale, (bags.dim,)).astype(np.float32))

    def windows(self, bag: int) -> Any:
        """Return the windows (n, d) of one picture."""
        count = int(self._bags.offsets[bag + 1] - self._bags.offsets[bag])
        stored = self._bags.stored_rows(np.full(count, bag), np.arange(count))
        windows = self._memory[:count].copy_(self._from_numpy(widened(stored)))
        return windows.mul_(self._scale)


def orders(labels: Float64, epochs: int, seed: int) -> Iterator[Array]:
    """Yield the pictures of each epoch, those without any label left out."""
    rng, labelled = np.random.default_rng(seed), np.flatnonzero(labels.any(axis=1))
    return (rng.permutation(labelled) for _ in range(epochs))


def projected(features: Any, coef: Any) -> Any:
    """Return the products (n, ...) of windows (n, d) and weights (..., d), several heads' in one multiplication."""
    return (features @ coef.reshape(-1, coef.shape[-1]).T).reshape(len(features), *coef.shape[:-1])


@contextmanager
def single_thread(torch: Any) -> Iterator[None]:
    """Let torch use one thread: steps are too small for more, and their rounding stays reproducible.

    Torch sets its number of threads at its first use in a thread, which would undo a limit set before it by the others.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        torch.set_num_threads(before)


def import_torch(user: str) -> Any:
    """Return the package torch, for a `user` that the error names."""
    try:
        import torch
    except ImportError:
        raise DependencyError(f"{user} needs torch, which is not installed; {install_extra('torch')}.") from None
    return torch


def as_unrestricted_bags(bags: BagsLike) -> Bags:
    """Return the bags; raise InputError if some windows are excluded."""
    data = as_bags(bags)
    if excluded := data.n_windows - data.n_competing.sum():
        raise InputError(f"bags must be without excluded windows, got {excluded} excluded.")
    return data


def as_labels(Y: ArrayLike, bags: Bags, name: str = "Y") -> Float64:
    """Return the labels (n_bags, k), checked; errors call them `name`."""
    labels = as_floats(name, Y, ndim=2)
    check_same_length(name, labels, "bags", bags.offsets[1:])
    if not labels.shape[1]:
        raise InputError(f"{name} must have a class, got 0.")
    wrong = labels[~np.isin(labels, (-1, 0, 1))]
    if len(wrong):
        raise InputError(f"{name} must hold +1, -1 and 0, got {wrong[0]:g}.")
    if not labels.any():
        raise InputError(f"{name} must hold a label other than 0, got only 0.")
    return labels
