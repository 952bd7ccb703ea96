"""Write VOC folders of small, thin and many things: `python benchmarks/recipes/drawn_small.py OUT [options]`.

Three sets below OUT. `boards`: tracks and pads on flat ground with small faults, of which most end where nothing in the
picture ends: a gap in a track, a bridge between two, a bite, a spur, a spot. `cracks`: thin lines at any angle on
textures, low in contrast, longer than wide by far. `many`: two to fifteen round or long things that touch, in two
sizes. A quarter of the pictures has none. The same options give the same pictures.
"""

from functools import partial
from pathlib import Path
from typing import Annotated

import cv2
import numpy as np
from drawn_defects import FREE, Floats, clouds, write_sets
from lapsvm.pipelines.cli.study import Given, study_command

from lapsvm.annotations.voc import VocObject

FAULTS = ("gap", "bridge", "bite", "spur", "spot")
LINES = ("crack", "scratch")
THINGS = ("round", "long")
PITCH = 18, 30  # pixels between the tracks of a board
MARGIN = 2, 6  # pixels between a fault and its box, as people draw it
THIN = 6  # pixels of the shorter side of a line's box, at least
FAINT = 10, 35  # grey levels of a line
TOUCHING = 0.12  # of a thing's box that others may cover
TRIES = 60


def draw_board(rng: np.random.Generator, scene: Floats, number: int, sides: tuple[float, float]) -> list[VocObject]:
    """Draw a board with one to five faults, and return them; none on every fourth."""
    height, width = scene.shape[:2]
    good, pitch = np.zeros((height, width), np.float32), int(rng.integers(*PITCH))
    tracks = draw_tracks(rng, good, pitch)
    board, objects, taken = good.copy(), [], np.zeros((height, width), bool)
    wanted = 0 if number % FREE == FREE - 1 else rng.integers(1, 6)
    for _ in range(TRIES):
        if len(objects) >= wanted:
            break
        kind = FAULTS[rng.integers(len(FAULTS))]
        changed = fault(rng, kind, board, tracks[rng.integers(len(tracks))], pitch, rng.uniform(*sides))
        box = boxed(rng, np.abs(changed - board) > 0.3, MARGIN)
        if box and not taken[box[1] : box[3], box[0] : box[2]].any():
            board, taken[box[1] : box[3], box[0] : box[2]] = changed, True
            objects.append(VocObject(kind, (box[0] + 1.0, box[1] + 1.0, float(box[2]), float(box[3])), False))
    ground, metal = rng.uniform(30, 110, 3), rng.uniform(130, 220, 3)
    light = 3 * clouds(rng, height, width)[:, :, None]
    scene[:] = ground + board[:, :, None] * (metal - ground) + light
    return objects


