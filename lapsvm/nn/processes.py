"""The batches of all processes of torch.distributed as one, for losses of whole rankings."""

from typing import Any

import torch
import torch.distributed as dist


def gather_batches(tensors: list[Any]) -> tuple[list[Any], int, int]:
    """Return each tensor with the rows of all processes, the first row of this one, and the number of processes.

    Processes may have different numbers of rows. A tensor that is None must be None in all of them. Without an
    initialised process group this process is the only one.
    """
    if not (dist.is_available() and dist.is_initialized()) or dist.get_world_size() == 1:
        return tensors, 0, 1
    first = tensors[0]
    sizes = [torch.empty(1, dtype=torch.int64, device=first.device) for _ in range(dist.get_world_size())]
    dist.all_gather(sizes, torch.tensor([len(first)], device=first.device))
    rows = [int(size) for size in sizes]
    gathered = [None if tensor is None else _gather(tensor, rows) for tensor in tensors]
    return gathered, sum(rows[: dist.get_rank()]), len(rows)


def _gather(tensor: torch.Tensor, rows: list[int]) -> torch.Tensor:
    """Return the rows of all processes; shorter batches are padded on their way, for all_gather wants equal shapes."""
    kind = tensor.dtype
    sent = tensor.detach().to(torch.uint8) if kind == torch.bool else tensor.detach()
    padding = sent.new_zeros((max(rows) - len(sent), *sent.shape[1:]))
    sent = torch.cat([sent, padding]).contiguous()
    received = [torch.empty_like(sent) for _ in rows]
    dist.all_gather(received, sent)
    return torch.cat([part[:n] for part, n in zip(received, rows, strict=True)]).to(kind)
