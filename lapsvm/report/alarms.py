"""Good and defective pictures: how well they are told apart, and which of them raise an alarm."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from xml.sax.saxutils import escape

from lapsvm.evaluation import Figure, Figures
from lapsvm.evaluation.measures import Pictures, Shown
from lapsvm.inspection.alarm_rate import AlarmRate
from lapsvm.inspection.decision import OK
from lapsvm.inspection.histogram import BINS, Histogram
from lapsvm.inspection.threshold import AlarmThreshold
from lapsvm.report.contents import Contents
from lapsvm.report.diagnosis import Cell, FigureTable, interval_cell, measure_table, row_cells, value_cell
from lapsvm.report.tables import UNSEEN, where

_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM = 420.0, 170.0, 12.0, 26.0, 40.0
_BAR = (_WIDTH - 2 * _LEFT) / BINS
_COLOURS = {"good": "#009e73", "defective": "#d55e00"}


@dataclass(frozen=True)
class AlarmView:
    """What the page shows of good and defective pictures: sentences, a command, and tables."""

    sentences: tuple[str, ...]
    command: str
    tables: tuple[FigureTable, ...]
    histograms: str = ""


def alarm_view(contents: Contents) -> AlarmView | None:
    """Return the section on good and defective pictures; None if the run has no such pictures and no threshold."""
    if contents.alarm is None and not contents.has_good:
        return None
    tables = [_defect_table(contents, figures) for figures in contents.places if _is_sorted(figures)]
    tables[1:] = [replace(table, folded=True) for table in tables[1:]]
    alarm = contents.alarm
    if alarm is None and not tables and not contents.threshold:
        return None
    sentences = () if alarm is None else alarm_sentences(alarm)
    chosen = [] if alarm is None else [_alarm_table(alarm)]
    histograms = "" if alarm is None or not alarm.histograms else histograms_svg(alarm.histograms)
    return AlarmView(sentences, contents.threshold, (*chosen, *tables), histograms)


def _is_sorted(figures: Figures) -> bool:
    """Return whether some of these unseen pictures show no class, so that their order can be judged."""
    return figures.pictures is not Pictures.TRAINING and bool(figures.any_class or figures.measures(Shown.ORDER))


def _defect_table(contents: Contents, figures: Figures) -> FigureTable:
    """Return the figures of each class, and of all classes as one."""
    rows = [*figures.classes.values(), figures.any_class]
    measures = [
        measure
        for measure in figures.measures(Shown.DEFECTS)
        if any(measure.key in row and row[measure.key].value is not None for row in rows)
    ]
    caption = " ".join(measure.definition for measure in measures)
    caption += " The last row asks whether a picture shows any defect."
    if figures.drawn is not None:
        caption += f" Small numbers are intervals at {figures.drawn.level:.0%}."
    heading = "How well defects are found", where(figures)
    table = measure_table(contents, figures, measures, heading, caption, _cell)
    return replace(table, last=row_cells(figures.any_class, measures, _cell), last_name="any defect")


def _cell(figure: Figure | None) -> Cell:
    """Return a figure with its interval, if it has one."""
    has_interval = figure is not None and figure.interval is not None
    return replace(value_cell(figure), note=interval_cell(figure).text if has_interval else "")


def alarm_sentences(alarm: AlarmThreshold) -> tuple[str, ...]:
    """Return the threshold, what it promises, and what it does to good pictures, with an interval.

    A last sentence names the classes for which whole pictures count, because other figures are of best boxes alone.
    """
    rule = f"A picture raises an alarm from {alarm.least} on. {alarm.promise}"
    if alarm.unlike is not None and alarm.models:
        rule += " One that shows no known class is unknown if it is that unlike good pictures; the promise is of both."
    shares = ((alarm.held_out, UNSEEN), (alarm.tested, "on the test set"))
    counts = [f"Good pictures that raise one, {where}: {of[OK]}." for of, where in shares if OK in of]
    note = (
        f"The whole picture counts beside the best box for {', '.join(alarm.pictures)}, in alarms alone: how well "
        "defects are found, below, is by best boxes."
    )
    return rule, *counts, *([note] if alarm.pictures else [])


def _alarm_table(alarm: AlarmThreshold) -> FigureTable:
    """Return the table of alarm rates by kind of picture."""
    parts = {UNSEEN.capitalize(): alarm.held_out, **({"On the test set": alarm.tested} if alarm.tested else {})}
    kinds = [kind for kind in alarm.held_out if kind != OK]
    rows = tuple((kind, _rate_cells(parts, kind)) for kind in kinds)
    caption = "Pictures that raise an alarm, with intervals at 95 %: those of a defect should, good ones should not."
    if any(of[OK].share is not None for of in parts.values() if OK in of):
        caption += " Of good pictures the share and its interval count each group the same, as the promise does."
    return FigureTable("Alarms", "", caption, tuple(parts), rows, _rate_cells(parts, OK), "good pictures")


def _rate_cells(parts: Mapping[str, Mapping[str, AlarmRate]], kind: str) -> tuple[Cell, ...]:
    return tuple(_rate_cell(of.get(kind)) for of in parts.values())


def _rate_cell(rate: AlarmRate | None) -> Cell:
    if rate is None or not rate.of:
        return Cell("none")
    low, high = rate.interval
    return Cell(rate.count, f"{100 * low:.1f} to {100 * high:.1f} %")


def histograms_svg(histograms: Sequence[Histogram]) -> str:
    """Return an SVG file of histograms below each other; bars are shares of the pictures of their kind."""
    height = _HEIGHT * len(histograms)
    names = "; ".join(escape(histogram.title, {'"': "&quot;"}) for histogram in histograms)
    begin = (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="histogram" viewBox="0 0 {_WIDTH:g} {height:g}" role="img" '
        f'aria-label="Held-out pictures by {names}" font-family="sans-serif" font-size="11" fill="#888">'
    )
    rows = [line for number, histogram in enumerate(histograms) for line in _drawn(histogram, number * _HEIGHT)]
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
        for column, share in enumerate(of_kind):
            x, height = _LEFT + (column + number / 2) * _BAR, share * scale
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
