"""Pictures of handwritten digits among clutter: backgrounds, glyphs, and a canvas that records what is visible.

A glyph is a mask in [0, 1]. Digits and clutter have the same inks, sizes and softness, so that only their shape
distinguishes the classes.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lapsvm.arrays import Array, Float32
from lapsvm.catalog import Pixels

VISIBLE = 0.35
"""Threshold of a glyph's mask: the box of an object encloses the pixels above it."""


class Placed(NamedTuple):
    """A glyph on the canvas: its number, and the half-open box x1, y1, x2, y2 of its ink."""

    number: int
    box: tuple[int, int, int, int]


@dataclass
class Canvas:
    """A picture in progress.

    Attributes
    ----------
    pixels : ndarray of shape (h, w, 3), float32, 0..255
    owner : ndarray of shape (h, w), int
        Number of the top glyph at each pixel, -1 where there is none.
    inked : list of int
        Number of pixels of each glyph when it was painted.
    """

    pixels: Float32
    owner: NDArray[np.int32] = field(init=False)
    inked: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.owner = np.full(self.pixels.shape[:2], -1, dtype=np.int32)

    def free_corner(self, rng: np.random.Generator, size: tuple[int, int], overlap: float) -> tuple[int, int] | None:
        """Return the corner (x, y) of a random position for a glyph of `size` (h, w); None after twenty failed draws.

        Earlier glyphs cover at most a share `overlap` of the position.
        """
        height, width = self.owner.shape
        if size[0] > height or size[1] > width:
            return None
        for _ in range(20):
            x, y = int(rng.integers(width - size[1] + 1)), int(rng.integers(height - size[0] + 1))
            if (self.owner[y : y + size[0], x : x + size[1]] >= 0).mean() <= overlap:
                return x, y
        return None

    def paint(self, glyph: Float32, corner: tuple[int, int], ink: Float32) -> Placed:
        """Paint a glyph with an ink, shape (3,), at a corner (x, y), and return its number and box."""
        x, y = corner
        height, width = glyph.shape
        region = np.s_[y : y + height, x : x + width]
        self.pixels[region] += glyph[:, :, None] * (ink - self.pixels[region])
        number = len(self.inked)
        seen = glyph > VISIBLE
        self.owner[region][seen] = number
        self.inked.append(int(seen.sum()))
        rows, columns = np.flatnonzero(seen.any(axis=1)), np.flatnonzero(seen.any(axis=0))
        box = (int(x + columns[0]), int(y + rows[0]), int(x + columns[-1] + 1), int(y + rows[-1] + 1))
        return Placed(number, box)

    def visible_share(self, number: int) -> float:
        """Return the share of a glyph's pixels that later glyphs do not hide."""
        return int((self.owner == number).sum()) / self.inked[number]

    def mean_near(self, glyph_size: tuple[int, int], corner: tuple[int, int]) -> Float32:
        """Return the mean colour under a glyph at a corner, shape (3,)."""
        x, y = corner
        mean: Float32 = self.pixels[y : y + glyph_size[0], x : x + glyph_size[1]].mean(axis=(0, 1))
        return mean

    def finish(self, rng: np.random.Generator) -> Pixels:
        """Return the picture with sensor noise, uint8."""
        noisy = self.pixels + rng.normal(0, rng.uniform(2, 7), self.pixels.shape)
        return np.clip(np.rint(noisy), 0, 255).astype(np.uint8)


def background(rng: np.random.Generator, height: int, width: int) -> Float32:
    """Return a textured background of shape (height, width, 3), float32: one of four kinds of texture, tinted."""
    kind = (_clouds, _stripes, _tiles, _slope)[rng.integers(4)]
    texture = kind(rng, height, width) + 0.5 * _clouds(rng, height, width)
    base, swing = rng.uniform(50, 205), rng.uniform(10, 34)
    tint = rng.normal(0, 14, 3)
    second = rng.normal(0, 0.25, 3)
    return np.asarray(base + tint + swing * texture[:, :, None] * (1 + second), dtype=np.float32)


def digit_glyph(rng: np.random.Generator, sample: Float32, size: int) -> Float32:
    """Return an 8x8 digit (0..16) as a glyph about `size` pixels high, slightly slanted and rotated."""
    import cv2

    scale = size / 8
    angle, slant, stretch = rng.normal(0, 0.10), rng.normal(0, 0.12), rng.uniform(0.85, 1.15)
    rotation = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    linear = rotation @ np.array([[stretch, slant], [0, 1]]) * scale
    side = int(np.ceil(size * 1.6))
    shift = np.array([side / 2, side / 2]) - linear @ np.array([3.5, 3.5])
    # an empty border around the 8x8 sample keeps strokes at its edge complete
    padded = np.pad(sample, 2)
    to_padded = np.hstack([linear, (shift - linear @ np.array([2.0, 2.0]))[:, None]])
    smooth = cv2.warpAffine(padded, to_padded, (side, side), flags=cv2.INTER_CUBIC) / 16
    return _cropped(np.clip((smooth - 0.25) / rng.uniform(0.3, 0.5), 0, 1).astype(np.float32))


