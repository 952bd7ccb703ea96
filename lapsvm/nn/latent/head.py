"""A linear head over bags of windows with the objective of `lapsvm.models.LatentRankSVM`."""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike

from lapsvm.arrays import Float64, as_floats, check_count, check_positive
from lapsvm.errors import InputError, ShapeError
from lapsvm.nn.functional import LossLike
from lapsvm.nn.modules import RankHingeLoss

Tensor = torch.Tensor


class LatentRankHead(torch.nn.Module):
    """Linear scores of windows, bags scored by their best one, and the objective of latent AP-SVM.

    For each class |w|^2 / 2 + C max_R { Delta(R) + F(R) - F(R*) }, where a positive bag is represented by the mean of
    its best windows and a negative bag by its best window: the objective of `lapsvm.models.LatentRankSVM` (A. Behl's
    thesis, problem 3.3), summed over classes. The features may be outputs of a network that learns.

    Parameters
    ----------
    n_features : int
    loss : str or RankLoss, default="ap"
        As in :class:`lapsvm.nn.RankHingeLoss`.
    C : float, default=1.0
        Weight of the loss, > 0.
    top : float, default=0.03
        Number of best windows whose mean represents a positive bag in training; below 1, a share of its windows,
        rounded up. 1 is the thesis's model.
    scale : float, default=1.0
        Factor of the features, > 0: `feature_scale_` of a fitted `LatentRankSVM`.
    n_classes : int, optional
        Number of classes, which share bags and features. Without it there is one, and the tensors below have no class
        axis.

    Attributes
    ----------
    weight : Parameter of shape (k, d)
        Weights of the scaled features, 0 at first; k is 1 without `n_classes`.

    Raises
    ------
    InputError, OptionError
        If a parameter breaks its rule. The methods raise InputError, ShapeError or NotFiniteError if tensors do not
        fit.
    """

    def __init__(
        self,
        n_features: int,
        loss: LossLike = "ap",
        *,
        C: float = 1.0,
        top: float = 0.03,
        scale: float = 1.0,
        n_classes: int | None = None,
    ) -> None:
        super().__init__()
        self.C, self.top, self.n_classes = check_positive("C", C), check_positive("top", top), n_classes
        if self.top > 1 and self.top % 1:
            raise InputError(f"top must be a share below 1 or a whole number, got {top}.")
        rows = 1 if n_classes is None else check_count("n_classes", n_classes)
        self.weight = torch.nn.Parameter(torch.zeros(rows, check_count("n_features", n_features)))
        self.scale = check_positive("scale", scale)  # not a buffer, which half() would round
        self._hinge = RankHingeLoss(loss, reduction="none", on_empty="raise")

    def score_windows(self, features: Tensor) -> Tensor:
        """Return the scores of windows (n, d): (n,), or (n, k) with `n_classes`."""
        return self._without_axis(self._window_scores(features))

    def forward(self, features: Tensor, offsets: Tensor, windows: Tensor | None = None) -> Tensor:
        """Return the scores of bags.

        Parameters
        ----------
        features : (n_windows, d) float
            The windows of bag 0, then those of bag 1, and so on.
        offsets : (n_bags + 1,) int
            Bag i holds the windows offsets[i] to offsets[i + 1] - 1, at least one; from 0 to n_windows.
        windows : (n_bags, t) or (n_bags, k, t) int, optional
            The windows of each bag whose mean represents it, as `impute` returns them; -1 stands for none, and a bag
            without any is represented by its best window.

        Returns
        -------
        tensor of shape (n_bags,), or (n_bags, k) with `n_classes`
        """
        return self.bag_scores(self.score_windows(features), offsets, windows)

    def bag_scores(self, window_scores: Tensor, offsets: Tensor, windows: Tensor | None = None) -> Tensor:
        """Return the scores of bags, given those of their windows as `score_windows` returns them; see `forward`."""
        bags = self._bags(window_scores, offsets)
        best = bags.scores.max(dim=1).values
        return self._without_axis(best if windows is None else self._represented(bags, best, windows))

    @torch.no_grad()
    def impute(self, features: Tensor, offsets: Tensor, labels: Tensor) -> Tensor:
        """Return the best windows of each positive bag at the present weights, best first.

        Parameters
        ----------
        features, offsets
            As in `forward`.
        labels : (n_bags,) or (n_bags, k)
            +1, -1, or 0 for a bag that a class leaves out.

        Returns
        -------
        tensor of shape (n_bags, t) or (n_bags, k, t), int64
            0-based within the bag; -1 for bags that are not positive, and behind the last one of a bag.
        """
        return self.impute_scores(self.score_windows(features), offsets, labels)

    @torch.no_grad()
    def impute_scores(self, window_scores: Tensor, offsets: Tensor, labels: Tensor) -> Tensor:
        """Return the windows that `impute` returns, given the windows' scores."""
        bags = self._bags(window_scores, offsets)
        positive = self._labels(labels, len(bags.sizes)) > 0
        counts = self._counts(bags.sizes)
        best = bags.scores.topk(int(counts.max()), dim=1).indices.transpose(1, 2)
        beyond = torch.arange(best.shape[2], device=best.device) >= counts[:, None, None]
        return self._without_axis(best.masked_fill(beyond | ~positive[:, :, None], -1))

    def risk(self, scores: Tensor, labels: Tensor) -> Tensor:
        """Return the hinge of the rank loss of bags with these scores, summed over classes."""
        return self.class_risks(scores, labels).sum()

    def class_risks(self, scores: Tensor, labels: Tensor) -> Tensor:
        """Return the hinge of the rank loss of each class (k,), for scores and labels of the shape of `forward`'s."""
        _check_tensor("scores", scores)
        if scores.ndim != (1 if self.n_classes is None else 2):
            raise ShapeError(f"scores must have the shape of labels, got {tuple(scores.shape)}.")
        targets = self._labels(labels, len(scores))
        if scores.numel() != targets.numel():
            raise ShapeError(f"scores must have shape {tuple(labels.shape)}, got {tuple(scores.shape)}.")
        hinges: Tensor = self._hinge(scores.reshape(targets.shape), targets > 0, targets != 0)
        return hinges

    def penalty(self) -> Tensor:
        """Return |w|^2 / 2, summed over classes."""
        return 0.5 * self.weight.square().sum()

    def objective(self, features: Tensor, offsets: Tensor, labels: Tensor, windows: Tensor | None = None) -> Tensor:
        """Return the objective; `windows` are by default the positives' best ones at the present weights.

        Raises
        ------
        OneClassError
            If a class has no positive, or no negative bag.
        """
        if windows is None:
            windows = self.impute(features, offsets, labels)
        return self.penalty() + self.C * self.risk(self(features, offsets, windows), labels)

    @property
    def coef_(self) -> Float64:
        """Weights of the unscaled features, (d,) or (k, d): a `Detector`'s `coef`, and `LatentRankSVM`'s `coef_`."""
        coef = (self.weight.detach().cpu().double() * self.scale).numpy()
        return np.asarray(coef[0] if self.n_classes is None else coef)

    @torch.no_grad()
    def set_coef(self, coef: ArrayLike) -> None:
        """Set the weights to those of the unscaled features, of the shape of `coef_`."""
        array = as_floats("coef", coef, 1 if self.n_classes is None else 2)
        if array.shape != self.coef_.shape:
            raise ShapeError(f"coef must have shape {self.coef_.shape}, got {array.shape}.")
        self.weight.copy_(torch.from_numpy(array / self.scale).reshape(self.weight.shape))

    def get_extra_state(self) -> Tensor:
        """Return the scale, which is part of the state, as float64."""
        return torch.tensor(self.scale, dtype=torch.float64)

    def set_extra_state(self, state: Tensor) -> None:
        """Set the scale to that of a state."""
        self.scale = check_positive("scale", float(state))

    def extra_repr(self) -> str:
        """Return the options for `repr`."""
        shape = f"{self.weight.shape[1]}, C={self.C:g}, top={self.top:g}, scale={self.scale:g}"
        return shape + ("" if self.n_classes is None else f", n_classes={self.n_classes}")

    def _window_scores(self, features: Tensor) -> Tensor:
        """Return the windows' scores (n, k)."""
        _check_tensor("features", features)
        if features.ndim != 2 or features.shape[1] != self.weight.shape[1]:
            raise ShapeError(f"features must have shape (n, {self.weight.shape[1]}), got {tuple(features.shape)}.")
        if not features.dtype.is_floating_point:
            raise InputError(f"features must be floating-point numbers, got {features.dtype}.")
        if features.dtype != self.weight.dtype and not torch.is_autocast_enabled(features.device.type):
            raise InputError(f"features must be {self.weight.dtype} like the weights, got {features.dtype}.")
        return self.scale * (features @ self.weight.T)

    def _bags(self, window_scores: Tensor, offsets: Tensor) -> "_Bags":
        """Return the windows' scores bag by bag."""
        _check_tensor("window_scores", window_scores)
        _check_tensor("offsets", offsets)
        scores = window_scores[:, None] if window_scores.ndim == 1 else window_scores
        if scores.ndim != 2 or scores.shape[1] != len(self.weight):
            expected = "(n,)" if self.n_classes is None else f"(n, {self.n_classes})"
            raise ShapeError(f"window_scores must have shape {expected}, got {tuple(window_scores.shape)}.")
        if not scores.dtype.is_floating_point:
            raise InputError(f"window_scores must be floating-point numbers, got {scores.dtype}.")
        if offsets.dtype.is_floating_point or offsets.dtype == torch.bool or offsets.ndim != 1:
            raise InputError(
                f"offsets must be whole numbers in one dimension, got {offsets.dtype} of shape {tuple(offsets.shape)}."
            )
        sizes = offsets.diff()
        if len(sizes) == 0 or offsets[0] != 0 or offsets[-1] != len(scores) or (sizes < 1).any():
            raise InputError(f"offsets must rise from 0 to {len(scores)}, got {offsets.tolist()[:5]} and so on.")
        index = offsets[:-1, None] + torch.arange(int(sizes.max()), device=offsets.device)
        outside = index >= offsets[1:, None]
        padded = scores[index.clamp(max=len(scores) - 1)].masked_fill(outside[:, :, None], -torch.inf)
        return _Bags(padded, sizes)

    def _represented(self, bags: "_Bags", best: Tensor, windows: Tensor) -> Tensor:
        """Return the mean scores of the given windows, and the best ones where none is given."""
        _check_tensor("windows", windows)
        leading = (len(best),) if self.n_classes is None else tuple(best.shape)
        if windows.ndim != len(leading) + 1 or tuple(windows.shape[:-1]) != leading:
            expected = ", ".join(map(str, leading))
            raise ShapeError(f"windows must have shape ({expected}, ...), got {tuple(windows.shape)}.")
        if windows.dtype not in (torch.int64, torch.int32):
            raise InputError(f"windows must be whole numbers, got {windows.dtype}.")
        index = windows.long().reshape(*best.shape, -1).transpose(1, 2)
        beyond = index >= bags.sizes[:, None, None]
        if beyond.any():
            size = bags.sizes[beyond.flatten(1).any(dim=1)][0]
            raise InputError(f"windows must lie in their bags, got {index[beyond][0]} in a bag of {size}.")
        given = index >= 0
        chosen = bags.scores.gather(1, index.clamp(min=0)).masked_fill(~given, 0)
        count = given.sum(dim=1)
        return torch.where(count > 0, chosen.sum(dim=1) / count.clamp(min=1), best)

    def _counts(self, sizes: Tensor) -> Tensor:
        """Return how many windows represent bags of these sizes."""
        if self.top >= 1:
            return sizes.clamp(max=int(self.top))
        wanted = torch.ceil(self.top * sizes.cpu().double() - 1e-9).long().clamp(min=1)
        return torch.minimum(wanted.to(sizes.device), sizes)

    def _labels(self, labels: Tensor, n_bags: int) -> Tensor:
        """Return the labels (n_bags, k), checked."""
        expected = (n_bags,) if self.n_classes is None else (n_bags, self.n_classes)
        _check_tensor("labels", labels)
        if tuple(labels.shape) != expected:
            raise ShapeError(f"labels must have shape {expected}, got {tuple(labels.shape)}.")
        wrong = labels[(labels != 1) & (labels != -1) & (labels != 0)]
        if len(wrong):
            raise InputError(f"labels must be +1, -1 or 0, got {wrong[0].item():g}.")
        return labels.reshape(n_bags, -1)

    def _without_axis(self, values: Tensor) -> Tensor:
        """Return values (n, k, ...) without the axis of classes if there is one class alone."""
        return values if self.n_classes is not None else values[:, 0]


class _Bags(NamedTuple):
    """The windows' scores (n_bags, longest, k), -inf behind the last window of a bag, and the bags' sizes."""

    scores: Tensor
    sizes: Tensor


def _check_tensor(name: str, value: object) -> None:
    """Raise InputError unless the value is a tensor."""
    if not isinstance(value, Tensor):
        raise InputError(f"{name} must be a tensor, got {type(value).__name__}.")
