"""Use your own torch network as the extractor.

``lapsvm`` imports a factory by name, here `edge_network` of this file, and pools the feature map of the network over
each window::

    python examples/own_torch_backbone.py pictures RUN

Replace `edge_network` with your network; ``?weights=FILE`` names its weights, or the factory loads them.
"""

import argparse
from pathlib import Path

import torch
from lapsvm.pipelines import run_command


def edge_network() -> torch.nn.Module:
    """Return a small network of random filters with stride 4; the option ``seed`` decides its weights."""
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 5, stride=2, padding=2),
        torch.nn.ReLU(),
        torch.nn.Conv2d(16, 32, 3, stride=2, padding=1),
        torch.nn.ReLU(),
    )


def main() -> None:
    """Run the example."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pictures", type=Path, help="one folder per class")
    parser.add_argument("run", type=Path, help="run folder to make")
    arguments, options = parser.parse_known_args()
    network = ["--extractor", "torch:own_torch_backbone:edge_network?size=128"]
    place = ["--data", "folder", "--root", arguments.pictures, "--out", arguments.run]
    run_command("run", *place, *network, *options)


if __name__ == "__main__":
    main()
