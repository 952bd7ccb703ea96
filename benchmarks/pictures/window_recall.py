"""Recall of the first windows of each method: which objects have one, by set, class and size.

    python benchmarks/pictures/window_recall.py ROOT [ROOT ...] [--methods selective_search,mixed] [--pictures 200]

Each ROOT is a folder in the VOC layout. Pictures are drawn with seed 1 from those with an object that is not difficult,
and proposed in at most --side pixels, as runs do. Recall at IoU .5 / MABO of the first windows, with 95 % bootstrap
intervals over pictures of the differences to the first method; recall by class, and by the root of the object's area
over that of the picture's. CPU seconds are of one thread.
"""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from time import thread_time
from typing import Annotated, Any

import cv2
import numpy as np
import typer
from lapsvm.pipelines.cli.study import Cell, print_table, study_command

from lapsvm.boxes import areas, from_voc, iou
from lapsvm.catalog import read_image
from lapsvm.errors import ImageError
from lapsvm.voc_files import read_objects
from lapsvm.windows import propose
from lapsvm.windows.proposals import enlarged_boxes, reduced

CAPS = (300, 500, 1000, 2000)
SIZES = (0, 0.03, 0.06, 0.12, 0.25, 1.01)


@study_command
def main(
    roots: Annotated[list[Path], typer.Argument(metavar="ROOT")],
    methods: Annotated[str, typer.Option(help="Separated by commas.")] = "selective_search,mixed",
    limit: Annotated[int, typer.Option("--pictures", help="Of each folder.")] = 200,
    side: Annotated[int, typer.Option(help="Longer side in pixels of what windows are proposed in.")] = 512,
) -> None:
    """Print the recall of some folders."""
    cv2.setNumThreads(1)
    for root in roots:
        table(root.name, methods.split(","), list(pictures(root, limit, methods.split(","), side)))


def pictures(root: Path, limit: int, methods: list[str], side: int) -> Any:
    """Yield the best overlaps (methods, numbers of windows, objects) of each picture, its objects, and the times."""
    names = sorted(path.stem for path in (root / "Annotations").glob("*.xml"))
    left = limit
    for place in np.random.default_rng(1).permutation(len(names)):
        objects = [item for item in read_objects(root / "Annotations" / f"{names[place]}.xml") if not item.difficult]
        pixels = readable(root / "JPEGImages" / f"{names[place]}.jpg") if objects and left else None
        if pixels is not None:
            left -= 1
            truth = from_voc([item.corners for item in objects])
            results = [windows(pixels, method, side) for method in methods]
            best = np.array([[iou(truth, boxes[:cap]).max(axis=1) for cap in CAPS] for boxes, _ in results])
            sizes = np.sqrt(areas(truth) / (pixels.shape[0] * pixels.shape[1]))
            counts = [min(len(boxes), CAPS[-1]) for boxes, _ in results]
            yield best, [item.name for item in objects], sizes, [seconds for _, seconds in results], counts


def readable(path: Path) -> Any:
    """Return a picture; None if it cannot be read whole."""
    try:
        return read_image(path)
    except ImageError:
        return None


def windows(pixels: Any, method: str, side: int) -> tuple[Any, float]:
    """Return the windows of a method and its CPU seconds."""
    start = thread_time()
    seen = reduced(pixels, side)
    boxes = propose(seen, method, max_windows=CAPS[-1])
    return boxes if seen is pixels else enlarged_boxes(boxes, pixels, seen), thread_time() - start


def table(name: str, methods: list[str], found: list[Any]) -> None:
    """Print the tables of a folder."""
    best = [row[0] for row in found]
    joined = np.concatenate(best, axis=2)
    print(f"\n**{name}, {len(found)} pictures, {joined.shape[2]} objects**\n")
    rows = [*method_rows(methods, found, joined), *difference_rows(methods, best)]
    print_table(["method", "ms", "windows", *map(str, CAPS)], rows)
    names, sizes = np.concatenate([row[1] for row in found]), np.concatenate([row[2] for row in found])
    groups = {str(one): names == one for one in sorted(set(names))} if len(set(names)) < 8 else {}
    groups |= {f"size {low} to {high}": (low <= sizes) & (sizes < high) for low, high in pairwise(SIZES)}
    print()
    shown = {label: chosen for label, chosen in groups.items() if chosen.any()}
    rows = ([label, int(of.sum()), *((row[-1, of] >= 0.5).mean() for row in joined)] for label, of in shown.items())
    print_table([f"recall of {CAPS[-1]}, objects", "n", *methods], rows)


def method_rows(methods: list[str], found: list[Any], joined: Any) -> Iterator[list[Cell]]:
    """Yield time, number of windows, recall and MABO of every method."""
    for number, method in enumerate(methods):
        milliseconds, count = (np.mean([row[k][number] for row in found]) for k in (3, 4))
        cells = (f"{(row >= 0.5).mean():.3f} / {row.mean():.3f}" for row in joined[number])
        yield [method, f"{1e3 * milliseconds:.0f}", f"{count:.0f}", *cells]


def difference_rows(methods: list[str], best: list[Any]) -> Iterator[list[Cell]]:
    """Yield the differences of every method to the first one."""
    values = {"recall": lambda overlaps: (overlaps >= 0.5) * 1.0, "MABO": lambda overlaps: overlaps}
    for number, method in enumerate(methods[1:], 1):
        for measure, value in values.items():
            cells = [interval([value(row[number, k]) - value(row[0, k]) for row in best]) for k in range(len(CAPS))]
            yield [f"{method} - {methods[0]}, {measure}", "", "", *cells]


def interval(differences: list[Any]) -> str:
    """Return the mean difference over objects, and its 95 % bootstrap interval over pictures."""
    sums, sizes = np.array([one.sum() for one in differences]), np.array([len(one) for one in differences])
    draws = np.random.default_rng(0).integers(0, len(sizes), (1000, len(sizes)))
    low, high = np.quantile(sums[draws].sum(axis=1) / sizes[draws].sum(axis=1), [0.025, 0.975])
    return f"{sums.sum() / sizes.sum():+.3f} [{low:+.3f}, {high:+.3f}]"


if __name__ == "__main__":
    main()
