"""The model and the data of the tests of large batches; as a script, one of two processes: RANK FOLDER."""

import sys

import numpy as np
import torch

from lapsvm.nn import RankHingeLoss, two_pass_backward


def network(seed=0, dropout=0.0):
    torch.manual_seed(seed)
    layers = [torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Dropout(dropout), torch.nn.Linear(8, 3)]
    return torch.nn.Sequential(*layers).double()


def data(n=50, seed=0):
    rng = np.random.default_rng(seed)
    return torch.tensor(rng.standard_normal((n, 6))), torch.tensor(rng.random((n, 3)) < 0.3)


def chunked(*tensors, size=16):
    return list(zip(*(tensor.split(size) for tensor in tensors), strict=True))


def gradients(model):
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])


def work(rank, folder):
    """One of two processes with unequal shares of the data; saves its gradients and values."""
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    (inputs, labels), own = data(), slice(0, 20) if rank == 0 else slice(20, 50)
    groups, mask = torch.arange(50) % 2, torch.arange(50) % 5 > 0
    model = torch.nn.parallel.DistributedDataParallel(network())
    parts, loss = (inputs[own], labels[own], mask[own], groups[own]), RankHingeLoss(scale=3.0, gather=True)
    value = loss(model(parts[0]), *parts[1:])
    value.backward()
    one_pass = gradients(model)
    model.zero_grad()
    again = two_pass_backward(model, chunked(*parts, size=8), loss)
    each = RankHingeLoss(reduction="none", gather=True)(model(parts[0]), *parts[1:])
    torch.save((one_pass, gradients(model), value.detach(), again, each.detach()), f"{folder}/{rank}.pt")
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    work(int(sys.argv[1]), sys.argv[2])
