"""Digits: an embedded data set of real handwritten digits among clutter, generated from a seed.

scikit-learn's 1,797 handwritten digits of 8x8 pixels (test part of the UCI "Optical Recognition of Handwritten
Digits" set) are pasted at several sizes, inks and positions on textured backgrounds, together with strokes, blobs,
pieces of digits and digits of other kinds, and written in the VOC layout. The digits of trainval and of test are
different samples. Small or half-hidden digits are marked difficult.

The same parameters give the same bytes (with the same releases of NumPy, scikit-learn and OpenCV).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from lapsvm.annotations.voc import VocObject
from lapsvm.arrays import Array, Float32, check_count
from lapsvm.errors import SettingsError
from lapsvm.files import new_folder
from lapsvm.texts.reading import read_toml

from . import digits_scene as scene
from .voc import VocDataset, open_voc
from .voc_writer import VocPicture, write_lists, write_pictures

VERSION = 2
"""Increases whenever the same parameters give other bytes."""

CLASSES = {"zero": 0, "three": 3, "six": 6, "eight": 8}
"""Class name -> digit; the other digits are distractors."""

MIN_PICTURES = 10
SIZES = (26, 110)
"""Minimum and maximum height of a glyph in pixels, drawn uniformly."""

CLUTTER = {"digit": (1, 3), "piece": (0, 2), "stroke": (0, 2), "blob": (0, 1)}
"""Kind of clutter -> its minimum and maximum number in a picture."""

OVERLAPS = (0.0, 0.2, 0.4)
"""Shares of a glyph's box that earlier glyphs may cover, one of them drawn for each glyph."""

DIFFICULT_SIZE = 30
"""A digit whose longer side has fewer pixels is difficult."""

MIN_VISIBLE_SHARE = 0.6
"""A digit with a smaller visible share is difficult."""

Samples = Mapping[str | None, Float32]
"""Digits to paste, (n, 8, 8), by class name; None: of the other kinds."""

_SETTINGS = "digits.toml"
_HEIGHTS, _WIDTHS = (120, 161), (120, 201)


def open_digits(
    root: str | Path,
    *,
    classes: Sequence[str] | None = None,
    train_set: str = "trainval",
    test_set: str = "test",
    seed: int = 0,
    n_train: int = 240,
    n_test: int = 240,
) -> VocDataset:
    """Open the digits in a folder, which are generated first if it is absent or empty.

    Parameters
    ----------
    root : str or Path
    classes : sequence of str, optional
        Some of "eight", "six", "three", "zero". Default: all.
    train_set, test_set : str
        As in `open_voc`; the sets are trainval, its two halves train and val, and test.
    seed, n_train, n_test : int
        As in `write_digits`.

    Returns
    -------
    VocDataset

    Raises
    ------
    InputError
        If a parameter breaks its rule.
    SettingsError
        If the folder holds other files, or digits of other parameters.
    """
    root = Path(root)
    settings = _settings(seed, n_train, n_test)
    if _is_vacant(root):
        write_digits(root, seed=seed, n_train=n_train, n_test=n_test)
    _check_settings(root, settings)
    return replace(open_voc(root, classes=classes, train_set=train_set, test_set=test_set), name="digits")


def write_digits(root: str | Path, *, seed: int = 0, n_train: int = 240, n_test: int = 240) -> None:
    """Generate the digits in the VOC layout, all or nothing.

    Parameters
    ----------
    root : str or Path
        A folder that is absent or empty.
    seed : int, default 0
        Not negative.
    n_train, n_test : int, default 240
        Number of pictures in trainval (half of them train, half val) and in test, at least 10 each.

    Raises
    ------
    InputError
        If a parameter breaks its rule.
    SettingsError
        If the folder is not empty.
    WriteError
        If the system fails to write, for instance because the disk is full.
    """
    root = Path(root)
    settings = _settings(seed, n_train, n_test)
    if not _is_vacant(root):
        raise SettingsError(f"folder {root} must be absent or empty to generate digits in it.")
    with new_folder(root) as partial:
        _write(partial, seed, n_train, n_test)
        (partial / _SETTINGS).write_text("".join(f"{key} = {value}\n" for key, value in settings.items()))


