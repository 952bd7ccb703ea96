"""Pictures of the page: thumbnails as data URIs with boxes as SVG geometry."""

from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from lapsvm.arrays import Float64
from lapsvm.boxes import as_boxes, iou
from lapsvm.catalog import Pixels
from lapsvm.detection import ScoreMap
from lapsvm.detection.map_colours import map_colours, map_levels
from lapsvm.report.contents import ClassSummary, Example
from lapsvm.report.misses import as_window, by_kind
from lapsvm.report.tables import decimal

if TYPE_CHECKING:
    from PIL.Image import Image

LONGEST_SIDE = 320
JPEG_QUALITY = 65
MAX_PER_GALLERY = 6
MAP_SIDE, MAP_QUALITY = 80, 70  # a map is as coarse as the windows' overlaps, and drawn larger
_Groups = dict[str, Sequence[Example]]  # of one class, by title
_SECOND = "window of the model of all pictures"


@dataclass(frozen=True)
class Overlay:
    """A box on a thumbnail: its kind ("found", "second", "truth" or "other"), its description and its coordinates."""

    kind: str
    name: str
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class DrawnPicture:
    """A thumbnail with its boxes and its caption; `heat` is its score map in colours, "" without one."""

    id: str
    source: str
    width: int
    height: int
    alt: str
    overlays: tuple[Overlay, ...]
    value: str
    overlap: str
    note: str
    heat: str = ""
    heat_unit: str = ""


@dataclass(frozen=True)
class Gallery:
    """Figures of one kind, and the ids of the misses of that kind that are not shown."""

    title: str
    figures: tuple[DrawnPicture, ...]
    unshown_ids: tuple[str, ...]

    @property
    def total(self) -> int:
        """Number of pictures of the kind, including those not shown."""
        return len(self.figures) + len(self.unshown_ids)


@dataclass(frozen=True)
class ClassGalleries:
    """The galleries of one class: non-empty ones, and all kinds of misses if there is any miss."""

    detections: tuple[Gallery, ...]
    misses: tuple[Gallery, ...]
    disagreements: tuple[Gallery, ...]

    @property
    def has_pictures(self) -> bool:
        """Whether there is any gallery."""
        return bool(self.detections or self.misses or self.disagreements)

    def figures(self) -> Iterator[DrawnPicture]:
        """Yield every thumbnail."""
        for gallery in (*self.detections, *self.misses, *self.disagreements):
            yield from gallery.figures

    @property
    def heat_unit(self) -> str:
        """What the score maps of its pictures show: "probability" or "score"; "" if there is none."""
        return next((figure.heat_unit for figure in self.figures() if figure.heat), "")


