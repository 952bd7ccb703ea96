"""What the laws of several interfaces share: pictures to try, and the check of a description."""

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import PurePosixPath, PureWindowsPath

import numpy as np

from lapsvm.arrays import Array

SHAPES = ((1, 1), (1, 90), (300, 2), (64, 64), (48, 131))
"""Heights and widths of the pictures that every extractor and every source of objectness must take."""


def drawn_pictures() -> list[Array]:
    """Return pictures of all `SHAPES`: noise, one grey, and a bright rectangle on a dark background."""
    rng = np.random.default_rng(0)
    return [picture for shape in SHAPES for picture in _drawn(rng, *shape)]


def check_description(description: object) -> None:
    """Raise AssertionError unless a description is plain JSON without paths."""
    check(json.loads(json.dumps(description, sort_keys=True)) == description, f"no plain JSON: {description}")
    check(not [text for text in _texts(description) if _is_path(text)], f"it holds a path: {description}")


def check_threads(work: Callable[[Array], Array], pictures: Sequence[Array]) -> None:
    """Raise AssertionError unless several threads get the same results as one, each picture twice."""
    expected = [work(pixels) for pixels in (*pictures, *pictures)]
    with ThreadPoolExecutor(8) as pool:
        for found, wanted in zip(pool.map(work, (*pictures, *pictures)), expected, strict=True):
            np.testing.assert_array_equal(found, wanted)


def check(holds: bool, message: str) -> None:
    """Raise AssertionError with a message unless a law holds."""
    if not holds:
        raise AssertionError(message)


def _drawn(rng: np.random.Generator, height: int, width: int) -> Iterator[Array]:
    """Yield the pictures of one shape."""
    yield rng.integers(0, 256, (height, width, 3), dtype=np.uint8)
    yield np.full((height, width, 3), 128, dtype=np.uint8)
    pixels = np.full((height, width, 3), 20, dtype=np.uint8)
    pixels[height // 4 : height - height // 3, width // 3 : width - width // 4] = (240, 200, 30)
    yield pixels


def _texts(value: object) -> Iterator[str]:
    """Yield the texts in plain JSON, names included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from (*_texts(name), *_texts(item))
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)


def _is_path(text: str) -> bool:
    """Return whether a text is an absolute path of any system."""
    return PurePosixPath(text).is_absolute() or PureWindowsPath(text).is_absolute()
