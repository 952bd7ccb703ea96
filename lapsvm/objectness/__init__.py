"""Objectness: how much a window stands out in its picture, whatever its class."""

from lapsvm.objectness.normal import NormalMap
from lapsvm.objectness.opening import open_described, open_objectness
from lapsvm.objectness.regions import object_regions, window_objectness
from lapsvm.objectness.source import ObjectnessSource, picture_objectness
from lapsvm.objectness.u2netp import INSTALL, saliency_installed

__all__ = [
    "INSTALL",
    "NormalMap",
    "ObjectnessSource",
    "object_regions",
    "open_described",
    "open_objectness",
    "picture_objectness",
    "saliency_installed",
    "window_objectness",
]
