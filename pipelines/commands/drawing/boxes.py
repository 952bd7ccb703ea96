"""Pictures with boxes drawn, for `lapsvm predict --draw`."""

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from lapsvm.arrays import Array
from lapsvm.catalog import Pixels
from lapsvm.detection.picture_scores import Detected
from lapsvm.files import make_folder, write_atomically
from lapsvm.inspection.decision import Decision

Rectangle = tuple[int, int, int, int]
SOFTWARE = ("Software", "lapsvm predict")
"""Keyword and text of the first text chunk of a PNG; they identify drawings of this program."""
COLOURS = (
    (213, 94, 0),  # vermilion
    (86, 180, 233),  # sky blue
    (0, 158, 115),  # bluish green
    (240, 228, 66),  # yellow
    (204, 121, 167),  # reddish purple
    (0, 114, 178),  # blue
    (230, 159, 0),  # orange
    (255, 255, 255),
)
"""Colours of the classes in turn; people with colour blindness can tell them apart (M. Okabe and K. Ito, 2008)."""
_CASING = (0, 0, 0)  # thin lines around each box, which show it on a background of its own colour
_SIDE_FOR_CASING = 200
_BEFORE_TEXT = 8 + 25 + 4  # bytes of the signature, of the chunk IHDR and of the length of the next chunk


@dataclass(frozen=True)
class DrawnBox:
    """A box to draw.

    Attributes
    ----------
    box : sequence of 4 floats
        x1, y1, x2, y2 in pixels, half-open.
    name, value : str
        Its label.
    class_number : int
        Chooses the colour.
    strength : float
        From 0, the thinnest line, to 1, the thickest one.
    """

    box: Sequence[float]
    name: str
    value: str
    class_number: int
    strength: float

    @property
    def colour(self) -> tuple[int, int, int]:
        """The colour of its class."""
        return COLOURS[self.class_number % len(COLOURS)]


def draw_boxes(pixels: Pixels, boxes: Sequence[DrawnBox], path: Path) -> None:
    """Write a PNG of the picture with boxes and their labels, sized by the picture.

    Parameters
    ----------
    pixels : ndarray of shape (h, w, 3), uint8 RGB
    boxes : sequence of DrawnBox
        The first box is drawn on top, and its label is placed first.
    path : Path
        Its folder is created.
    """
    from PIL import Image, ImageDraw

    picture = Image.fromarray(pixels)
    canvas = ImageDraw.Draw(picture)
    for box in reversed(boxes):
        _draw_outline(canvas, box, min(picture.size))
    _draw_labels(canvas, boxes, picture.size)
    write_drawing(picture, path)


def line_width(strength: float, side: int) -> int:
    """Return the width of a box's line in a picture with this shorter side, in pixels."""
    return max(1, round(side / 250 * (1 + 2 * strength)))


def _draw_outline(canvas: Any, box: DrawnBox, side: int) -> None:
    """Draw a box inside of its edges, between two thin dark lines where the picture is large enough for them."""
    x1, y1, x2, y2 = box.box
    corners = x1, y1, max(x1, x2 - 1), max(y1, y2 - 1)
    width = line_width(box.strength, side)
    if side >= _SIDE_FOR_CASING:
        outer = corners[0] - 1, corners[1] - 1, corners[2] + 1, corners[3] + 1
        canvas.rectangle(outer, outline=_CASING, width=width + 2)
    canvas.rectangle(corners, outline=box.colour, width=width)


def _draw_labels(canvas: Any, boxes: Sequence[DrawnBox], size: tuple[int, int]) -> None:
    """Draw the label of each box where it covers no label of an earlier one; none where there is no such place."""
    style = LabelStyle.of_picture(*size)
    labels: list[tuple[DrawnBox, str, Rectangle]] = []
    for box in boxes:
        text = style.fit(box.name, box.value)
        spot = place_label(box.box, style.size_of(text), size, [taken for _, _, taken in labels])
        if spot is not None:
            labels.append((box, text, spot))
    for box, text, (x1, y1, x2, y2) in labels:
        canvas.rectangle((x1, y1, x2 - 1, y2 - 1), fill=box.colour)
        corner = x1 + style.padding, y1 + style.padding
        canvas.text(corner, text, fill=_text_colour(box.colour), font=style.font, anchor="la")


def _text_colour(background: tuple[int, int, int]) -> tuple[int, int, int]:
    """Return black or white, whichever is easier to read on a background (luma of Rec. 601)."""
    red, green, blue = background
    return (0, 0, 0) if 0.299 * red + 0.587 * green + 0.114 * blue > 110 else (255, 255, 255)


def write_drawing(picture: Any, path: Path) -> None:
    """Write a picture as a PNG that `is_drawing` recognises."""
    from PIL.PngImagePlugin import PngInfo

    make_folder(path.parent)
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


