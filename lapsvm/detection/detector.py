"""A trained linear detector of one class, its file, and its provenance: how it was made."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lapsvm.arrays import Array, Float64, as_array, as_floats, as_number, as_numbers, check_finite, is_optional_number
from lapsvm.bfloat16 import BFLOAT16, as_float32, widened
from lapsvm.detection.groups import WindowPrior
from lapsvm.detection.sizes import SizePrior
from lapsvm.errors import InputError, ModelFileError, NotFiniteError, ShapeError
from lapsvm.inspection.calibration import Calibration
from lapsvm.model_files import read_model, write_model

FORMAT = "lapsvm detector"
VERSION = 1
EXTENT = "extent"  # the entry with the share of boxes that stand out, where boxes take the extent of what does
THINGS = "things"  # the entry with the mean number of things in a picture, where pictures show several
_NUMBERS = (
    "C",
    "J",
    "trim",
    "duality_gap",
    "boxes_stayed",
    "boxes_moved",
    "telling_parts",
    THINGS,
    EXTENT,
)  # of the provenance's result
_FOLDS = "held_out_image_ap"
SIZES = "sizes"  # the entry of the result with the numbers of a `SizePrior`
_ROWS = 4096  # features are widened to float64 this many windows at a time


@dataclass(frozen=True, eq=False)
class Detector:
    """A linear detector: score = coef . (scale * features) + intercept.

    Parameters
    ----------
    class_name : str
    coef : array-like of shape (d,)
        Weights of the scaled features, stored as float64.
    intercept : float, default 0
    scale : array-like of shape (d,), or float, default 1
        Factors of the features in training; one number applies to all d.
    provenance : dict, default empty
        JSON-serialisable record of loss, C, hashes of the data, windows and features. Without paths, times and
        hosts, so that the same training gives the same file.
    whole_coef : array-like of shape (D,), optional
        If the d features are a projection of D features: weights of the D features that give the same scores,
        including the scale.
    calibration : Calibration, optional
        Map from a picture's best score to the probability that the picture shows the class.

    Raises
    ------
    ShapeError
        If `scale` does not fit `coef`.
    NotFiniteError
        If a number is NaN or infinite.
    """

    class_name: str
    coef: Float64
    intercept: float = 0.0
    scale: Float64 | float = 1.0
    provenance: Mapping[str, Any] = field(default_factory=dict)
    whole_coef: Float64 | None = None
    calibration: Calibration | None = None

    def __post_init__(self) -> None:
        coef = as_floats("coef", self.coef, 1)
        scale = as_floats("scale", np.atleast_1d(as_numbers("scale", self.scale)), 1)
        if scale.shape not in ((1,), coef.shape):
            raise ShapeError(f"scale must be one number or have the shape of coef {coef.shape}, got {scale.shape}.")
        intercept = as_number("intercept", self.intercept)
        if not np.isfinite(intercept):
            raise NotFiniteError(f"intercept must be finite, got {intercept}.")
        object.__setattr__(self, "coef", np.ascontiguousarray(coef))
        object.__setattr__(self, "scale", np.broadcast_to(scale, coef.shape).copy())
        object.__setattr__(self, "intercept", intercept)
        if self.whole_coef is not None:
            object.__setattr__(self, "whole_coef", np.ascontiguousarray(as_floats("whole_coef", self.whole_coef, 1)))

    @property
    def whole(self) -> "Detector":
        """The equivalent detector of the features before projection, or the detector itself without a projection."""
        if self.whole_coef is None:
            return self
        return Detector(self.class_name, self.whole_coef, self.intercept, 1.0, self.provenance, None, self.calibration)

    @property
    def sizes(self) -> SizePrior | None:
        """How large the objects of the class are, by the boxes that a person knew. None if none was known."""
        result = self.provenance.get("result")
        return SizePrior.from_json(result.get(SIZES)) if isinstance(result, Mapping) else None

    @property
    def prior(self) -> WindowPrior | None:
        """What it knows of boxes beside its weights. None without sizes, several things and extent.

        Models of versions that did not know these have none.
        """
        result = self.provenance.get("result")
        if not isinstance(result, Mapping):
            return None
        return WindowPrior.of(self.sizes, result.get(THINGS) is not None, result.get(EXTENT) is not None)

    def probability(self, scores: ArrayLike) -> Float64 | None:
        """Return the probability that belongs to each score, or None for a detector without calibration.

        For the best score of a picture it is the probability that the picture shows the class. For the score of
        another window it is that of a picture whose best window has this score; it never is the probability that the
        box is right.

        Parameters
        ----------
        scores : array-like of shape (n,)

        Returns
        -------
        ndarray of shape (n,), float64, or None

        Raises
        ------
        ShapeError, NotFiniteError
            If the scores are no finite numbers in one dimension.
        """
        return None if self.calibration is None else self.calibration.probability(scores)

    def score(self, features: ArrayLike) -> Float64:
        """Return the score of each window.

        Parameters
        ----------
        features : array-like of shape (n, d), float16, float32 or float64
            Before scaling.

        Returns
        -------
        ndarray of shape (n,), float64

        Raises
        ------
        ShapeError
            If the number of features differs.
        NotFiniteError
            If a feature is NaN or infinite.
        """
        return np.asarray(score_many([self], features)[:, 0])

    def save(self, path: str | Path) -> None:
        """Write the detector to a safetensors file atomically; equal detectors give equal bytes.

        Parameters
        ----------
        path : str or Path

        Raises
        ------
        InputError
            If the provenance cannot be written as JSON.
        """
        tensors = {"coef": self.coef, "scale": np.asarray(self.scale)}
        if self.whole_coef is not None:
            tensors["whole_coef"] = self.whole_coef
        description = {
            "format": FORMAT,
            "version": VERSION,
            "class_name": self.class_name,
            "intercept": self.intercept,
            "provenance": dict(self.provenance),
        }
        if self.calibration is not None:
            description["calibration"] = self.calibration.as_json()
        write_model(path, description, tensors, "provenance")

    @classmethod
    def load(cls, path: str | Path) -> "Detector":
        """Read a detector from its file.

        Parameters
        ----------
        path : str or Path

        Returns
        -------
        Detector

        Raises
        ------
        MissingError
            If there is no such file.
        ModelFileError
            If the file is damaged, of another kind, or of a version that is not known.
        """
        description, tensors = read_model(path, FORMAT, VERSION)
        kinds = {"class_name": str, "intercept": int | float, "provenance": dict}
        invalid = [name for name, kind in kinds.items() if not isinstance(description.get(name), kind)]
        if invalid:
            raise ModelFileError(f"model {path} is damaged: {invalid[0]} is missing or has the wrong type.")
        stored = description.get("calibration")
        try:
            return cls(
                description["class_name"],
                tensors["coef"],
                description["intercept"],
                tensors["scale"],
                description["provenance"],
                tensors.get("whole_coef"),
                None if stored is None else Calibration.from_json(stored),
            )
        except (KeyError, TypeError, InputError) as error:
            raise ModelFileError(f"model {path} is damaged: {error}.") from None


def score_many(detectors: Sequence[Detector], features: ArrayLike) -> Float64:
    """Return the scores of several detectors for the same windows in one pass over the features.

    Parameters
    ----------
    detectors : sequence of k Detector
        Detectors of the same features.
    features : array-like of shape (n, d), float16, float32, float64 or `lapsvm.bfloat16.BFLOAT16`

    Returns
    -------
    ndarray of shape (n, k), float64

    Raises
    ------
    ShapeError
        If the numbers of features of the detectors and of the windows differ.
    NotFiniteError
        If a feature is NaN or infinite.
    InputError
        If there is no detector.
    """
    array = as_array("features", features)
    if array.dtype == BFLOAT16:
        array = widened(array)
    if array.dtype.kind not in "biuf":
        array = as_numbers("features", array)
    sizes = {len(detector.coef) for detector in detectors}
    if not sizes:
        raise InputError("detectors must hold at least one detector, got none.")
    if len(sizes) > 1:
        raise ShapeError(f"detectors must have the same number of features, got {sorted(sizes)}.")
    if array.ndim != 2 or array.shape[1] not in sizes:
        raise ShapeError(f"features must have shape (n, {sizes.pop()}), got {array.shape}.")
    weights = unscaled_weights(detectors)
    intercepts = np.array([detector.intercept for detector in detectors])
    starts = range(0, len(array), _ROWS)
    with np.errstate(invalid="ignore", over="ignore"):  # non-finite scores are detected below
        chunks = [_doubles(array[start : start + _ROWS]) @ weights + intercepts for start in starts]
    scores = np.concatenate([np.empty((0, len(intercepts))), *chunks])
    if not np.isfinite(scores).all():
        check_finite("features", array)
        check_finite("scores", scores)
    return scores


def unscaled_weights(detectors: Sequence[Detector]) -> Float64:
    """Return the weights (d, k) of features as they are, not scaled as in training."""
    return np.stack([detector.coef * detector.scale for detector in detectors], axis=1)


def _doubles(features: Array) -> Float64:
    """Return features as float64; NumPy itself widens float16 one at a time."""
    return (as_float32(features) if features.dtype == np.float16 else features).astype(np.float64)


def provenance_value(detector: Detector, *names: str) -> Any:
    """Return the value at the path `names` in a detector's provenance.

    Raises
    ------
    ModelFileError
        If it is missing, as in a detector that a run did not make, or the results of a training are no such results.
    """
    value: Any = detector.provenance
    for name in names:
        if not isinstance(value, Mapping) or name not in value:
            raise ModelFileError(
                f"model {detector.class_name!r} must have the provenance of a run, but {'.'.join(names)} is missing."
            )
        value = value[name]
    if names[0] == "result":
        _check_result(detector)
    return value


def _check_result(detector: Detector) -> None:
    """Raise ModelFileError unless the results in a provenance are numbers where readers expect them."""
    result = detector.provenance["result"]
    try:
        wrong = next((name for name in _NUMBERS if not is_optional_number(result.get(name))), None)
        for entry in result.get(_FOLDS, ()):
            if not entry["folds"] or not all(map(is_optional_number, entry["folds"])):
                wrong = _FOLDS
    except (AttributeError, KeyError, TypeError):
        wrong = "result"
    if wrong is not None:
        raise ModelFileError(f"model {detector.class_name!r} is damaged: {wrong} in its provenance is no result.")
