"""Pictures of the page as data URIs, with boxes as SVG geometry: whole ones, and details of what is small in them."""

import math
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from io import BytesIO
from itertools import count, islice
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lapsvm.arrays import Float32, Float64
from lapsvm.boxes import as_boxes, iou
from lapsvm.catalog import Pixels
from lapsvm.detection.map_colours import map_colours, map_levels
from lapsvm.report.contents import ClassSummary, Example
from lapsvm.report.details import Region, close_region, detail_regions, truth_boxes
from lapsvm.report.misses import as_window, by_kind
from lapsvm.report.tables import decimal

if TYPE_CHECKING:
    from PIL.Image import Image

SHORTEST_SIDE, LONGEST_SIDE = 320, 1280
"""Limits of the longest side of an embedded picture."""
PAGE_PIXELS = 14e6
"""Pixels of all embedded pictures: the fewer pictures a page has, the larger they are."""
JPEG_QUALITY = 65
MAX_PER_GALLERY, MAX_BESIDE, MAX_SMALL = 6, 3, 48
SMALL_SIDE, CLOSE_SIDE = 200, 300
"""Longest sides of the pictures of a grid, and of what is enlarged around a box."""
MAP_SIDE, MAP_QUALITY = 80, 70  # a map is as coarse as the windows' overlaps, and drawn larger
DETAIL_SIDE, DETAIL_QUALITY = 240, 80
"""Longest side of an embedded detail, and its quality."""
_SECOND = "box of the model of all pictures"
_LEVELS = (("high", ".9 and above", 0.9), ("middle", ".5 to .9", 0.5), ("low", "below .5", 0.0))
_Groups = Mapping[str, Sequence[Example]]  # of one class, by title


class Form(StrEnum):
    """How the pictures of a gallery are shown: whole, enlarged around the box, beside a good one, or small."""

    WHOLE = "whole"
    CLOSE = "close"
    BESIDE = "beside"
    SMALL = "small"


@dataclass(frozen=True)
class Overlay:
    """A box on a picture: its kind ("found", "second", "truth" or "other"), its description and its coordinates."""

    kind: str
    name: str
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class Panel:
    """A picture, or a detail of one, with its boxes.

    `heat` and `standing` are maps, "" without one, which cover the rectangle `covered` (x, y, width, height) of it.
    `role` tells apart what is enlarged ("close"), a picture under its map ("map") and one to compare with ("good").
    """

    source: str
    width: int
    height: int
    alt: str
    overlays: tuple[Overlay, ...] = ()
    heat: str = ""
    standing: str = ""
    covered: tuple[float, float, float, float] | None = None
    role: str = ""

    @property
    def layer(self) -> tuple[float, float, float, float]:
        """The rectangle that its maps cover: all of it by default."""
        return self.covered or (0, 0, self.width, self.height)


@dataclass(frozen=True)
class DrawnPicture:
    """A picture with its caption and its details; `number` tells it from all others of the page.

    `level` is the name of a range of probabilities, "" if the probability is not known; `compared` stands before it.
    """

    number: int
    id: str
    whole: Panel
    details: tuple[Panel, ...]
    value: str
    overlap: str
    note: str
    level: str = ""
    compared: tuple[Panel, ...] = ()

    @property
    def panels(self) -> tuple[Panel, ...]:
        """What it is compared with, the whole picture, then its details."""
        return (*self.compared, self.whole, *self.details)

    @property
    def is_enlarged(self) -> bool:
        """Whether a part of it stands in its place until it is clicked."""
        return any(panel.role for panel in self.details)


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

    @property
    def levels(self) -> list[tuple[str, str, int]]:
        """The ranges of probabilities: name, text and number of figures; none where no probability is known."""
        counts = [(key, text, sum(figure.level == key for figure in self.figures)) for key, text, _ in _LEVELS]
        return counts if any(count for *_, count in counts) else []


@dataclass(frozen=True)
class Part:
    """Galleries under one heading, of some pictures; `counted` ones say how many pictures there are of their kind."""

    title: str
    where: str
    galleries: tuple[Gallery, ...]
    counted: bool = False
    form: Form = Form.WHOLE


