"""What unseen pictures say of a run: held-out figures of the training set, and whether its features can work."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lapsvm.catalog import GroundTruth
from lapsvm.detection import Reliability
from lapsvm.evaluation import class_table
from lapsvm.evaluation.tables import Row
from lapsvm.report.next_steps import is_weak

from ..run.context import RunContext
from .detectors import available_detectors
from .held_out import HeldOut, read_held_out


@dataclass(frozen=True)
class Unseen:
    """Held-out scores of the classes that have them, and the reliability of their probabilities."""

    held_out: Mapping[str, HeldOut]
    reliability: Mapping[str, Reliability | None]

    @classmethod
    def of_run(cls, context: RunContext) -> "Unseen":
        """Read the held-out scores and the calibrations of a run."""
        found = {name: read_held_out(context.run, name) for name in context.data.classes}
        calibrations = {name: one.calibration for name, one in available_detectors(context).items()}
        return cls(
            {name: held_out for name, held_out in found.items() if held_out is not None},
            {name: one.reliability for name, one in calibrations.items() if one is not None},
        )

    def table(self, truth: Mapping[str, Mapping[str, GroundTruth]] | None) -> dict[str, Any] | None:
        """Return {"classes", "mean"} of the held-out figures, or None if no class has any.

        Parameters
        ----------
        truth : ground truth of the training set, or None
            Without it there is no CorLoc.
        """
        if not self.held_out:
            return None
        return class_table({name: self._row(name, truth) for name in self.held_out})

    def _row(self, name: str, truth: Mapping[str, Mapping[str, GroundTruth]] | None) -> Row:
        held_out, reliability = self.held_out[name], self.reliability.get(name)
        located: Row = {} if truth is None else {"corloc": held_out.corloc(name, truth[name]).corloc}
        return located | {
            "image_ap": held_out.image_ap,
            "chance": held_out.chance,
            "ece": None if reliability is None else reliability.ece,
            "brier": None if reliability is None else reliability.brier,
        }

    def weakness_message(self) -> str:
        """Return a sentence on detectors that hardly separate the pictures of some class; "" without such a class."""
        weak = {name: one for name, one in self.held_out.items() if is_weak(one.image_ap, one.chance)}
        if not weak:
            return ""
        figures = ", ".join(f"{name} {one.image_ap:.2f} (chance {one.chance:.2f})" for name, one in weak.items())
        return (
            f"the detectors hardly separate pictures with and without a class, held-out image AP: {figures}; their "
            "boxes are not to be trusted: use features of a network, or of another one (--extractor), the recipe best, "
            "or more pictures."
        )
