"""AlexNet up to its layers fc6 or fc7: 4,096 numbers, without weights.

The layers, and their names, are those of torchvision's AlexNet (A. Krizhevsky, "One weird trick for parallelizing
convolutional neural networks", 2014): one column, without local response normalisation, for 224 x 224 pixels. R-CNN
took the network of 2012, whose layers fc6 and fc7 are as large. Features are taken after the rectification, as
R-CNN does.
"""

from collections.abc import Mapping
from typing import Any

LAYERS = {"fc6": 3, "fc7": 6}
"""Layer -> how many of the classifier's modules end with its rectification."""


def alexnet(torch: Any, layer: str) -> Any:
    """Return the network that gives a layer's numbers, (n, 3, s, s) -> (n, 4096), drawn by torch's generator."""
    nn = torch.nn
    features = nn.Sequential(
        *(nn.Conv2d(3, 64, 11, stride=4, padding=2), nn.ReLU(), nn.MaxPool2d(3, 2)),
        *(nn.Conv2d(64, 192, 5, padding=2), nn.ReLU(), nn.MaxPool2d(3, 2)),
        *(nn.Conv2d(192, 384, 3, padding=1), nn.ReLU()),
        *(nn.Conv2d(384, 256, 3, padding=1), nn.ReLU()),
        *(nn.Conv2d(256, 256, 3, padding=1), nn.ReLU(), nn.MaxPool2d(3, 2)),
    )
    classifier = nn.Sequential(
        *(nn.Dropout(), nn.Linear(256 * 6 * 6, 4096), nn.ReLU()),
        *(nn.Dropout(), nn.Linear(4096, 4096), nn.ReLU()),
    )
    network = nn.Sequential()
    parts = {"features": features, "avgpool": nn.AdaptiveAvgPool2d((6, 6)), "flatten": nn.Flatten()}
    for name, layers in (parts | {"classifier": classifier[: LAYERS[layer]]}).items():
        network.add_module(name, layers)
    return network


def without_later_layers(state: Mapping[str, Any], layer: str) -> dict[str, Any]:
    """Return the tensors of a state dict without the classifier's layers after `layer`."""
    later = tuple(f"classifier.{number}." for number in range(LAYERS[layer], 7))
    return {name: value for name, value in state.items() if not name.startswith(later)}