@dataclass(frozen=True)
class ClassGalleries:
    """Pictures of one class; every part and every gallery has pictures.

    `unit` is what its score maps show, "probability" or "score".
    """

    parts: tuple[Part, ...]
    unit: str = ""

    @property
    def first(self) -> "ClassGalleries":
        """The parts at the top of the page: right-looking boxes, doubtful ones, and a sample of all."""
        return replace(self, parts=tuple(section for section in self.parts if section.form is not Form.WHOLE))

    @property
    def mistakes(self) -> "ClassGalleries":
        """The other parts: pictures in which something is wrong, or models disagree."""
        return replace(self, parts=tuple(section for section in self.parts if section.form is Form.WHOLE))

    @property
    def heat_unit(self) -> str:
        """What the score maps of these pictures show, "" if there is none."""
        return self.unit if any(figure.whole.heat for figure in self.figures()) else ""

    @property
    def has_objectness(self) -> bool:
        """Whether some picture has a map of what stands out."""
        return any(figure.whole.standing for figure in self.figures())

    @property
    def has_misses(self) -> bool:
        """Whether there are pictures of any `MissKind`."""
        return any(gallery.counted for gallery in self.parts)

    def figures(self) -> Iterator[DrawnPicture]:
        """Yield every picture."""
        for part in self.parts:
            for gallery in part.galleries:
                yield from gallery.figures


@dataclass(frozen=True)
class _Group:
    """The examples under one heading, by the titles of their galleries."""

    title: str
    where: str
    groups: _Groups
    counted: bool = False
    form: Form = Form.WHOLE


def class_galleries(results: Sequence[ClassSummary], max_pictures: int, threads: int = 1) -> tuple[ClassGalleries, ...]:
    """Return the galleries of every class with at most `max_pictures` pictures in total, or one per gallery.

    The pictures and maps of all classes are drawn on so many threads.
    """
    parts = [_class_parts(result) for result in results]
    groups = [(group.form, len(of)) for of_class in parts for group in of_class for of in group.groups.values()]
    limits = _limits(max_pictures, len(results), sum(form is Form.WHOLE for form, _ in groups))
    side = longest_side(sum(min(limits[form], size) for form, size in groups if form is not Form.SMALL))
    drawings = [_Drawing(result.name, of_class, limits, side) for result, of_class in zip(results, parts, strict=True)]
    numbers, pool = count(1), ThreadPoolExecutor(threads)
    try:
        heats = [list(of_class) for of_class in [pool.map(_heat, drawing.shown()) for drawing in drawings]]
        figures = [drawing.figures(pool, of_class, numbers) for drawing, of_class in zip(drawings, heats, strict=True)]
        drawn = zip(drawings, figures, heats, strict=True)
        return tuple(drawing.galleries(of_class, _unit(shown)) for drawing, of_class, shown in drawn)
    finally:
        pool.shutdown(cancel_futures=True)


