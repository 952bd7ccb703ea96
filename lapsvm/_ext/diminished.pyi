from collections.abc import Callable

from lapsvm.arrays import Float64, Index

def rank(
    scores: Float64,
    positive: Index,
    kind: int,
    norm: float,
    discount: Float64 | None,
    gains: Callable[[int, int, int], Float64] | None,
    diminished: bool,
) -> tuple[Index, Float64, Index, float] | None: ...
def subtract_predicted(
    scores: Float64, positive: Index, kind: int, norm: float, discount: Float64 | None, coefficients: Float64
) -> tuple[Index, float] | None: ...
