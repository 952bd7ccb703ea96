from lapsvm.arrays import Array, Index

WIDEST: dict[int, int]
PANEL: int
GROUP: int
STEP: int

def level() -> int: ...
def pack(weights: Array, widest: int, out: Array) -> None: ...
def best_rows(
    features: Array,
    starts: Index,
    stops: Index,
    packed: Array,
    margins: Array,
    excluded: Array,
    near: Index,
    index: Index,
    level: int,
) -> tuple[int, int]: ...
