"""Recall of the first windows of each method.

    python benchmarks/pictures/window_recall.py ROOT [ROOT ...] [--methods mixed,small:768] [--counts 1000,2000]

Each ROOT is a folder in the VOC layout, or ROOT:CLASS for the objects of one class. Pictures are drawn with seed 1 from
those with an object that is not difficult. METHOD:SIDE proposes in pictures of at most SIDE pixels; others in --side.
Recall at IoU .5 and .7, and the mean best overlap of an object, of the first windows; milliseconds a picture.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Annotated, Any

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

COUNTS = "1000,2000"
Proposed = tuple[np.ndarray, float]
"""Best overlaps of objects, and the seconds that the windows took."""


@study_command
def main(
    roots: Annotated[list[str] | None, Given(metavar="ROOT[:CLASS]", is_argument=True)] = None,
    methods: Annotated[str, Given(help="METHOD or METHOD:SIDE, separated by commas.")] = "mixed,small:768",
    counts: Annotated[str, Given(help="Numbers of first windows, separated by commas.")] = COUNTS,
    limit: Annotated[int, Given("--pictures", help="Of each folder.")] = 200,
    side: Annotated[int, Given(help="Longer side in pixels of what the others are proposed in.")] = 512,
    quick: Annotated[bool, Given(help="Three drawn pictures, in any folder's place.")] = False,
    into: Into = None,
) -> None:
    """Print the recall of some folders."""
    cv2.setNumThreads(1)
    with TemporaryDirectory() as folder:
        if quick:
            write_digits(folder, n_train=10, n_test=10)
            roots, limit = [folder], 3
        if not roots:
            raise OptionError("argument ROOT must name one folder or more, got none.")
        measure(roots, methods.split(","), [int(count) for count in counts.split(",")], limit, side, into)


def measure(roots: list[str], names: list[str], caps: list[int], limit: int, side: int, into: Path | None) -> None:
    """Print the table of some folders."""
    rows: list[list[Cell]] = []
    for root in roots:
        folder, _, class_name = root.partition(":")
        propose_windows = partial(windows, side=side, caps=caps)
        proposed = list(zip(*pictures(Path(folder), class_name, limit, names, propose_windows), strict=True))
        title = f"{class_name or Path(folder).name}, {sum(one.shape[1] for one, _ in proposed[0]):,}"
        rows += [method_row(f"{title}: {name}", own) for name, own in zip(names, proposed, strict=True)]
    print_table(["set, objects: method", "ms", *(f"first {cap:,}" for cap in caps)], rows, into)


def pictures(
    root: Path, class_name: str, limit: int, methods: list[str], propose_windows: Any
) -> Iterator[list[Proposed]]:
    """Yield the windows of every method for a picture with objects, of one class if it has a name."""
    names = sorted(path.stem for path in (root / "Annotations").glob("*.xml"))
    left = limit
    for place in np.random.default_rng(1).permutation(len(names)):
        objects = [
            item
            for item in read_objects(root / "Annotations" / f"{names[place]}.xml")
            if not item.difficult and class_name in ("", item.name)
        ]
        pixels = readable(root / "JPEGImages" / f"{names[place]}.jpg") if objects and left else None
        if pixels is not None:
            left -= 1
            truth = from_voc([item.corners for item in objects])
            yield [propose_windows(pixels, truth, method) for method in methods]


def readable(path: Path) -> Any:
    """Return a picture; None if it cannot be read whole."""
    try:
        return read_image(path)
    except ImageError:
        return None


def windows(pixels: Any, truth: Any, method: str, side: int, caps: Sequence[int]) -> Proposed:
    """Return the best overlap (numbers of windows, objects) of each object with the first windows of a method."""
    (name, _, own), start = method.partition(":"), perf_counter()
    seen = reduced(pixels, int(own or side))
    boxes = propose(seen, name, max_windows=caps[-1])
    boxes = boxes if seen is pixels else enlarged_boxes(boxes, pixels, seen)
    seconds = perf_counter() - start
    return np.array([iou(truth, boxes[:cap]).max(axis=1) for cap in caps]), seconds


def method_row(name: str, proposed: Sequence[Proposed]) -> list[Cell]:
    """Return the time of a method, its recalls and its mean best overlaps."""
    each, seconds = zip(*proposed, strict=True)
    overlaps = np.concatenate(each, axis=1)
    figures = ((np.mean(row >= 0.5), np.mean(row >= 0.7), row.mean()) for row in overlaps)
    return [name, round(1000 * np.mean(seconds)), *(", ".join(f"{figure:.3f}" for figure in own) for own in figures)]


if __name__ == "__main__":
    main()
