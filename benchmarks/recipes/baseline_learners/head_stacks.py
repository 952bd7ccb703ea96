"""Several heads of one kind trained in one pass, in which each picture's windows are read and multiplied once."""

from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lapsvm.arrays import Array, Float64
from lapsvm.bags import Bags
from lapsvm.errors import InputError, ShapeError

from .window_heads import (
    BagsLike,
    Parameters,
    Pictures,
    WindowHeads,
    as_labels,
    as_unrestricted_bags,
    import_torch,
    orders,
    single_thread,
)

_OWN = ("epochs", "lr", "weight_decay", "random_state", "callback")


class HeadStack:
    """Heads of one kind that learn side by side, of other seeds, steps or pictures, as each would alone.

    A head of the stack takes the steps that it takes alone, up to rounding, but for the order of the pictures: all take
    them in the order that the first head's `random_state` draws, so that they can share them.

    `models` are of one kind, with equal parameters except `epochs`, `lr`, `weight_decay`, `random_state` and
    `callback`. Raises InputError if there is none, they differ, or one is there twice.
    """

    def __init__(self, models: Sequence[WindowHeads]) -> None:
        self.models = tuple(models)
        if len({_shared(model) for model in self.models}) != 1:
            raise InputError(
                "models must be heads of one kind that differ in no parameter but "
                f"{', '.join(_OWN[:-1])} and {_OWN[-1]}, got {len(self.models)} others."
            )
        distinct = len({id(model) for model in self.models})
        if distinct < len(self.models):
            raise InputError(f"models must be different objects, got {distinct} of {len(self.models)}.")

    def fit(
        self, bags: BagsLike, Ys: Sequence[ArrayLike], boxes: ArrayLike | None = None,
        visit: Callable[[int], None] | None = None,
    ) -> Self:  # fmt: skip
        """Train every head on its own labels, the arguments and errors as of `WindowHeads.fit`.

        A head takes no step at a picture all of whose labels are 0. `visit` is called with the number of each epoch,
        after the fitted attributes of the heads are those of its end and their own callbacks were called.
        """
        first, data = self.models[0], as_unrestricted_bags(bags)
        torch = import_torch(type(first).__name__)
        labels = self._labels_of(Ys, data)
        known = first._boxes_of(data, boxes)
        for model in self.models:
            model._check()
        training = _Training(self.models, data.dim, labels.shape[2])
        pictures, n_epochs = Pictures(data), max(model.epochs for model in self.models)
        for epoch, order in enumerate(orders(np.abs(labels).max(axis=0), n_epochs, first._seed()), start=1):
            going = np.array([epoch <= model.epochs for model in self.models])
            losses: list[list[float]] = [[] for _ in self.models]
            # the caller may be in no_grad
            with single_thread(torch), torch.enable_grad():
                for bag in order:
                    active = np.flatnonzero(going & labels[:, bag].any(axis=1))
                    if not active.size:  # the heads that learn from this picture have had their epochs
                        continue
                    of_picture = None if known is None else known[data.offsets[bag] : data.offsets[bag + 1]]
                    values = training.step(active, pictures.windows(bag), labels[active, bag], of_picture)
                    for head, value in zip(active, values, strict=True):
                        losses[head].append(value)
            training.end_epoch(epoch, going, losses)
            if visit is not None:
                visit(epoch)
        return self

    def decision_function(self, bags: BagsLike, wanted: NDArray[np.bool_] | None = None) -> Float64:
        """Return the logarithm of each picture's score of each class by each head (m, n_bags, k).

        `wanted` (m, n_bags) says by which heads a picture is scored, by default all; the other scores are NaN.
        """
        torch, data = import_torch("HeadStack"), as_unrestricted_bags(bags)
        chosen = np.ones((len(self.models), len(data)), dtype=bool) if wanted is None else wanted
        stacked, pictures = self._stacked(), Pictures(data)
        k = stacked["class_intercept"].shape[1]
        found = np.full((*chosen.shape, k), np.nan)
        with torch.no_grad(), single_thread(torch):
            for bag in np.flatnonzero(chosen.any(axis=0)).tolist():
                index = np.flatnonzero(chosen[:, bag])
                own = {name: tensor[index] for name, tensor in stacked.items()}
                found[index, bag] = self.models[0]._image_scores_of(own, pictures.windows(bag)).numpy()
        return found

    def _labels_of(self, Ys: Sequence[ArrayLike], bags: Bags) -> Float64:
        """Return the labels (m, n_bags, k) for all heads, checked."""
        if len(Ys) != len(self.models):
            raise InputError(f"Ys must hold labels for each of {len(self.models)} models, got {len(Ys)}.")
        names = ["Y"] if len(Ys) == 1 else [f"Ys[{number}]" for number in range(len(Ys))]
        labels = [as_labels(Y, bags, name) for Y, name in zip(Ys, names, strict=True)]
        counts = [Y.shape[1] for Y in labels]
        if len(set(counts)) > 1:
            raise ShapeError(f"Ys must have equally many columns, got {', '.join(map(str, counts))}.")
        return np.stack(labels)

    def _stacked(self) -> Parameters:
        """Return the fitted parameters of all heads (m, ..., d) as training has them."""
        return _stack([model._tensors() for model in self.models])


