"""Fine-tuning of the last block of a network under a latent head, by the exact gradient of the whole set."""

import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike

from lapsvm.arrays import as_floats, check_count
from lapsvm.errors import InputError, ShapeError
from lapsvm.nn.latent.activations import Activation
from lapsvm.nn.latent.checkpoint import Checkpoint, digest_of, digest_of_tensors
from lapsvm.nn.latent.head import LatentRankHead
from lapsvm.nn.latent.window_pooling import WindowPooling
from lapsvm.nn.two_pass import check_norms, two_pass_backward

Tensor = torch.Tensor
Pictures = Sequence[Activation]
Groups = list[dict[str, Any]]


class LatentFineTuning:
    """The last block of a network, window pooling and a latent head, trained together on the head's objective.

    Minimises the head's objective plus ``anchor |theta - theta_0|^2 / 2`` over the head's weights and the block's
    parameters theta, which begin at theta_0. Each epoch takes one step of the optimiser along the exact gradient of the
    whole set: two passes over the pictures, at the memory of `chunk` of them. The first pass imputes the positives'
    windows as well.

    Parameters
    ----------
    block : torch.nn.Module
        Maps a picture's activations (1, c, h, w) to a map (1, channels, h', w'). Its batch norms must be frozen.
    head : LatentRankHead
        Trained beforehand on the block's features (`train_latent_head`), or the block learns from arbitrary windows.
        Both are changed in place.
    pooling : WindowPooling, optional
        By default ``WindowPooling()``: contrast .5, normalised.
    optimiser : callable, optional
        Makes the optimiser from two groups of parameters, those of the block and of the head; by default Adam with a
        step of 1e-4 for the block, and of 1 % of the mean magnitude of the head's weights for the head.
    anchor : float, default=0.0
        Weight of the squared distance from the block's first parameters, at least 0.
    impute_every : int, default=1
        Number of epochs from one imputation of the positives' windows to the next.
    chunk : int, default=8
        Number of pictures whose maps and features are in memory at once.
    checkpoint : str or Path, optional
        File that receives the whole state after each epoch, atomically. `fit` continues from it, on a processor with
        the same numbers as without the interruption.
    report : callable, optional
        Receives a line of text after each epoch.

    Attributes
    ----------
    history : list of dict
        One per epoch, of the parameters before its step: epoch, objective, risk (summed over classes), changed (pairs
        of a picture and a class whose imputed windows are others than in the epoch before).

    Raises
    ------
    InputError
        If an option breaks its rule, nothing can be trained, or a batch norm is in training mode.
    """

    def __init__(
        self,
        block: torch.nn.Module,
        head: LatentRankHead,
        *,
        pooling: WindowPooling | None = None,
        optimiser: Callable[[Groups], torch.optim.Optimizer] | None = None,
        anchor: float = 0.0,
        impute_every: int = 1,
        chunk: int = 8,
        checkpoint: str | Path | None = None,
        report: Callable[[str], None] | None = None,
    ) -> None:
        self.block, self.head, self.pooling = block, head, pooling or WindowPooling()
        self.anchor = float(as_floats("anchor", anchor, 0))
        if self.anchor < 0:
            raise InputError(f"anchor must be 0 or more, got {anchor:g}.")
        self.impute_every = check_count("impute_every", impute_every)
        self.chunk, self._report = check_count("chunk", chunk), report
        self.history: list[dict[str, Any]] = []
        self._trained = [parameter for parameter in block.parameters() if parameter.requires_grad]
        if not self._trained:
            raise InputError("block must have a parameter that requires a gradient, got none.")
        check_norms(block)
        self._first = [parameter.detach().clone() for parameter in self._trained]
        groups: Groups = [{"params": self._trained}, {"params": [head.weight]}]
        self._optimiser = (optimiser or self._adam)(groups)
        self._start = digest_of_tensors([*block.state_dict().values(), *head.state_dict().values()])
        self._windows: list[Tensor] = []
        self._checkpoint = None if checkpoint is None else Checkpoint(Path(checkpoint))

    def fit(self, pictures: Pictures, labels: ArrayLike, epochs: int) -> Self:
        """Train until there have been so many epochs, those of the checkpoint included.

        Parameters
        ----------
        pictures : sequence of (activations (c, h, w), windows (n, 4))
            As an `ActivationCache` gives them: windows are shares of the picture's sides. With a checkpoint, pictures
            without a `fingerprint` are read once more, to be hashed.
        labels : (n_pictures,) or (n_pictures, k)
            +1, -1, or 0 for a picture that a class leaves out.
        epochs : int

        Returns
        -------
        self

        Raises
        ------
        InputError, ShapeError, NotFiniteError, OneClassError
            If pictures, labels, the block's maps and the head do not fit.
        SettingsError
            If the checkpoint was made with other options, data or first parameters.
        ModelFileError, MissingError, WriteError
            If the checkpoint is damaged, its folder is missing, or it cannot be written.
        """
        check_count("epochs", epochs)
        targets = self._labels(labels, len(pictures))
        before = sum(map(len, self._windows))
        if self._windows and len(pictures) != before:
            raise ShapeError(f"pictures must be as many as before, {before}, got {len(pictures)}.")
        if self._checkpoint is not None:
            self._checkpoint.describe(self._settings(pictures, targets))
            self._resume()
        begin, done = time.monotonic(), len(self.history)
        while len(self.history) < epochs:
            self._epoch(pictures, targets)
            if self._checkpoint is not None:
                self._checkpoint.write(self._state(), self.history)
            if self._report is not None:
                spent = time.monotonic() - begin
                self._report(_line(self.history[-1], epochs, spent, spent / (len(self.history) - done)))
        return self

    @torch.no_grad()
    def features(self, pictures: Iterable[Activation]) -> Iterator[Tensor]:
        """Yield the features (n, d) of each picture's windows at the present parameters, without dropout."""
        check_norms(self.block)
        for values, windows in pictures:
            with _evaluating(self.block):
                features = self.pooling(self._map(values), windows)
            yield features

    @torch.no_grad()
    def score_windows(self, pictures: Iterable[Activation]) -> Iterator[Tensor]:
        """Yield the scores, (n,) or (n, k), of each picture's windows at the present weights, without dropout."""
        check_norms(self.block)
        for values, windows in pictures:
            with _evaluating(self.block):
                scores = self._score(values, windows)
            yield scores if self.head.n_classes is not None else scores[:, 0]

    def _epoch(self, pictures: Pictures, labels: Tensor) -> None:
        """Take one step of the optimiser along the gradient of the whole set."""
        self._optimiser.zero_grad()
        imputes = len(self.history) % self.impute_every == 0
        scorer = _Scorer(self, pictures, labels, imputes)
        risk = two_pass_backward(scorer, scorer.batches, lambda *call: self.head.C * self.head.risk(*call))
        penalty = self.head.penalty() + self._distance()
        if penalty.requires_grad:
            penalty.backward()  # type: ignore[no-untyped-call]
        self._optimiser.step()
        old, self._windows = self._windows, scorer.windows
        self.history.append(
            {
                "epoch": len(self.history) + 1,
                "objective": float(risk) + float(penalty.detach()),
                "risk": float(risk) / self.head.C,
                "changed": _changed(old, self._windows),
            }
        )

    def _distance(self) -> Tensor:
        """Return the anchor's term."""
        if not self.anchor:
            return torch.zeros(())
        pairs = zip(self._trained, self._first, strict=True)
        return 0.5 * self.anchor * torch.stack([(now - first).square().sum() for now, first in pairs]).sum()

    def _score(self, values: Tensor, windows: ArrayLike) -> Tensor:
        """Return the scores (n, k) of a picture's windows."""
        return self.head.scale * self.pooling.scores(self._map(values), windows, self.head.weight)

    def _map(self, values: Tensor) -> Tensor:
        """Return the block's map of a picture."""
        if not isinstance(values, Tensor):
            raise InputError(f"activations must be tensors, got {type(values).__name__}.")
        if values.ndim != 3:
            raise ShapeError(f"activations must have shape (c, h, w), got {tuple(values.shape)}.")
        found: Tensor = self.block(values[None].to(self.head.weight, copy=True))  # the block may work in place
        if found.ndim != 4 or len(found) != 1:
            raise ShapeError(f"block must return shape (1, channels, h, w), got {tuple(found.shape)}.")
        n_features = found.shape[1] * (2 if self.pooling.beside else 1)
        if n_features != self.head.weight.shape[1]:
            raise ShapeError(
                f"head must have as many features as the pooled block gives, {n_features}, got "
                f"{self.head.weight.shape[1]}."
            )
        return found[0]

    def _labels(self, labels: ArrayLike, n_pictures: int) -> Tensor:
        """Return the labels, one row per picture."""
        array = as_floats("labels", labels, 1 if self.head.n_classes is None else 2)
        if len(array) != n_pictures:
            raise ShapeError(f"labels must have one row per picture, got {len(array)} for {n_pictures} pictures.")
        return torch.from_numpy(np.array(array))

    def _adam(self, groups: Groups) -> torch.optim.Optimizer:
        """Return the default optimiser."""
        magnitude = self.head.weight.detach().abs().mean().item()
        block, head = groups
        return torch.optim.Adam([{**block, "lr": 1e-4}, {**head, "lr": 0.01 * magnitude or 1e-4}])

    def _settings(self, pictures: Pictures, labels: Tensor) -> dict[str, Any]:
        """Return what a continued training must share with the one before."""
        groups = [{k: v for k, v in group.items() if k != "params"} for group in self._optimiser.param_groups]
        return {
            "head": _shown(self.head),
            "pooling": _shown(self.pooling),
            "block": _shown(self.block),
            "anchor": self.anchor,
            "impute_every": self.impute_every,
            "chunk": self.chunk,
            "optimiser": f"{type(self._optimiser).__name__} {digest_of(repr(groups))}",
            "first parameters": self._start,
            "labels": digest_of_tensors([labels]),
            "pictures": _fingerprint(pictures),
        }

    def _state(self) -> dict[str, Any]:
        """Return everything that the next epoch depends on."""
        return {
            "block": self.block.state_dict(),
            "head": self.head.state_dict(),
            "optimiser": self._optimiser.state_dict(),
            "windows": self._windows,
            "random": torch.get_rng_state(),
        }

    def _resume(self) -> None:
        """Continue from the checkpoint, if there is one and it is ahead."""
        assert self._checkpoint is not None  # noqa: S101 - for the type checker
        found = self._checkpoint.read()
        if found is None or len(found[1]) <= len(self.history):
            return
        state, history = found
        try:
            self.block.load_state_dict(state["block"])
            self.head.load_state_dict(state["head"])
            self._optimiser.load_state_dict(state["optimiser"])
            self._windows = state["windows"]
            torch.set_rng_state(state["random"])
        except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
            raise self._checkpoint.damaged(error) from None
        self.history = history


