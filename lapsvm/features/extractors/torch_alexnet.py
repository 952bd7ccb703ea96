"""AlexNet, shaped and named as torchvision's published weights want it, up to the layers that features are taken from.

A. Krizhevsky, "One weird trick for parallelizing convolutional neural networks", 2014: five convolutions (conv1 to
conv5) and two layers of 4,096 numbers (fc6, fc7) before the classifier.
"""

from collections.abc import Callable
from typing import Any

OUTPUTS = {"warped": ("fc7", "fc6"), "pooled": ("conv5",)}
CLASSES = 1000
_CONV5 = 12  # layers of "features" up to conv5's ReLU; the last one is a maximum over 3 x 3
_AFTER = {"fc6": 3, "fc7": 6}  # layers of "classifier" up to the ReLU


def build_alexnet(torch: Any) -> Any:
    """Return the module, with first weights from torch's generator.

    Its state dict has the names and shapes of torchvision's: features.0, 3, 6, 8, 10 and classifier.1, 4, 6.
    """
    nn = torch.nn
    convolutions = [
        [nn.Conv2d(3, 64, 11, stride=4, padding=2), nn.ReLU(), nn.MaxPool2d(3, 2)],
        [nn.Conv2d(64, 192, 5, padding=2), nn.ReLU(), nn.MaxPool2d(3, 2)],
        [nn.Conv2d(192, 384, 3, padding=1), nn.ReLU()],
        [nn.Conv2d(384, 256, 3, padding=1), nn.ReLU()],
        [nn.Conv2d(256, 256, 3, padding=1), nn.ReLU(), nn.MaxPool2d(3, 2)],
    ]
    whole = [nn.Dropout(), nn.Linear(256 * 6 * 6, 4096), nn.ReLU(), nn.Dropout(), nn.Linear(4096, 4096), nn.ReLU()]
    return nn.ModuleDict(
        {
            "features": nn.Sequential(*(layer for group in convolutions for layer in group)),
            "classifier": nn.Sequential(*whole, nn.Linear(4096, CLASSES)),
        }
    )


def alexnet_forward(torch: Any, module: Any, output: str) -> Callable[[Any], Any]:
    """Return what maps a batch (n, 3, h, w) to one output: conv5 (n, 256, rows, columns), fc6 or fc7 (n, 4096)."""
    convolutions, whole = module["features"], module["classifier"]
    if output == "conv5":
        return lambda batch: {output: convolutions[:_CONV5](batch)}
    square, layers = torch.nn.AdaptiveAvgPool2d(6), whole[: _AFTER[output]]
    return lambda batch: {output: layers(square(convolutions(batch)).flatten(1))}
