"""A source of objectness for tests, pictures that it knows, and what a run has stored of them."""

import numpy as np

from lapsvm.catalog import pixel_hash, read_image
from lapsvm.errors import DataError
from lapsvm.features import open_shards

QUICK = ["--extractor", "hog", "--windows", "grid", "--max-windows", "8", "--jobs", "2"]
LABELS = {f"{number:02}": ("cat", "", "dog", "", "")[number % 5] for number in range(40)}
POSITIVE = {name for name, label in LABELS.items() if label}
TRAINED = {name for name in POSITIVE if name < "30"}


class Brightest:
    """The box around the pixels above a level; it remembers the pictures that it has seen."""

    def __init__(self, level=128, **described):
        self.level, self.described, self.seen = level, described, []
        self.fails_after = None

    def describe(self):
        return {"kind": "brightest", "level": self.level, **self.described}

    def regions(self, pixels):
        if self.fails_after is not None and len(self.seen) >= self.fails_after:
            raise DataError("the network broke.")
        self.seen.append(pixel_hash(pixels))
        rows, columns = np.nonzero(pixels.min(axis=2) > self.level)
        if not len(rows):
            return np.empty((0, 4))
        return np.array([[columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]], dtype=np.float64)


def twin(source, pixels, boxes):
    """Return the objectness of windows, box by box."""
    regions = type(source)(source.level).regions(pixels)
    found = []
    for x1, y1, x2, y2 in boxes.astype(np.float64):
        best = 0.0
        for a1, b1, a2, b2 in regions:
            inside = max(0.0, min(x2, a2) - max(x1, a1)) * max(0.0, min(y2, b2) - max(y1, b1))
            best = max(best, inside / ((x2 - x1) * (y2 - y1) + (a2 - a1) * (b2 - b1) - inside))
        found.append(best)
    return found


def label(root, labels):
    """Write the labels; the last ten pictures are the test set."""
    rows = [f"{name}.png,{label},{'test' if name >= '30' else 'trainval'}" for name, label in labels.items()]
    (root / "labels.csv").write_text("\n".join(["image,label,set", *rows]))


def files(run):
    return {path.relative_to(run).as_posix(): path.read_bytes() for path in sorted(run.glob("shards/*/*"))}


def measured(run, set_name="trainval"):
    """Return picture -> the objectness of its windows, or None."""
    pictures = (one for shard in open_shards(run / "shards" / set_name) for one in shard.pictures())
    return {one.image_id: one.objectness for one in pictures}


def are_measured(run):
    return {name for name, numbers in measured(run).items() if numbers is not None}


def features(run):
    """Return picture -> everything but its objectness, as bytes."""
    pictures = (one for shard in open_shards(run / "shards" / "trainval") for one in shard.pictures())
    return {one.image_id: (one.boxes.tobytes(), one.features.tobytes(), one.pixel_hash) for one in pictures}


def hashes(root, names):
    return sorted(pixel_hash(read_image(root / f"{name}.png")) for name in names)