class _Scorer(torch.nn.Module):
    """The scores of chunks of pictures, for `two_pass_backward`; the pass without gradients imputes."""

    def __init__(self, tuning: LatentFineTuning, pictures: Pictures, labels: Tensor, imputes: bool) -> None:
        super().__init__()
        self.block, self._tuning, self._pictures = tuning.block, tuning, pictures
        self.batches = list(enumerate(torch.split(labels, tuning.chunk)))
        self._imputes = imputes
        self.windows = [torch.empty(0)] * len(self.batches) if imputes else tuning._windows

    def forward(self, number: int) -> Tensor:
        """Return the scores of the pictures of a chunk."""
        tuning, labels = self._tuning, self.batches[number][1]
        first = number * tuning.chunk
        chunk = (self._pictures[first + i] for i in range(len(labels)))
        parts = [tuning._score(*picture) for picture in chunk]
        window_scores = torch.cat(parts)
        device = window_scores.device
        offsets = torch.tensor([0, *(len(part) for part in parts)], device=device).cumsum(0)
        if self._imputes and not torch.is_grad_enabled():
            self.windows[number] = tuning.head.impute_scores(window_scores, offsets, labels.to(window_scores)).cpu()
        scores: Tensor = tuning.head.bag_scores(window_scores, offsets, self.windows[number].to(device))
        return scores


