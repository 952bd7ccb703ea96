from lapsvm.arrays import Array, Float32, Float64, Index

WIDEST: dict[int, int]

def level() -> int: ...
def pack(weights: Float32, widest: int, out: Float32) -> None: ...
def pack_wide(weights: Float64, widest: int, out: Float64) -> None: ...
def best_rows(
    features: Array,
    starts: Index,
    stops: Index,
    packed: Array,
    excluded: Array,
    best: Array,
    index: Index,
    level: int,
) -> None: ...
def best_wide_rows(
    features: Array,
    starts: Index,
    stops: Index,
    packed: Array,
    excluded: Array,
    best: Array,
    index: Index,
    level: int,
) -> None: ...
