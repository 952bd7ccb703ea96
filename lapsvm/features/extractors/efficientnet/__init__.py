"""EfficientNet-Lite0 with ImageNet weights that an installed package ships: a network without a download."""

from lapsvm.features.extractors.efficientnet.extractor import KIND, open_efficientnet, photos_installed

__all__ = ["KIND", "open_efficientnet", "photos_installed"]
