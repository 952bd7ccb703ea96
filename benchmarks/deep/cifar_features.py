"""CIFAR-10 as features of the default network, computed once and kept in a folder.

The pictures come as JPEG files in a zip, `train/CLASS/NUMBER.jpg` and `test/CLASS/NUMBER.jpg`. Each is enlarged to
`SIZE` pixels; its features are the mean of the network's last map, 1,280 numbers.
"""

import io
import zipfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from PIL import Image

from lapsvm.features import open_extractor

SIZE = 96
EXTRACTOR = f"efficientnet_lite0?output=stride32&size={SIZE}&norm=none"
PARTS = ("train", "test")
VALIDATION = 5_000


class Part(NamedTuple):
    """Samples and their classes."""

    X: torch.Tensor
    """(n, d) float32."""
    classes: torch.Tensor
    """(n,) int64."""

    def at(self, samples: np.ndarray) -> "Part":
        """Return the samples of the indices."""
        chosen = torch.from_numpy(samples)
        return Part(self.X[chosen], self.classes[chosen])


class Data(NamedTuple):
    """What training draws from, what chooses the settings, and what reports."""

    pool: Part
    validation: Part
    test: Part


def extract(archive: Path, folder: Path) -> None:
    """Write the features (float16) and classes of both parts."""
    extractor = open_extractor(EXTRACTOR)
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(archive) as pictures:
        names = sorted(name for name in pictures.namelist() if name.endswith(".jpg"))
        kinds = sorted({name.split("/")[1] for name in names})
        for part in PARTS:
            own = [name for name in names if name.startswith(f"{part}/")]
            rows = np.empty((len(own), extractor.dim), dtype=np.float16)
            for row, name in zip(rows, own, strict=True):
                pixels = np.asarray(Image.open(io.BytesIO(pictures.read(name))).convert("RGB"))
                row[:] = extractor(pixels, [[0, 0, pixels.shape[1], pixels.shape[0]]])[0]
            np.save(folder / f"{part}_features.npy", rows)
            np.save(folder / f"{part}_classes.npy", np.array([kinds.index(name.split("/")[1]) for name in own]))


def load(folder: Path) -> Data:
    """Return the data, standardised by the whole training part and of mean square 1 / d; a fixed validation split."""
    whole, test = (_read(folder, part) for part in PARTS)
    mean, spread = whole.X.mean(0), whole.X.std(0) + 1e-3
    for part in (whole, test):
        part.X.sub_(mean).div_(spread * part.X.shape[1] ** 0.5)
    order = np.random.default_rng(0).permutation(len(whole.classes))
    return Data(whole.at(order[VALIDATION:]), whole.at(order[:VALIDATION]), test)


def _read(folder: Path, part: str) -> Part:
    features, classes = (np.load(folder / f"{part}_{name}.npy") for name in ("features", "classes"))
    return Part(torch.from_numpy(features).float(), torch.from_numpy(classes))
