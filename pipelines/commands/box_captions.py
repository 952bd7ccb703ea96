"""Labels of boxes in drawings: their font, their text and their places."""

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

Rectangle = tuple[int, int, int, int]
_MISSING = "?"


def shown_name(name: str, number: int) -> str:
    """Return a class name in the characters of Pillow's font, which are ASCII; ``class NUMBER`` if nothing is left.

    Letters lose their accents, and other characters become question marks.
    """
    shown = "".join(_ascii(character) for character in name)
    return shown if any(character.isalnum() for character in shown) else f"class {number}"


def _ascii(character: str) -> str:
    """Return the ASCII letters that a character consists of."""
    if character.isascii():
        return character if character.isprintable() else _MISSING
    parts = unicodedata.normalize("NFKD", character.casefold() if character.islower() else character)
    return "".join(part for part in parts if part.isascii()) or ("" if unicodedata.combining(character) else _MISSING)


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
) -> Rectangle:
    """Return x1, y1, x2, y2 of a box's label: inside the picture, and over no other label if there is a place.

    Parameters
    ----------
    box : sequence of 4 floats
    label, picture : tuple of 2 ints
        Width and height.
    taken : sequence of tuple of 4 ints
        The other labels.
    """
    places = list(_places(box, label, picture))
    return next((place for place in places if not any(_overlap(place, other) for other in taken)), places[0])


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
