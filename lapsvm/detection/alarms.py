"""When a picture raises an alarm: the probability from which it counts as one with a defect, and its file.

A picture alarms if a class does, so what counts is the highest of its classes' probabilities: each is that of the best
window, or of best window and whole picture together (`whole_pictures`). The threshold lies just above the probability
of one of n held-out pictures without a class, so high that few of these reach it: `promises` says how few, whatever the
models and their calibrations are worth. The scores are of models that did not see the picture, and new pictures are
taken to be like these.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from lapsvm.arrays import Index, as_floats, as_groups, as_number
from lapsvm.detection.detector import Detector
from lapsvm.detection.promises import Promise, least_share
from lapsvm.detection.scoring import recorded_scoring
from lapsvm.detection.threshold_file import FORMAT, VERSION, read_threshold, signed
from lapsvm.detection.whole_pictures import PictureModel
from lapsvm.errors import InputError, ModelFileError, ShapeError
from lapsvm.features import settings_difference
from lapsvm.files import NOT_PARSED

FILE = "threshold.json"
"""The name of the file, beside those of the models."""
__all__ = [
    "FILE", "OK", "AlarmThreshold", "PictureVerdict", "Promise", "Share", "choose_threshold", "least_share",
    "model_hash",
]  # fmt: skip
OK = "ok"
"""What a picture without an alarm is called."""
_SHARES = ("held_out", "tested")  # attributes of `AlarmThreshold`


@dataclass(frozen=True)
class PictureVerdict:
    """What is said of a whole picture.

    Attributes
    ----------
    class_name : str or None
        The most probable class if the picture raises an alarm, else None.
    probability : float
        Of the most probable class.
    """

    class_name: str | None
    probability: float

    @property
    def is_ok(self) -> bool:
        """Whether the picture raises no alarm."""
        return self.class_name is None

    @property
    def name(self) -> str:
        """The class, or "ok"."""
        return OK if self.class_name is None else self.class_name

    def __str__(self) -> str:
        return OK if self.class_name is None else f"{self.class_name} ({self.probability:.3g})"


@dataclass(frozen=True)
class Share:
    """A number of pictures that raise an alarm, among all of a kind.

    Attributes
    ----------
    alarms, of : int
    independent : float, optional
        So many pictures on their own would tell as much, where some are in groups.
    share : float, optional
        The share in which each group counts the same, where groups are what counts; by default that of the pictures.
    """

    alarms: int
    of: int
    independent: float | None = None
    share: float | None = None

    @classmethod
    def among(cls, alarms: ArrayLike, groups: ArrayLike, by_picture: bool = False) -> Self:
        """Return the share of pictures that alarm (n,), which are in groups (n,).

        Each group counts the same, as in the promise, and as one picture would. The interval holds also where the
        threshold was chosen on these pictures, whatever the sizes of the groups.

        With `by_picture` each picture counts the same, and groups count by how they vary, which is more. Such an
        interval holds at thresholds that were chosen without these pictures alone: otherwise a small group alarms, and
        its small part of all passes for precision.
        """
        from lapsvm.evaluation.intervals import effective_number, share_by_group

        flags = np.asarray(alarms, bool)
        group, sizes = _checked_groups(groups, len(flags))
        if len(sizes) == len(flags):
            return cls(int(flags.sum()), len(flags))
        if by_picture:
            return cls(int(flags.sum()), len(flags), effective_number(flags, group, sizes))
        return cls(int(flags.sum()), len(flags), float(len(sizes)), share_by_group(flags, group, sizes))

    @property
    def interval(self) -> tuple[float, float]:
        """The interval of the share at 95 %: C. J. Clopper and E. S. Pearson (1934), of any share for no picture."""
        from lapsvm.evaluation.intervals import clopper_pearson  # prediction needs no interval

        if self.independent is None:
            return clopper_pearson(self.alarms, self.of)
        share = self.alarms / self.of if self.share is None else self.share
        return clopper_pearson(self.independent * share, self.independent)

    def row(self) -> dict[str, Any]:
        """Return the entry of the file."""
        low, high = self.interval
        known = {name: getattr(self, name) for name in ("independent", "share") if getattr(self, name) is not None}
        return {"alarms": self.alarms, "of": self.of, "low": low, "high": high, **known}

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


@dataclass(frozen=True)
class AlarmThreshold:
    """The probability from which a picture raises an alarm.

    Attributes
    ----------
    probability : float
        A picture alarms if a class has at least this probability.
    max_false_alarms : float
        The largest share of pictures without a class that may alarm.
    models : mapping of class name to `model_hash`
        Those that it was chosen for.
    held_out, tested : mapping of "ok" or class name to Share
        Alarms among pictures without a class, and among those that show one: held-out training pictures, and pictures
        of the test set, if there are any.
    pictures : mapping of class name to PictureModel
        What makes a class's probability of best window and whole picture; for other classes the best window decides.
    confidence : float, optional
        Of the promise at this threshold; without it the promise is on average.
    scoring : mapping, optional
        What decided the scores beside the models (`lapsvm.detection.scoring`). None, as in files of versions 1 and 2:
        what the models record.
    """

    probability: float
    max_false_alarms: float
    models: Mapping[str, str]
    held_out: Mapping[str, Share] = field(default_factory=dict)
    tested: Mapping[str, Share] = field(default_factory=dict)
    pictures: Mapping[str, PictureModel] = field(default_factory=dict)
    confidence: float | None = None
    scoring: Mapping[str, Any] | None = None

    @property
    def promise(self) -> str:
        """The sentence that says what is promised of new good pictures."""
        good = self.held_out.get(OK)
        in_groups = good is not None and good.independent is not None
        return Promise(self.max_false_alarms, self.confidence).sentence(in_groups)

    def verdict(self, probabilities: Mapping[str, float]) -> PictureVerdict:
        """Return what is said of a picture, by the probability of each class in it; of none it is ok."""
        name = max(probabilities, key=lambda name: probabilities[name], default=None)
        probability = 0.0 if name is None else probabilities[name]
        return PictureVerdict(name if probability >= self.probability else None, probability)

    def fits(self, detectors: Sequence[Detector]) -> bool:
        """Return whether all detectors are among the models that the threshold was chosen for."""
        return all(
            self.models.get(detector.class_name) == model_hash(detector) and self._knows(detector)
            for detector in detectors
        )

    def scoring_difference(self, detector: Detector, used: Mapping[str, Any] | None = None) -> str:
        """Return what decided the scores and differs in a prediction, for a sentence; "" if nothing does.

        Parameters
        ----------
        detector : Detector
            One of those that it fits.
        used : mapping, optional
            `lapsvm.detection.scoring.used_scoring`; by default what the detector records.
        """
        known = self.scoring if self.scoring is not None else recorded_scoring(detector)
        return settings_difference(known, recorded_scoring(detector) if used is None else used)

    def _knows(self, detector: Detector) -> bool:
        """Return whether the picture model of a class, if there is one, is of the detector's features."""
        model = self.pictures.get(detector.class_name)
        return model is None or model.coef.shape == detector.whole.coef.shape

    def as_text(self, detectors: Sequence[Detector]) -> str:
        """Return the content of the file; `detectors` add the score of each class at the threshold."""
        from lapsvm.evaluation.intervals import LEVEL

        scores = {detector.class_name: {"score": _score_at(detector, self.probability)} for detector in detectors}
        shares = {name: {key: share.row() for key, share in getattr(self, name).items()} for name in _SHARES}
        pictures = {name: model.as_json() for name, model in self.pictures.items()}
        content = {
            "format": FORMAT, "version": VERSION, "probability": self.probability,
            "max_false_alarms": self.max_false_alarms, "confidence": self.confidence, "promise": self.promise,
            "models": dict(self.models), **shares, "classes": scores, "level": LEVEL, "scoring": self.scoring,
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
                "without the file pictures get no verdict."
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
        held_out, tested = ({key: _share(row) for key, row in content[name].items()} for name in _SHARES)
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
        a confidence (`lapsvm.detection.promises`). It may lie above 1, where no picture alarms. In groups a picture
        counts as 1 over the number of those in its group, and n is the number of groups.

    Raises
    ------
    InputError, ShapeError
        If a share is not in (0, 1), so many pictures promise none that is so small, or groups do not fit.
    """
    values = as_floats("probabilities", probabilities, 1)
    promise = Promise(as_number("the share of false alarms", max_false_alarms), confidence)
    group, sizes = _checked_groups(np.arange(len(values)) if groups is None else groups, len(values))
    in_groups = len(sizes) < len(values)
    promise.check(len(sizes), in_groups)
    order = np.argsort(values)[::-1]
    counted = np.cumsum(1 / sizes[group[order]])
    beyond = int(np.searchsorted(counted, promise.budget(len(sizes), in_groups), side="right"))
    return float(np.nextafter(values[order[min(beyond, len(order) - 1)]], np.inf))


def _checked_groups(groups: ArrayLike, n: int) -> tuple[Index, Index]:
    """Return `as_groups`; ShapeError unless every one of n pictures has a group."""
    group, sizes = as_groups(groups)
    if len(group) != n:
        raise ShapeError(f"groups must have one entry per picture, {n:,}, got {len(group):,}.")
    return group, sizes


def model_hash(detector: Detector) -> str:
    """Return a hash of what a model says of a picture, 32 hex digits: its weights and its calibration."""
    calibration = None if detector.calibration is None else (detector.calibration.slope, detector.calibration.offset)
    digest = blake2b(repr((detector.class_name, detector.intercept, calibration)).encode(), digest_size=16)
    for array in (detector.coef, np.asarray(detector.scale)):
        digest.update(np.ascontiguousarray(array, "<f8").tobytes())
    return digest.hexdigest()


def _score_at(detector: Detector, probability: float) -> float | None:
    """Return the score with a probability; None where there is none, or all scores have the same."""
    calibration = detector.calibration
    if calibration is None or not calibration.slope or not 0 < probability < 1:
        return None
    return (math.log(probability / (1 - probability)) - calibration.offset) / calibration.slope


def _share(row: Mapping[str, Any]) -> Share:
    """Return the share of an entry; ValueError unless it counts some pictures among all."""
    alarms, of = row["alarms"], row["of"]
    if not (isinstance(alarms, int) and isinstance(of, int) and 0 <= alarms <= of < 2**53):
        raise ValueError(f"alarms must be a number of pictures among all, got {alarms!r} of {of!r}")
    independent = row.get("independent")
    if independent is not None and not 0 < (independent := as_number("independent", independent)) <= of:
        raise ValueError(f"independent must be a number of pictures, got {independent!r} of {of!r}")
    share = row.get("share")
    if share is not None and not (independent and 0 <= (share := as_number("share", share)) <= 1):
        raise ValueError(f"share must be that of groups, got {share!r}")
    return Share(alarms, of, independent, share)
