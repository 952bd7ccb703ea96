"""Features of pictures, by the processor and by a GPU in one run: made pictures of 640 x 480, drawn windows.

    python benchmarks/pictures/gpu_extraction.py                 all cores of the processor beside one GPU

Threads take pictures as extraction does, a thread a core; reading pictures and proposing windows are left out.
"projected" rows multiply the features by components, as `--pca 256` does. "differ" is the largest difference of a
window's features as a share of their largest length. The least time of the rounds counts. Weights are random, but for
EfficientNet-Lite0, which needs the package onnxruntime-gpu.
"""

import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any, NamedTuple

import cv2
import numpy as np
import torch
from lapsvm.pipelines.cli.study import Cell, Given, alternate, print_gpu, print_table, study_command
from threadpoolctl import threadpool_limits

from lapsvm.features import open_extractor
from lapsvm.features.extractors.efficientnet import KIND, photos_installed
from lapsvm.features.extractors.extractor import prepared

HEIGHT, WIDTH, ROUNDS, COMPONENTS = 480, 640, 3, 256
TITLES = "extractor|features|pictures|windows|processor pictures/s|GPU pictures/s|times|differ"


class Case(NamedTuple):
    """An extractor, how many pictures and windows of each it sees, and whether the features are projected."""

    name: str
    text: str
    pictures: int
    windows: int
    is_projected: bool = False


RESIDUAL = "torch:gpu_extraction:Residual?output=1,0&context=appended"
CASES = (
    Case("18 layers, strides 32 and 16", RESIDUAL, 64, 2000),
    Case("18 layers, strides 32 and 16", RESIDUAL, 64, 2000, True),
    Case("AlexNet, warped windows", "torch:alexnet?weights=random", 2, 500),
    Case("EfficientNet-Lite0, ONNX Runtime", f"{KIND}?context=appended", 64, 2000),
    Case("EfficientNet-Lite0, ONNX Runtime", f"{KIND}?context=appended", 64, 2000, True),
)


class Block(torch.nn.Module):
    """Two convolutions beside a shortcut."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.first = torch.nn.Conv2d(before, after, 3, stride, 1)
        self.second = torch.nn.Conv2d(after, after, 3, 1, 1)
        self.shortcut = torch.nn.Conv2d(before, after, 1, stride)

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        """Return the map of another one."""
        return torch.relu(self.second(torch.relu(self.first(batch))) + self.shortcut(batch))


class Residual(torch.nn.Module):
    """The shape of a ResNet-18; gives its maps at strides 16 and 32, of 256 and 512 channels."""

    def __init__(self) -> None:
        super().__init__()
        layers = [torch.nn.Conv2d(3, 64, 7, 2, 3), torch.nn.ReLU(), torch.nn.MaxPool2d(3, 2, 1)]
        for before, after in ((64, 64), (64, 128), (128, 256)):
            layers += [Block(before, after, 1 + (after > before)), Block(after, after, 1)]
        self.finer = torch.nn.Sequential(*layers)
        self.coarser = torch.nn.Sequential(Block(256, 512, 2), Block(512, 512, 1))

    def forward(self, batch: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return both maps of pictures."""
        finer = self.finer(batch)
        return finer, self.coarser(finer)


def drawn(case: Case) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return pictures with their windows."""
    rng = np.random.default_rng(0)
    pictures = []
    for _ in range(case.pictures):
        noise = rng.integers(0, 256, (HEIGHT // 16, WIDTH // 16, 3), dtype=np.uint8)
        ends = rng.uniform(0, [WIDTH, HEIGHT], (2, case.windows, 2))
        pictures.append((cv2.resize(noise, (WIDTH, HEIGHT)), np.hstack([ends.min(axis=0), ends.max(axis=0)])))
    return pictures


def measuring(extractor: Any, case: Case) -> Callable[[tuple[np.ndarray, np.ndarray]], np.ndarray]:
    """Return the function of a picture and its windows that is timed."""
    rng = np.random.default_rng(1)
    sizes = [block.inside for block in extractor.blocks]
    components = [rng.normal(size=(size, min(size, COMPONENTS))).astype(np.float32) for size in sizes]

    def features(picture: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        seen = prepared(extractor, picture[0])
        return seen.project(picture[1], components) if case.is_projected else seen(picture[1])

    return features


def timed(case: Case, device: str, threads: int) -> tuple[float, np.ndarray]:
    """Return pictures per second, and the features of the first picture's windows."""
    features, pictures = measuring(open_extractor(case.text, device=device), case), drawn(case)
    with threadpool_limits(1), ThreadPoolExecutor(threads) as pool:
        calls = {"": lambda: deque(pool.map(features, pictures), maxlen=0)}
        seconds = alternate(calls, ROUNDS, clock=time.perf_counter, summary=min)[""]
    return case.pictures / seconds, features(pictures[0])


def row(case: Case, device: str, threads: int) -> list[Cell]:
    """Return the row of one case."""
    (here, expected), (there, features) = (timed(case, name, threads) for name in ("cpu", device))
    differ = np.abs(features - expected).max() / np.linalg.norm(expected, axis=1).max()
    what = "projected" if case.is_projected else "all"
    rates = [f"{here:.1f}", f"{there:.1f}", f"{there / here:.1f}"]
    return [case.name, what, case.pictures, f"{case.windows:,}", *rates, f"{differ:.1e}"]


def can_run(case: Case) -> bool:
    """Return whether what the case needs is installed."""
    if not case.text.startswith(KIND):
        return True
    if not photos_installed():
        return False
    import onnxruntime

    return "CUDAExecutionProvider" in onnxruntime.get_available_providers()


def rows(device: str, threads: int) -> Iterator[list[Cell]]:
    """Yield the rows of the table."""
    for case in filter(can_run, CASES):
        yield row(case, device, threads)


@study_command
def main(threads: Annotated[int, Given(help="That take pictures; 0 is one a core.")] = 0) -> None:
    """Time the features of pictures on the processor and on a GPU."""
    print_gpu(torch)
    print_table(TITLES.split("|"), rows("cuda", threads or os.cpu_count() or 1))
    if not all(map(can_run, CASES)):
        print("\nEfficientNet-Lite0 is left out: it needs the extra photos, with onnxruntime-gpu for onnxruntime.")


if __name__ == "__main__":
    main()
