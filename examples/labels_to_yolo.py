"""Convert labelled photos to YOLO training data.

The photos are in one folder per class (and "background" for photos of no class)::

    python examples/labels_to_yolo.py pictures work

The script trains detectors from the names of the folders, and writes the best box of each photo's class to work/yolo,
which a YOLO trainer reads (work/yolo/data.yaml). Check the boxes in work/run/page/index.html before training.
"""

import argparse
from pathlib import Path

from lapsvm.pipelines import run_command


def main() -> None:
    """Run the example."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pictures", type=Path, help="one folder per class")
    parser.add_argument("work", type=Path, help="folder for the run and the training data")
    arguments, options = parser.parse_known_args()
    run, yolo = arguments.work / "run", arguments.work / "yolo"
    run_command("run", "--data", "folder", "--root", arguments.pictures, "--out", run, *options)
    run_command("export", "--out", run, "--to", yolo, "--format", "yolo", "--set", "trainval")


if __name__ == "__main__":
    main()
