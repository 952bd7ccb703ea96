"""When a picture raises an alarm: the probability from which it counts as one with a defect, and its file.

A picture alarms if a class does, so what counts is the highest of its classes' probabilities: each is that of the best
window, or of best window and whole picture together (`whole_pictures`). Of n held-out pictures
without a class, the threshold lies just above the one that floor(share (n + 1)) - 1 exceed. A new picture is as likely
to have any rank among them, so it alarms with at most the wanted probability, whatever the models and their
calibrations are worth: a conformal quantile (V. Vovk, A. Gammerman and G. Shafer, Algorithmic Learning in a Random
World, 2005). With n pictures no rate below 1 / (n + 1) can be promised.

Of pictures in groups, as several of one product, n is the number of groups, and a picture counts as its share of its
group: the promise is that of a picture of a new group (Y. Lee, R. F. Barber and R. Willett, Distribution-free Inference
with Hierarchical Data, 2023).
"""

import json
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
from lapsvm.detection.whole_pictures import PictureModel
from lapsvm.errors import InputError, ModelFileError, ShapeError
from lapsvm.evaluation.intervals import LEVEL, clopper_pearson, effective_number
from lapsvm.files import NOT_PARSED, SMALL_FILE, read_regular

FILE = "threshold.json"
"""The name of the file, beside those of the models."""
FORMAT, VERSION = "lapsvm threshold", 2
_KNOWN = 1, VERSION  # the first knew best windows alone
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
    """

    alarms: int
    of: int
    independent: float | None = None

    @classmethod
    def among(cls, alarms: ArrayLike, groups: ArrayLike) -> Self:
        """Return the share of pictures that alarm (n,), which are in groups (n,)."""
        flags = np.asarray(alarms, bool)
        group, sizes = _checked_groups(groups, len(flags))
        alone = len(sizes) == len(flags)
        return cls(int(flags.sum()), len(flags), None if alone else effective_number(flags, group, sizes))

    @property
    def interval(self) -> tuple[float, float]:
        """The interval of the share at 95 %: C. J. Clopper and E. S. Pearson (1934), of any share for no picture."""
        if self.independent is None:
            return clopper_pearson(self.alarms, self.of)
        return clopper_pearson(self.independent * self.alarms / self.of, self.independent)

    def row(self) -> dict[str, Any]:
        """Return the entry of the file."""
        low, high = self.interval
        known = {} if self.independent is None else {"independent": self.independent}
        return {"alarms": self.alarms, "of": self.of, "low": low, "high": high, **known}

    def __str__(self) -> str:
        if not self.of:
            return "none"
        low, high = self.interval
        return f"{self.alarms:,} of {self.of:,} ({100 * low:.1f} to {100 * high:.1f} %)"


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
    """

    probability: float
    max_false_alarms: float
    models: Mapping[str, str]
    held_out: Mapping[str, Share] = field(default_factory=dict)
    tested: Mapping[str, Share] = field(default_factory=dict)
    pictures: Mapping[str, PictureModel] = field(default_factory=dict)

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

    def _knows(self, detector: Detector) -> bool:
        """Return whether the picture model of a class, if there is one, is of the detector's features."""
        model = self.pictures.get(detector.class_name)
        return model is None or model.coef.shape == detector.whole.coef.shape

    def as_text(self, detectors: Sequence[Detector]) -> str:
        """Return the content of the file; `detectors` add the score of each class at the threshold."""
        scores = {detector.class_name: {"score": _score_at(detector, self.probability)} for detector in detectors}
        shares = {name: {key: share.row() for key, share in getattr(self, name).items()} for name in _SHARES}
        pictures = {name: model.as_json() for name, model in self.pictures.items()}
        content = {
            "format": FORMAT, "version": VERSION, "probability": self.probability,
            "max_false_alarms": self.max_false_alarms, "models": dict(self.models), **shares, "classes": scores,
            "level": LEVEL, "pictures": pictures,
        }  # fmt: skip
        return json.dumps(content, indent=1) + "\n"

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
            content = json.loads(read_regular(path, "threshold", SMALL_FILE))
            if content["format"] != FORMAT or content["version"] not in _KNOWN:
                raise ValueError(f"it must be {FORMAT!r} of version {' or '.join(map(str, _KNOWN))}")
            probability, share = (as_number(name, content[name]) for name in ("probability", "max_false_alarms"))
            if not (0 <= probability < math.inf and 0 < share < 1):
                raise ValueError(f"it must have a probability and a share, got {probability} and {share}")
            models = {str(name): str(digest) for name, digest in content["models"].items()}
            held_out, tested = ({key: _share(row) for key, row in content[name].items()} for name in _SHARES)
            stored = content["pictures"] if content["version"] == VERSION else {}
            pictures = {str(name): PictureModel.from_json(row) for name, row in stored.items()}
        except (*NOT_PARSED, InputError, KeyError, TypeError, ValueError, AttributeError) as error:
            raise ModelFileError(f"threshold {path} is damaged or of another version: {error}.") from None
        return cls(probability, share, models, held_out, tested, pictures)


