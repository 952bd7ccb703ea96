"""The order in which a person sees the pictures of a class.

All pictures come in one random order that depends on the seed, the class and the pictures' names alone. So the first
ones are a random sample, pictures that are added do not change the order of others, and every figure of verdicts may
use any number of them.
"""

from collections.abc import Sequence
from hashlib import blake2b

FIRST = 20
"""Pictures of a class that are asked for: their share of right boxes is known to about 20 points either way."""


def random_order(ids: Sequence[str], class_name: str, seed: int) -> list[int]:
    """Return the positions of pictures in random order.

    Parameters
    ----------
    ids : sequence of str
        All different.
    class_name : str
    seed : int
    """

    def draw(position: int) -> bytes:
        return blake2b(repr((seed, class_name, ids[position])).encode("utf-8", "surrogatepass")).digest()

    return sorted(range(len(ids)), key=draw)
