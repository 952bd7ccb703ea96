"""Scores of recent batches, so that a small batch is ranked among more samples."""

from typing import Any

import torch

from lapsvm.arrays import check_count
from lapsvm.errors import InputError, ShapeError


class ScoreMemory(torch.nn.Module):
    """The scores and labels of the last samples, which a loss ranks together with those of the current batch.

    An approximation of a larger batch: older scores are those of older parameters, and no gradient flows into them.
    :func:`lapsvm.nn.two_pass_backward` is exact.

    Parameters
    ----------
    size : int
        How many samples of earlier batches are kept, 1 or more.

    Attributes
    ----------
    scores, labels : tensor (m,) or (m, K), m <= size, or None
        What is kept, newest first. Both are saved in `state_dict`.

    Notes
    -----
    Call ``memory(scores, labels)`` in place of the tensors: ``loss(*memory(scores, labels))``. The current batch
    comes first. In evaluation mode nothing is added and nothing kept.
    """

    scores: torch.Tensor | None
    labels: torch.Tensor | None

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = check_count("size", size)
        self.clear()

    def clear(self) -> None:
        """Forget everything."""
        self.scores = self.labels = None

    def forward(self, scores: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return scores and labels of the batch and of the samples kept, and keep those of the batch.

        Raises
        ------
        InputError
            If they are no tensors.
        ShapeError
            If scores and labels do not have the same length, or the shapes of earlier batches.
        """
        self._check(scores, labels)
        if not self.training:
            return scores, labels
        if self.scores is not None and self.labels is not None:
            scores = torch.cat([scores, self.scores.to(scores)])
            labels = torch.cat([labels, self.labels.to(labels)])
        self.scores, self.labels = scores.detach()[: self.size].clone(), labels.detach()[: self.size].clone()
        return scores, labels

    def _check(self, scores: Any, labels: Any) -> None:
        """Raise InputError or ShapeError unless the batch fits."""
        for name, tensor in (("scores", scores), ("labels", labels)):
            if not isinstance(tensor, torch.Tensor):
                raise InputError(f"{name} must be a torch.Tensor, got {type(tensor).__name__}.")
            if tensor.ndim not in (1, 2):
                raise ShapeError(f"{name} must have shape (B,) or (B, K), got {tuple(tensor.shape)}.")
        if len(scores) != len(labels):
            raise ShapeError(f"scores and labels must have the same length, got {len(scores)} and {len(labels)}.")
        for name, tensor, kept in (("scores", scores, self.scores), ("labels", labels, self.labels)):
            if kept is not None and tensor.shape[1:] != kept.shape[1:]:
                shape = f"(B, {kept.shape[1]})" if kept.ndim > 1 else "(B,)"
                raise ShapeError(f"{name} must have shape {shape} as before, got {tuple(tensor.shape)}.")

    def get_extra_state(self) -> dict[str, torch.Tensor | None]:
        """Return what `state_dict` saves."""
        return {"scores": self.scores, "labels": self.labels}

    def set_extra_state(self, state: Any) -> None:
        """Take what `state_dict` saved.

        Raises
        ------
        InputError, ShapeError
            If it is no such state.
        """
        if not isinstance(state, dict) or state.keys() != {"scores", "labels"}:
            raise InputError(f"the state of a memory must hold scores and labels, got {type(state).__name__}.")
        self.clear()
        if state["scores"] is not None or state["labels"] is not None:
            self._check(state["scores"], state["labels"])
            self.scores, self.labels = state["scores"][: self.size], state["labels"][: self.size]
