"""A network like AlexNet, small enough for every test."""

import pytest

FACTORY = """
import torch
from torch import nn


class Gives(nn.Module):
    def __init__(self, what):
        super().__init__()
        self.what = what

    def forward(self, batch):
        return self.what(batch)


def net():
    return nn.Sequential(
        nn.Conv2d(3, 8, 5, stride=4, padding=2), nn.ReLU(), nn.MaxPool2d(3, 2),
        nn.Conv2d(8, 12, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d((2, 2)), nn.Flatten(),
        nn.Dropout(), nn.Linear(48, 20), nn.ReLU(), nn.Dropout(), nn.Linear(20, 16), nn.ReLU(),
    )


def several():
    return Gives(lambda batch: {"mean": batch.mean((2, 3)), "most": batch.amax((2, 3), keepdim=True), "map": batch})


def maps():
    return Gives(lambda batch: batch)


def one_row():
    return Gives(lambda batch: batch.mean((0, 2, 3))[None])


def gives_nan():
    return Gives(lambda batch: batch.mean((2, 3)) + float("nan"))


def starving():
    def fail(batch):
        raise torch.OutOfMemoryError("CUDA out of memory.")

    return Gives(fail)


def square_alone():
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 24 * 24, 5))
"""


@pytest.fixture
def tiny(importable):
    """The module of tiny factories, importable as `tiny_alexnet`."""
    return importable("tiny_alexnet", FACTORY)
