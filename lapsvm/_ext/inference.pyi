from collections.abc import Callable

from lapsvm.arrays import Float32, Float64, Index

KINDS: dict[str, int]
LARGEST: float

def first_violation(
    order: Index, ranks: Index, starts: Index, values: Float64, n_pos: int, slack: float
) -> tuple[int, int]: ...
def most_violated(
    scores: Float64,
    positive: Index,
    kind: int,
    norm: float,
    discount: Float64 | None,
    gains: Callable[[int, int, int], Float64] | None,
    method: int,
) -> tuple[Index, Float64, Index, float, float] | None: ...
def violation_gradient(
    scores: Float32, scale: float, positive: Index, kind: int, norm: float, discount: Float64 | None
) -> tuple[Float32, float, float] | None: ...