def _write(root: Path, seed: int, n_train: int, n_test: int) -> None:
    """Write pictures, annotations and lists."""
    train, test = _samples(seed)
    trainval = write_pictures(root, _pictures(train, seed, 0, n_train, first=1))
    ids = list(trainval)
    split = {"train": ids[: len(ids) // 2], "val": ids[len(ids) // 2 :]}
    sets = {"trainval": trainval} | {name: {i: trainval[i] for i in half} for name, half in split.items()}
    sets["test"] = write_pictures(root, _pictures(test, seed, 1, n_test, first=n_train + 1))
    for set_name, objects in sets.items():
        write_lists(root, set_name, objects, list(CLASSES))


def _samples(seed: int) -> list[Samples]:
    """Return the digits of trainval and of test, a random half of every kind each."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    order = np.random.default_rng([seed, 2]).permutation(len(digits.target))
    images, kinds = digits.images[order].astype(np.float32), digits.target[order]
    pools: dict[str | None, Array] = {name: kinds == kind for name, kind in CLASSES.items()}
    pools[None] = ~np.isin(kinds, list(CLASSES.values()))
    return [{name: images[members][start::2] for name, members in pools.items()} for start in (0, 1)]


def _pictures(samples: Samples, seed: int, part: int, count: int, first: int) -> Iterator[VocPicture]:
    """Yield pictures in random order; a fifth has no class, the others have each class equally often."""
    mains = [*CLASSES, None] * (count // (len(CLASSES) + 1) + 1)
    order = np.random.default_rng([seed, 3, part]).permutation(count)
    for number in range(count):
        rng = np.random.default_rng([seed, 4, part, number])
        yield _picture(rng, samples, f"{first + number:06d}", mains[order[number]])


def _picture(rng: np.random.Generator, samples: Samples, image_id: str, main: str | None) -> VocPicture:
    """Return one picture: clutter and digits in a random order, so that any may hide any other."""
    height, width = int(rng.integers(*_HEIGHTS)), int(rng.integers(*_WIDTHS))
    canvas = scene.Canvas(scene.background(rng, height, width))
    names = [] if main is None else [main, *rng.choice(list(CLASSES), rng.choice([0, 1, 2], p=[0.6, 0.3, 0.1]))]
    kinds = names + [kind for kind, (least, most) in CLUTTER.items() for _ in range(rng.integers(least, most + 1))]
    placed = []
    for kind in rng.permutation(kinds).tolist():
        glyph = _place(rng, canvas, samples, kind)
        if glyph is not None and kind in CLASSES:
            placed.append((kind, glyph))
    # objects come last: visible shares need all glyphs
    return VocPicture(image_id, canvas.finish(rng), [_object(canvas, name, glyph) for name, glyph in placed])


def _glyph(rng: np.random.Generator, samples: Samples, kind: str) -> Float32:
    """Return a glyph of a class, or of a kind of clutter."""
    size = int(rng.uniform(*SIZES))
    if kind == "stroke":
        return scene.stroke_glyph(rng, size)
    if kind == "blob":
        return scene.blob_glyph(rng, size)
    if kind == "piece":
        name = str(rng.choice(list(CLASSES))) if rng.random() < 0.5 else None
        return scene.piece_glyph(rng, _digit(rng, samples[name], size))
    return _digit(rng, samples[kind if kind in CLASSES else None], size)


def _digit(rng: np.random.Generator, pool: Float32, size: int) -> Float32:
    """Return the glyph of one of some digits."""
    return scene.digit_glyph(rng, np.asarray(pool[rng.integers(len(pool))]), size)


def _place(rng: np.random.Generator, canvas: scene.Canvas, samples: Samples, kind: str) -> scene.Placed | None:
    """Paint a new glyph at a free position; None if three glyphs of different sizes fit nowhere."""
    overlap = rng.choice(OVERLAPS)
    for _ in range(3):
        glyph = _glyph(rng, samples, kind)
        size = glyph.shape[0], glyph.shape[1]
        corner = canvas.free_corner(rng, size, overlap)
        if corner is not None:
            return canvas.paint(glyph, corner, scene.ink_on(rng, canvas.mean_near(size, corner)))
    return None


def _object(canvas: scene.Canvas, name: str, placed: scene.Placed) -> VocObject:
    """Return a placed digit as an object."""
    x1, y1, x2, y2 = placed.box
    hidden = canvas.visible_share(placed.number) < MIN_VISIBLE_SHARE
    difficult = hidden or max(x2 - x1, y2 - y1) < DIFFICULT_SIZE
    return VocObject(name, (x1 + 1, y1 + 1, x2, y2), difficult)


def _settings(seed: int, n_train: int, n_test: int) -> dict[str, int]:
    """Return the checked parameters as in the settings file."""
    pictures = {"n_train": n_train, "n_test": n_test}
    counts = {name: check_count(name, value, MIN_PICTURES) for name, value in pictures.items()}
    return {"version": VERSION, "seed": check_count("seed", seed, 0), **counts}


def _is_vacant(root: Path) -> bool:
    """Return whether a folder is absent or empty."""
    return not root.exists() or (root.is_dir() and not any(root.iterdir()))


def _check_settings(root: Path, settings: dict[str, int]) -> None:
    """Raise SettingsError unless a folder contains digits of these settings."""
    path = root / _SETTINGS
    if not path.is_file():
        raise SettingsError(f"folder {root} must be absent, empty or hold generated digits, but has no {_SETTINGS}.")
    stored = read_toml(path, "settings", SettingsError)
    for key, value in settings.items():
        if stored.get(key) != value:
            raise SettingsError(f"folder {root} holds digits made with {key} {stored.get(key)}, not {value}.")
