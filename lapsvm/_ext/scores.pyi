from lapsvm.arrays import Array, Index

WIDEST: dict[int, int]

def level() -> int: ...
def pack(weights: Array, widest: int, out: Array) -> None: ...
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