def _limits(max_pictures: int, n_classes: int, n_others: int) -> dict[Form, int]:
    """Return how many pictures a gallery has, by its form: half of them all are the rows at the top of the page.

    Small pictures, and those beside good ones, come on top of that.
    """
    first = min(MAX_PER_GALLERY, max(1, max_pictures // max(1, 4 * n_classes)))
    others = min(MAX_PER_GALLERY, max(1, max_pictures // max(1, 2 * n_others)))
    small = min(MAX_SMALL, max(1, max_pictures // max(1, n_classes)))
    return {Form.CLOSE: first, Form.BESIDE: min(MAX_BESIDE, first), Form.SMALL: small, Form.WHOLE: others}


def longest_side(n_pictures: int) -> int:
    """Return the longest side of each of some pictures, so that all 4:3 ones together have `PAGE_PIXELS`."""
    side = math.sqrt(PAGE_PIXELS / max(1, n_pictures) * 4 / 3)
    return int(min(max(side, SHORTEST_SIDE), LONGEST_SIDE))


def _class_parts(result: ClassSummary) -> list[_Group]:
    """Return the examples of a class under their headings, those of the top of the page first; without empty groups."""
    compared = [example for example in result.best if example.good is not None and example.score_map is not None]
    misses = {str(kind).capitalize(): group for kind, group in by_kind(result.misses).items()}
    wrong = {
        "Highest-scored false positives": result.false_positives,
        "Highest-scored boxes in pictures without the class": result.false_alarms,
    }
    other = {"A model that did not see the picture chooses another box": result.disagreements}
    groups = [
        _Group("Surest boxes", result.shown_on, {"": result.best}, form=Form.CLOSE),
        _Group("Doubtful boxes", result.shown_on, {"": result.weak_positives}, form=Form.CLOSE),
        _Group("Good picture, score map, defect", result.shown_on, {"": compared}, form=Form.BESIDE),
        _Group("More pictures, the most doubtful first", result.shown_on, {"": result.sample}, form=Form.SMALL),
        _Group("Best boxes that miss the object", result.missed_on, misses, counted=True),
        _Group("Wrong boxes", result.shown_on, wrong),
        _Group("Models disagree", result.missed_on, other),
    ]
    filled = [replace(headed, groups={title: of for title, of in headed.groups.items() if of}) for headed in groups]
    return [headed for headed in filled if headed.groups]


@dataclass(frozen=True)
class _Heat:
    """A score map that is reduced to what the page shows, its limits and its unit."""

    values: Float32
    limits: tuple[float, float]
    unit: str


@dataclass(frozen=True)
class _Drawing:
    """Draws the pictures of one class: `limits` of galleries by their form, longest sides at most `side` pixels."""

    name: str
    parts: Sequence[_Group]
    limits: Mapping[Form, int]
    side: int

    def shown(self) -> list[tuple[Form, Example]]:
        """Return the examples that are drawn, in the order of the page."""
        groups = [(headed.form, group) for headed in self.parts for group in headed.groups.values()]
        return [(form, example) for form, group in groups for example in group[: self.limits[form]]]

    def figures(self, pool: Executor, heats: Sequence[_Heat | None], numbers: Iterator[int]) -> Iterator[DrawnPicture]:
        """Begin to draw, and yield the pictures in order; the colours of all score maps have one scale."""
        known = [heat.limits for heat in heats if heat is not None]
        scale = min((low for low, _ in known), default=0), max((high for _, high in known), default=1)
        return pool.map(partial(self._figure, scale), self.shown(), heats, numbers)

    def galleries(self, figures: Iterator[DrawnPicture], unit: str) -> ClassGalleries:
        """Return the galleries of pictures that come in order."""
        parts = []
        for headed in self.parts:
            galleries = tuple(self._gallery(title, group, figures, headed) for title, group in headed.groups.items())
            parts.append(Part(headed.title, headed.where, galleries, headed.counted, headed.form))
        return ClassGalleries(tuple(parts), unit)

    def _gallery(
        self, title: str, group: Sequence[Example], figures: Iterator[DrawnPicture], headed: _Group
    ) -> Gallery:
        limit = self.limits[headed.form]
        ids = tuple(example.id for example in group[limit:]) if headed.counted else ()
        return Gallery(title, tuple(islice(figures, len(group[:limit]))), ids)

    def _figure(
        self, scale: tuple[float, float], shown: tuple[Form, Example], heat: _Heat | None, number: int
    ) -> DrawnPicture:
        """Return the picture of an example with its boxes, and details of those that are small in it."""
        form, example = shown
        pixels = example.pixels()
        overlap = float(iou(as_window(example.box), truth_boxes(example)).max(initial=0))
        known = example.probability is not None
        value = f"probability {decimal(example.probability)}" if known else f"score {decimal(example.score)}"
        shown_iou = "" if example.truth is None else decimal(overlap)
        alt = f"Picture {example.id}: box for {self.name}, {value}"
        alt += f", IoU {shown_iou} with the nearest of {len(truth_boxes(example))} object(s)." if shown_iou else "."
        layers = "" if heat is None else _layer(heat.values, scale), "" if form is Form.SMALL else _standing(example)
        panel = self._whole(form, example, pixels, alt, layers)
        return DrawnPicture(
            number,
            example.id,
            panel,
            tuple(self._details(form, example, pixels, layers)),
            value,
            shown_iou,
            example.note,
            next((key for key, _, least in _LEVELS if known and (example.probability or 0) >= least), ""),
            tuple(_compared(example, pixels, panel.heat)) if form is Form.BESIDE else (),
        )

    def _whole(self, form: Form, example: Example, pixels: Pixels, alt: str, layers: tuple[str, str]) -> Panel:
        source, width, height = thumbnail(pixels, SMALL_SIDE if form is Form.SMALL else self.side)
        scale = width / pixels.shape[1], height / pixels.shape[0]
        return Panel(source, width, height, alt, _overlays(self.name, example, scale), *layers)

    def _details(self, form: Form, example: Example, pixels: Pixels, layers: tuple[str, str]) -> Iterator[Panel]:
        """Yield the details of a picture: what is small in it, or where it is shown close its box alone."""
        size = pixels.shape[1], pixels.shape[0]
        if form is Form.CLOSE:
            region = close_region(example, size)
            if region is not None:
                yield _detail(self.name, example, pixels, region, layers)
        elif form is Form.WHOLE:
            for region in detail_regions(example, size):
                yield _detail(self.name, example, pixels, region)


def _compared(example: Example, pixels: Pixels, heat: str) -> Iterator[Panel]:
    """Yield a good picture, and the picture under its score map."""
    if example.good is not None:
        yield Panel(*thumbnail(example.good(), CLOSE_SIDE), "Picture of no class, to compare with.", role="good")
    source, width, height = thumbnail(pixels, CLOSE_SIDE)
    yield Panel(source, width, height, f"Picture {example.id}: score map.", heat=heat, role="map")


def thumbnail(pixels: Pixels, side: int, quality: int = JPEG_QUALITY) -> tuple[str, int, int]:
    """Return a picture as a JPEG data URI whose longest side is at most `side`, with its width and height."""
    from PIL import Image

    picture = Image.fromarray(pixels)
    picture.thumbnail((side, side))
    return _jpeg(picture, quality), picture.width, picture.height


def _jpeg(picture: "Image", quality: int) -> str:
    """Return a picture as a JPEG data URI; details keep the colours of single pixels."""
    buffer, coarse = BytesIO(), quality < DETAIL_QUALITY
    picture.save(buffer, "JPEG", quality=quality, optimize=True, subsampling=2 if coarse else 0)
    return f"data:image/jpeg;base64,{b64encode(buffer.getvalue()).decode()}"


# details


def _detail(
    name: str, example: Example, pixels: Pixels, region: Region, layers: tuple[str, str] | None = None
) -> Panel:
    """Return a part of a picture in the resolution of its file, with the boxes in it; with maps it is shown first."""
    x1, y1, x2, y2 = region
    side = DETAIL_SIDE if layers is None else CLOSE_SIDE
    source, width, height = thumbnail(np.ascontiguousarray(pixels[y1:y2, x1:x2]), side, DETAIL_QUALITY)
    across, down = width / (x2 - x1), height / (y2 - y1)
    overlays = _overlays(name, example, (across, down), (x1, y1))
    inside = tuple(
        overlay
        for overlay in overlays
        if overlay.x < width and overlay.y < height and overlay.x + overlay.width > 0 and overlay.y + overlay.height > 0
    )
    alt = f"Picture {example.id}: detail."
    if layers is None:
        return Panel(source, width, height, alt, inside)
    covered = -x1 * across, -y1 * down, pixels.shape[1] * across, pixels.shape[0] * down
    return Panel(source, width, height, alt, inside, *layers, covered, "close")


# maps


def _heat(shown: tuple[Form, Example]) -> _Heat | None:
    """Return the score map of an example, reduced; None if it has none, or is shown small."""
    form, example = shown
    score_map = None if example.score_map is None or form is Form.SMALL else example.score_map()
    if score_map is None:
        return None
    return _Heat(_reduced(score_map.values), score_map.scale, score_map.unit)


def _unit(heats: Sequence[_Heat | None]) -> str:
    """Return the unit of the first map; "" without one."""
    return next((heat.unit for heat in heats if heat is not None), "")


def _standing(example: Example) -> str:
    """Return the objectness map of an example in colours from 0 to 1. "" if it is not known."""
    values = None if example.objectness_map is None else example.objectness_map()
    return "" if values is None else _layer(_reduced(values), (0.0, 1.0))


def _reduced(values: ArrayLike) -> Float32:
    """Return a map of at most `MAP_SIDE` values a side."""
    from PIL import Image

    picture = Image.fromarray(np.asarray(values, np.float32))
    picture.thumbnail((MAP_SIDE, MAP_SIDE), Image.Resampling.BOX)
    return np.asarray(picture, np.float32)


def _layer(values: Float32, scale: tuple[float, float]) -> str:
    """Return a map in colours, to lie over a whole picture: a JPEG data URI."""
    from PIL import Image

    levels: NDArray[np.uint8] = map_levels(values, scale)
    return _jpeg(Image.fromarray(map_colours()[levels]), MAP_QUALITY)


# boxes


def _overlays(
    name: str, example: Example, scale: tuple[float, float], origin: tuple[float, float] = (0, 0)
) -> tuple[Overlay, ...]:
    """Return the boxes of an example; the dashed ground truth comes last, so that its gaps show the boxes below it."""
    transform = np.array([*origin, *origin]), np.array([*scale, *scale])
    others = [box for other, boxes in example.others.items() for box in _placed("other", other, boxes, transform)]
    truth = _placed("truth", f"object: {name}", truth_boxes(example), transform)
    second = [] if example.second is None else _placed("second", _SECOND, as_window(example.second), transform)
    return (*others, *second, *_placed("found", f"box for {name}", as_window(example.box), transform), *truth)


def _placed(kind: str, name: str, boxes: ArrayLike, transform: tuple[Float64, Float64]) -> list[Overlay]:
    """Return boxes after a shift of the origin and a scaling."""
    origin, scale = transform
    scaled = ((as_boxes(boxes, kind) - origin) * scale).round(1)
    return [
        Overlay(kind, name, x1, y1, round(max(0.0, x2 - x1), 1), round(max(0.0, y2 - y1), 1))
        for x1, y1, x2, y2 in scaled.tolist()
    ]
