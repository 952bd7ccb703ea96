"""When a picture raises an alarm: the probability from which it counts as one with a defect, and its file.

A picture alarms if a class does, so what counts is the highest of its classes' probabilities: each is that of the best
window, or of best window and whole picture together (`whole_pictures`). The threshold lies just above the probability
of one of n held-out pictures without a class, so high that few of these reach it: `promises` says how few, whatever the
models and their calibrations are worth. The scores are of models that did not see the picture, and new pictures are
taken to be like these.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from lapsvm.arrays import Float64, as_floats, as_groups, as_number, check_same_length
from lapsvm.errors import InputError, ModelFileError
from lapsvm.files import NOT_PARSED
from lapsvm.inspection.alarm_rate import AlarmRate
from lapsvm.inspection.calibration import Calibration
from lapsvm.inspection.decision import OK, UNKNOWN, Decision
from lapsvm.inspection.histogram import Histogram
from lapsvm.inspection.promises import FOLDS, MEMORY, ROUNDING, Promise
from lapsvm.inspection.threshold_file import FORMAT, VERSION, read_threshold, signed
from lapsvm.inspection.whole_pictures import PictureModel

FILE = "threshold.json"
"""The name of the file, beside those of the models."""
UNKNOWN_PART = 3.0
"""How many good pictures may be unknown for each one that may be of a known class, in a promise on average."""
_RATES = ("held_out", "tested")  # attributes of `AlarmThreshold`


@dataclass(frozen=True)
class UnlikeGood:
    """When a picture that shows no known class is unlike good ones.

    Attributes
    ----------
    distance : float
        The least distance of an alarm (`lapsvm.objectness.good_pictures`).
    memory : str
        The hash of the memory of good pictures.
    """

    distance: float
    memory: str

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Return it from the entry of the threshold's file."""
        distance = as_number("distance", content["distance"])
        if not 0 <= distance < math.inf:
            raise ValueError(f"unknown must have a distance, got {distance}")
        return cls(distance, str(content["memory"]))


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
    unlike : UnlikeGood, optional
        When a picture is unlike good ones; without it pictures are of known classes, or ok.
    histograms : tuple of Histogram
        Of held-out pictures: by probability if there are classes, and by distance where `unlike` is known.
    record : mapping, optional
        The windows and features of the run as a model's provenance has them, where there is no class and so no model.
    """

    probability: float
    max_false_alarms: float
    models: Mapping[str, str]
    held_out: Mapping[str, AlarmRate] = field(default_factory=dict)
    tested: Mapping[str, AlarmRate] = field(default_factory=dict)
    pictures: Mapping[str, PictureModel] = field(default_factory=dict)
    confidence: float | None = None
    scoring: Mapping[str, Any] | None = None
    unlike: UnlikeGood | None = None
    histograms: tuple[Histogram, ...] = ()
    record: Mapping[str, Any] | None = None

    @property
    def least(self) -> str:
        """The least probability of an alarm, or the least distance where there is no class, for a sentence."""
        if self.unlike is not None and not self.models:
            return f"a distance of {self.unlike.distance:.3g} to good pictures"
        return f"a probability of {self.probability:.3g}"

    @property
    def promise(self) -> str:
        """The sentence that says what is promised of new good pictures."""
        good = self.held_out.get(OK)
        in_groups = good is not None and good.independent is not None
        source = MEMORY if self.unlike is not None and not self.models else FOLDS
        return Promise(self.max_false_alarms, self.confidence).sentence(in_groups, source)

    def decide(self, probabilities: Mapping[str, float], distance: float | None = None) -> Decision:
        """Decide on a picture by the probability of each class in it, and by its distance to good ones."""
        name = max(probabilities, key=lambda name: probabilities[name], default=None)
        probability = 0.0 if name is None else probabilities[name]
        if probability >= self.probability:
            return Decision(name, probability)
        is_unknown = self.unlike is not None and distance is not None and distance >= self.unlike.distance
        return Decision(UNKNOWN if is_unknown else None, probability)

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
        unknown = {} if self.unlike is None else {UNKNOWN: asdict(self.unlike)}
        drawn = {"histograms": [histogram.as_json() for histogram in self.histograms]} if self.histograms else {}
        recorded = {} if self.record is None else {"record": self.record}
        return signed(content | unknown | drawn | recorded)

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
        record = content.get("record")
        if not isinstance(scoring, Mapping | None) or not isinstance(record, Mapping | None):
            raise ValueError(f"it must say what decided the scores, got {scoring!r}")
        unlike = UnlikeGood.from_json(content[UNKNOWN]) if UNKNOWN in content else None
        histograms = tuple(map(Histogram.from_json, content.get("histograms", ())))
        return cls(
            probability, promise.share, models, held_out, tested, pictures, promise.confidence, scoring, unlike,
            histograms, record,
        )  # fmt: skip


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
    reach = _reach(values, 1 / sizes[group])
    return _above(values, reach, promise.budget(len(sizes), in_groups))


def choose_two_thresholds(
    probabilities: ArrayLike, distances: ArrayLike, promise: Promise, groups: ArrayLike | None = None
) -> tuple[float, float] | None:
    """Return the least probability and the least distance of an alarm that keep a promise together.

    On average: n good pictures and a new one stand in two orders. A picture's rank is that by distance, or three times
    that by probability if this is better: known classes need less of the share than what is unknown. These ranks are as
    likely for the new picture as for the others, so both thresholds go down as long as the pictures of such ranks keep
    the promise. With a confidence each threshold keeps one for half of the share, missed with half of the probability
    (C. E. Bonferroni).

    Parameters
    ----------
    probabilities, distances : array-like of shape (n,)
        Of held-out pictures without a class.
    promise : Promise
    groups : array-like of shape (n,) of int, optional

    Returns
    -------
    tuple of two floats, or None
        None where pictures, or groups of them, are too few for two.
    """
    pair = as_floats("probabilities", probabilities, 1), as_floats("distances", distances, 1)
    check_same_length("probabilities", pair[0], "distances", pair[1])
    group, sizes = as_groups(groups, len(pair[0]))
    parts, in_groups = 1 / sizes[group], len(sizes) < len(pair[0])
    reaches = [_reach(values, parts) for values in pair]
    if promise.confidence is None:
        depth = _joint_depth(reaches, parts, promise.budget(len(sizes), in_groups))
        depths = _known_depth(depth), depth
    else:
        depth = promise.half.budget(len(sizes), in_groups)
        depths = depth, depth
    if depth < 0:
        return None
    probability, distance = (_above(*order) for order in zip(pair, reaches, depths, strict=True))
    return probability, distance


def _known_depth(depth: float) -> float:
    """Return how many pictures may lie above the probability where `depth` may lie above the distance."""
    return max(0.0, (depth + 1) / UNKNOWN_PART - 1)


def _joint_depth(reaches: Sequence[Float64], parts: Float64, budget: float) -> float:
    """Return how many pictures, by their parts, may lie above the distance; -1 if any are too many.

    Where the new picture has the last rank of an alarm by one order, as many others as the threshold lets through have
    a better one by this order, and one more by the other order.
    """
    known, unlike = reaches

    def count(depth: float) -> float:
        least = _known_depth(depth)
        either = (known <= least) | (unlike <= depth + 1), (known <= least + 1) | (unlike <= depth)
        return max(float(parts[rows].sum()) for rows in either)

    depths = np.unique(np.concatenate([[0.0], known, unlike]))
    kept = [depth for depth in (depths[depths <= budget] + ROUNDING).tolist() if count(depth) <= budget]
    return max(kept, default=-1.0)


def _reach(values: Float64, parts: Float64) -> Float64:
    """Return the parts of a picture and of all pictures before it, from the highest value on."""
    order = np.argsort(values)[::-1]
    reach = np.empty(len(values))
    reach[order] = np.cumsum(parts[order])
    return reach


def _above(values: Float64, reach: Float64, depth: float) -> float:
    """Return a number just above the highest value that lies deeper than `depth`, or above the least one."""
    deeper = values[reach > depth]
    return float(np.nextafter(deeper.max() if len(deeper) else values.min(), np.inf))
