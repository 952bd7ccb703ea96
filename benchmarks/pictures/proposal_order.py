"""Compare the order of windows: ours, and OpenCV's fast mode in both directions.

The environment is that of `proposals.py`:

    LAPSVM_TEST_DATA=DIR contrib/bin/python benchmarks/pictures/proposal_order.py SET STORE [PICTURES]

SET is voc (voc2007_vehicles_cat), voc/trainval or voc/test, raccoon or bccd. Settings were chosen on the first 250
pictures of voc/trainval, 100 of raccoon and 40 of bccd; voc/rest and raccoon/rest are the others. PICTURES of a set are
drawn with seed 1, by default all, and reduced to a longer side of 512 pixels. OpenCV's boxes, 1 CPU second per picture,
are kept in the folder STORE, so a stopped run goes on. Each cell is MABO / recall at IoU .5 / recall at IoU .7;
intervals of the difference to OpenCV's better direction are bootstraps over pictures.
"""

import os
import sys
import time
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from defusedxml.ElementTree import parse
from PIL import Image
from proposals import opencv

from lapsvm.boxes import from_voc, iou
from lapsvm.windows import propose

FOLDERS = {"voc": "voc2007_vehicles_cat", "raccoon": "raccoon", "bccd": "bccd"}
CHOSEN_ON = {"voc": 250, "raccoon": 100}
CAPS = (300, 500, 1000, 2000, None)
MEASURES = {"MABO": lambda best: best, "recall .5": lambda best: best >= 0.5, "recall .7": lambda best: best >= 0.7}


def main() -> None:
    cv2.setNumThreads(1)
    name, store = sys.argv[1], Path(sys.argv[2])
    base, _, part = name.partition("/")
    root = Path(os.environ["LAPSVM_TEST_DATA"]) / FOLDERS[base]
    ids = sorted(path.stem for path in (root / "JPEGImages").glob("*.jpg"))
    if part == "rest":
        tried = set(drawn(part_of(root, ids, "trainval" if base == "voc" else ""), CHOSEN_ON[base]))
        ids = [one for one in ids if one not in tried]
    else:
        ids = part_of(root, ids, part)
    chosen = drawn(ids, int(sys.argv[3]) if len(sys.argv) > 3 else len(ids))
    (store / base).mkdir(parents=True, exist_ok=True)
    found = [row for row in (measure(root, one, store / base / f"{one}.npy") for one in chosen) if row]
    print(f"ours: {1e3 * np.median([row['seconds'] for row in found]):.0f} ms")
    print(
        "windows, ours and OpenCV's: "
        + ", ".join(f"{n:.0f}" for n in np.mean([row["counts"] for row in found], axis=0))
    )
    for difficult in (True, False):
        table(found, difficult)


def part_of(root: Path, ids: list[str], part: str) -> list[str]:
    """Return the pictures that a part of a set lists; all for no part."""
    known = set((root / f"ImageSets/Main/{part}.txt").read_text().split()) if part else set(ids)
    return [one for one in ids if one in known]


def drawn(ids: list[str], n: int) -> list[str]:
    """Return `n` pictures."""
    return [ids[i] for i in np.random.default_rng(1).permutation(len(ids))[:n]]


def measure(root: Path, name: str, stored: Path) -> dict[str, Any]:
    """Return the best overlaps of each object of a picture, by method and number of windows; empty without objects."""
    picture = Image.open(root / f"JPEGImages/{name}.jpg").convert("RGB")
    share = min(1, 512 / max(picture.size))
    if share < 1:
        size = [max(1, round(side * share)) for side in picture.size]
        image = np.array(picture.resize(size, Image.Resampling.BILINEAR, reducing_gap=2.0))
    else:
        image = np.array(picture)
    boxes, difficult = objects(root / f"Annotations/{name}.xml")
    if not len(boxes):
        return {}
    boxes = boxes * np.tile(np.array(image.shape[1::-1]) / picture.size, 2)
    start = time.process_time()
    ours = propose(image, max_windows=None)
    seconds = time.process_time() - start
    theirs = opencv_once(image, stored)
    windows = {"ours": ours, "OpenCV": theirs, "OpenCV, reversed": theirs[::-1]}
    best = {method: overlaps(boxes, found) for method, found in windows.items()}
    return {"best": best, "difficult": difficult, "seconds": seconds, "counts": (len(ours), len(theirs))}


def opencv_once(image: Any, stored: Path) -> Any:
    """Return OpenCV's boxes, from the file if there is one."""
    if not stored.exists():
        partial = stored.with_name(f"{stored.stem}.part.npy")
        np.save(partial, opencv(image, "fast").astype(np.int16))
        partial.replace(stored)
    return np.load(stored).astype(np.float64)


def objects(path: Path) -> tuple[Any, Any]:
    """Return the boxes of a picture that are not empty, and which are difficult."""
    sides = ("xmin", "ymin", "xmax", "ymax")
    ones = list(parse(path).iter("object"))
    edges = np.array([[float(one.find("bndbox").findtext(side)) for side in sides] for one in ones]).reshape(-1, 4)
    full = (edges[:, 2:] > edges[:, :2]).all(axis=1)
    difficult = np.array([one.findtext("difficult") == "1" for one in ones], bool)
    return from_voc(edges[full]), difficult[full]


def overlaps(boxes: Any, windows: Any) -> Any:
    """Return the best overlaps (number of windows, objects)."""
    every = iou(boxes, windows)
    return np.stack([every[:, :cap].max(axis=1) for cap in CAPS]) if len(boxes) else np.empty((len(CAPS), 0))


def table(found: list[dict[str, Any]], difficult: bool) -> None:
    """Print the measures of each method, and the differences to OpenCV's better direction."""
    counted = [np.ones(len(row["difficult"]), bool) if difficult else ~row["difficult"] for row in found]
    print(
        f"\n{len(found)} pictures, {sum(map(sum, counted))} objects, difficult ones {'in' if difficult else 'ex'}cluded"
    )
    best = {m: [row["best"][m][:, ok] for row, ok in zip(found, counted, strict=True)] for m in found[0]["best"]}
    for method, rows in best.items():
        joined = np.concatenate(rows, axis=1)
        cells = zip(*[measure(joined).mean(axis=1) for measure in MEASURES.values()], strict=True)
        print(f"| {method} | " + " | ".join(" / ".join(f"{value:.3f}" for value in cell) for cell in cells) + " |")
    for name, measure in MEASURES.items():
        sums = {m: np.stack([measure(row).sum(axis=1) for row in rows]).astype(float) for m, rows in best.items()}
        theirs = [max(("OpenCV", "OpenCV, reversed"), key=lambda m, c=c: sums[m][:, c].sum()) for c in range(4)]
        cells = [interval(sums["ours"][:, c] - sums[theirs[c]][:, c], counted) for c in range(4)]
        print(f"| ours - OpenCV, {name} | {' | '.join(cells)} | |")


def interval(differences: Any, counted: list[Any]) -> str:
    """Return the mean difference over objects, and its 95 % bootstrap interval over pictures."""
    sizes = np.array([ok.sum() for ok in counted])
    draws = np.random.default_rng(0).integers(0, len(sizes), (1000, len(sizes)))
    low, high = np.quantile(differences[draws].sum(axis=1) / np.maximum(sizes[draws].sum(axis=1), 1), [0.025, 0.975])
    return f"{differences.sum() / sizes.sum():+.3f} [{low:+.3f}, {high:+.3f}]"


if __name__ == "__main__":
    main()
