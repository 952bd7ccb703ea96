"""A picture at another size inside an ONNX graph, with the pixels that OpenCV gives.

Enlarging is bilinear in the fixed-point arithmetic of OpenCV, reducing the mean over a pixel's area, both rounded to
whole levels. A network sees differences of one level, so the rounding is part of the definition.
"""

from dataclasses import dataclass

import numpy as np

from lapsvm.detection.onnx_file.graph import Graph, Tensor

_COEFFICIENTS = 2048  # 11 bits, as in OpenCV
_THIN = 1e-3  # a smaller share of a pixel does not count, as in OpenCV


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
        return _area(graph, planes, size, Size(*sides))

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
            lambda: _area(graph, planes, size, wanted),
            lambda: _taps(graph, planes, shrinks, size, wanted),
        )

    return graph.choose(same, lambda: planes, other_size)


def _area(graph: Graph, planes: Tensor, size: Size, wanted: Size) -> Tensor:
    """Return the rounded means of a picture over the areas of fewer pixels."""
    scale = (size.height / wanted.height).maximum(size.width / wanted.width)

    def by_taps(most: int) -> Tensor:
        rows = _axis_taps(graph, planes, size.width, wanted.width, 2, most)
        return _axis_taps(graph, rows, size.height, wanted.height, 1, most)

    def by_sums() -> Tensor:
        turned = _axis_means(graph, planes, size.height, wanted.height).transposed(0, 2, 1)
        return _axis_means(graph, turned, size.width, wanted.width).transposed(0, 2, 1).cast(np.float32)

    def by_more() -> Tensor:
        return graph.choose(scale > 4.0, by_sums, lambda: by_taps(4))

    means = _by_whole_steps(graph, graph.choose(scale > 2.0, by_more, lambda: by_taps(2)), size, wanted)
    half = (wanted.height * 2.0).equals(size.height) & (wanted.width * 2.0).equals(size.width)
    return graph.where(half, (means + 0.5).floor(), means.round())  # OpenCV rounds halves up where it halves


def _by_whole_steps(graph: Graph, means: Tensor, size: Size, wanted: Size) -> Tensor:
    """Return means whose steps are whole pixels as OpenCV computes these: the sum of levels times a factor."""
    down, across = size.height / wanted.height, size.width / wanted.width
    whole = down.equals(down.floor()) & across.equals(across.floor())
    count = (down * across).cast(np.float32)
    return graph.where(whole, (means * count).round() * (graph.constant(np.float32(1)) / count), means)


def _axis_taps(graph: Graph, planes: Tensor, length: Tensor, wanted: Tensor, axis: int, most: int) -> Tensor:
    """Return the means of planes over wider steps of an axis, at most `most` pixels wide.

    Pixels are added in OpenCV's order and precision, so that means next to a half are rounded like OpenCV's.
    """
    scale = graph.constant(1.0) / (wanted / length)
    begin = graph.count(wanted) * scale
    end, width = begin + scale, scale.minimum(length - begin)
    last = end.floor().minimum(length - 1.0)
    first = (begin * -1.0).floor() * -1.0  # rounded up
    first = first.minimum(last)
    before, after = (graph.where(part > _THIN, part, 0.0) for part in (first - begin, (end - last).minimum(1.0)))
    total = _tap_term(planes, (first - 1.0).maximum(0.0), before / width, axis)
    for step in range(most + 1):
        pixel = first + float(step)
        share = graph.where(pixel < last, graph.constant(1.0), graph.where(pixel.equals(last), after, 0.0))
        total = total + _tap_term(planes, pixel.minimum(length - 1.0), share.minimum(width) / width, axis)
    return total


def _tap_term(planes: Tensor, pixels: Tensor, shares: Tensor, axis: int) -> Tensor:
    """Return the pixels of an axis times their shares, float32."""
    shape = (1, -1, 1) if axis == 1 else (1, 1, -1)
    return planes.gather(pixels.cast(np.int64), axis) * shares.cast(np.float32).reshape(*shape)


def _axis_means(graph: Graph, planes: Tensor, length: Tensor, wanted: Tensor) -> Tensor:
    """Return the means of planes (3, n, m) over wider steps of the axis of length n, float64.

    Sums of whole levels are exact in float32. The parts of pixels are added last, in float64.
    """
    scale = length / wanted
    edges = graph.count(wanted + 1.0) * scale
    pixels = edges.floor().minimum(length - 1.0)
    parts = edges - pixels
    low, high = pixels.part(0, -1, 0), pixels.part(1, None, 0)
    low_part, high_part = parts.part(0, -1, 0), parts.part(1, None, 0)
    low_part = graph.where(low_part > 1 - _THIN, graph.constant(1.0), low_part)
    high_part = graph.where(high_part > _THIN, high_part, 0.0)
    sums = graph.op("CumSum", planes, graph.constant(1, np.int64), exclusive=1)
    low, high = low.cast(np.int64), high.cast(np.int64)
    whole = (sums.gather(high, 1) - sums.gather(low, 1)).cast(np.float64)
    first, last = (
        planes.gather(pixel, 1).cast(np.float64) * part.reshape(1, -1, 1)
        for pixel, part in ((low, low_part), (high, high_part))
    )
    return (whole + (last - first)) / scale


def _taps(graph: Graph, planes: Tensor, shrinks: Tensor, size: Size, wanted: Size) -> Tensor:
    """Return a picture whose pixels are weighted means of two in each direction."""
    left, right, across = _tap(graph, size.width, wanted.width, shrinks, clamp=True)
    above, below, down = _tap(graph, size.height, wanted.height, shrinks, clamp=False)
    rows = planes.gather(left, 2) * _whole(_rest(across), -1) + planes.gather(right, 2) * _whole(across, -1)
    rows = (rows / 16.0).floor().cast(np.float64)
    first, second = (
        (rows.gather(index, 1) * _whole(share, 1).cast(np.float64) / 65536.0).floor()
        for index, share in ((above, _rest(down)), (below, down))
    )
    return ((first + second + 2.0) / 4.0).floor().cast(np.float32)


def _rest(share: Tensor) -> Tensor:
    return share * -1.0 + 1.0


def _whole(share: Tensor, axis: int) -> Tensor:
    """Return fixed-point coefficients for the rows (axis 1) or columns (axis -1) of planes."""
    return (share * float(_COEFFICIENTS)).round().reshape(*((1, -1, 1) if axis == 1 else (1, 1, -1)))


def _tap(
    graph: Graph, length: Tensor, wanted: Tensor, shrinks: Tensor, *, clamp: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Return both pixels for each new pixel of an axis, and the share of the second, float32.

    OpenCV clamps the shares at the borders of rows, and only the pixels at the borders of columns.
    """
    inverse = wanted / length
    scale = graph.constant(1.0) / inverse
    steps = graph.count(wanted)
    centred = ((steps + 0.5) * scale - 0.5).cast(np.float32)
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
    first, second = (place.maximum(0.0).minimum(last).cast(np.int64) for place in (pixel, pixel + 1.0))
    return first, second, share