def drawn_boxes(detected: Mapping[str, Detected], least: float) -> list[DrawnBox]:
    """Return the boxes of a picture to draw, the strongest first.

    Without probabilities the zero of scores means nothing, but classes that a picture does not show score much lower
    than those that it shows. So of classes without, boxes are drawn that score at least half as much as the best of all
    these boxes in the picture, if that is positive.

    Parameters
    ----------
    detected : mapping of class name to Detected
        The number of a class in it chooses the colour.
    least : float
        Least probability.
    """
    best = max(
        (of_class.scores.max(initial=0) for of_class in detected.values() if of_class.probabilities is None), default=0
    )
    drawn: list[DrawnBox] = []
    for number, (name, of_class) in enumerate(detected.items()):
        shown = shown_name(name, number + 1)
        for index, strength in enumerate(_strengths(of_class, least, best).tolist()):
            if strength >= 0:
                box = of_class.boxes[index].tolist()
                drawn.append(DrawnBox(box, shown, _value(of_class, index), number, strength))
    return sorted(drawn, key=lambda box: -box.strength)


def unlike_boxes(decision: Decision | None) -> list[DrawnBox]:
    """Return the box of what is unknown in a picture, as a list; an empty one for other decisions."""
    if decision is None or decision.box is None:
        return []
    return [DrawnBox(decision.box, decision.name, "", len(COLOURS) - 1, 1.0)]


def _strengths(detections: Detected, least: float, best: float) -> Array:
    """Return the strength of each box in [0, 1]; negative for those that are not drawn."""
    if detections.probabilities is None:
        return detections.scores / best * 2 - 1 if best > 0 else np.full(len(detections.scores), -1.0)
    room = max(1 - least, 1e-9)  # a threshold of 1 draws what is certain
    return np.asarray((detections.probabilities - least) / room)


def _value(detections: Detected, index: int) -> str:
    """Return the probability of a box in whole percent, rounded down, or its score."""
    if detections.probabilities is None:
        return f"{detections.scores[index]:.2f}"
    return f"{int(100 * detections.probabilities[index])}%"


# ---- labels: their text, font and places ----
def shown_name(name: str, number: int) -> str:
    """Return a class name in the characters of Pillow's font, which are ASCII; ``class NUMBER`` if nothing is left.

    Letters lose their accents, and other characters become question marks.
    """
    letters = unicodedata.normalize("NFKD", name.replace("ß", "ss"))
    plain = (letter for letter in letters if not unicodedata.combining(letter))
    shown = "".join(letter if letter.isascii() and letter.isprintable() else "?" for letter in plain)
    return shown if any(map(str.isalnum, shown)) else f"class {number}"


@dataclass(frozen=True)
class LabelStyle:
    """The font of a picture's labels.

    Attributes
    ----------
    font : PIL.ImageFont.FreeTypeFont
    padding : int
        Pixels around the text.
    widest : int
        Greatest width of a label in pixels.
    """

    font: Any
    padding: int
    widest: int

    @classmethod
    def of_picture(cls, width: int, height: int) -> "LabelStyle":
        """Return the style for a picture: text of 1/22 of its shorter side, at least 10 pixels."""
        from PIL import ImageFont

        size = max(10, round(min(width, height) / 22))
        return cls(ImageFont.load_default(size), max(1, size // 6), width)

    def size_of(self, text: str) -> tuple[int, int]:
        """Return the width and height of a label."""
        ascent, descent = self.font.getmetrics()
        return round(self.font.getlength(text)) + 2 * self.padding, ascent + descent + 2 * self.padding

    def fit(self, name: str, value: str) -> str:
        """Return the name and the value; of the name the beginning where it is wider than the picture."""
        names = (name, *(name[:length] + "…" for length in range(len(name) - 1, 0, -1)))
        texts = (f"{shown} {value}" for shown in names)
        return next((text for text in texts if self.size_of(text)[0] <= self.widest), value)


def place_label(
    box: Sequence[float], label: tuple[int, int], picture: tuple[int, int], taken: Sequence[Rectangle]
) -> Rectangle | None:
    """Return x1, y1, x2, y2 of a box's label: inside the picture, and over no other label; None without such a place.

    Parameters
    ----------
    box : sequence of 4 floats
    label, picture : tuple of 2 ints
        Width and height.
    taken : sequence of tuple of 4 ints
        The other labels.
    """
    places = _places(box, label, picture)
    return next((spot for spot in places if not any(_overlap(spot, other) for other in taken)), None)


def _places(box: Sequence[float], label: tuple[int, int], picture: tuple[int, int]) -> Iterator[Rectangle]:
    """Yield the places of a label at a box, the preferred ones first; where none is inside the picture, the nearest."""
    x1, y1, x2, y2 = (round(value) for value in box)
    width, height = label
    last_x, last_y = max(0, picture[0] - width), max(0, picture[1] - height)
    tops = (y1 - height, y1, y2, y2 - height, *range(y1 + height, y2 - height, height))
    for y in [y for y in tops if 0 <= y <= last_y] or [min(max(y1, 0), last_y)]:
        for x in (x1, x2 - width):
            left = min(max(x, 0), last_x)
            yield left, y, left + width, y + height


def _overlap(first: Rectangle, second: Rectangle) -> bool:
    """Return whether two rectangles share a pixel."""
    return first[0] < second[2] and second[0] < first[2] and first[1] < second[3] and second[1] < first[3]
