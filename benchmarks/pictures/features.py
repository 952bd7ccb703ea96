"""Speed of the extractors: pictures and windows per second, and the share of the forward pass.

    OPENBLAS_NUM_THREADS=1 LAPSVM_TEST_DATA=DIR python benchmarks/pictures/features.py

DIR holds ``voc2007_vehicles_cat/JPEGImages`` and ``weights``; without it, made-up pictures are used and networks are
left out. One thread, CPU time of the process, 2,000 windows a picture, the smallest of three, the median over the
pictures.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from time import process_time

import numpy as np

from lapsvm.catalog import read_image
from lapsvm.features import HOG, Extractor, PooledNetwork, open_extractor

DATA = os.environ.get("LAPSVM_TEST_DATA")
PICTURES, WINDOWS = 4, 2000
MOBILENET = "mobilenet_v2_1.0_tf2_dequantised_fp32.onnx?"
SQUEEZENET = "squeezenet_v1.0_deepcompression_fp32.onnx?order=bgr&mean=104,117,123&scale=1&"
ONNX = {
    "MobileNetV2, 448 px": f"{MOBILENET}size=448",
    "MobileNetV2, 640 px": f"{MOBILENET}size=640",
    "MobileNetV2, 960 px": f"{MOBILENET}size=960",
    "SqueezeNet, 448 px": f"{SQUEEZENET}size=448",
    "SqueezeNet, 640 px": f"{SQUEEZENET}size=640",
    "SqueezeNet, 960 px": f"{SQUEEZENET}size=960",
}


def pictures() -> list[np.ndarray]:
    if DATA:
        files = sorted((Path(DATA) / "voc2007_vehicles_cat" / "JPEGImages").glob("*.jpg"))
        return [read_image(path) for path in files[:PICTURES]]
    rng = np.random.default_rng(0)
    return [rng.integers(0, 256, (375, 500, 3), dtype=np.uint8) for _ in range(PICTURES)]


def windows(pixels: np.ndarray, n: int) -> np.ndarray:
    """Seeded windows with sides of at least 20 pixels."""
    height, width = pixels.shape[:2]
    rng = np.random.default_rng(0)
    corners = rng.uniform(0, [width - 20, height - 20], (n, 2))
    return np.hstack([corners, corners + 20 + rng.uniform(0, 1, (n, 2)) * ([width - 20, height - 20] - corners)])


def extractors() -> Iterator[tuple[str, Extractor]]:
    yield "HOG 48 px", HOG()
    for name, spec in ONNX.items() if DATA else ():
        yield name, open_extractor(f"onnx:{DATA}/weights/{spec}")


def seconds(work: Callable[[], object]) -> float:
    """Smallest of three."""
    times = []
    for _ in range(3):
        start = process_time()
        work()
        times.append(process_time() - start)
    return min(times)


def forward_share(extractor: Extractor, pixels: np.ndarray, whole: float) -> float:
    """Return the share of resizing and the forward pass in `whole` seconds; NaN without a network."""
    if isinstance(extractor, PooledNetwork):
        return seconds(lambda: extractor.feature_map(pixels)) / whole
    return float("nan")


def main() -> None:
    images = pictures()
    print(f"{'extractor':42} {'dim':>6} {'ms/picture':>11} {'pictures/s':>11} {'windows/s':>10} {'forward':>8}")
    for name, extractor in extractors():
        cases = [(pixels, windows(pixels, WINDOWS)) for pixels in images]
        extractor(*cases[0])  # what a first call costs more is not counted
        whole = [seconds(lambda case=case, e=extractor: e(*case)) for case in cases]
        shares = [forward_share(extractor, case[0], taken) for case, taken in zip(cases, whole, strict=True)]
        median, share = float(np.median(whole)), float(np.median(shares))
        rates = f"{1 / median:11.2f} {WINDOWS / median:10,.0f}"
        shown = "-" if np.isnan(share) else f"{share:.0%}"
        print(f"{name:42} {extractor.dim:6} {median * 1000:11,.0f} {rates} {shown:>8}", flush=True)


if __name__ == "__main__":
    main()
