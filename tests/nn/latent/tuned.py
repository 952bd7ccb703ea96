"""A tiny network to be fine-tuned; as a script, a training that is killed: CHECKPOINT BLOCK_CALLS."""

import os
import signal
import sys

import numpy as np
import torch

from lapsvm.nn import LatentFineTuning, LatentRankHead, WindowPooling

EPOCHS = 6


def make_pictures(n=12, seed=0):
    """Return activations with a brighter corner in positives, their windows, and labels of two classes."""
    rng = np.random.default_rng(seed)
    labels = np.stack([np.where(np.arange(n) % 3 == k, 1.0, -1.0) for k in range(2)], axis=1)
    labels[n - 1, 0] = 0
    pictures = []
    for own in labels:
        values = rng.normal(size=(4, 5 + rng.integers(3), 6))
        for channel in np.flatnonzero(own > 0):
            values[channel, 1:3, 2:5] += 2
        corners = np.sort(rng.random((7, 2, 2)), axis=1).reshape(7, 4)
        pictures.append((torch.tensor(values), np.concatenate([[[0, 0, 1, 1]], corners])))
    return pictures, labels


def make_block(seed=0, dropout=0.0):
    torch.manual_seed(seed)
    layers = [torch.nn.Conv2d(4, 6, 3, padding=1), torch.nn.Tanh(), torch.nn.Dropout(dropout), torch.nn.Conv2d(6, 5, 1)]
    return torch.nn.Sequential(*layers).double()


def make_head(**options):
    head = LatentRankHead(5, **{"C": 10.0, "top": 2, "n_classes": 2} | options).double()
    head.set_coef(np.random.default_rng(1).normal(size=head.coef_.shape))
    return head


def make_tuning(block=None, head=None, **options):
    chosen = {"pooling": WindowPooling(0.3), "chunk": 5} | options
    return LatentFineTuning(block or make_block(), head or make_head(), **chosen)


def killable(checkpoint, lr=1e-2):
    """Return a training with dropout, whose random numbers must be continued too."""
    return make_tuning(
        make_block(dropout=0.2),
        optimiser=lambda groups: torch.optim.Adam(groups, lr=lr),
        impute_every=2,
        checkpoint=checkpoint,
    )


def work(checkpoint, calls):
    """Train, and die at a call of the block."""
    tuning, left = killable(checkpoint), [int(calls)]

    def count(*_):
        left[0] -= 1
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)

    tuning.block.register_forward_hook(count)
    pictures, labels = make_pictures()
    tuning.fit(pictures, labels, EPOCHS)


if __name__ == "__main__":
    torch.set_num_threads(1)
    work(*sys.argv[1:])
