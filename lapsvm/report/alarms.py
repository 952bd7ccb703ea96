"""Good and defective pictures: how well they are told apart, and which of them raise an alarm."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from lapsvm.inspection.alarm_rate import AlarmRate
from lapsvm.inspection.decision import OK
from lapsvm.inspection.threshold import AlarmThreshold
from lapsvm.report.contents import Contents
from lapsvm.report.diagnosis import UNSEEN, Cell, FigureTable, interval_text
from lapsvm.report.tables import decimal

MEASURES = {
    "image_auroc": "Image AUROC", "image_ap": "Image AP", "pointing": "Best box points at it",
    "map_pointing": "Score map points at it", "pixel_auroc": "Pixel AUROC", "pro": "PRO",
}  # fmt: skip
_CAPTION = (
    "Image AUROC is the share of pairs of a picture with and one without the defect in the right order; .5 is chance. "
    "The last row asks whether a picture shows any defect. "
)
_MASKS = (
    "Pixel AUROC is the same share for the pixels of the score maps; PRO counts every region of a mask the same. "
    "Pointing is the share of pictures whose box has its middle in the box around a region, or whose map is largest in "
    "the mask."
)


@dataclass(frozen=True)
class AlarmView:
    """What the page shows of good and defective pictures: sentences, a command, and tables."""

    sentences: tuple[str, ...]
    command: str
    tables: tuple[FigureTable, ...]


def alarm_view(contents: Contents) -> AlarmView | None:
    """Return the section on good and defective pictures; None if the run knows nothing of it."""
    tables = [_defect_table(contents, where, entry) for where, entry in _sorted_sets(contents)]
    tables[1:] = [replace(table, folded=True) for table in tables[1:]]
    alarm = contents.alarm
    if alarm is None and not tables:
        return None
    sentences = () if alarm is None else alarm_sentences(alarm)
    chosen = [] if alarm is None else [_alarm_table(alarm)]
    return AlarmView(sentences, contents.threshold, (*chosen, *tables))


def _sorted_sets(contents: Contents) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the tables of unseen pictures of which some show no class, and of which pictures they are."""
    train, test = contents.summary.train, contents.summary.test
    entries = [] if test is None else [(f"on {test.name}", contents.figures.get(test.name, {}))]
    entries.append((UNSEEN, contents.figures.get(train.name, {}).get("held_out", {})))
    for where, entry in entries:
        if any("image_auroc" in row for row in entry.get("classes", {}).values()):
            yield where, entry


def _defect_table(contents: Contents, where: str, entry: Mapping[str, Any]) -> FigureTable:
    """Return the figures of each class, and of all classes as one."""
    last = entry.get("any_class") or {}
    rows = [*entry["classes"].values(), last]
    titles = {key: title for key, title in MEASURES.items() if any(row.get(key) is not None for row in rows)}
    intervals = entry.get("intervals", {})

    def cells(row: Mapping[str, Any], known: Mapping[str, Any]) -> tuple[Cell, ...]:
        return tuple(Cell(decimal(row.get(key)), _interval(known.get(key))) for key in titles)

    names = [of_class.name for of_class in contents.classes]
    of_classes = intervals.get("classes", {})
    shown = tuple((name, cells(entry["classes"].get(name, {}), of_classes.get(name, {}))) for name in names)
    caption = _CAPTION + (f"Small numbers are intervals at {intervals['level']:.0%}. " if intervals else "")
    caption += _MASKS if "pixel_auroc" in titles else ""
    return FigureTable(
        "How well defects are found", where, caption, tuple(titles.values()), shown,
        cells(last, intervals.get("any_class", {})), "any defect",
    )  # fmt: skip


def _interval(known: Mapping[str, float] | None) -> str:
    """Return an interval that stands beside its figure, "" where there is none."""
    return "" if known is None else interval_text(known)


def alarm_sentences(alarm: AlarmThreshold) -> tuple[str, ...]:
    """Return the threshold, what it promises, and what it does to good pictures, with an interval.

    A last sentence names the classes for which whole pictures count, because other figures are of best boxes alone.
    """
    rule = f"A picture raises an alarm from a probability of {alarm.probability:.3g} on. {alarm.promise}"
    shares = ((alarm.held_out, UNSEEN), (alarm.tested, "on the test set"))
    counts = [f"Good pictures that raise one, {where}: {of[OK]}." for of, where in shares if OK in of]
    note = (
        f"The whole picture counts beside the best box for {', '.join(alarm.pictures)}, in alarms alone: how well "
        "defects are found, below, is by best boxes."
    )
    return rule, *counts, *([note] if alarm.pictures else [])


def _alarm_table(alarm: AlarmThreshold) -> FigureTable:
    """Return how many pictures of each kind raise an alarm."""
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
