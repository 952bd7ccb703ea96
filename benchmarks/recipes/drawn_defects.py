"""Write a VOC folder of drawn defects on textures: `python benchmarks/recipes/drawn_defects.py OUT [options]`.

Three kinds of defects: scratch (a thin curved line at any angle), spot (a soft dark or bright patch) and chip (a dark
or bright polygon with a rim of the opposite level). A quarter of the pictures of a set has none, the others have one to
three, mostly of one kind. The longer side of a box is between the two numbers of --sides, drawn from the logarithm; the
shorter one is at least a quarter of it and 5 pixels. Textures are noise at several scales, grain, brushed lines,
stripes or weave, under soft light. The same options give the same pictures; each picture has its own seed.

    python benchmarks/recipes/drawn_defects.py OUT --size 3000 2000 --sides 30 30 --pictures 20
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import cv2
import numpy as np
from lapsvm.datasets.voc_writer import VocPicture, write_lists, write_pictures
from lapsvm.pipelines.cli.study import Given, study_command

from lapsvm.annotations.voc import VocObject

KINDS = ("scratch", "spot", "chip")
SETS = ("trainval", "test")
FREE = 4  # every so many pictures one without defects
GAP = 8  # pixels between boxes, at least
VISIBLE = 0.3  # of a defect's strongest change: what belongs to its box
CONTRASTS = 30, 80  # grey levels

Floats = Any


def drawing(write: partial[None]) -> Callable[..., None]:
    """Return the command that writes two sets; its defaults are those of `write`."""

    def draw(
        out: Path,
        pictures: Annotated[int, Given(help="Of each set.")] = write.keywords["count"],
        size: Annotated[tuple[int, int], Given(help="Width and height.")] = (640, 480),
        sides: Annotated[tuple[float, float], Given(help="Range of a box's side.")] = write.keywords["sides"],
        seed: int = 0,
    ) -> None:
        """Write a VOC folder of drawn pictures."""
        write(out, count=pictures, size=size, sides=sides, seed=seed)

    return study_command(draw)


def write_sets(
    draw: Callable[..., list[VocObject]], kinds: Sequence[str], out: Path, *, count: int,
    sides: tuple[float, float], size: tuple[int, int] = (640, 480), seed: int = 0,
) -> None:  # fmt: skip
    """Write both sets of what `draw` draws, as `draw_defects` does."""
    for number, name in enumerate(SETS):
        write_lists(out, name, write_pictures(out, pictures(draw, name, count, size, sides, (seed, number))), kinds)


def pictures(
    draw: Callable[..., list[VocObject]], name: str, count: int, size: tuple[int, int], sides: tuple[float, float],
    seed: tuple[int, ...],
) -> Iterator[VocPicture]:  # fmt: skip
    """Yield the pictures of a set: textures, each with its own seed, on which `draw` draws."""
    for number in range(count):
        rng = np.random.default_rng((*seed, number))
        scene = texture(rng, *size)
        objects = draw(rng, scene, number, sides)
        noisy = scene + rng.normal(0, 2, scene.shape)
        yield VocPicture(f"{name}_{number:04d}", np.clip(np.rint(noisy), 0, 255).astype(np.uint8), objects)


def draw_defects(rng: np.random.Generator, scene: Floats, number: int, sides: tuple[float, float]) -> list[VocObject]:
    """Draw defects on a picture of a set, and return them; none on every fourth."""
    kinds = [] if number % FREE == FREE - 1 else drawn_kinds(rng)
    return [VocObject(kind, box, False) for kind, box in place(rng, scene, kinds, sides)]


def drawn_kinds(rng: np.random.Generator) -> list[str]:
    """Return one to three kinds, mostly equal ones."""
    first = KINDS[rng.integers(3)]
    return [first, *(first if rng.random() < 0.7 else KINDS[rng.integers(3)] for _ in range(rng.integers(3)))]


def place(
    rng: np.random.Generator, scene: Floats, kinds: list[str], sides: tuple[float, float]
) -> Iterator[tuple[str, tuple[float, ...]]]:
    """Paint defects apart from each other, and yield their kinds and corners in VOC pixels."""
    taken = np.zeros(scene.shape[:2], bool)
    for kind in kinds:
        change = defect(rng, kind, float(np.exp(rng.uniform(*np.log(sides)))))
        height, width = change.shape
        y, x = (int(rng.integers(3, side - own - 3)) for side, own in zip(taken.shape, change.shape, strict=True))
        around = np.s_[max(0, y - GAP) : y + height + GAP, max(0, x - GAP) : x + width + GAP]
        if not taken[around].any():
            taken[around] = True
            scene[y : y + height, x : x + width] += change[:, :, None] * rng.uniform(0.85, 1, 3)
            yield kind, (x + 1.0, y + 1.0, float(x + width), float(y + height))


def defect(rng: np.random.Generator, kind: str, side: float) -> Floats:
    """Return the change of grey levels (h, w) that a defect makes, cropped to its box with a longer side of `side`."""
    draw = {"scratch": scratch, "spot": spot, "chip": chip}[kind]
    side = max(side, 6)
    while True:
        change = cropped(draw(rng, side))
        longer, shorter = max(change.shape), min(change.shape)
        if abs(longer - side) <= 1 and shorter >= max(5, side / 4):
            return change * rng.uniform(*CONTRASTS) * rng.choice([-1, 1])


def cropped(change: Floats) -> Floats:
    """Return the visible part, with its strongest change at 1."""
    shown = np.abs(change) >= VISIBLE * np.abs(change).max()
    rows, columns = np.flatnonzero(shown.any(axis=1)), np.flatnonzero(shown.any(axis=0))
    part = change[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    return part / np.abs(part).max()


def scratch(rng: np.random.Generator, side: float) -> Floats:
    """Return a thin curved line."""
    angle, bend = rng.uniform(0, np.pi), rng.normal(0, 0.12)
    along, across = np.array([np.cos(angle), np.sin(angle)]), np.array([-np.sin(angle), np.cos(angle)])
    steps = np.linspace(-1, 1, 24)[:, None]
    reach = side / 2 / max(abs(along)) * rng.uniform(0.9, 1)
    return painted([side / 2 * 1.3 + reach * (steps * along + bend * (1 - steps**2) * across)], side, rng.uniform(1, 3))


def painted(lines: list[Floats], side: float, width: float) -> Floats:
    """Return polylines as levels from 0 to 1, drawn at four times the size."""
    canvas = np.zeros((round(side * 1.3 * 4) + 8,) * 2, np.uint8)
    points = [np.rint(line * 4 * 16).astype(np.int32).reshape(-1, 1, 2) for line in lines]
    cv2.polylines(canvas, points, False, 255, max(1, round(width * 4)), cv2.LINE_AA, 4)
    return cv2.resize(canvas, None, fx=0.25, fy=0.25, interpolation=cv2.INTER_AREA) / 255


def spot(rng: np.random.Generator, side: float) -> Floats:
    """Return a soft patch with an uneven border."""
    n = round(side * 1.5)
    y, x = np.mgrid[-1.5 : 1.5 : n * 1j, -1.5 : 1.5 : n * 1j]
    level = 1 - np.hypot(x, y / rng.uniform(0.5, 1)) + 0.25 * noise(rng, n, n, max(2, side / 4))
    return np.clip(level * rng.uniform(1.5, 5), 0, 1) * (np.hypot(x, y) < 1.4)


def chip(rng: np.random.Generator, side: float) -> Floats:
    """Return a polygon with a rim of the opposite level on one side."""
    angles = np.sort(rng.uniform(0, 2 * np.pi, rng.integers(5, 9)))
    radii = rng.uniform(0.6, 1, len(angles)) * side / 2
    points = side * 0.65 + np.stack([radii * np.cos(angles), radii * np.sin(angles) * rng.uniform(0.5, 1)], axis=1)
    canvas = np.zeros((round(side * 1.3 * 4) + 8,) * 2, np.uint8)
    cv2.fillPoly(canvas, [np.rint(points * 64).astype(np.int32).reshape(-1, 1, 2)], 255, cv2.LINE_AA, 4)
    inner = cv2.resize(canvas, None, fx=0.25, fy=0.25, interpolation=cv2.INTER_AREA) / 255
    shift = np.rint(rng.choice([-1, 1], 2) * max(1, side / 20)).astype(int)
    return inner - rng.uniform(0.5, 1) * np.clip(np.roll(inner, shift, (0, 1)) - inner, 0, 1)


def texture(rng: np.random.Generator, width: int, height: int) -> Floats:
    """Return a tinted texture of shape (height, width, 3) under soft light, float32."""
    kind = (clouds, grain, brushed, stripes, weave)[rng.integers(5)]
    plane = rng.uniform(5, 12) * kind(rng, height, width) + rng.uniform(2, 6) * clouds(rng, height, width)
    y, x = np.mgrid[-1 : 1 : height * 1j, -1 : 1 : width * 1j]
    light = rng.normal(0, 15) * x + rng.normal(0, 15) * y + rng.normal(0, 10) * (x * x + y * y)
    grey = rng.uniform(90, 165) + light + plane
    return (grey[:, :, None] + rng.normal(0, 8, 3)).astype(np.float32)


def noise(rng: np.random.Generator, height: int, width: int, wave: float) -> Floats:
    """Return noise that is smooth over `wave` pixels, with a deviation of about 1."""
    shape = int(height / wave) + 4, int(width / wave) + 4
    fine = cv2.resize(rng.normal(size=shape).astype(np.float32), None, fx=wave, fy=wave, interpolation=cv2.INTER_CUBIC)
    return fine[:height, :width]


def clouds(rng: np.random.Generator, height: int, width: int) -> Floats:
    """Return noise of three scales."""
    waves = (0.7, rng.uniform(60, 150)), (0.5, rng.uniform(15, 40)), (0.3, rng.uniform(3, 6))
    return sum(weight * noise(rng, height, width, wave) for weight, wave in waves)


def grain(rng: np.random.Generator, height: int, width: int) -> Floats:
    """Return fine grains."""
    return cv2.GaussianBlur(rng.normal(0, 2, (height, width)).astype(np.float32), (0, 0), rng.uniform(0.6, 1.5))


def brushed(rng: np.random.Generator, height: int, width: int) -> Floats:
    """Return lines as of brushed metal, along or across."""
    lines = rng.normal(0, 1, (height, width)).astype(np.float32)
    lines = cv2.blur(lines, (61, 1) if rng.random() < 0.5 else (1, 61))
    return lines / lines.std()


def stripes(rng: np.random.Generator, height: int, width: int) -> Floats:
    """Return wavy stripes at any angle."""
    angle, wave = rng.uniform(0, np.pi), rng.uniform(8, 40)
    y, x = np.mgrid[:height, :width]
    return np.sin((x * np.cos(angle) + y * np.sin(angle)) / wave * 2 * np.pi + 0.5 * noise(rng, height, width, 60.0))


def weave(rng: np.random.Generator, height: int, width: int) -> Floats:
    """Return a woven pattern."""
    wave = rng.uniform(5, 12)
    y, x = np.mgrid[:height, :width]
    return np.sin(x / wave * 2 * np.pi) * np.sin(y / wave * 2 * np.pi) + 0.3 * noise(rng, height, width, wave)


write = partial(write_sets, draw_defects, KINDS, count=120, sides=(14, 60))
main = drawing(write)
"""Write both sets into a folder."""

if __name__ == "__main__":
    main()
