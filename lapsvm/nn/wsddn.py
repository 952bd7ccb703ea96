"""WSDDN's two-stream head on fixed window features: all classes of a data set at once, from image-level labels."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from lapsvm.arrays import Array, Float32, Float64, as_floats, check_count, check_positive, check_same_length
from lapsvm.bags import Bags, as_bags
from lapsvm.errors import DependencyError, InputError, ShapeError

BagsLike = Bags | Sequence[ArrayLike]

_DEVIATION = 0.01  # standard deviation of the initial weights


class WSDDN(BaseEstimator):  # type: ignore[misc]
    """The two linear heads of a weakly supervised deep detection network.

    H. Bilen and A. Vedaldi, "Weakly supervised deep detection networks", CVPR 2016, section 3: one head's
    softmax over classes classifies each window; the other head's softmax over a picture's windows weighs the windows
    for each class. The sum of their product over the windows is the picture's score of the class, in [0, 1], and is
    trained with the binary log loss of each class. The network that computes the features is not trained, and the
    paper's regulariser of overlapping windows is left out.

    Parameters
    ----------
    epochs : int, default 20
        Passes over the pictures; each step uses one picture, in a seeded order.
    lr : float, default 1e-2
        Adam's learning rate, > 0, for features with a mean norm near 1.
    weight_decay : float, default 1e-4
        Weight of |w|^2 / 2 in each step, at least 0.
    random_state : int, default 0
        Seed of the initial weights and of the order of the pictures.
    callback : callable, optional
        Called after every epoch with its `history_` record.

    Attributes
    ----------
    class_coef_ : (d, k) float32
        Weights of the head with the softmax over classes.
    class_intercept_ : (k,) float32
    window_coef_ : (d, k) float32
        Weights of the head with the softmax over windows, in which an intercept would cancel.
    history_ : list of dict
        One per epoch: epoch, loss (the mean over pictures of the sum over classes).

    Notes
    -----
    All scores are logarithms, because products of softmaxes over thousands of windows underflow. The order is the same.
    """

    class_coef_: Float32
    class_intercept_: Float32
    window_coef_: Float32
    history_: list[dict[str, float]]

    def __init__(
        self,
        epochs: int = 20,
        lr: float = 1e-2,
        weight_decay: float = 1e-4,
        *,
        random_state: int = 0,
        callback: Callable[[dict[str, float]], None] | None = None,
    ):
        self.epochs = epochs
        self.lr = lr
        self.weight_decay = weight_decay
        self.random_state = random_state
        self.callback = callback

    def fit(self, bags: BagsLike, Y: ArrayLike) -> Self:
        """Train on labelled pictures.

        Parameters
        ----------
        bags : Bags or sequence of (n_i, d) arrays
            The windows of each picture.
        Y : (n_bags, k) of +1, -1 and 0
            The labels of k classes, two or more; 0 leaves a picture out of a class.

        Returns
        -------
        self

        Raises
        ------
        DependencyError
            If torch is not installed.
        InputError
            If labels and bags do not fit, or a parameter breaks its rule.
        """
        torch, data = _torch(), _as_unrestricted_bags(bags)
        labels = _as_labels(Y, data)
        self._check()
        seed = check_count("random_state", self.random_state, least=0)
        if seed >= 2**64:  # torch's limit
            raise InputError(f"random_state must be below 2**64, got {seed.bit_length()} bits.")
        generator = torch.Generator().manual_seed(seed)
        shape = data.dim, labels.shape[1]
        heads = [_DEVIATION * torch.randn(shape, generator=generator) for _ in range(2)]
        parameters = [head.requires_grad_() for head in (heads[0], torch.zeros(shape[1]), heads[1])]
        adam = torch.optim.Adam(parameters, lr=self.lr, weight_decay=self.weight_decay)
        self.history_ = []
        for epoch, order in enumerate(_orders(labels, self.epochs, seed), start=1):
            with threadpool_limits(1):  # steps are too small for threads, and the rounding stays reproducible
                losses = [_step(adam, parameters, data[int(bag)], labels[bag]) for bag in order]
            self.history_.append({"epoch": epoch, "loss": float(np.mean(losses))})
            if self.callback is not None:
                self.callback(self.history_[-1])
        self.class_coef_, self.class_intercept_, self.window_coef_ = (p.detach().numpy() for p in parameters)
        self.n_features_in_ = data.dim
        return self

    def score_windows(self, bags: BagsLike) -> Float64:
        """Return the logarithm of every window's product of softmaxes (n_windows, k), bag after bag."""
        return np.concatenate(self._log_scores(bags))

    def decision_function(self, bags: BagsLike) -> Float64:
        """Return the logarithm of each picture's score of each class (n_bags, k), at most 0."""
        return np.stack([np.logaddexp.reduce(scores, axis=0) for scores in self._log_scores(bags)])

    def _log_scores(self, bags: BagsLike) -> list[Float64]:
        """Return the windows' scores of each picture."""
        check_is_fitted(self)
        torch, data = _torch(), _as_unrestricted_bags(bags)
        if data.dim != self.n_features_in_:
            raise ShapeError(f"windows must have {self.n_features_in_} features, got {data.dim}.")
        parameters = [torch.from_numpy(part) for part in (self.class_coef_, self.class_intercept_, self.window_coef_)]
        with torch.no_grad(), threadpool_limits(1):
            pairs = (streams(_as_tensor(data[bag]), *parameters) for bag in range(len(data)))
            scores = [classes.log_softmax(1) + windows.log_softmax(0) for classes, windows in pairs]
        return [part.numpy().astype(np.float64) for part in scores]

    def _check(self) -> None:
        """Raise InputError unless every parameter keeps its rule."""
        check_count("epochs", self.epochs)
        check_positive("lr", self.lr)
        if self.weight_decay != 0:
            check_positive("weight_decay", self.weight_decay)
        if self.callback is not None and not callable(self.callback):
            raise InputError(f"callback must be callable or None, got {self.callback!r}.")


