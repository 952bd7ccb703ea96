"""Histograms of good and defective pictures as SVG, on the page and as a file of their own."""

from collections.abc import Iterator, Sequence
from xml.sax.saxutils import escape

from lapsvm.inspection.histogram import BINS, Histogram

_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM = 420.0, 170.0, 12.0, 26.0, 40.0
_BAR = (_WIDTH - 2 * _LEFT) / BINS
_COLOURS = {"good": "#009e73", "defective": "#d55e00"}


def histograms_svg(histograms: Sequence[Histogram]) -> str:
    """Return an SVG file of histograms below each other; bars are shares of the pictures of their kind."""
    height = _HEIGHT * len(histograms)
    names = "; ".join(escape(one.title, {'"': "&quot;"}) for one in histograms)
    begin = (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="histogram" viewBox="0 0 {_WIDTH:g} {height:g}" role="img" '
        f'aria-label="Held-out pictures by {names}" font-family="sans-serif" font-size="11" fill="#888">'
    )
    rows = [line for number, one in enumerate(histograms) for line in _drawn(one, number * _HEIGHT)]
    return "\n".join([begin, *rows, "</svg>\n"])


def _drawn(histogram: Histogram, top: float) -> Iterator[str]:
    """Yield the elements of a histogram whose drawing begins at `top`."""
    base = top + _HEIGHT - _BOTTOM
    counts = {"good": histogram.good, "defective": histogram.defective}
    shares = {kind: [count / max(1, sum(of_kind)) for count in of_kind] for kind, of_kind in counts.items()}
    scale = (base - top - _TOP) / max(1e-9, *map(max, shares.values()))
    for number, (kind, of_kind) in enumerate(shares.items()):
        legend = f"{kind}: {sum(counts[kind]):,} pictures"
        yield f'<text x="{_LEFT + number * 150:g}" y="{top + 14:g}" fill="{_COLOURS[kind]}">{legend}</text>'
        for place, share in enumerate(of_kind):
            x, height = _LEFT + (place + number / 2) * _BAR, share * scale
            size = f'width="{_BAR / 2:.1f}" height="{height:.1f}"'
            yield f'<rect x="{x:.1f}" y="{base - height:.1f}" {size} fill="{_COLOURS[kind]}"/>'
    yield _line(_LEFT, _WIDTH - _LEFT, base, base)
    at = _LEFT + min(histogram.threshold / histogram.end, 1.0) * (_WIDTH - 2 * _LEFT)
    yield _line(at, at, top + _TOP - 6, base + 5)
    yield _text(at, base + 16, f"{histogram.threshold:.3g}", "middle")
    yield _text(_LEFT, base + 16, "0", "start")
    yield _text(_WIDTH - _LEFT, base + 16, f"{histogram.end:.3g}", "end")
    yield _text(_WIDTH / 2, base + 32, escape(histogram.title), "middle")


def _line(x1: float, x2: float, y1: float, y2: float) -> str:
    return f'<line x1="{x1:.1f}" x2="{x2:.1f}" y1="{y1:.1f}" y2="{y2:.1f}" stroke="#888"/>'


def _text(x: float, y: float, content: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{content}</text>'
