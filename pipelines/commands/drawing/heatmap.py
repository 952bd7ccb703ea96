"""Pictures under a map of numbers, for `lapsvm predict --heatmap`: score maps, and maps of what stands out."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from lapsvm.arrays import Array
from lapsvm.catalog import Pixels
from lapsvm.detection import ScoredPicture
from lapsvm.detection.map_colours import PICTURE_SHARE, map_colours, map_levels
from lapsvm.inspection.decision import UNKNOWN

from .boxes import LabelStyle, shown_name, write_drawing

_BAR = 0.3  # the width of the scale, as a share of the picture's
_GREY, _WHITE = (24, 24, 24), (255, 255, 255)


def draw_best_class(pixels: Pixels, scored: ScoredPicture, path: Path) -> None:
    """Write a PNG of a picture in the colours of the score map of its best class, or of what is unknown.

    A probability has the same colour in all pictures. Scores have no such scale: they take all colours in each one.
    """
    decision = scored.decision()
    if not scored.detectors or (decision is not None and decision.class_name == UNKNOWN):
        draw_heatmap(pixels, scored.score_map(UNKNOWN).values, "unlike good pictures", path)
        return
    name = scored.best_class()
    number = [detector.class_name for detector in scored.detectors].index(name) + 1
    score_map = scored.score_map(name)
    draw_heatmap(pixels, score_map.values, f"{shown_name(name, number)}: {score_map.unit}", path, score_map.scale)


def draw_heatmap(
    pixels: Pixels, values: Array | None, title: str, path: Path, scale: tuple[float, float] = (0.0, 1.0)
) -> None:
    """Write a PNG of the grey picture in the colours of a map, with a strip below that shows the title and the scale.

    Parameters
    ----------
    pixels : ndarray of shape (h, w, 3), uint8 RGB
    values : ndarray of 2 dimensions, or None
        The map over the whole picture, of any resolution, or None where there is none: then the picture is grey.
    title : str
        In ASCII letters (see `lapsvm.pipelines.commands.drawing.boxes.shown_name`); its beginning where the picture is
        narrow.
    path : Path
        Its folder is created.
    scale : tuple of 2 float, default (0, 1)
        The values of the first and the last colour; values beyond have the same colours.
    """
    from PIL import Image

    height, width = pixels.shape[:2]
    legend = _legend(width, height, title, None if values is None else scale)
    picture = Image.new("RGB", (width, height + legend.height))
    picture.paste(Image.fromarray(_coloured(pixels, values, scale)))
    picture.paste(legend, (0, height))
    write_drawing(picture, path)


def _coloured(pixels: Pixels, values: Array | None, scale: tuple[float, float]) -> Pixels:
    """Return the grey picture in the colours of a map."""
    import cv2

    grey = cv2.cvtColor(np.ascontiguousarray(pixels), cv2.COLOR_RGB2GRAY)[..., None]
    if values is None:
        return np.repeat(grey, 3, axis=2)
    levels = map_levels(values, scale)
    if levels.shape != pixels.shape[:2]:
        levels = cv2.resize(levels, pixels.shape[1::-1], interpolation=cv2.INTER_LINEAR)
    mixed = cv2.addWeighted(np.repeat(grey, 3, axis=2), PICTURE_SHARE, map_colours()[levels], 1 - PICTURE_SHARE, 0)
    return np.asarray(mixed, np.uint8)


def _legend(width: int, height: int, title: str, scale: tuple[float, float] | None) -> Any:
    """Return the strip below a picture: the colours between their limits, where there is a map, and the title."""
    from PIL import Image, ImageDraw

    style = LabelStyle.of_picture(width, height)
    least, most = ("", "") if scale is None else (f"{limit:.3g}" for limit in scale)
    begin, line = style.size_of(least)
    end = begin if scale is None else begin + max(1, round(_BAR * width))
    last = end + style.size_of(most)[0] + line
    strip = Image.new("RGB", (width, line), _GREY)
    if scale is not None:
        strip.paste(Image.fromarray(map_colours()[None]).resize((end - begin, line)), (begin, 0))
    shown = replace(style, widest=width - last).fit(title, "").strip()
    for left, text in ((0, least), (end, most), (last, shown)):
        ImageDraw.Draw(strip).text((left + style.padding, style.padding), text, _WHITE, style.font, anchor="la")
    return strip