def streams(features: Any, class_coef: Any, class_intercept: Any, window_coef: Any) -> tuple[Any, Any]:
    """Return the two heads' values (n, k) before their softmaxes, as tensors."""
    return features @ class_coef + class_intercept, features @ window_coef


def log_loss(classes: Any, windows: Any, labels: Any) -> Any:
    """Return the binary log loss of one picture, summed over the classes whose label is not 0, as a tensor.

    The score s of a class is the sum over windows of p q, p being the softmax over classes and q that over windows.
    As q sums to 1, 1 - s is the sum of (1 - p) q, and 1 - p is the other classes' share. Both logarithms are accurate
    for every s without clipping, which would give the worst scores a zero gradient.
    """
    weights = windows.log_softmax(0)
    diagonal = _torch().eye(classes.shape[1], dtype=bool)
    others = classes[:, None, :].masked_fill(diagonal, -float("inf")).logsumexp(2) - classes.logsumexp(1, keepdim=True)
    present, absent = (classes.log_softmax(1) + weights).logsumexp(0), (others + weights).logsumexp(0)
    return -(present[labels > 0].sum() + absent[labels < 0].sum())


def _step(adam: Any, parameters: list[Any], features: Float64, labels: Float64) -> float:
    """Take one step of Adam on one picture, and return its loss."""
    adam.zero_grad()
    loss = log_loss(*streams(_as_tensor(features), *parameters), _torch().from_numpy(labels))
    loss.backward()
    adam.step()
    return float(loss.detach())


def _orders(labels: Float64, epochs: int, seed: int) -> Iterator[Array]:
    """Yield the pictures of each epoch, those without any label left out."""
    rng, labelled = np.random.default_rng(seed), np.flatnonzero(labels.any(axis=1))
    return (rng.permutation(labelled) for _ in range(epochs))


def _torch() -> Any:
    """Return the package torch."""
    try:
        import torch
    except ImportError:
        raise DependencyError('WSDDN needs torch, which is not installed; pip install "lapsvm[torch]".') from None
    return torch


def _as_tensor(features: Float64) -> Any:
    return _torch().from_numpy(features.astype(np.float32))


def _as_unrestricted_bags(bags: BagsLike) -> Bags:
    """Return the bags; raise InputError if some windows are excluded."""
    data = as_bags(bags)
    if data.n_competing.sum() != data.n_windows:
        raise InputError(
            f"bags must be without excluded windows, got {data.n_windows - data.n_competing.sum()} excluded."
        )
    return data


def _as_labels(Y: ArrayLike, bags: Bags) -> Float64:
    """Return the labels (n_bags, k), checked."""
    labels = as_floats("Y", Y, ndim=2)
    check_same_length("Y", labels, "bags", bags.offsets[1:])
    if labels.shape[1] < 2:
        raise InputError(
            f"Y must have two classes or more, because a softmax over one class is constant, got {labels.shape[1]}."
        )
    if not np.isin(labels, (-1, 0, 1)).all():
        wrong = labels[~np.isin(labels, (-1, 0, 1))][0]
        raise InputError(f"Y must hold +1, -1 and 0, got {wrong:g}.")
    if not labels.any():
        raise InputError("Y must hold a label other than 0, got only 0.")
    return labels