def choose_threshold(probabilities: ArrayLike, max_false_alarms: float, groups: ArrayLike | None = None) -> float:
    """Return the least probability of an alarm that keeps the share of false ones.

    Parameters
    ----------
    probabilities : array-like of shape (n,)
        Of held-out pictures without a class: the highest one of all classes.
    max_false_alarms : float
        In (0, 1).
    groups : array-like of shape (n,) of int, optional
        The group of each picture; without it each is on its own.

    Returns
    -------
    float
        At most floor(`max_false_alarms` (n + 1)) - 1 of the pictures have this probability or a higher one. It may lie
        above 1, where no picture alarms. In groups a picture counts as 1 over the number of those in its group, and n
        is the number of groups.

    Raises
    ------
    InputError, ShapeError
        If the share is not in (0, 1), so many pictures promise none that is so small, or groups do not fit.
    """
    values = as_floats("probabilities", probabilities, 1)
    share = as_number("the share of false alarms", max_false_alarms)
    if not 0 < share < 1:
        raise InputError(f"the share of false alarms must be above 0 and below 1, got {share}.")
    group, sizes = _checked_groups(np.arange(len(values)) if groups is None else groups, len(values))
    budget = share * (len(sizes) + 1) - 1 + 1e-9  # 0.05 of 20 pictures is 1
    if budget < 0:
        raise InputError(_too_few(share, len(sizes), len(values)))
    order = np.argsort(values)[::-1]
    beyond = int(np.searchsorted(np.cumsum(1 / sizes[group[order]]), budget, side="right"))
    return float(np.nextafter(values[order[min(beyond, len(order) - 1)]], np.inf))


def _checked_groups(groups: ArrayLike, n: int) -> tuple[Index, Index]:
    """Return `as_groups`; ShapeError unless every one of n pictures has a group."""
    group, sizes = as_groups(groups)
    if len(group) != n:
        raise ShapeError(f"groups must have one entry per picture, {n:,}, got {len(group):,}.")
    return group, sizes


def _too_few(share: float, n_groups: int, n: int) -> str:
    """Return the sentence about pictures that promise no share of false alarms that is so small."""
    needed = math.ceil(1 / share - 1e-9) - 1
    of = "held-out pictures of no class" if n_groups == n else "groups of held-out pictures of no class"
    return (
        f"a share of false alarms of {share:g} needs {needed:,} {of}, "
        f"got {n_groups:,}, which promise {least_share(n_groups):g} at best."
    )


def least_share(count: int) -> float:
    """Return the least share of false alarms that so many pictures or groups promise, up to three digits or more.

    It is rounded up: rounded down it would be refused.
    """
    digits = 10.0 ** (2 + len(str(count + 1)))
    return math.ceil(digits / (count + 1) - 1e-9) / digits


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
    return Share(alarms, of, independent)
