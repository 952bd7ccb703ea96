"""How many pictures a projection needs: the share of other pictures' variance that its components hold.

    OPENBLAS_NUM_THREADS=1 LAPSVM_TEST_DATA=DIR python benchmarks/pictures/projection_sample.py

230 pictures of DIR/voc2007_vehicles_cat, EfficientNet-Lite0 at 640 and 960 pixels, 512 components of each map: fitted
on windows of some of the first 200, judged on 96 windows of each of the other 30.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from lapsvm.pipelines.run.settings import FeatureSettings

from lapsvm.catalog import read_image
from lapsvm.features import fit_projection
from lapsvm.features.extractors.extractor import open_sized_extractor
from lapsvm.windows import propose

DATA = Path(os.environ["LAPSVM_TEST_DATA"]) / "voc2007_vehicles_cat" / "JPEGImages"
SETTINGS = FeatureSettings(("efficientnet_lite0",), contrast=0.5, beside=True, sizes=(640, 960))
SAMPLES = ((200, 60), (100, 96), (64, 96), (64, 60), (32, 96))
FITTED, JUDGED, WINDOWS = 200, 30, 96


def main() -> None:
    extractor = open_sized_extractor(SETTINGS.extractors, SETTINGS.networks)
    files = sorted(DATA.glob("*.jpg"))
    order = np.random.default_rng(0).permutation(len(files))[: FITTED + JUDGED]

    def measure(index: int) -> np.ndarray:
        pixels = read_image(files[index])
        boxes = propose(pixels, max_windows=1000, max_area=0.9)
        step = max(1, len(boxes) // WINDOWS)
        return extractor(pixels, boxes[: step * WINDOWS : step])

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        features = list(pool.map(measure, order))
    judged, ends = np.concatenate(features[FITTED:]), np.cumsum(extractor.blocks)
    for pictures, windows in SAMPLES:
        sample = [rows[:: max(1, len(rows) // windows)][:windows] for rows in features[:pictures]]
        projection = fit_projection(sample, extractor.blocks, 512, extractor.halves)
        shares = []
        for components, end, block in zip(projection.components, ends, extractor.blocks, strict=True):
            rows = judged[:, end - block : end - block // 2]
            centred = rows - rows.mean(axis=0)
            shares.append(((centred @ components) ** 2).sum() / (centred**2).sum())
        print(f"{pictures:4} pictures x {windows:3} windows", *(f"{share:.4f}" for share in shares), flush=True)


if __name__ == "__main__":
    main()