@contextmanager
def _evaluating(block: torch.nn.Module) -> Iterator[None]:
    """Put a block into evaluation mode, and each of its modules back: some may be frozen."""
    modes = [(module, module.training) for module in block.modules()]
    block.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


def _fingerprint(pictures: Pictures) -> str:
    """Return a hash of pictures, which an `ActivationCache` knows."""
    known = getattr(pictures, "fingerprint", None)
    if known is not None:
        return str(known)
    return digest_of_tensors(tensor for picture in pictures for tensor in _tensors(*picture))


def _tensors(values: Tensor, windows: ArrayLike) -> tuple[Tensor, Tensor]:
    """Return a picture's activations and windows."""
    return values, torch.from_numpy(np.array(as_floats("windows", windows, 2)))


def _shown(module: torch.nn.Module) -> str:
    """Return a module's description without the addresses of objects, which differ between processes."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(module))


def _changed(old: list[Tensor], new: list[Tensor]) -> int:
    """Return how many pairs of a picture and a class have other windows, in any order; all of them at first."""
    if not old:
        return sum(int((windows >= 0).any(dim=-1).sum()) for windows in new)
    pairs = (_equally_wide(*pair) for pair in zip(old, new, strict=True))
    return sum(int((a.sort(dim=-1).values != b.sort(dim=-1).values).any(dim=-1).sum()) for a, b in pairs)


def _equally_wide(*windows: Tensor) -> list[Tensor]:
    """Return both with -1 behind the last windows of the narrower: other pictures may have more windows."""
    width = max(part.shape[-1] for part in windows)
    return [torch.nn.functional.pad(part, (0, width - part.shape[-1]), value=-1) for part in windows]


def _line(record: dict[str, Any], epochs: int, spent: float, each: float) -> str:
    """Return the line of an epoch."""
    before, left = (timedelta(seconds=round(value)) for value in (spent, each * (epochs - record["epoch"])))
    ahead = f", about {left} left" if record["epoch"] < epochs else ""
    objective = f"objective {record['objective']:.6g}"
    return f"fine-tuning: epoch {record['epoch']} of {epochs}, {objective}, {before} so far{ahead}"
