"""Files of trained heads: one file for all classes of a run, without executable code."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lapsvm.arrays import Array, Float64, as_floats
from lapsvm.bags import Bags
from lapsvm.errors import InputError, ModelFileError
from lapsvm.model_files import read_model, write_model
from lapsvm.nn.baselines.oicr import OICR
from lapsvm.nn.baselines.window_heads import WindowHeads
from lapsvm.nn.wsddn import WSDDN

FORMAT = "lapsvm heads"
VERSION = 1
_KINDS: dict[str, type[WindowHeads]] = {kind.__name__: kind for kind in (WSDDN, OICR)}
_LEFT_OUT = ("callback",)  # it does not change the fitted model


@dataclass(frozen=True, eq=False)
class TrainedHeads:
    """Trained heads of several classes, as they apply to features before scaling.

    Attributes
    ----------
    model : WSDDN or OICR
        Fitted.
    classes : tuple of str
        The names of the columns of its scores.
    scale : (d,) float64
        Factors of the features in training.
    provenance : dict
        Class -> JSON-serialisable record of settings and data, without paths, times and hosts.
    """

    model: WindowHeads
    classes: tuple[str, ...]
    scale: Float64
    provenance: Mapping[str, Any]

    def score(self, features: ArrayLike, offsets: ArrayLike) -> Float64:
        """Return the logarithm of the scores (n, k) of all windows (n, d) of the pictures that `offsets` bound."""
        return self.model.score_windows(Bags(features, offsets, self.scale))

    def weights_hash(self) -> str:
        """Return the hash of everything that decides the scores, 32 hex digits."""
        digest = blake2b(type(self.model).__name__.encode(), digest_size=16)
        for array in (*_fitted(self.model).values(), self.scale):
            digest.update(f"{array.dtype.str} {array.shape}\n".encode() + array.tobytes())
        return digest.hexdigest()

    def save(self, path: str | Path) -> None:
        """Write the heads to a safetensors file atomically; equal heads give equal bytes.

        Raises
        ------
        InputError
            If the provenance cannot be written as JSON.
        MissingError, WriteError
            If the folder does not exist, or the system refuses to write.
        """
        params = self.model.get_params(deep=False)
        description = {
            "format": FORMAT,
            "version": VERSION,
            "head": type(self.model).__name__,
            "params": {name: _plain(value) for name, value in params.items() if name not in _LEFT_OUT},
            "history": self.model.history_,
            "classes": list(self.classes),
            "provenance": dict(self.provenance),
        }
        write_model(path, description, {**_fitted(self.model), "scale": self.scale}, "provenance")


def load_heads(path: str | Path) -> TrainedHeads:
    """Read heads that `TrainedHeads.save` has written; their scores equal the saved ones' bit for bit.

    Raises
    ------
    MissingError
        If there is no such file.
    ModelFileError
        If the file is damaged, of another kind, or of an unknown version.
    """
    description, tensors = read_model(path, FORMAT, VERSION)
    name = description.get("head")
    if not isinstance(name, str) or name not in _KINDS:
        raise ModelFileError(f"model {path} must hold one of {', '.join(_KINDS)}, got {name!r}.")
    try:
        model = _KINDS[name](**description["params"])
        classes, provenance = _described(description)
        scale = as_floats("scale", tensors["scale"], 1)
        _restore(model, tensors, len(scale), description["history"])
        _check_scores(model, len(classes))
        return TrainedHeads(model, classes, scale, provenance)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError, InputError) as error:
        raise ModelFileError(f"model {path} is damaged: {error}.") from None


def _plain(value: Any) -> Any:
    """Return a NumPy number as a number of Python, which JSON can hold."""
    return value.item() if isinstance(value, np.generic) else value


def _fitted(model: WindowHeads) -> dict[str, Array]:
    return {name: np.ascontiguousarray(getattr(model, f"{name}_")) for name in model.parts}


def _described(description: Mapping[str, Any]) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Return the classes and the provenance, checked."""
    classes, provenance = description["classes"], description["provenance"]
    if not isinstance(classes, list) or not all(isinstance(name, str) for name in classes):
        raise ValueError("classes must be a list of names")
    if not isinstance(provenance, dict) or set(provenance) != set(classes) or len(provenance) != len(classes):
        raise ValueError("provenance must have an entry for each class")
    if not all(isinstance(entry, dict) for entry in provenance.values()):
        raise ValueError("provenance must have a record for each class")
    return tuple(classes), provenance


def _restore(model: WindowHeads, tensors: Mapping[str, Array], d: int, history: Sequence[dict[str, float]]) -> None:
    """Set the fitted attributes of a model."""
    for name in model.parts:
        array = tensors[name]
        if array.dtype != np.float32 or not np.isfinite(array).all():
            raise ValueError(f"{name} must hold finite float32 numbers")
        setattr(model, f"{name}_", array)
    model.history_, model.n_features_in_ = list(history), d
    model._check()


def _check_scores(model: WindowHeads, k: int) -> None:
    """Raise ValueError unless the arrays of a model fit each other and k classes."""
    heads = {"class_coef": k, "window_coef": k, "class_intercept": k}
    if isinstance(model, OICR):
        heads |= dict.fromkeys(("refinement_coef", "refinement_intercept"), model.n_refinements * (k + 1))
    for name in model.parts:
        shape: tuple[int, ...] = getattr(model, f"{name}_").shape
        expected = (heads[name],) if name.endswith("intercept") else (model.n_features_in_, heads[name])
        if shape != expected:
            raise ValueError(f"{name} must have shape {expected}, got {shape}")
