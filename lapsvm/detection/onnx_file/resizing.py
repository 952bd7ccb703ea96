"""A picture at another size inside an ONNX graph, with the pixels that OpenCV gives.

Enlarging is bilinear in the fixed-point arithmetic of OpenCV, reducing the mean over a pixel's area, both rounded to
whole levels. A network sees differences of one level, so the rounding is part of the definition.
"""

from dataclasses import dataclass

import numpy as np

from lapsvm.detection.onnx_file.graph import Graph, Tensor

_COEFFICIENTS = 2048  # 11 bits, as in OpenCV
_THICK = 1000  # a smaller share of a pixel than 1 in so many does not count, as in OpenCV
_THIN = 1 / _THICK


@dataclass(frozen=True)
class Size:
    """The height and width of a picture, float64 without dimensions."""

    height: Tensor
    width: Tensor

    @classmethod
    def of(cls, planes: Tensor) -> "Size":
        """Return the size of planes (3, h, w)."""
        return cls(planes.size(1).cast(np.float64), planes.size(2).cast(np.float64))

    @property
    def longer(self) -> Tensor:
        """The longer side."""
        return self.height.maximum(self.width)


def reduced(graph: Graph, planes: Tensor, max_side: int) -> Tensor:
    """Return a picture (3, h, w) whose longer side is at most `max_side`, as OpenCV reduces it."""
    size = Size.of(planes)

    def smaller() -> Tensor:
        longer = size.longer
        sides = [((side * float(max_side)) / longer).round().maximum(1.0) for side in (size.height, size.width)]
        return shrunk(graph, planes, size, Size(*sides))

    return graph.choose(size.longer > float(max_side), smaller, lambda: planes)


def network_size(size: Size, longest: int, multiple: int) -> Size:
    """Return the size of a network's input (see `lapsvm.features.extractors.maps.letterbox.network_size`)."""
    scale = size.longer.graph.constant(float(longest)) / size.longer
    step = float(multiple)
    return Size(*(((side * scale / step).round() * step).maximum(step) for side in (size.height, size.width)))


def resized(graph: Graph, planes: Tensor, wanted: Size) -> Tensor:
    """Return a picture (3, h, w), whole levels in float32, at another size; as cv2.resize does for a network."""
    size = Size.of(planes)
    same = size.height.equals(wanted.height) & size.width.equals(wanted.width)
    shrinks = wanted.height * wanted.width < size.height * size.width
    both = ~(size.height < wanted.height) & ~(size.width < wanted.width)

    def other_size() -> Tensor:
        return graph.choose(
            shrinks & both,
            lambda: shrunk(graph, planes, size, wanted),
            lambda: _taps(graph, planes, shrinks, size, wanted),
        )

    return graph.choose(same, lambda: planes, other_size)


def shrunk(graph: Graph, planes: Tensor, size: Size, wanted: Size) -> Tensor:
    """Return the rounded means of a picture over the areas of fewer pixels."""
    scale = (size.height / wanted.height).maximum(size.width / wanted.width)

    def by_taps(most: int) -> Tensor:
        across = _tap_means(graph, turned(planes), size.width, wanted.width, most)
        return _tap_means(graph, turned(across), size.height, wanted.height, most)

    def by_sums() -> Tensor:
        down = _sum_means(graph, planes, size.height, wanted.height)
        return turned(_sum_means(graph, turned(down), size.width, wanted.width)).cast(np.float32)

    def by_more() -> Tensor:
        return graph.choose(scale > 4.0, by_sums, lambda: by_taps(4))

    means = _by_whole_steps(graph, graph.choose(scale > 2.0, by_more, lambda: by_taps(2)), size, wanted)
    half = (wanted.height * 2.0).equals(size.height) & (wanted.width * 2.0).equals(size.width)
    return graph.where(half, (means + 0.5).floor(), means.round())  # OpenCV rounds halves up where it halves


def _by_whole_steps(graph: Graph, means: Tensor, size: Size, wanted: Size) -> Tensor:
    """Return means whose steps are whole pixels as OpenCV computes these: the sum of levels times a factor."""
    down, across = size.height / wanted.height, size.width / wanted.width
    are_whole = down.equals(down.floor()) & across.equals(across.floor())
    count = (down * across).cast(np.float32)
    return graph.where(are_whole, (means * count).round() * (graph.constant(np.float32(1)) / count), means)


def turned(planes: Tensor) -> Tensor:
    """Return planes (c, h, w) with rows for columns, in which ONNX Runtime gathers much faster."""
    return planes.transposed(0, 2, 1)


def _tap_means(graph: Graph, planes: Tensor, length: Tensor, wanted: Tensor, most: int) -> Tensor:
    """Return the means of planes (c, n, m) over wider steps of the axis of length n, at most `most` pixels wide.

    Pixels are added in OpenCV's order and precision, so that means next to a half are rounded like OpenCV's.
    """
    width, parts = length.cast(np.int32), wanted.cast(np.int32)  # a pixel has so many parts, and a step `whole` of them
    begin = graph.count(wanted).cast(np.int32) * width
    end = begin + width
    last = (end / parts).minimum(width - 1)
    first = ((begin + parts - 1) / parts).minimum(last)
    before, after = first * parts - begin, (end - last * parts).minimum(parts)
    before, after = (graph.where(share * _THICK > parts, share, 0) for share in (before, after))
    total = _tap_term(planes, (first - 1).maximum(0), before, width)
    for step in range(most + 1):
        pixel = first + step
        share = graph.where(pixel < last, parts, graph.where(pixel.equals(last), after, 0))
        total = total + _tap_term(planes, pixel.minimum(width - 1), share, width)
    return total


