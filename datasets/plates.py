"""Plates: photograph-like pictures of a product with and without defects, drawn from a seed.

Brushed plates with two bolts lie on a dark table under changing light. Defects are a scratch (a thin line), a stain (a
soft patch) and a chip (a corner that is missing). New pictures show a hole, too. The same parameters give the same
pictures (with the same releases of NumPy and OpenCV).
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from lapsvm.arrays import Float32
from lapsvm.catalog import Pixels
from lapsvm.files import new_folder

from .mvtec import MaskedPictures, open_mvtec

_WIDTH, _HEIGHT = 320, 240
_PLATE = 40, 30, 280, 210  # x1, y1, x2, y2, before it is moved
KINDS = ("scratch", "stain", "chip")
UNSEEN = "hole"
DEFECTS = 12
"""The number of pictures of each kind of defect, for a run of a minute."""


def open_plates(
    root: str | Path, *, classes: Sequence[str] | None = None, train_set: str = "trainval", test_set: str = "test"
) -> MaskedPictures:
    """Open the plates in a folder as `lapsvm.datasets.mvtec.open_mvtec` does; they are drawn first if it is absent."""
    if not Path(root).exists():
        with new_folder(root) as partial:
            write_product(partial, seed=0, defects=DEFECTS)
    return open_mvtec(root, classes=classes, train_set=train_set, test_set=test_set)


def draw_plate(rng: np.random.Generator, kind: str) -> tuple[Pixels, NDArray[np.uint8]]:
    """Return a picture (h, w, 3) of a plate with a defect, or "good", and its mask (h, w) of 0 and 255."""
    shift = rng.integers(-10, 11, 2)
    corners = np.array(_PLATE) + np.tile(shift, 2)
    scene: NDArray[Any] = _plate(rng, corners)
    mask = np.zeros((_HEIGHT, _WIDTH), np.uint8)
    if kind != "good":
        mask = _defect(rng, kind, corners)
        soft = cv2.GaussianBlur(mask, (0, 0), 3.0 if kind == "stain" else 0.7) / 255
        level = {"scratch": scene + 55, "stain": scene - 45, "chip": np.full_like(scene, 60), "hole": scene - 100}[kind]
        scene = scene * (1 - soft) + level * soft
    light = rng.normal(0, 6) + rng.normal(0, 5) * np.linspace(-1, 1, _WIDTH)
    grey = scene + light + rng.normal(0, 3, scene.shape)
    tinted = grey[:, :, None] * np.array([1.0, 0.98, 0.94])
    return np.clip(np.rint(tinted), 0, 255).astype(np.uint8), mask


def _plate(rng: np.random.Generator, corners: NDArray[np.int64]) -> Float32:
    """Return the grey levels (h, w) of a brushed plate with two bolts on a dark table."""
    table = np.asarray(60 + 4 * cv2.GaussianBlur(_noise(rng, 3), (0, 0), 2), np.float32)
    brushed = 150 + 2 * cv2.blur(_noise(rng, 8), (41, 1))
    x1, y1, x2, y2 = corners.tolist()
    table[y1:y2, x1:x2] = brushed[y1:y2, x1:x2]
    for x in (x1 + 25, x2 - 25):
        cv2.circle(table, (x, (y1 + y2) // 2), 9, 95, -1, cv2.LINE_AA)
        cv2.circle(table, (x, (y1 + y2) // 2), 5, 175, -1, cv2.LINE_AA)
    return table


def _noise(rng: np.random.Generator, deviation: float) -> Float32:
    return np.asarray(rng.normal(0, deviation, (_HEIGHT, _WIDTH)), np.float32)


def _defect(rng: np.random.Generator, kind: str, corners: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Return the mask of a defect on the plate."""
    mask, (x1, y1, x2, y2) = np.zeros((_HEIGHT, _WIDTH), np.uint8), corners.tolist()
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


def _write(path: Path, pixels: NDArray[np.uint8]) -> None:
    """Write a picture, RGB or grey; its folder is created."""
    path.parent.mkdir(parents=True, exist_ok=True)
    stored = pixels[:, :, ::-1] if pixels.ndim == 3 else pixels
    path.write_bytes(cv2.imencode(".png", np.ascontiguousarray(stored))[1].tobytes())


def write_product(root: Path, seed: int, defects: int) -> None:
    """Write the layout: good pictures in train and test, defects with masks in test."""
    for folder, kind, count in _planned(defects):
        for number in range(count):
            pixels, mask = draw_plate(
                np.random.default_rng((seed, len(folder), ord(kind[0]), ord(kind[1]), number)), kind
            )
            _write(root / folder / kind / f"{number:03d}.png", pixels)
            if kind != "good":
                _write(root / "ground_truth" / kind / f"{number:03d}_mask.png", mask)


def _planned(defects: int) -> Iterator[tuple[str, str, int]]:
    """Yield folder, kind and number of pictures."""
    yield "train", "good", defects
    yield "test", "good", 2 * defects
    yield from (("test", kind, defects) for kind in KINDS)


def write_new(root: Path, seed: int) -> None:
    """Write new pictures of every kind, and of the one that training has not seen."""
    days = {"monday": ("good", *KINDS), "tuesday": ("good", "good", "good", UNSEEN), "wednesday": (UNSEEN,) * 3}
    for day, shown in days.items():
        for number, kind in enumerate(shown):
            pixels, _ = draw_plate(np.random.default_rng((seed, 99, len(day), number)), kind)
            _write(root / day / f"{number}-{kind}.png", pixels)
