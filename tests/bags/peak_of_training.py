"""Train on the windows of a folder of shards and print by how many bytes the peak of resident memory rose.

::

    python peak_of_training.py FOLDER MEMORY THREADS

Four classes are trained; what imports and threads take is measured before, on a few windows.
"""

import re
import sys
from pathlib import Path

import numpy as np

from lapsvm.bags import Bags, passes
from lapsvm.latent import LatentProblem, fit_many
from lapsvm.latent.scheduling import pool

CHUNK_BYTES = 1 << 20  # as small beside the memory as it is in a run


def peak():
    """Return the peak of resident memory in bytes; that of `resource` may be the parent's."""
    return 1024 * int(re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())[1])


def train(bags):
    """Train four classes, on a few candidates of each picture."""
    y = np.where(np.arange(bags.n_bags) % 4 == np.arange(4)[:, None], 1, -1)
    fit_many([LatentProblem(labels, C=1.0, tol=0.3, top=3.0) for labels in y], bags, candidates=5)


def main(folder, memory, threads):
    """Print the bytes."""
    rng = np.random.default_rng(0)
    passes.CHUNK_BYTES, pool.BATCH_BYTES, passes.WORTH_THREADS = CHUNK_BYTES, CHUNK_BYTES, 0
    train(Bags.from_arrays([rng.normal(size=(40, 8)) for _ in range(16)], threads=threads))
    before = peak()
    train(Bags.open(folder, "trainval", memory=memory, threads=threads, verify=True))
    sys.stdout.write(f"{peak() - before}\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
