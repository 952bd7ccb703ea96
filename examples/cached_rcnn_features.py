"""Detectors from windows and features that R-CNN or another program has cached.

The cache is a folder with one file per picture, named by its id: ``.mat`` (``boxes`` and ``feat``) or ``.npz``
(``boxes`` and ``features``). Pictures and labels are a data set, here in the VOC layout::

    python examples/cached_rcnn_features.py feat_cache VOC2007 RUN --C 10

No network runs. RUN/page/index.html shows the results; ``lapsvm export --out RUN ...`` exports the boxes.
"""

import argparse
from pathlib import Path

from lapsvm.pipelines import run_command


def main() -> None:
    """Run the example."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cache", type=Path, help="folder of files with boxes and features")
    parser.add_argument("data", type=Path, help="VOC layout with the same pictures")
    parser.add_argument("run", type=Path, help="run folder to make")
    arguments, training_options = parser.parse_known_args()
    run_command("import", arguments.cache, "--data", "voc", "--root", arguments.data, "--out", arguments.run)
    run_command("train", "--out", arguments.run, *training_options)
    for stage in ("detect", "evaluate", "report"):
        run_command(stage, "--out", arguments.run)


if __name__ == "__main__":
    main()