def piece_glyph(rng: np.random.Generator, glyph: Float32) -> Float32:
    """Return a part of a glyph: one half or less, cut along an edge."""
    is_upright = rng.random() < 0.5
    lines = glyph if is_upright else glyph.T
    cut = int(len(lines) * rng.uniform(0.35, 0.55))
    stroke = lines[:cut] if rng.random() < 0.5 else lines[len(lines) - cut :]
    return _cropped(stroke if is_upright else stroke.T)


def stroke_glyph(rng: np.random.Generator, size: int) -> Float32:
    """Return a curved pen stroke about `size` pixels long."""
    import cv2

    steps = np.linspace(0, 1, 24)[:, None]
    points = rng.uniform(0.12, 0.88, (3, 2)) * size
    curve = (1 - steps) ** 2 * points[0] + 2 * steps * (1 - steps) * points[1] + steps**2 * points[2]
    drawn = np.zeros((size, size), np.uint8)
    fixed_point = np.rint(curve * 16).astype(np.int32).reshape(-1, 1, 2)
    cv2.polylines(drawn, [fixed_point], False, 255, max(2, round(size * rng.uniform(0.06, 0.14))), cv2.LINE_AA, 4)
    return _cropped(drawn.astype(np.float32) / 255)


def blob_glyph(rng: np.random.Generator, size: int) -> Float32:
    """Return a soft filled blob about `size` pixels wide."""
    noise = _smooth_noise(rng, size, size, max(2.0, size / 5))
    y, x = np.mgrid[-1 : 1 : size * 1j, -1 : 1 : size * 1j]
    level = 0.7 - np.hypot(x, y) * rng.uniform(0.8, 1.4) + 0.2 * noise
    return _cropped(np.clip(level * 6, 0, 1).astype(np.float32))


def ink_on(rng: np.random.Generator, paper: Float32) -> Float32:
    """Return an ink, shape (3,), darker or lighter than the paper by a random, sometimes faint, contrast."""
    grey = float(paper.mean())
    contrast = rng.uniform(26, 100)
    above, below = 255 - grey, grey
    lighter = rng.random() < 0.5 if min(above, below) > contrast else above > below
    return np.clip(grey + (contrast if lighter else -contrast) + rng.normal(0, 16, 3), 0, 255).astype(np.float32)


def _cropped(glyph: Array) -> Array:
    """Return a glyph without its empty margin; a dot if it has no visible ink."""
    seen = glyph > VISIBLE
    if not seen.any():
        return np.ones((3, 3), np.float32)
    rows, columns = np.flatnonzero(seen.any(axis=1)), np.flatnonzero(seen.any(axis=0))
    return glyph[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]


def _smooth_noise(rng: np.random.Generator, height: int, width: int, wavelength: float) -> Float32:
    """Return noise that is smooth over `wavelength` pixels, mean 0 and deviation about 1."""
    import cv2

    coarse = rng.normal(size=(int(height / wavelength) + 4, int(width / wavelength) + 4)).astype(np.float32)
    fine = cv2.resize(coarse, None, fx=wavelength, fy=wavelength, interpolation=cv2.INTER_CUBIC)
    return np.asarray(fine[:height, :width])


def _clouds(rng: np.random.Generator, height: int, width: int) -> Float32:
    """Return noise of three wavelengths."""
    weights_and_waves = (0.8, rng.uniform(30, 60)), (0.5, rng.uniform(10, 20)), (0.25, rng.uniform(3, 6))
    return np.asarray(sum(weight * _smooth_noise(rng, height, width, wave) for weight, wave in weights_and_waves))


def _stripes(rng: np.random.Generator, height: int, width: int) -> Float32:
    """Return wavy stripes in a random direction."""
    angle, wave = rng.uniform(0, np.pi), rng.uniform(8, 30)
    y, x = np.mgrid[:height, :width]
    phase = (x * np.cos(angle) + y * np.sin(angle)) / wave * 2 * np.pi
    return np.asarray(np.sin(phase + 0.8 * _smooth_noise(rng, height, width, 40.0)), dtype=np.float32)


def _tiles(rng: np.random.Generator, height: int, width: int) -> Float32:
    """Return Voronoi cells of scattered points with random levels."""
    count = int(rng.integers(6, 16))
    points, levels = rng.uniform(0, 1, (count, 2)) * (height, width), rng.normal(0, 1, count)
    y, x = np.mgrid[:height, :width]
    squared = (y[..., None] - points[:, 0]) ** 2 + (x[..., None] - points[:, 1]) ** 2
    return np.asarray(levels[squared.argmin(axis=2)], dtype=np.float32)


def _slope(rng: np.random.Generator, height: int, width: int) -> Float32:
    """Return a linear gradient in a random direction."""
    angle = rng.uniform(0, 2 * np.pi)
    y, x = np.mgrid[-1 : 1 : height * 1j, -1 : 1 : width * 1j]
    return np.asarray(1.5 * (x * np.cos(angle) + y * np.sin(angle)), dtype=np.float32)
