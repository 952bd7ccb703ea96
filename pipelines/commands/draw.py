"""Pictures with boxes drawn, for `lapsvm predict --draw`."""

import colorsys
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path

from lapsvm.arrays import Array, Float64
from lapsvm.catalog import Pixels
from lapsvm.files import write_atomically

SOFTWARE = ("Software", "lapsvm predict")
"""Keyword and text of the first text chunk of a PNG; they identify drawings of this program."""
_BEFORE_TEXT = 8 + 25 + 4  # bytes of the signature, of the chunk IHDR and of the length of the next chunk


def draw_boxes(pixels: Pixels, detections: Mapping[str, tuple[Array, Float64]], path: Path) -> None:
    """Write a PNG of the picture with boxes, one colour per class, the best box on top.

    Parameters
    ----------
    pixels : ndarray of shape (h, w, 3), uint8 RGB
    detections : mapping of class name to (boxes (n, 4), scores (n,))
    path : Path
        Its folder is created.
    """
    from PIL import Image, ImageDraw
    from PIL.PngImagePlugin import PngInfo

    picture = Image.fromarray(pixels)
    canvas = ImageDraw.Draw(picture)
    width = max(1, round(min(pixels.shape[:2]) / 150))
    for number, (name, (boxes, scores)) in enumerate(detections.items()):
        colour = _colour(number, len(detections))
        for box, score in reversed(list(zip(boxes.tolist(), scores.tolist(), strict=True))):
            x1, y1, x2, y2 = box
            canvas.rectangle((x1, y1, max(x1, x2 - 1), max(y1, y2 - 1)), outline=colour, width=width)
            canvas.text((x1 + width + 1, y1 + width), f"{name} {score:.2f}", fill=colour)
    path.parent.mkdir(parents=True, exist_ok=True)
    content, metadata = BytesIO(), PngInfo()
    metadata.add_text(*SOFTWARE)
    picture.save(content, "PNG", pnginfo=metadata)
    write_atomically(path, content.getbuffer())


def is_drawing(path: Path) -> bool:
    """Return whether a path is a drawing of this program and no link: a PNG with its text chunk."""
    if path.is_symlink() or not path.is_file():
        return False
    text = b"tEXt" + "\0".join(SOFTWARE).encode("latin-1")
    with path.open("rb") as file:
        return file.read(_BEFORE_TEXT + len(text))[_BEFORE_TEXT:] == text


def _colour(number: int, count: int) -> tuple[int, int, int]:
    """Return one of `count` colours spread over the hues."""
    red, green, blue = colorsys.hsv_to_rgb(number / max(count, 1), 1.0, 1.0)
    return round(255 * red), round(255 * green), round(255 * blue)