def _shared(model: WindowHeads) -> tuple[Any, ...]:
    """Return the kind and the parameters that all heads of a stack share."""
    params = model.get_params(deep=False)
    return type(model), *sorted((name, value) for name, value in params.items() if name not in _OWN)


def _stack(parameters: Sequence[Parameters]) -> Parameters:
    torch = import_torch("HeadStack")
    return {name: torch.stack([own[name] for own in parameters]) for name in parameters[0]}


class _Training:
    """The parameters of all heads, stacked, and Adam's moments with torch's defaults."""

    def __init__(self, models: Sequence[WindowHeads], d: int, k: int) -> None:
        torch = import_torch("HeadStack")
        self._models, self._torch = models, torch
        starts = [model._start(torch.Generator().manual_seed(model._seed()), d, k) for model in models]
        self._parameters = _stack(starts)
        self._means = {name: torch.zeros_like(own) for name, own in self._parameters.items()}
        self._squares = {name: torch.zeros_like(own) for name, own in self._parameters.items()}
        self._steps = torch.zeros(len(models))
        self._lr = torch.tensor([float(model.lr) for model in models])
        self._decay = torch.tensor([float(model.weight_decay) for model in models])
        for model in models:
            model.history_ = []
        self._dim = d

    def step(self, active: Array, windows: Any, labels: Array, boxes: Array | None) -> list[float]:
        """Take a step of the `active` heads along the loss of one picture, and return their losses."""
        own = {name: tensor[active].requires_grad_() for name, tensor in self._parameters.items()}
        losses = self._models[0]._loss(own, windows, self._torch.from_numpy(labels), boxes)
        losses.sum().backward()
        self._steps[active] += 1
        with self._torch.no_grad():
            for name, tensor in own.items():
                self._parameters[name][active] = self._moved(name, active, tensor)
        return [float(loss) for loss in losses.detach()]

    def _moved(self, name: str, active: Array, own: Any) -> Any:
        """Return the parameters of the `active` heads after Adam's step."""
        shape = (-1, *[1] * (own.ndim - 1))
        gradient = own.grad + self._decay[active].reshape(shape) * own
        mean = self._means[name][active].lerp_(gradient, 0.1)
        square = self._squares[name][active].mul_(0.999).addcmul_(gradient, gradient, value=0.001)
        self._means[name][active], self._squares[name][active] = mean, square
        steps = self._steps[active].reshape(shape)
        spread = (square / (1 - 0.999**steps)).sqrt_().add_(1e-8)
        return own - self._lr[active].reshape(shape) / (1 - 0.9**steps) * mean / spread

    def end_epoch(self, epoch: int, going: Array, losses: Sequence[Sequence[float]]) -> None:
        """Give the heads that are still `going` their parameters and the record of an epoch."""
        for number in np.flatnonzero(going).tolist():
            model = self._models[number]
            model._set_fitted({name: tensor[number].clone() for name, tensor in self._parameters.items()}, self._dim)
            model.history_.append({"epoch": epoch, "loss": float(np.mean(losses[number]))})
            if model.callback is not None:
                model.callback(model.history_[-1])
