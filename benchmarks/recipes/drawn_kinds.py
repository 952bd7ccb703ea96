"""Write a VOC folder of six kinds of a small thing: `python benchmarks/recipes/drawn_kinds.py OUT [options]`.

The things are tokens that differ in their mark alone: a rounded square of any colour, at any angle, with one to six
dots, as on dice. Every picture shows one token, or two of one kind, on a texture of `drawn_defects.py` among plain
distractors: bars and discs. The shared shape is in every picture, so that labels tell marks apart, not objects from
background. The same options give the same pictures.
"""

from functools import partial

import cv2
import numpy as np
from drawn_defects import Floats, drawing, write_sets

from lapsvm.annotations.voc import VocObject

KINDS = ("one", "two", "three", "four", "five", "six")
DOTS = {
    "one": [(0, 0)],
    "two": [(-1, -1), (1, 1)],
    "three": [(-1, -1), (0, 0), (1, 1)],
    "four": [(-1, -1), (1, 1), (-1, 1), (1, -1)],
    "five": [(-1, -1), (1, 1), (-1, 1), (1, -1), (0, 0)],
    "six": [(-1, -1), (1, 1), (-1, 1), (1, -1), (-1, 0), (1, 0)],
}
FINER = 4  # tokens are painted at so many times their size


def draw_tokens(rng: np.random.Generator, scene: Floats, number: int, sides: tuple[float, float]) -> list[VocObject]:
    """Draw distractors, and one token or two of a kind, on a picture of a set, and return the tokens."""
    kind, taken = KINDS[number % len(KINDS)], np.zeros(scene.shape[:2], bool)
    for _ in range(rng.integers(2, 6)):
        put(rng, scene, taken, *distractor(rng, rng.uniform(*sides)))
    boxes = [put(rng, scene, taken, *token(rng, kind, rng.uniform(*sides))) for _ in range(rng.integers(1, 3))]
    while not any(boxes):
        boxes = [put(rng, scene, taken, *token(rng, kind, sides[0]))]
    return [VocObject(kind, box, False) for box in boxes if box]


def put(rng: np.random.Generator, scene: Floats, taken: Floats, colour: Floats, cover: Floats) -> tuple[float, ...]:
    """Paint a thing where nothing is, and return its corners in VOC pixels; () if it meets another."""
    height, width = cover.shape
    y, x = (int(rng.integers(2, side - own - 2)) for side, own in zip(taken.shape, cover.shape, strict=True))
    place = np.s_[y : y + height, x : x + width]
    if taken[place].any():
        return ()
    taken[place] = True
    scene[place] += cover[:, :, None] * (colour - scene[place])
    return x + 1.0, y + 1.0, float(x + width), float(y + height)


def token(rng: np.random.Generator, kind: str, side: float) -> tuple[Floats, Floats]:
    """Return the colours (h, w, 3) and the cover (h, w), 0 to 1, of a token cropped to its box."""
    angle, ground = rng.uniform(0, 2 * np.pi), rng.uniform(150, 250, 3)
    mark = ground - rng.uniform(110, 150)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    n = round(side * 1.5) * FINER
    y, x = np.moveaxis(np.stack(np.mgrid[-0.75 : 0.75 : n * 1j, -0.75 : 0.75 : n * 1j], -1) @ turn, -1, 0)
    corner = np.maximum(np.abs(np.stack([y, x])) - 0.35, 0)
    cover = (np.hypot(*corner) < 0.15).astype(np.float32)
    dots = np.any([np.hypot(y - 0.27 * v, x - 0.27 * u) < 0.1 for v, u in DOTS[kind]], axis=0)
    colour = np.where(dots[:, :, None], mark, ground).astype(np.float32)
    return cropped(colour, cover)


def distractor(rng: np.random.Generator, side: float) -> tuple[Floats, Floats]:
    """Return a disc or a bar of one colour, as `token` does."""
    n = round(side) * FINER
    y, x = np.mgrid[-1 : 1 : n * 1j, -1 : 1 : n * 1j]
    angle = rng.uniform(0, np.pi)
    bar = (np.abs(np.cos(angle) * x + np.sin(angle) * y) < 0.2) & (np.hypot(y, x) < 1)
    cover = (np.hypot(y, x) < 0.7 if rng.random() < 0.5 else bar).astype(np.float32)
    return cropped(np.broadcast_to(rng.uniform(30, 230, 3).astype(np.float32), (n, n, 3)), cover)


def cropped(colour: Floats, cover: Floats) -> tuple[Floats, Floats]:
    """Return both at the final size, cropped to what is covered."""
    small = [cv2.resize(one, None, fx=1 / FINER, fy=1 / FINER, interpolation=cv2.INTER_AREA) for one in (colour, cover)]
    rows, columns = (np.flatnonzero((small[1] >= 0.5).any(axis=axis)) for axis in (1, 0))
    inner = np.s_[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    return small[0][inner], small[1][inner]


write = partial(write_sets, draw_tokens, KINDS, count=180, sides=(40, 110))
main = drawing(write)
"""Write both sets into a folder."""

if __name__ == "__main__":
    main()
