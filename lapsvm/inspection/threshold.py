"""When a picture raises an alarm: the probability from which it counts as one with a defect, and its file.

A picture alarms if a class does, so what counts is the highest of its classes' probabilities: each is that of the best
window, or of best window and whole picture together (`whole_pictures`). The threshold lies just above the probability
of one of n held-out pictures without a class, so high that few of these reach it: `promises` says how few, whatever the
models and their calibrations are worth. The scores are of models that did not see the picture, and new pictures are
taken to be like these.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from lapsvm.arrays import as_floats, as_groups, as_number
from lapsvm.errors import InputError, ModelFileError
from lapsvm.files import NOT_PARSED
from lapsvm.inspection.alarm_rate import AlarmRate
from lapsvm.inspection.calibration import Calibration
from lapsvm.inspection.decision import OK, Decision
from lapsvm.inspection.promises import Promise
from lapsvm.inspection.threshold_file import FORMAT, VERSION, read_threshold, signed
from lapsvm.inspection.whole_pictures import PictureModel

FILE = "threshold.json"
"""The name of the file, beside those of the models."""
_RATES = ("held_out", "tested")  # attributes of `AlarmThreshold`


@dataclass(frozen=True)
class AlarmThreshold:
    """The probability from which a picture raises an alarm.

    Attributes
    ----------
    probability : float
        A picture alarms if a class has at least this probability.
    max_false_alarms : float
        The largest share of pictures without a class that may alarm.
    models : mapping of class name to str
        The hashes of the models that it was chosen for (`lapsvm.detection.scoring.model_hash`).
    held_out, tested : mapping of "ok" or class name to AlarmRate
        Alarms among pictures without a class, and among pictures that show one: of held-out training pictures, and of
        the test set, if there is one.
    pictures : mapping of class name to PictureModel
        What makes a class's probability of best window and whole picture; for other classes the best window decides.
    confidence : float, optional
        Of the promise at this threshold; without it the promise is on average.
    scoring : mapping, optional
        The other inputs of the scores (`lapsvm.detection.scoring`). None, as in files of versions 1 and 2: those that
        the models record.
    """

    probability: float
    max_false_alarms: float
    models: Mapping[str, str]
    held_out: Mapping[str, AlarmRate] = field(default_factory=dict)
    tested: Mapping[str, AlarmRate] = field(default_factory=dict)
    pictures: Mapping[str, PictureModel] = field(default_factory=dict)
    confidence: float | None = None
    scoring: Mapping[str, Any] | None = None

    @property
    def promise(self) -> str:
        """The sentence that says what is promised of new good pictures."""
        good = self.held_out.get(OK)
        in_groups = good is not None and good.independent is not None
        return Promise(self.max_false_alarms, self.confidence).sentence(in_groups)

    def decide(self, probabilities: Mapping[str, float]) -> Decision:
        """Decide on a picture by the probability of each class in it; without any class it is ok."""
        name = max(probabilities, key=lambda name: probabilities[name], default=None)
        probability = 0.0 if name is None else probabilities[name]
        return Decision(name if probability >= self.probability else None, probability)

    def as_text(self, calibrations: Mapping[str, Calibration | None]) -> str:
        """Return the content of the file; the calibrations of classes add the score of each class at the threshold."""
        from lapsvm.evaluation.intervals import LEVEL

        scores = {
            name: {"score": calibration and calibration.score_at(self.probability)}
            for name, calibration in calibrations.items()
        }
        rates = {name: {kind: rate.as_json() for kind, rate in getattr(self, name).items()} for name in _RATES}
        pictures = {name: model.as_json() for name, model in self.pictures.items()}
        content = {
            "format": FORMAT, "version": VERSION, "probability": self.probability,
            "max_false_alarms": self.max_false_alarms, "confidence": self.confidence, "promise": self.promise,
            "models": dict(self.models), **rates, "classes": scores, "level": LEVEL, "scoring": self.scoring,
            "pictures": pictures,
        }  # fmt: skip
        return signed(content)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a file.

        Raises
        ------
        MissingError
            If there is no such file.
        ModelFileError
            If it is damaged, of another kind, or of a version that is not known.
        """
        try:
            return cls._of(read_threshold(path))
        except (*NOT_PARSED, InputError, KeyError, TypeError, ValueError, AttributeError) as error:
            raise ModelFileError(
                f"threshold {path} is damaged or of another version: {error}; lapsvm threshold makes it again, and "
                "without the file pictures get no decision."
            ) from None

    @classmethod
    def _of(cls, content: Mapping[str, Any]) -> Self:
        """Return the threshold of a file's content; errors of `load` for values that are none."""
        version = content["version"]
        probability = as_number("probability", content["probability"])
        if not 0 <= probability < math.inf:
            raise ValueError(f"it must have a probability, got {probability}")
        promise = Promise(as_number("max_false_alarms", content["max_false_alarms"]), content.get("confidence"))
        models = {str(name): str(digest) for name, digest in content["models"].items()}
        held_out, tested = ({kind: AlarmRate.from_json(row) for kind, row in content[name].items()} for name in _RATES)
        stored = content["pictures"] if version > 1 else {}
        pictures = {str(name): PictureModel.from_json(row) for name, row in stored.items()}
        scoring = content["scoring"] if version == VERSION else None
        if not isinstance(scoring, Mapping | None):
            raise ValueError(f"it must say what decided the scores, got {scoring!r}")
        return cls(probability, promise.share, models, held_out, tested, pictures, promise.confidence, scoring)


def choose_threshold(
    probabilities: ArrayLike,
    max_false_alarms: float,
    groups: ArrayLike | None = None,
    confidence: float | None = None,
) -> float:
    """Return the least probability of an alarm that keeps a promise on the share of false ones.

    Parameters
    ----------
    probabilities : array-like of shape (n,)
        Of held-out pictures without a class: the highest one of all classes.
    max_false_alarms : float
        In (0, 1).
    groups : array-like of shape (n,) of int, optional
        The group of each picture; without it each is on its own.
    confidence : float, optional
        In (0, 1). With it no larger share of new pictures alarms at this very threshold, with this probability; without
        it none does on average over draws of the n pictures.

    Returns
    -------
    float
        At most floor(`max_false_alarms` (n + 1)) - 1 of the pictures have this probability or a higher one; fewer with
        a confidence (`lapsvm.inspection.promises`). It may lie above 1, where no picture alarms. In groups a picture
        counts as 1 over the number of those in its group, and n is the number of groups.

    Raises
    ------
    InputError, ShapeError
        If a share is not in (0, 1), so many pictures promise none that is so small, or groups do not fit.
    """
    values = as_floats("probabilities", probabilities, 1)
    promise = Promise(as_number("the share of false alarms", max_false_alarms), confidence)
    group, sizes = as_groups(groups, len(values))
    in_groups = len(sizes) < len(values)
    promise.check(len(sizes), in_groups)
    order = np.argsort(values)[::-1]
    counted = np.cumsum(1 / sizes[group[order]])
    beyond = int(np.searchsorted(counted, promise.budget(len(sizes), in_groups), side="right"))
    return float(np.nextafter(values[order[min(beyond, len(order) - 1)]], np.inf))
