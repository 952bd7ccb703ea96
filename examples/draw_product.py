"""A drawn product with and without defects, in the layout of MVTec AD, and new pictures of it.

::

    python examples/draw_product.py product new

`product` has pictures of good plates and of three kinds of defects, with masks: a scratch (a thin line), a stain (a
soft patch) and a chip (a corner that is missing). `new` has pictures as a camera would write them, in a folder for
each day, with a defect that no picture of `product` shows: a hole. The same options give the same pictures.
"""

import argparse
from pathlib import Path

from lapsvm.datasets.plates import write_new, write_product


def main() -> None:
    """Write both folders."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("product", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--defects", type=int, default=24, help="pictures of each kind of defect")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    write_product(given.product, given.seed, given.defects)
    write_new(given.new, given.seed)


if __name__ == "__main__":
    main()