def _tap_term(planes: Tensor, pixels: Tensor, parts: Tensor, step: Tensor) -> Tensor:
    """Return the pixels of the second axis times their share of a step, in parts, float32."""
    return planes.gather(pixels, 1) * (parts.cast(np.float32) / step.cast(np.float32)).reshape(1, -1, 1)


def _sum_means(graph: Graph, planes: Tensor, length: Tensor, wanted: Tensor) -> Tensor:
    """Return the means of planes (3, n, m) over wider steps of the axis of length n, float64.

    Sums of whole levels are exact in float32. The parts of pixels are added last, in float64.
    """
    scale = length / wanted
    edges = graph.count(wanted + 1.0) * scale
    pixels = edges.floor().minimum(length - 1.0)
    parts = edges - pixels
    low, high = pixels.slice(0, -1, 0), pixels.slice(1, None, 0)
    low_part, high_part = parts.slice(0, -1, 0), parts.slice(1, None, 0)
    low_part = graph.where(low_part > 1 - _THIN, graph.constant(1.0), low_part)
    high_part = graph.where(high_part > _THIN, high_part, 0.0)
    sums = graph.op("CumSum", planes, graph.constant(1, np.int64), exclusive=1)
    low, high = low.cast(np.int64), high.cast(np.int64)
    levels = (sums.gather(high, 1) - sums.gather(low, 1)).cast(np.float64)
    first, last = (
        planes.gather(pixel, 1).cast(np.float64) * share.reshape(1, -1, 1)
        for pixel, share in ((low, low_part), (high, high_part))
    )
    return (levels + (last - first)) / scale


def _taps(graph: Graph, planes: Tensor, shrinks: Tensor, size: Size, wanted: Size) -> Tensor:
    """Return a picture whose pixels are weighted means of two in each direction."""
    left, right, across = _tap(graph, size.width, wanted.width, shrinks, clamp=True)
    above, below, down = _tap(graph, size.height, wanted.height, shrinks, clamp=False)
    lying = turned(planes)
    left_share, right_share = (_whole(share) / 16.0 for share in (_rest(across), across))
    rows = turned((lying.gather(left, 1) * left_share + lying.gather(right, 1) * right_share).floor())
    first, second = (
        _shifted(rows.gather(index, 1), _whole(share)) for index, share in ((above, _rest(down)), (below, down))
    )
    return ((first + second + 2.0) / 4.0).floor()


def _shifted(rows: Tensor, coefficients: Tensor) -> Tensor:
    """Return whole numbers below 2 ** 15 times coefficients, over 65536 and rounded down, exact in float32."""
    in_steps = coefficients / 64.0
    high = in_steps.floor()
    return ((rows * high + (rows * (in_steps - high)).floor()) / 1024.0).floor()


def _rest(share: Tensor) -> Tensor:
    return share * -1.0 + 1.0


def _whole(share: Tensor) -> Tensor:
    """Return fixed-point coefficients for the second axis of planes."""
    return (share * float(_COEFFICIENTS)).round().reshape(1, -1, 1)


def _tap(
    graph: Graph, length: Tensor, wanted: Tensor, shrinks: Tensor, *, clamp: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Return both pixels for each new pixel of an axis, and the share of the second, float32.

    OpenCV clamps the shares at the borders of rows, and only the pixels at the borders of columns.
    """
    inverse = wanted / length
    scale = graph.constant(1.0) / inverse
    steps = graph.count(wanted)
    pixel_parts, step = wanted.cast(np.int32) * 2, length.cast(np.int32)  # of two half pixels, each in so many parts
    middle = (steps.cast(np.int32) * 2 + 1) * step + wanted.cast(np.int32)  # plus a pixel, so above 0
    pixel = middle / pixel_parts
    centred = (pixel - 1).cast(np.float32) + (middle - pixel * pixel_parts).cast(np.float32) / pixel_parts.cast(
        np.float32
    )
    pixel = centred.floor()
    by_area = (steps * scale).floor()
    excess = (steps + 1.0 - (by_area + 1.0) * inverse).cast(np.float32)
    area_share = graph.where(excess > 0.0, excess - excess.floor(), 0.0)
    share = graph.where(shrinks, area_share, centred - pixel)
    pixel = graph.where(shrinks, by_area.cast(np.float32), pixel)
    last = (length - 1.0).cast(np.float32)
    if clamp:
        share = graph.where((pixel < 0.0), graph.constant(np.float32(0)), share)
        share = graph.where(pixel < last, share, 0.0)
    first, second = (neighbour.maximum(0.0).minimum(last).cast(np.int64) for neighbour in (pixel, pixel + 1.0))
    return first, second, share
