"""Rank losses as torch modules."""

from typing import Any

import torch

from lapsvm.nn import functional, rank_op
from lapsvm.nn.functional import LossLike, Weights
from lapsvm.ranking.losses import as_loss


class _RankLossModule(torch.nn.Module):
    """The common part of the modules: options, and the call."""

    class_weight: torch.Tensor | None

    def __init__(
        self,
        bound: str,
        loss: LossLike,
        scale: float,
        reduction: str,
        ignore_index: int | None,
        on_empty: str,
        gather: bool,
        class_weight: Weights,
    ) -> None:
        super().__init__()
        self.loss = as_loss(loss)
        self.scale = scale
        self.reduction = reduction
        self._options = functional.make_options(bound, self.loss, scale, reduction, ignore_index, on_empty, gather)
        self.register_buffer("class_weight", functional.as_class_weight(class_weight))

    def forward(
        self,
        scores: torch.Tensor,
        labels: torch.Tensor,
        mask: torch.Tensor | None = None,
        groups: torch.Tensor | None = None,
        *,
        sample_weight: object = None,
    ) -> torch.Tensor:
        """Return the loss of a batch; the class describes the arguments."""
        return functional.apply(self._options, scores, labels, mask, groups, self.class_weight, sample_weight)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Register the loss anew: a copy of the module has a copy of the loss."""
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self._options = self._options._replace(loss=rank_op.loss_key(self.loss))

    def extra_repr(self) -> str:
        """Return the options for `repr`."""
        return f"loss={self.loss!r}, scale={self.scale}, reduction={self.reduction!r}"


class RankHingeLoss(_RankLossModule):
    """max_R (Delta(R) + F(R)) - F(R*)."""

    def __init__(
        self,
        loss: LossLike = "ap",
        *,
        scale: float = 1.0,
        reduction: str = "mean",
        ignore_index: int | None = None,
        on_empty: str = "skip",
        gather: bool = False,
        class_weight: Weights = None,
    ) -> None:
        super().__init__("hinge", loss, scale, reduction, ignore_index, on_empty, gather, class_weight)
