"""A scaler of windows for scikit-learn's pipelines: bags in, bags out."""

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

from lapsvm.arrays import Float64, check_switch
from lapsvm.bags import Bags, as_bags
from lapsvm.errors import OptionError, ShapeError
from lapsvm.models.latent_estimator import BagsLike

UNITS = ("std", "mean_norm")


class BagScaler(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Divides the features of every window by what their spread was over all training windows.

    Parameters
    ----------
    unit : {"std", "mean_norm"}, default "std"
        What becomes 1: each feature's standard deviation over all windows of all bags, or the mean Euclidean norm of
        the windows. A feature, or a norm, that is constantly 0 stays as it is.
    with_mean : bool, default False
        Subtract each feature's mean first. It copies the features, as float32, or float64 where they are; dividing
        copies nothing. No rank loss sees a shift of all windows, hence the default.

    Attributes
    ----------
    factor_ : (d,) float64
        What the features are multiplied with.
    mean_ : (d,) float64 or None
        What is subtracted before.
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import Pipeline
    >>> from lapsvm.models import LatentRankSVM
    >>> rng = np.random.default_rng(0)
    >>> bags = [rng.normal(size=(8, 3)) + 3 * (i < 5) * (np.arange(8) == 2)[:, None] for i in range(15)]
    >>> model = Pipeline([("scale", BagScaler()), ("svm", LatentRankSVM(C=10))]).fit(bags, np.repeat([1, -1], [5, 10]))
    >>> model.predict(bags)[:5]
    array([1, 1, 1, 1, 1])
    """

    def __init__(self, unit: str = "std", *, with_mean: bool = False):
        self.unit = unit
        self.with_mean = with_mean

    def fit(self, bags: BagsLike, y: Any = None) -> Self:  # noqa: ARG002 - scikit-learn's signature
        """Learn the factors.

        Parameters
        ----------
        bags : Bags or sequence of (n_i, d) arrays
        y : ignored

        Returns
        -------
        self

        Raises
        ------
        InputError
            If the bags are none, or a parameter breaks its rule.
        """
        if self.unit not in UNITS:
            raise OptionError(f"unit must be one of {', '.join(UNITS)}, got {self.unit!r}.")
        check_switch("with_mean", self.with_mean)
        data = as_bags(bags)
        self.n_features_in_ = data.dim
        by_norm = self.unit == "mean_norm"
        mean, std = _moments(data) if self.with_mean or not by_norm else (None, None)
        self.mean_ = mean if self.with_mean else None
        self.factor_ = _to_norm(self._centred(data)) if by_norm else 1 / np.asarray(std)
        return self

    def transform(self, bags: BagsLike) -> Bags:
        """Return the scaled bags.

        Parameters
        ----------
        bags : Bags or sequence of (n_i, d) arrays

        Returns
        -------
        Bags

        Raises
        ------
        ShapeError
            If the number of features is not that of `fit`.
        """
        check_is_fitted(self)
        data = as_bags(bags)
        if data.dim != self.n_features_in_:
            raise ShapeError(f"bags must have {self.n_features_in_} features, as in fit, got {data.dim}.")
        return self._centred(data).scaled(self.factor_)

    def _centred(self, bags: Bags) -> Bags:
        """Return the bags without their mean, if it is to go."""
        if self.mean_ is None:
            return bags
        dtype = np.float64 if bags.dtype == np.float64 else np.float32
        features = np.empty((bags.n_windows, bags.dim), dtype=dtype)
        for i in range(bags.n_bags):
            features[bags.offsets[i] : bags.offsets[i + 1]] = bags[i] - self.mean_
        return Bags(features, bags.offsets, threads=bags.threads)


def _moments(bags: Bags) -> tuple[Float64, Float64]:
    """Return each feature's mean and deviation over all windows, one bag after the other; 1 for no deviation."""
    scaler = StandardScaler()
    for i in range(bags.n_bags):
        scaler.partial_fit(bags[i])
    return scaler.mean_, scaler.scale_


def _to_norm(bags: Bags) -> Float64:
    """Return the factors (d,) that make the windows' mean norm 1."""
    norm = bags.mean_norm()
    return np.full(bags.dim, 1 / norm if norm > 0 else 1.0)
