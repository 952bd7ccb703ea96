"""Convert labelled photos to YOLO training data.

The photos are in one folder per class (and "background" for photos of no class)::

    python examples/labels_to_yolo.py pictures work

The script trains detectors from the names of the folders, and writes the best box of each photo's class to work/yolo,
which a YOLO trainer reads (work/yolo/data.yaml). Check the boxes in work/run/page/index.html before training.
"""

import argparse
import subprocess
import sys
from pathlib import Path


def lapsvm(*words: object) -> None:
    """Run a verb of the command line, and exit with its status if it fails."""
    done = subprocess.run([sys.executable, "-m", "lapsvm.pipelines", *map(str, words)], check=False)
    if done.returncode:
        sys.exit(done.returncode)


def main() -> None:
    """Run the example."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pictures", type=Path, help="one folder per class")
    parser.add_argument("work", type=Path, help="folder for the run and the training data")
    arguments, options = parser.parse_known_args()
    run, yolo = arguments.work / "run", arguments.work / "yolo"
    lapsvm("run", "--data", "folder", "--root", arguments.pictures, "--out", run, *options)
    lapsvm("export", "--out", run, "--to", yolo, "--format", "yolo", "--set", "trainval")


if __name__ == "__main__":
    main()
