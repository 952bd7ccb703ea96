"""Recall of the first windows of each method.

    python benchmarks/pictures/window_recall.py ROOT [ROOT ...] [--methods selective_search,mixed] [--pictures 200]

Each ROOT is a folder in the VOC layout. Pictures are drawn with seed 1 from those with an object that is not difficult,
and proposed in at most --side pixels, as runs do. Recall at IoU .5, and MABO, of the first windows: a table of methods,
and for several folders one of sets. CPU milliseconds are of one thread.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from time import thread_time
from typing import Annotated, Any, NamedTuple

import cv2
import numpy as np
from lapsvm.datasets.digits import write_digits
from lapsvm.pipelines.cli.study import Cell, Given, Into, print_table, study_command

from lapsvm.annotations.voc import read_objects
from lapsvm.boxes import from_voc, iou
from lapsvm.catalog import read_image
from lapsvm.errors import ImageError, OptionError
from lapsvm.windows import propose
from lapsvm.windows.proposals import enlarged_boxes, reduced

CAPS = (1000, 2000)


class Proposed(NamedTuple):
    """What a method proposes for a picture: the best overlaps (numbers of windows, objects), CPU seconds, windows."""

    overlaps: np.ndarray
    seconds: float
    windows: int


@study_command
def main(
    roots: Annotated[list[Path] | None, Given(metavar="ROOT", is_argument=True)] = None,
    methods: Annotated[str, Given(help="Separated by commas.")] = "selective_search,mixed",
    limit: Annotated[int, Given("--pictures", help="Of each folder.")] = 200,
    side: Annotated[int, Given(help="Longer side in pixels of what windows are proposed in.")] = 512,
    quick: Annotated[bool, Given(help="Three drawn pictures, in any folder's place.")] = False,
    into: Into = None,
) -> None:
    """Print the recall of some folders."""
    cv2.setNumThreads(1)
    with TemporaryDirectory() as folder:
        if quick:
            write_digits(folder, n_train=10, n_test=10)
            roots, limit = [Path(folder)], 3
        if not roots:
            raise OptionError("argument ROOT must name one folder or more, got none.")
        measure(roots, methods.split(","), limit, side, into)


def measure(roots: Sequence[Path], names: list[str], limit: int, side: int, into: Path | None) -> None:
    """Print the tables of some folders."""
    sets = []
    for root in roots:
        proposed = list(zip(*pictures(root, limit, names, side), strict=True))
        sets.append([f"{root.name}, {sum(one.overlaps.shape[1] for one in proposed[0]):,}"])
        rows = [method_row(name, own) for name, own in zip(names, proposed, strict=True)]
        sets[-1] += [cell for _, _, _, *cells in rows for cell in cells]
        titles = ["method", "ms", "windows", *(f"first {cap:,}" for cap in CAPS)]
        print(f"\n{sets[-1][0]} objects, {len(proposed[0])} pictures\n")
        print_table(titles, rows, into if len(roots) == 1 else None)
    if len(roots) > 1:
        print()
        first, *others = (f"{cap:,}" for cap in CAPS)
        print_table(["set", *(title for name in names for title in (f"{name}: {first}", *others))], sets, into)


def pictures(root: Path, limit: int, methods: list[str], side: int) -> Iterator[list[Proposed]]:
    """Yield the windows of every method for a picture."""
    names = sorted(path.stem for path in (root / "Annotations").glob("*.xml"))
    left = limit
    for place in np.random.default_rng(1).permutation(len(names)):
        objects = [item for item in read_objects(root / "Annotations" / f"{names[place]}.xml") if not item.difficult]
        pixels = readable(root / "JPEGImages" / f"{names[place]}.jpg") if objects and left else None
        if pixels is not None:
            left -= 1
            truth = from_voc([item.corners for item in objects])
            yield [windows(pixels, method, side, truth) for method in methods]


def readable(path: Path) -> Any:
    """Return a picture; None if it cannot be read whole."""
    try:
        return read_image(path)
    except ImageError:
        return None


def windows(pixels: Any, method: str, side: int, truth: Any) -> Proposed:
    """Return the windows of a method, beside the objects."""
    start = thread_time()
    seen = reduced(pixels, side)
    boxes = propose(seen, method, max_windows=CAPS[-1])
    boxes = boxes if seen is pixels else enlarged_boxes(boxes, pixels, seen)
    spent = thread_time() - start
    return Proposed(np.array([iou(truth, boxes[:cap]).max(axis=1) for cap in CAPS]), spent, len(boxes))


def method_row(name: str, proposed: Sequence[Proposed]) -> list[Cell]:
    """Return time, number of windows, recall and MABO of a method."""
    overlaps = np.concatenate([one.overlaps for one in proposed], axis=1)
    milliseconds, count = 1e3 * fmean(one.seconds for one in proposed), fmean(one.windows for one in proposed)
    cells = (f"{(row >= 0.5).mean():.3f}, {row.mean():.3f}" for row in overlaps)
    return [name, f"{milliseconds:.0f}", f"{count:.0f}", *cells]


if __name__ == "__main__":
    main()
