"""How busy the threads of extraction are: pictures of all shards ahead of each other, or one shard after another.

    OPENBLAS_NUM_THREADS=1 LAPSVM_TEST_DATA=DIR python benchmarks/pictures/extraction.py

DIR holds ``voc2007_vehicles_cat/JPEGImages`` and ``weights``. 48 pictures in shards of 16, two threads, both orders in
turn, three times. Printed is the share of the threads' time that is spent on pictures; unlike seconds, it hardly
depends on what else the machine does.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from types import SimpleNamespace

from lapsvm.pipelines.run.progress import Reporter
from lapsvm.pipelines.run.settings import FeatureSettings, Settings
from lapsvm.pipelines.shards import extraction as extract
from lapsvm.pipelines.shards.jobs import make_shards
from threadpoolctl import threadpool_limits

from lapsvm.catalog import ImageRecord
from lapsvm.features.extractors.extractor import open_sized_extractor

DATA = Path(os.environ["LAPSVM_TEST_DATA"])
PICTURES, THREADS, TIMES = 48, 2, 3
EXTRACTORS = {"HOG": "hog", "MobileNetV2": f"onnx:{DATA}/weights/mobilenet_v2_1.0_tf2_dequantised_fp32.onnx"}


def one_after_another(work: extract.SetExtraction) -> None:
    """Wait at the end of each shard, and write it."""
    with threadpool_limits(1), ThreadPoolExecutor(THREADS) as pool:
        for path, records in work.jobs:
            work.store(path, records, list(pool.map(work.measure, records)))


def ahead(work: extract.SetExtraction) -> None:
    """As ``lapsvm extract`` does it."""
    context = SimpleNamespace(reporter=Reporter(quiet=True), threads=THREADS)
    make_shards(context, work, work.jobs, "extract", {})


def busy_share(order: Callable[[extract.SetExtraction], None], work: extract.SetExtraction) -> float:
    measure, spent = work.measure, []

    def timed(record: ImageRecord) -> object:
        start = perf_counter()
        found = measure(record)
        spent.append(perf_counter() - start)
        return found

    work.measure = timed
    start = perf_counter()
    order(work)
    return sum(spent) / THREADS / (perf_counter() - start)


def main() -> None:
    files = sorted((DATA / "voc2007_vehicles_cat" / "JPEGImages").glob("*.jpg"))[:PICTURES]
    records = [ImageRecord(path.stem, path, {}) for path in files]
    print(f"{'extractor':14} {'one shard after another':>24} {'ahead':>8}")
    for name, spec in EXTRACTORS.items():
        settings = replace(Settings(), features=FeatureSettings((spec,)))
        extractor = open_sized_extractor((spec,), settings.features.networks)
        shares: dict[str, list[float]] = {"one_after_another": [], "ahead": []}
        for _ in range(TIMES):
            for order in (one_after_another, ahead):
                with TemporaryDirectory() as folder:
                    work = extract.SetExtraction(Path(folder), records, settings, extractor)
                    shares[order.__name__].append(busy_share(order, work))
        print(f"{name:14} {median(shares['one_after_another']):24.0%} {median(shares['ahead']):8.0%}", flush=True)


if __name__ == "__main__":
    main()
