"""Estimators in files: parameters and fitted attributes, without executable code."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from lapsvm import __version__
from lapsvm.arrays import Array, as_floats
from lapsvm.errors import InputError, ModelFileError
from lapsvm.model_files import read_model, write_model
from lapsvm.models.latent import LatentRankSVM, LatentStructSVM, LatentSVM
from lapsvm.models.supervised import RankSVM
from lapsvm.models.toppush import TopPush
from lapsvm.ranking.losses import NAMED

FORMAT = "lapsvm estimator"
VERSION = 1
_KINDS = {kind.__name__: kind for kind in (LatentRankSVM, LatentSVM, LatentStructSVM, RankSVM, TopPush)}
_LEFT_OUT = ("callback",)  # it does not change the fitted model
_FITTED = re.compile(r"[a-z][a-z_]*_")
_NUMBERS = "biuf"


def save(model: BaseEstimator, path: str | Path) -> None:
    """Write a fitted estimator to a safetensors file atomically; equal models give equal bytes.

    The file holds the class, the parameters, all fitted attributes and the version of lapsvm. A `callback` is left
    out. A built-in loss without settings is stored by its name; other loss objects cannot be stored.

    Parameters
    ----------
    model : LatentRankSVM, LatentSVM, LatentStructSVM, RankSVM or TopPush
    path : str or Path

    Raises
    ------
    InputError
        If the model is of another class, or a parameter cannot be written.
    NotFittedError
        If the model is not fitted.
    MissingError, WriteError
        If the folder does not exist, or the system refuses to write.
    """
    if type(model).__name__ not in _KINDS or type(model) is not _KINDS[type(model).__name__]:
        raise InputError(f"model must be one of {', '.join(_KINDS)}, got {type(model).__name__}.")
    check_is_fitted(model)
    params = {name: value for name, value in model.get_params(deep=False).items() if name not in _LEFT_OUT}
    fitted = {name: value for name, value in vars(model).items() if _FITTED.fullmatch(name)}
    tensors: dict[str, Array] = {}
    description = {
        "format": FORMAT,
        "version": VERSION,
        "lapsvm": __version__,
        "estimator": type(model).__name__,
        "params": {name: _stored(name, value, tensors) for name, value in params.items()},
        "fitted": {name: _stored(name, value, tensors) for name, value in fitted.items()},
    }
    write_model(path, description, tensors, f"the model's numbers, {type(model).__name__},")


def load(path: str | Path) -> Any:
    """Read an estimator that `save` has written; its predictions equal the saved model's bit for bit.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    LatentRankSVM, LatentSVM, LatentStructSVM, RankSVM or TopPush
        Fitted.

    Raises
    ------
    MissingError
        If there is no such file.
    ModelFileError
        If the file is damaged, of another kind (a detector, for instance), or of an unknown version.
    """
    description, tensors = read_model(path, FORMAT, VERSION)
    name = description.get("estimator")
    if not isinstance(name, str) or name not in _KINDS:
        raise ModelFileError(f"model {path} must hold one of {', '.join(_KINDS)}, got {name!r}.")
    try:
        params = {key: _restored(value, tensors) for key, value in description["params"].items()}
        model = _KINDS[name](**params)
        for key, value in description["fitted"].items():
            _set_fitted(model, key, _restored(value, tensors))
        _check(model)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ModelFileError(f"model {path} is damaged: {error}.") from None
    return model


def _stored(name: str, value: Any, tensors: dict[str, Array]) -> Any:
    """Return a value as JSON can hold it; arrays of numbers are added to `tensors`."""
    if isinstance(value, np.ndarray) and value.ndim and value.dtype.kind in _NUMBERS:
        tensors[name] = value.astype(value.dtype.newbyteorder("="))
        return {"tensor": name}
    if isinstance(value, np.ndarray) and value.ndim == 1 and all(isinstance(item, str) for item in value):
        return {"strings": value.tolist(), "type": "object" if value.dtype.kind == "O" else value.dtype.str}
    named = [key for key, loss in NAMED.items() if type(loss) is type(value) and not vars(value)]
    return named[0] if named else _plain(name, value)


def _plain(name: str, value: Any) -> Any:
    """Return a value in JSON's types."""
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and not value.ndim):
        value = value.item()
    if isinstance(value, Mapping):
        return {key: _plain(name, item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(name, item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise InputError(f"{name} must be a number, a text, None or an array of these to be saved, got {value!r}.")


def _restored(value: Any, tensors: Mapping[str, Array]) -> Any:
    """Return the value that `_stored` converted."""
    if isinstance(value, dict) and "tensor" in value:
        return tensors[value["tensor"]]
    if isinstance(value, dict) and "strings" in value:
        return np.array(value["strings"], dtype=value["type"])
    return value


def _set_fitted(model: Any, name: str, value: Any) -> None:
    """Set a fitted attribute; raise ValueError for any other name."""
    if not _FITTED.fullmatch(name) or hasattr(type(model), name):
        raise ValueError(f"{name!r} is not a fitted attribute")
    setattr(model, name, value)


def _check(model: Any) -> None:
    """Raise ValueError or AttributeError unless a model can predict."""
    if as_floats("coef_", model.coef_, 1).shape != (model.n_features_in_,):
        raise ValueError("coef_ must have n_features_in_ entries")
    as_floats("intercept_", model.intercept_, 0)
    if np.shape(model.classes_) != (2,):
        raise ValueError("classes_ must hold two classes")
