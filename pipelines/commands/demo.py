"""The demo: settings that take the embedded digits through all stages in a minute or two."""

from typing import Any

DEMO: dict[str, Any] = {
    "features.extractors": ("hog",),
    "windows.max_windows": 400,
    "train.C": (1.0, 10.0, 100.0),
}
