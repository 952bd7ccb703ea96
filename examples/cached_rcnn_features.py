"""Detectors from windows and features that R-CNN, or any other program, has cached.

The cache is a folder with a file per picture, named by its id: ``.mat`` (``boxes`` and ``feat``) or ``.npz`` (``boxes``
and ``features``). Pictures and labels are a data set, here in the VOC layout::

    python examples/cached_rcnn_features.py feat_cache VOC2007 RUN --C 10

No network runs. RUN/page/index.html shows what was learned; ``lapsvm export --out RUN ...`` takes the boxes elsewhere.
"""

import argparse
import subprocess
import sys
from pathlib import Path


def lapsvm(*arguments: object) -> None:
    """Run a verb of the command line; its message is enough where it fails."""
    done = subprocess.run([sys.executable, "-m", "lapsvm.pipelines", *map(str, arguments)], check=False)
    if done.returncode:
        sys.exit(done.returncode)


def main() -> None:
    """Run the example."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cache", type=Path, help="folder of files with boxes and features")
    parser.add_argument("data", type=Path, help="VOC layout with the same pictures")
    parser.add_argument("run", type=Path, help="run folder to make")
    given, training_options = parser.parse_known_args()
    lapsvm("import", given.cache, "--data", "voc", "--root", given.data, "--out", given.run)
    lapsvm("train", "--out", given.run, *training_options)
    for stage in ("detect", "evaluate", "report"):
        lapsvm(stage, "--out", given.run)


if __name__ == "__main__":
    main()
