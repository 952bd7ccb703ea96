"""Regions of `u2netp` by the size of its input: seconds, and overlap with annotated boxes and with the regions at 320.

    python benchmarks/objectness/input_sizes.py ROOT [ROOT ...] [--sizes 256 224] [--pictures 80]

Each ROOT is a folder in the VOC layout. Pictures are drawn with seed 1 from those with an object. Seconds are of the
processor, the map and its regions together, one thread. The best overlap is that of each object with a region, the mean
over a picture's objects and then over pictures; differences to 320 have standard errors over pictures.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from time import process_time

import cv2
import numpy as np

from lapsvm.arrays import Array, Float64
from lapsvm.boxes import from_voc, iou
from lapsvm.catalog import read_image
from lapsvm.errors import ImageError
from lapsvm.objectness import ObjectnessSource, open_objectness
from lapsvm.voc_files import read_objects


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("roots", type=Path, nargs="+")
    parser.add_argument("--sizes", type=int, nargs="+", default=[256, 224, 192])
    parser.add_argument("--pictures", type=int, default=80, help="of each folder")
    options = parser.parse_args()
    cv2.setNumThreads(1)
    sizes = [320, *options.sizes]
    sources = [source for size in sizes if (source := open_objectness(f"u2netp?size={size}"))]
    figures = {}
    for root in options.roots:
        drawn = pictures(root, options.pictures)
        figures[root.name] = np.array([measured(sources, pixels, truth) for pixels, truth in drawn])
        table(root.name, sizes, figures[root.name])
    table("all", sizes, np.concatenate(list(figures.values())))


def pictures(root: Path, limit: int) -> Iterator[tuple[Array, Float64]]:
    """Yield pictures that can be read, with the boxes of their objects."""
    names = sorted(path.stem for path in (root / "Annotations").glob("*.xml"))
    for place in np.random.default_rng(1).permutation(len(names)):
        objects = read_objects(root / "Annotations" / f"{names[place]}.xml")
        try:
            pixels = read_image(root / "JPEGImages" / f"{names[place]}.jpg") if objects and limit else None
        except ImageError:
            continue
        if pixels is not None:
            limit -= 1
            yield pixels, from_voc([item.corners for item in objects])


def measured(sources: list[ObjectnessSource], pixels: Array, truth: Float64) -> list[list[float]]:
    """Return seconds, best overlap with objects and with the first source's regions, and the regions, by source."""
    rows: list[list[float]] = []
    first = None
    for source in sources:
        begin = process_time()
        regions = source.regions(pixels)
        seconds = process_time() - begin
        first = regions if first is None else first
        rows.append([seconds, best_overlap(truth, regions), best_overlap(first, regions), len(regions)])
    return rows


def best_overlap(boxes: Float64, regions: Float64) -> float:
    """Return the mean of the largest overlap of each box with a region; 1 without boxes."""
    return float(iou(boxes, regions).max(axis=1, initial=0.0).mean()) if len(boxes) else 1.0


def table(name: str, sizes: list[int], figures: Float64) -> None:
    """Print a table of figures (pictures, sizes, 4)."""
    print(f"\n{name}, {len(figures)} pictures\n\n| size | s | objects | difference | regions of 320 | regions |")
    print("|---|---|---|---|---|---|")
    means = figures.mean(axis=0)
    change = figures[:, :, 1] - figures[:, :1, 1]
    for place, size in enumerate(sizes):
        seconds, objects, same, count = means[place]
        error = change[:, place].std() / len(change) ** 0.5
        shown = f"{change[:, place].mean():+.3f} ± {error:.3f}"
        print(f"| {size} | {seconds:.3f} | {objects:.3f} | {shown} | {same:.3f} | {count:.1f} |")


if __name__ == "__main__":
    main()
