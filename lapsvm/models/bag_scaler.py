"""A transformer that scales the windows of bags, for scikit-learn's pipelines."""

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
    """Divides the features of every window by their spread over all training windows.

    Parameters
    ----------
    unit : {"std", "mean_norm"}, default "std"
        The quantity that becomes 1: each feature's standard deviation over all windows of all bags, or the mean
        Euclidean norm of the windows. A constant feature, or a mean norm of 0, is not scaled.
    with_mean : bool, default False
        Whether to subtract each feature's mean first. This copies the features, to float64 if they are float64 and
        to float32 otherwise; scaling alone copies nothing. Rank losses do not depend on a common shift of all windows.

    Attributes
    ----------
    factor_ : (d,) float64
        The factor of each feature.
    mean_ : (d,) float64 or None
        The mean that is subtracted before scaling.
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
        """Compute the factors from training bags.

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
            If `bags` are not bags, or a parameter breaks its rule.
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
            If the number of features differs from that of `fit`.
        """
        check_is_fitted(self)
        data = as_bags(bags)
        if data.dim != self.n_features_in_:
            raise ShapeError(f"bags must have {self.n_features_in_} features, as in fit, got {data.dim}.")
        return self._centred(data).scaled(self.factor_)

    def _centred(self, bags: Bags) -> Bags:
        """Return the bags with the mean subtracted if `with_mean` is set."""
        if self.mean_ is None:
            return bags
        dtype = np.float64 if bags.dtype == np.float64 else np.float32
        features = np.empty((bags.n_windows, bags.dim), dtype=dtype)
        for i in range(bags.n_bags):
            features[bags.offsets[i] : bags.offsets[i + 1]] = bags[i] - self.mean_
        return Bags(features, bags.offsets, threads=bags.threads)


def _moments(bags: Bags) -> tuple[Float64, Float64]:
    """Return each feature's mean and standard deviation over all windows; a deviation of 0 becomes 1."""
    scaler = StandardScaler()
    for i in range(bags.n_bags):
        scaler.partial_fit(bags[i])
    return scaler.mean_, scaler.scale_


def _to_norm(bags: Bags) -> Float64:
    """Return the factors (d,) that make the windows' mean norm 1."""
    norm = bags.mean_norm()
    return np.full(bags.dim, 1 / norm if norm > 0 else 1.0)
