"""Blocks: the parts of a window's features that stand side by side, and how shards and models record them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from lapsvm.arrays import Array
from lapsvm.errors import InputError, SettingsError


class Block(NamedTuple):
    """Some features of a window that stand side by side, and that training scales together.

    Attributes
    ----------
    size : int
        Number of features, those of the context included.
    has_context : bool, default False
        Whether the first half are features of the window, the second half the same features of its context.
    """

    size: int
    has_context: bool = False

    @classmethod
    def of(cls, inside: int, has_context: bool) -> Self:
        """Return the block with this number of features of the window itself."""
        return cls(inside * (1 + has_context), has_context)

    @property
    def inside(self) -> int:
        """Number of features of the window itself."""
        return self.size // (1 + self.has_context)

    @property
    def pieces(self) -> tuple[int, ...]:
        """Sizes of the parts with the same weights or components: the block, or window and context."""
        return (self.inside,) * (1 + self.has_context)


def sizes_of(blocks: Iterable[Block]) -> tuple[int, ...]:
    """Return the number of features of each block."""
    return tuple(block.size for block in blocks)


def split_blocks(array: Array, blocks: Sequence[Block], axis: int = 0) -> list[Array]:
    """Return the parts of an array, one a block, along an axis with all features."""
    return np.split(array, np.cumsum(sizes_of(blocks))[:-1], axis=axis)


def check_blocks(name: str, blocks: object, dim: int) -> None:
    """Raise InputError unless these are blocks of `dim` features in all."""
    known = list(blocks) if isinstance(blocks, Sequence) else []
    if not known or not all(isinstance(block, Block) for block in known):
        raise InputError(f"blocks of {name} must be one or more lapsvm.features.Block, got {blocks!r}.")
    if min(sizes_of(known)) < 1 or sum(sizes_of(known)) != dim:
        raise InputError(f"blocks of {name} must have sizes of at least 1 that sum to its dim {dim}, got {blocks!r}.")
    if any(sum(block.pieces) != block.size for block in known):
        raise InputError(f"blocks of {name} must have an even size where they have context, got {blocks!r}.")


def block_record(blocks: Iterable[Block]) -> dict[str, Any]:
    """Return blocks as files record them, plain JSON below two keys; `recorded_blocks` reads it."""
    known = tuple(blocks)
    return {"blocks": list(sizes_of(known)), "has_context": [block.has_context for block in known]}


def recorded_blocks(description: Mapping[str, Any]) -> tuple[Block, ...]:
    """Return the blocks that a recorded description of features holds.

    Raises
    ------
    SettingsError
        If it holds none.
    """
    try:
        pairs = zip(description["blocks"], description["has_context"], strict=True)
        return tuple(Block(int(size), bool(has_context)) for size, has_context in pairs)
    except (KeyError, TypeError, ValueError):
        raise SettingsError(
            f"features must be recorded with the sizes of their blocks, got {description!r:.200}; extract them again."
        ) from None