def draw_tracks(rng: np.random.Generator, board: Floats, pitch: int) -> list[Floats]:
    """Paint tracks that run beside each other with one bend each, some ending in a pad; return their points."""
    height, width = board.shape
    bend, turn, thick = rng.uniform(0.3, 0.7), int(rng.choice([-1, 1])), int(rng.integers(3, pitch // 3 + 1))
    tracks = []
    for y in range(-height, 2 * height, pitch):
        start = rng.uniform(0, 0.25) * width if rng.random() < 0.3 else -5.0
        knee, slope = bend * width + turn * (y - height / 2) * 0.4, rng.choice([60.0, 90.0])
        points = np.array([[start, y], [knee, y], [knee + slope, y + turn * slope], [width + 5, y + turn * slope]])
        cv2.polylines(board, [np.rint(points * 16).astype(np.int32)], False, 1.0, thick, cv2.LINE_AA, 4)
        if start > 0:
            cv2.circle(board, (int(start), y), pitch // 3, 1.0, -1, cv2.LINE_AA)
            cv2.circle(board, (int(start), y), pitch // 8, 0.0, -1, cv2.LINE_AA)
        tracks.append(points)
    return tracks


def fault(rng: np.random.Generator, kind: str, board: Floats, track: Floats, pitch: int, side: float) -> Floats:
    """Return the board with a fault of about `side` pixels at a track; the same board where it falls outside."""
    first = rng.integers(len(track) - 1)
    x, y = track[first] + rng.uniform(0.1, 0.9) * (track[first + 1] - track[first])
    changed, radius = board.copy(), max(2, round(side / 2))
    middle = int(x), int(y)
    if kind == "gap":
        cv2.circle(changed, middle, radius, 0.0, -1, cv2.LINE_AA)
    elif kind == "bridge":
        cv2.line(
            changed, middle, (int(x + rng.normal(0, 2)), int(y + pitch)), 1.0, max(2, round(side / 5)), cv2.LINE_AA
        )
    elif kind == "bite":
        cv2.circle(changed, (int(x), int(y + pitch / 6)), max(2, radius // 2), 0.0, -1, cv2.LINE_AA)
    elif kind == "spur":
        cv2.line(
            changed,
            middle,
            (int(x + rng.normal(0, 3)), int(y - side / 2 - 3)),
            1.0,
            max(2, round(side / 6)),
            cv2.LINE_AA,
        )
    else:
        cv2.circle(changed, (int(x), int(y + pitch / 2)), max(2, radius // 2), 1.0, -1, cv2.LINE_AA)
    return changed


def boxed(rng: np.random.Generator, shown: Floats, margin: tuple[int, int]) -> tuple[int, int, int, int] | None:
    """Return the corners of what is shown, grown by a margin inside the picture; None if it is less than two pixels."""
    rows, columns = np.flatnonzero(shown.any(axis=1)), np.flatnonzero(shown.any(axis=0))
    if min(len(rows), len(columns)) < 2:
        return None
    height, width = shown.shape
    grown = int(rng.integers(*margin))
    x1, y1 = max(0, int(columns[0]) - grown), max(0, int(rows[0]) - grown)
    return x1, y1, min(width, int(columns[-1]) + 1 + grown), min(height, int(rows[-1]) + 1 + grown)


def draw_lines(rng: np.random.Generator, scene: Floats, number: int, sides: tuple[float, float]) -> list[VocObject]:
    """Draw one to three cracks or scratches, and return them; none on every fourth."""
    objects, taken = [], np.zeros(scene.shape[:2], bool)
    for _ in range(0 if number % FREE == FREE - 1 else rng.integers(1, 4)):
        kind = LINES[rng.integers(2)]
        level = line(rng, kind, scene.shape[:2], float(np.exp(rng.uniform(*np.log(sides)))))
        box = boxed(rng, level > 0.3, (0, 2))
        box = box and tuple(int(edge) for edge in widened(box, scene.shape[:2]))
        if box and not taken[box[1] : box[3], box[0] : box[2]].any():
            taken[box[1] : box[3], box[0] : box[2]] = True
            scene += (rng.uniform(*FAINT) * rng.choice([-1, 1]) * level)[:, :, None]
            objects.append(VocObject(kind, (box[0] + 1.0, box[1] + 1.0, float(box[2]), float(box[3])), False))
    return objects


def widened(box: tuple[int, int, int, int], shape: tuple[int, ...]) -> Floats:
    """Return a box with sides of at least `THIN` pixels, inside the picture."""
    limits = np.array([shape[1], shape[0]])
    low, high = np.array(box[:2]), np.array(box[2:])
    low = np.maximum(0, np.minimum(low, (low + high - THIN) // 2))
    high = np.minimum(limits, np.maximum(high, low + THIN))
    return np.concatenate([low, high])


def line(rng: np.random.Generator, kind: str, shape: tuple[int, ...], length: float) -> Floats:
    """Return a line as levels from 0 to 1: a crack turns at every step, a scratch bends once."""
    height, width = shape
    steps = max(6, round(length / 8))
    turns = rng.normal(0, 0.35, steps) if kind == "crack" else np.full(steps, rng.normal(0, 0.3) / steps)
    angles = rng.uniform(0, np.pi) + (turns if kind == "crack" else np.cumsum(turns))
    points = np.cumsum(length / steps * np.stack([np.cos(angles), np.sin(angles)], axis=1), axis=0)
    low, high = points.min(axis=0), points.max(axis=0)
    room = np.maximum([width - 6, height - 6] - (high - low), 0)
    points += 3 - low + rng.uniform(0, 1, 2) * room
    canvas = np.zeros((height * 2, width * 2), np.uint8)
    thick = int(rng.integers(2, 6))
    cv2.polylines(canvas, [np.rint(points * 2 * 16).astype(np.int32)], False, 255, thick, cv2.LINE_AA, 4)
    return cv2.resize(canvas, (width, height), interpolation=cv2.INTER_AREA) / np.float32(255)


def draw_many(rng: np.random.Generator, scene: Floats, number: int, sides: tuple[float, float]) -> list[VocObject]:
    """Draw two to fifteen things of one kind, most touching another, and return them; none on every fourth."""
    objects: list[VocObject] = []
    taken = np.zeros(scene.shape[:2], np.float32)
    kind, colour = THINGS[number % 2], rng.uniform(40, 210, 3)
    scene[:] = rng.uniform(90, 200, 3) + 3 * clouds(rng, *scene.shape[:2])[:, :, None]
    for _ in range(0 if number % FREE == FREE - 1 else rng.integers(2, 16)):
        side = sides[rng.integers(2)] * rng.uniform(0.85, 1.15)
        box = put_near(rng, scene, taken, thing(rng, kind, side), colour, objects)
        objects += [VocObject(kind, box, False)] if box else []
    return objects


def thing(rng: np.random.Generator, kind: str, side: float) -> Floats:
    """Return the cover (h, w) of an ellipse with a longer side of `side`, cropped."""
    ratio = rng.uniform(0.8, 1) if kind == "round" else rng.uniform(0.35, 0.5)
    n = round(side) + 6
    canvas = np.zeros((n, n), np.uint8)
    axes = round(side / 2 * 16), round(side * ratio / 2 * 16)
    cv2.ellipse(canvas, (n * 8, n * 8), axes, rng.uniform(0, 180), 0, 360, 255, -1, cv2.LINE_AA, 4)
    rows, columns = (np.flatnonzero((canvas > 127).any(axis=axis)) for axis in (1, 0))
    return canvas[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1] / np.float32(255)


def put_near(
    rng: np.random.Generator, scene: Floats, taken: Floats, cover: Floats, colour: Floats, others: list[VocObject]
) -> tuple[float, ...]:
    """Paint a thing, mostly at the border of another, and return its corners in VOC pixels; () if there is no room."""
    height, width = cover.shape
    for _ in range(TRIES):
        if others and rng.random() < 0.8:
            x1, y1, x2, y2 = others[rng.integers(len(others))].corners
            angle, reach = rng.uniform(0, 2 * np.pi), np.array([x2 - x1 + width, y2 - y1 + height]) / 2 * 0.97
            x, y = np.array([x1 + x2 - width, y1 + y2 - height]) / 2 + reach * [np.cos(angle), np.sin(angle)]
        else:
            x, y = rng.uniform(0, [scene.shape[1] - width, scene.shape[0] - height])
        x, y = int(x), int(y)
        place = np.s_[y : y + height, x : x + width]
        inside = 2 <= x <= scene.shape[1] - width - 2 and 2 <= y <= scene.shape[0] - height - 2
        if inside and (taken[place] * cover).sum() <= TOUCHING * cover.sum():
            taken[place] = np.maximum(taken[place], cover)
            inner = cv2.GaussianBlur(cover, (0, 0), max(1.0, width / 12))
            shade = (colour + rng.normal(0, 6, 3)) * (0.75 + 0.3 * inner[:, :, None])
            scene[place] += cover[:, :, None] * (shade - scene[place])
            return x + 1.0, y + 1.0, float(x + width), float(y + height)
    return ()


SETS = {
    "boards": partial(write_sets, draw_board, FAULTS, sides=(10, 32)),
    "cracks": partial(write_sets, draw_lines, LINES, sides=(40, 280)),
    "many": partial(write_sets, draw_many, THINGS, sides=(30, 62)),
}
"""Name -> writer of a set: ``write(out, count=..., seed=...)``; `sides` are its small and its large things."""


@study_command
def main(
    out: Path,
    pictures: Annotated[int, Given(help="Of each set.")] = 120,
    size: Annotated[tuple[int, int], Given(help="Width and height.")] = (640, 480),
    seed: int = 0,
) -> None:
    """Write the three sets."""
    for name, write in SETS.items():
        write(out / name, count=pictures, size=size, seed=seed)


if __name__ == "__main__":
    main()
