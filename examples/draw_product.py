"""A drawn product with and without defects, in the layout of MVTec AD, and new pictures of it.

::

    python examples/draw_product.py product new

`product` has pictures of good plates and of three kinds of defects, with masks: a scratch (a thin line), a stain (a
soft patch) and a chip (a corner that is missing). `new` has pictures as a camera would write them, in a folder for
each day, with a defect that no picture of `product` shows: a hole. The same options give the same pictures.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from lapsvm.catalog import Pixels

WIDTH, HEIGHT = 320, 240
PLATE = 40, 30, 280, 210  # x1, y1, x2, y2, before it is moved
KINDS = ("scratch", "stain", "chip")
UNSEEN = "hole"
Floats = NDArray[np.float32]


def draw(rng: np.random.Generator, kind: str) -> tuple[Pixels, NDArray[np.uint8]]:
    """Return a picture (h, w, 3) of a plate with a defect, or "good", and its mask (h, w) of 0 and 255."""
    shift = rng.integers(-10, 11, 2)
    corners = np.array(PLATE) + np.tile(shift, 2)
    scene, mask = plate(rng, corners), np.zeros((HEIGHT, WIDTH), np.uint8)
    if kind != "good":
        mask = defect(rng, kind, corners)
        soft = cv2.GaussianBlur(mask, (0, 0), 3.0 if kind == "stain" else 0.7) / 255
        level = {"scratch": scene + 55, "stain": scene - 45, "chip": np.full_like(scene, 60), "hole": scene - 100}[kind]
        scene = scene * (1 - soft) + level * soft
    light = rng.normal(0, 6) + rng.normal(0, 5) * np.linspace(-1, 1, WIDTH)
    grey = scene + light + rng.normal(0, 3, scene.shape)
    tinted = grey[:, :, None] * np.array([1.0, 0.98, 0.94])
    return np.clip(np.rint(tinted), 0, 255).astype(np.uint8), mask


def plate(rng: np.random.Generator, corners: NDArray[np.int64]) -> Floats:
    """Return the grey levels (h, w) of a brushed plate with two bolts on a dark table."""
    table = 60 + 4 * cv2.GaussianBlur(rng.normal(0, 3, (HEIGHT, WIDTH)).astype(np.float32), (0, 0), 2)
    brushed = 150 + 2 * cv2.blur(rng.normal(0, 8, (HEIGHT, WIDTH)).astype(np.float32), (41, 1))
    x1, y1, x2, y2 = corners.tolist()
    table[y1:y2, x1:x2] = brushed[y1:y2, x1:x2]
    for x in (x1 + 25, x2 - 25):
        cv2.circle(table, (x, (y1 + y2) // 2), 9, 95, -1, cv2.LINE_AA)
        cv2.circle(table, (x, (y1 + y2) // 2), 5, 175, -1, cv2.LINE_AA)
    return table


def defect(rng: np.random.Generator, kind: str, corners: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Return the mask of a defect on the plate."""
    mask, (x1, y1, x2, y2) = np.zeros((HEIGHT, WIDTH), np.uint8), corners.tolist()
    x, y = int(rng.integers(x1 + 60, x2 - 60)), int(rng.integers(y1 + 40, y2 - 40))
    size = int(rng.integers(9, 18))
    if kind == "scratch":
        angle, reach = rng.uniform(0, np.pi), rng.uniform(18, 36)
        ends = [(round(x + sign * reach * np.cos(angle)), round(y + sign * reach * np.sin(angle))) for sign in (-1, 1)]
        cv2.line(mask, ends[0], ends[1], 255, 2)
    elif kind == "stain":
        cv2.ellipse(mask, (x, y), (size, round(size * rng.uniform(0.6, 1))), rng.uniform(0, 180), 0, 360, 255, -1)
    elif kind == "chip":
        x, y = (x1, x2)[rng.integers(2)], (y1, y2)[rng.integers(2)]
        cv2.circle(mask, (x, y), size + 4, 255, -1)
        inside = np.zeros_like(mask)
        inside[y1:y2, x1:x2] = 255
        mask &= inside
    else:
        cv2.circle(mask, (x, y), size // 2, 255, -1)
    return mask


def write(path: Path, pixels: NDArray[np.uint8]) -> None:
    """Write a picture, RGB or grey; its folder is created."""
    path.parent.mkdir(parents=True, exist_ok=True)
    stored = pixels[:, :, ::-1] if pixels.ndim == 3 else pixels
    path.write_bytes(cv2.imencode(".png", np.ascontiguousarray(stored))[1].tobytes())


def write_product(root: Path, seed: int, defects: int) -> None:
    """Write the layout: good pictures in train and test, defects with masks in test."""
    for place, kind, count in planned(defects):
        for number in range(count):
            pixels, mask = draw(np.random.default_rng((seed, len(place), ord(kind[0]), ord(kind[1]), number)), kind)
            write(root / place / kind / f"{number:03d}.png", pixels)
            if kind != "good":
                write(root / "ground_truth" / kind / f"{number:03d}_mask.png", mask)


def planned(defects: int) -> Iterator[tuple[str, str, int]]:
    """Yield folder, kind and number of pictures."""
    yield "train", "good", defects
    yield "test", "good", 2 * defects
    yield from (("test", kind, defects) for kind in KINDS)


def write_new(root: Path, seed: int) -> None:
    """Write new pictures of every kind, and of the one that training has not seen."""
    days = {"monday": ("good", *KINDS), "tuesday": ("good", "good", "good", UNSEEN), "wednesday": (UNSEEN,) * 3}
    for day, shown in days.items():
        for number, kind in enumerate(shown):
            pixels, _ = draw(np.random.default_rng((seed, 99, len(day), number)), kind)
            write(root / day / f"{number}-{kind}.png", pixels)


def main() -> None:
    """Write both folders."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("product", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--defects", type=int, default=24, help="pictures of each kind of defect")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    write_product(given.product, given.seed, given.defects)
    write_new(given.new, given.seed)


if __name__ == "__main__":
    main()