def class_galleries(results: Sequence[ClassSummary], max_pictures: int) -> tuple[ClassGalleries, ...]:
    """Return the galleries of every class with at most `max_pictures` thumbnails in total, or one per gallery."""
    examples = [_examples(result) for result in results]
    n_galleries = sum(bool(group) for kinds in examples for groups in kinds for group in groups.values())
    limit = min(MAX_PER_GALLERY, max(1, max_pictures // max(1, n_galleries)))
    return tuple(
        ClassGalleries(
            _galleries(result.name, detections, limit, list_unshown=False),
            _galleries(result.name, misses, limit, list_unshown=True),
            _galleries(result.name, disagreements, limit, list_unshown=False),
        )
        for result, (detections, misses, disagreements) in zip(results, examples, strict=True)
    )


def _examples(result: ClassSummary) -> tuple[_Groups, _Groups, _Groups]:
    """Return detections, misses and disagreements by the titles of their galleries.

    Groups are not empty; but if a window misses, there is a group for each `MissKind`, in this order.
    """
    detections: _Groups = {
        "Best detections": result.best,
        "Highest-scored false positives": result.false_positives,
        "Highest-scored boxes in pictures without the class": result.false_alarms,
        "Pictures with the class that score lowest": result.weak_positives,
    }
    misses: _Groups = {str(kind).capitalize(): group for kind, group in by_kind(result.misses).items() if result.misses}
    disagreements: _Groups = {"A model that did not see the picture chooses another box": result.disagreements}
    return _filled(detections), misses, _filled(disagreements)


def _filled(groups: _Groups) -> _Groups:
    return {title: group for title, group in groups.items() if group}


def _galleries(name: str, groups: _Groups, limit: int, *, list_unshown: bool) -> tuple[Gallery, ...]:
    """Return one gallery of at most `limit` figures per group."""

    def unshown_ids(examples: Sequence[Example]) -> tuple[str, ...]:
        return tuple(example.id for example in examples[limit:]) if list_unshown else ()

    return tuple(
        Gallery(title, tuple(_figure(name, example) for example in examples[:limit]), unshown_ids(examples))
        for title, examples in groups.items()
    )


def _truth(example: Example) -> Float64:
    return as_boxes(() if example.truth is None else example.truth, "truth")


def _figure(name: str, example: Example) -> DrawnPicture:
    """Return the thumbnail of an example with its boxes."""
    pixels = example.pixels()
    source, width, height = thumbnail(pixels)
    scale = width / pixels.shape[1], height / pixels.shape[0]
    overlap = float(iou(as_window(example.box), _truth(example)).max(initial=0))
    known = example.probability is not None
    value = f"probability {decimal(example.probability)}" if known else f"score {decimal(example.score)}"
    shown_iou = "" if example.truth is None else decimal(overlap)
    alt = f"Picture {example.id}: window for {name}, {value}"
    alt += f", IoU {shown_iou} with the nearest of {len(_truth(example))} object(s)." if shown_iou else "."
    overlays, score_map = _overlays(name, example, scale), None if example.score_map is None else example.score_map()
    heat = {} if score_map is None else {"heat": heat_layer(score_map), "heat_unit": score_map.unit}
    return DrawnPicture(example.id, source, width, height, alt, overlays, value, shown_iou, example.note, **heat)


def thumbnail(pixels: Pixels) -> tuple[str, int, int]:
    """Return a picture as a JPEG data URI whose longest side is at most `LONGEST_SIDE`, with its width and height."""
    from PIL import Image

    picture = Image.fromarray(pixels)
    picture.thumbnail((LONGEST_SIDE, LONGEST_SIDE))
    return _jpeg(picture, JPEG_QUALITY), picture.width, picture.height


def heat_layer(score_map: ScoreMap) -> str:
    """Return a score map in colours, to lie over the whole thumbnail: a JPEG data URI of at most `MAP_SIDE` pixels."""
    from PIL import Image

    levels = Image.fromarray(map_levels(score_map.values, score_map.scale))
    levels.thumbnail((MAP_SIDE, MAP_SIDE))
    return _jpeg(Image.fromarray(map_colours()[np.asarray(levels)]), MAP_QUALITY)


def _jpeg(picture: "Image", quality: int) -> str:
    """Return a picture as a JPEG data URI."""
    buffer = BytesIO()
    picture.save(buffer, "JPEG", quality=quality, optimize=True)
    return f"data:image/jpeg;base64,{b64encode(buffer.getvalue()).decode()}"


def _overlays(name: str, example: Example, scale: tuple[float, float]) -> tuple[Overlay, ...]:
    """Return the boxes of an example; the dashed ground truth comes last, so that its gaps show the boxes below it."""
    others = [box for other, boxes in example.others.items() for box in _scaled_overlays("other", other, boxes, scale)]
    truth = _scaled_overlays("truth", f"object: {name}", _truth(example), scale)
    second = [] if example.second is None else _scaled_overlays("second", _SECOND, as_window(example.second), scale)
    return (*others, *second, *_scaled_overlays("found", f"window for {name}", as_window(example.box), scale), *truth)


def _scaled_overlays(kind: str, name: str, boxes: ArrayLike, scale: tuple[float, float]) -> list[Overlay]:
    scaled = (as_boxes(boxes, kind) * np.array([*scale, *scale])).round(1)
    return [
        Overlay(kind, name, x1, y1, round(max(0.0, x2 - x1), 1), round(max(0.0, y2 - y1), 1))
        for x1, y1, x2, y2 in scaled.tolist()
    ]
