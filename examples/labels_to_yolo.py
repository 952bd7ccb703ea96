"""From labelled photos to YOLO training data.

The photos lie in one folder per class (and "background" for photos of none of them)::

    python examples/labels_to_yolo.py pictures work

This trains detectors from the folders' names alone, and writes the best box of each photo's class to work/yolo, which a
YOLO trainer takes as it is (work/yolo/data.yaml). Look at work/run/page/index.html before you train on it.
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
    parser.add_argument("pictures", type=Path, help="one folder per class")
    parser.add_argument("work", type=Path, help="folder for the run and the training data")
    given, options = parser.parse_known_args()
    run, yolo = given.work / "run", given.work / "yolo"
    lapsvm("run", "--data", "folder", "--root", given.pictures, "--out", run, *options)
    lapsvm("export", "--out", run, "--to", yolo, "--format", "yolo", "--set", "trainval")


if __name__ == "__main__":
    main()
