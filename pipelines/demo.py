"""The demo: settings that take the embedded digits through all stages in a minute or two."""

from typing import Any


def demo_values() -> dict[str, Any]:
    """Return the settings of the demo, as dotted names."""
    return {
        "features.extractors": ("hog",),
        "windows.max_windows": 400,
        "train.C": (1.0, 10.0, 100.0),
    }
