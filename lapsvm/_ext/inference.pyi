from collections.abc import Callable
from typing import Any

from lapsvm.arrays import Float64, Index

LARGEST: float

def most_violated(
    scores: Float64,
    positive: Index,
    kind: int,
    norm: float,
    discount: Float64 | None,
    gains: Callable[[int, int, Any], None] | None,
    method: int,
) -> tuple[Index, Float64, Index, float, float] | None: ...
