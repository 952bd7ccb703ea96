"""The result page: one self-contained HTML file without network access and scripts."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from lapsvm.evaluation.measures import Pictures, Shown
from lapsvm.files import make_folder, write_atomically
from lapsvm.names.escapes import printable
from lapsvm.report.alarms import alarm_view
from lapsvm.report.contents import ClassSummary, Contents
from lapsvm.report.diagnosis import figure_tables, reliability_view, window_counts
from lapsvm.report.headline import class_table, headline
from lapsvm.report.pictures import ClassGalleries, class_galleries
from lapsvm.report.plots import Plot, precision_recall_plot, training_plots
from lapsvm.report.tables import (
    FILTERS,
    column_groups,
    decimal,
    left_out_sentence,
    seen_notes,
    sentences,
)

if TYPE_CHECKING:
    from jinja2 import Environment

MAX_PICTURES = 180


@dataclass(frozen=True)
class ClassView:
    """The numbers, plots and pictures of one class for the template."""

    result: ClassSummary
    curve: Plot | None
    curve_figures: str
    training: tuple[Plot, ...]
    galleries: ClassGalleries


def write_page(path: str | Path, contents: Contents, *, max_pictures: int = MAX_PICTURES, threads: int = 1) -> None:
    """Write the page of a run: one self-contained HTML file.

    The file is written under a temporary name in the same folder, synced and renamed. The same contents give the same
    bytes.

    Parameters
    ----------
    path : str or Path
        Missing parent folders are created.
    contents : Contents
    max_pictures : int, default 180
        Number of pictures, half of them in the rows at the top. Every gallery has 1 to 6 of them, and a class at most
        48 small ones beside. All pictures
        together take about 4 MB: the fewer there are, the larger they are (see `lapsvm.report.pictures.PAGE_PIXELS`).
    threads : int, default 1
        On which the pictures are read and drawn, and the maps of `contents` called.

    Raises
    ------
    ShapeError
        If boxes have another shape than documented.
    MissingError, ImageError
        If a picture cannot be read.
    OSError
        If the file cannot be written.
    """
    content = render_page(contents, max_pictures=max_pictures, threads=threads).encode()
    make_folder(Path(path).parent)
    write_atomically(path, content)


def render_page(contents: Contents, *, max_pictures: int = MAX_PICTURES, threads: int = 1) -> str:
    """Return the page as HTML text; see `write_page`. What does not print, as in names of files, is an escape."""
    page = _environment().get_template("page.html")
    galleries = class_galleries(contents.classes, max_pictures, threads)
    views = [_view(contents, *of_class) for of_class in zip(contents.classes, galleries, strict=True)]
    rendered = page.render(
        contents=contents,
        summary=contents.summary,
        groups=column_groups(contents),
        sentences=sentences(contents),
        seen_notes=seen_notes(contents),
        window_counts=window_counts(contents),
        left_out_sentence=left_out_sentence(contents),
        views=views,
        first_kinds=_box_kinds(view.galleries.first for view in views),
        mistake_kinds=_box_kinds(view.galleries.mistakes for view in views),
        headline=headline(contents),
        class_table=class_table(contents),
        alarms=alarm_view(contents),
        reliability=reliability_view(contents),
        figure_tables=figure_tables(contents),
    )
    return printable(rendered)


def _box_kinds(galleries: Iterable[ClassGalleries]) -> set[str]:
    """Return the kinds of boxes that pictures have, for their legend."""
    return {box.kind for of_class in galleries for figure in of_class.figures() for box in figure.whole.overlays}


@cache
def _environment() -> "Environment":
    """Return the template environment of this package, with automatic escaping; it compiles each template once."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined
    from markupsafe import Markup

    package = files("lapsvm.report")
    loader = FunctionLoader(lambda name: package.joinpath(name).read_text(encoding="utf-8"))
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= FILTERS
    style = Markup(package.joinpath("page.css").read_text(encoding="utf-8"))  # noqa: S704 our own file
    environment.globals["style"] = style
    return environment


def _view(contents: Contents, result: ClassSummary, galleries: ClassGalleries) -> ClassView:
    curve = None if result.curve is None else precision_recall_plot(result.name, result.curve)
    return ClassView(result, curve, _curve_figures(contents, result.name), training_plots(result), galleries)


def _curve_figures(contents: Contents, name: str) -> str:
    """Return the figures of a precision-recall curve on the test set, such as "AP 11-point 0.415"."""
    test = [figures for figures in contents.places if figures.pictures is Pictures.TEST]
    return ", ".join(
        f"{measure.title} {decimal(figures.value(name, measure.key))}"
        for figures in test
        for measure in figures.measures(Shown.CURVE)
    )
