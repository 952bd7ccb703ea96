"""What several records say of one thing: equal records are one, and of unequal ones none is taken."""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from operator import eq
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Record = TypeVar("Record")


@dataclass(frozen=True)
class Agreement(Generic[Key, Record]):
    """What records say, by the thing that they are of.

    Attributes
    ----------
    taken : dict of key to record
        The things whose records are all equal, in the order of their first ones.
    unequal : dict of key to list of records
        The others, each record once.
    n_repeated : int
        Number of records that only repeat an earlier one.
    """

    taken: dict[Key, Record]
    unequal: dict[Key, list[Record]]
    n_repeated: int


def agreed(
    records: Iterable[tuple[Key, Record]], same: Callable[[Record, Record], bool] = eq
) -> Agreement[Key, Record]:
    """Return the values of records, whichever files hold them.

    Parameters
    ----------
    records : iterable of (key, record)
        The key tells of what thing a record is.
    same : callable, optional
        Whether two records say the same; by default whether they are equal.

    Returns
    -------
    Agreement
    """
    agreement = dict[Key, list[Record]]()
    n_repeated = 0
    for key, record in records:
        earlier = agreement.setdefault(key, [])
        if any(same(item, record) for item in earlier):
            n_repeated += 1
        else:
            earlier.append(record)
    taken = {key: given[0] for key, given in agreement.items() if len(given) == 1}
    return Agreement(taken, {key: given for key, given in agreement.items() if len(given) > 1}, n_repeated)


def distinct(records: Iterable[Key]) -> tuple[list[Key], int]:
    """Return records without those that repeat an earlier one, and the number of these."""
    agreement = agreed((record, None) for record in records)
    return list(agreement.taken), agreement.n_repeated
