"""Speed of the extractors: pictures and windows per second, and the share of the forward pass.

    LAPSVM_TEST_DATA=DIR python benchmarks/features.py

DIR holds ``voc2007_vehicles_cat/JPEGImages`` and ``weights``; without it, only HOG is measured, on made-up pictures.
One thread, CPU time of the process, 2,000 windows a picture, median over the pictures. Set OPENBLAS_NUM_THREADS=1.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from time import process_time

import numpy as np

from lapsvm.catalog import read_image
from lapsvm.features import HOG, Extractor, PooledNetwork, open_extractor

DATA = os.environ.get("LAPSVM_TEST_DATA")
PICTURES, WINDOWS, SIZES = 8, 2000, (448, 640, 960)
NETWORKS = {
    "MobileNetV2": "mobilenet_v2_1.0_tf2_dequantised_fp32.onnx?",
    "SqueezeNet": "squeezenet_v1.0_deepcompression_fp32.onnx?order=bgr&mean=104,117,123&scale=1&",
}


def pictures() -> list[np.ndarray]:
    if DATA:
        files = sorted((Path(DATA) / "voc2007_vehicles_cat" / "JPEGImages").glob("*.jpg"))
        return [read_image(path) for path in files[:PICTURES]]
    rng = np.random.default_rng(0)
    return [rng.integers(0, 256, (375, 500, 3), dtype=np.uint8) for _ in range(PICTURES)]


def windows(pixels: np.ndarray, n: int = WINDOWS) -> np.ndarray:
    """Seeded windows with sides of at least 20 pixels."""
    height, width = pixels.shape[:2]
    rng = np.random.default_rng(0)
    corners = rng.uniform(0, [width - 20, height - 20], (n, 2))
    return np.hstack([corners, corners + 20 + rng.uniform(0, 1, (n, 2)) * ([width - 20, height - 20] - corners)])


def extractors() -> Iterator[tuple[str, Extractor]]:
    yield "HOG 48 px", HOG()
    for name, spec in NETWORKS.items() if DATA else ():
        for size in SIZES:
            yield f"{name} {size} px", open_extractor(f"onnx:{DATA}/weights/{spec}size={size}")


def seconds(work: Callable[[], object]) -> float:
    """Smallest of three."""
    times = []
    for _ in range(3):
        start = process_time()
        work()
        times.append(process_time() - start)
    return min(times)


def main() -> None:
    images = pictures()
    print(f"{'extractor':18} {'dim':>5} {'ms/picture':>11} {'pictures/s':>11} {'windows/s':>10} {'forward':>8}")
    for name, extractor in extractors():
        whole = [seconds(lambda p=pixels, e=extractor: e(p, windows(p))) for pixels in images]
        median, share = float(np.median(whole)), "-"
        if isinstance(extractor, PooledNetwork):
            forward = [seconds(lambda p=pixels, e=extractor: e.feature_map(p)) for pixels in images]
            share = f"{np.median(forward) / median:.0%}"
        rates = f"{1 / median:11.1f} {WINDOWS / median:10,.0f}"
        print(f"{name:18} {extractor.dim:5} {median * 1000:11.1f} {rates} {share:>8}", flush=True)


if __name__ == "__main__":
    main()
