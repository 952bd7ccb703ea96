"""The alarm rate of pictures of one kind: their number, that of alarms, and its interval."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from lapsvm.arrays import as_groups, as_number


@dataclass(frozen=True)
class AlarmRate:
    """The number of pictures that raise an alarm, among all pictures of a kind.

    Attributes
    ----------
    alarms, of : int
    independent : float, optional
        The effective number of independent pictures, where some are in groups.
    share : float, optional
        The share in which each group counts the same, where groups are what counts; by default that of the pictures.
    """

    alarms: int
    of: int
    independent: float | None = None
    share: float | None = None

    @classmethod
    def among(cls, alarms: ArrayLike, groups: ArrayLike, by_picture: bool = False) -> Self:
        """Return the alarm rate of pictures whose alarms are (n,) bool, and which are in groups (n,).

        Each group counts the same, as in the promise, and as one picture would. The interval holds also where the
        threshold was chosen on these pictures, whatever the sizes of the groups.

        With `by_picture` each picture counts the same, and groups count by how they vary, which is more. Such an
        interval only holds at thresholds that were chosen without these pictures: otherwise a small group alarms, and
        its small part of all passes for precision.
        """
        from lapsvm.evaluation.intervals import effective_number, share_by_group

        flags = np.asarray(alarms, bool)
        group, sizes = as_groups(groups, len(flags))
        count, of = int(flags.sum()), len(flags)
        if len(sizes) == of:
            return cls(count, of)
        if by_picture:
            return cls(count, of, effective_number(flags, group, sizes))
        return cls(count, of, float(len(sizes)), share_by_group(flags, group, sizes))

    @property
    def interval(self) -> tuple[float, float]:
        """The interval of the share at 95 %: C. J. Clopper and E. S. Pearson (1934), of any share for no picture."""
        from lapsvm.evaluation.intervals import clopper_pearson  # prediction needs no interval

        if self.independent is None:
            return clopper_pearson(self.alarms, self.of)
        share = self.alarms / self.of if self.share is None else self.share
        return clopper_pearson(self.independent * share, self.independent)

    def as_json(self) -> dict[str, Any]:
        """Return the entry of the threshold's file."""
        low, high = self.interval
        known = {key: value for key, value in vars(self).items() if value is not None}
        return {"alarms": self.alarms, "of": self.of, "low": low, "high": high, **known}

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Self:
        """Return the rate of an entry; ValueError, KeyError or InputError unless it counts pictures among all."""
        alarms, of = row["alarms"], row["of"]
        if not (isinstance(alarms, int) and isinstance(of, int) and 0 <= alarms <= of < 2**53):
            raise ValueError(f"alarms must be a number of pictures among all, got {alarms!r} of {of!r}")
        independent, share = row.get("independent"), row.get("share")
        if independent is not None and not 0 < (independent := as_number("independent", independent)) <= of:
            raise ValueError(f"independent must be a number of pictures, got {independent!r} of {of!r}")
        if share is not None and not (independent and 0 <= (share := as_number("share", share)) <= 1):
            raise ValueError(f"share must be that of groups, got {share!r}")
        return cls(alarms, of, independent, share)

    @property
    def count(self) -> str:
        """The numbers for a table, with the share by group where groups are what counts."""
        if not self.of:
            return "none"
        by_group = "" if self.share is None else f", {100 * self.share:.1f} % by group"
        return f"{self.alarms:,} of {self.of:,}{by_group}"

    def __str__(self) -> str:
        low, high = self.interval
        return f"{self.count} ({100 * low:.1f} to {100 * high:.1f} %)" if self.of else self.count
