"""What objectness adds to the time of a positive picture: `python benchmarks/objectness/extraction_time.py RUN`.

    python benchmarks/objectness/extraction_time.py RUN [--pictures 40] [--sizes 256 320]

RUN is a finished run on pictures, whose windows, network and projection are used. Pictures are drawn with seed 0 from
its training set, and each is measured by turns: reading, windows and features, then its objectness for every size of
`u2netp`. Seconds are of the processor, one thread. Prediction has no objectness and takes the time that it took.
"""

import argparse
from pathlib import Path
from time import process_time

import cv2
import numpy as np
from lapsvm.pipelines.run.context import RunContext
from lapsvm.pipelines.run.folder import RunFolder
from lapsvm.pipelines.run.progress import Reporter
from lapsvm.pipelines.shards.extraction import prepare_record
from lapsvm.pipelines.shards.projection import open_run_extractor
from threadpoolctl import threadpool_limits

from lapsvm.catalog import read_image
from lapsvm.objectness import open_objectness, picture_objectness


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--pictures", type=int, default=40)
    parser.add_argument("--sizes", type=int, nargs="+", default=[256, 320])
    given = parser.parse_args()
    cv2.setNumThreads(1)
    context = RunContext(RunFolder(given.run), RunFolder(given.run).settings(), 1, Reporter(True))
    records = context.data.records[context.train_set]
    sources = [open_objectness(f"u2netp?size={size}") for size in given.sizes]
    extractor, _ = open_run_extractor(context, None)
    drawn = np.random.default_rng(0).permutation(len(records))[: given.pictures + 1]
    with threadpool_limits(1):  # as extraction has it: a second thread of BLAS spins on after its work
        seconds = [measured(records[place], context.settings, extractor, sources) for place in drawn]
    first, *added = np.mean(seconds[1:], axis=0)  # the first picture warms up
    print(f"{len(seconds) - 1} pictures\n\n| what | CPU s a picture | of the time without |\n|---|---|---|")
    print(f"| windows and features | {first:.3f} | 1 |")
    for size, one in zip(given.sizes, added, strict=True):
        print(f"| and objectness, {size} x {size} | {first + one:.3f} | {1 + one / first:.2f} |")


def measured(record, settings, extractor, sources) -> list[float]:
    """Return the CPU seconds of a picture's windows and features, and of its objectness by each source."""
    times = [process_time()]
    picture, _ = prepare_record(record, settings, extractor)
    picture.features()
    times.append(process_time())
    for source in sources:
        picture_objectness(source, read_image(record.path), picture.boxes)
        times.append(process_time())
    return np.diff(times).tolist()


if __name__ == "__main__":
    main()
