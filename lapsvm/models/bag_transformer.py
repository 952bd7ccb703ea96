"""A transformer of instances in a pipeline of bags."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted

from lapsvm.arrays import Float64, check_same_length
from lapsvm.bags import Bags, as_bags
from lapsvm.models.latent_estimator import BagsLike


@dataclass(eq=False, repr=False)
class BagTransformer(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Apply a transformer of rows to the instances of all bags, so that it may stand before a latent estimator.

    A scaler makes features of different units comparable; a map to features of a kernel (scikit-learn's Nystroem or
    RBFSampler) makes the latent estimators' linear models approximate those of the kernel.

    Parameters
    ----------
    transformer : scikit-learn transformer
        Fitted to the instances of the training bags, without labels.

    Attributes
    ----------
    transformer_ : scikit-learn transformer
        The fitted copy.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.kernel_approximation import Nystroem
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from lapsvm.models import LatentRankSVM
    >>> rng = np.random.default_rng(0)
    >>> bags = [rng.normal(size=(8, 3)) * np.where(np.arange(8) == 2, (3, 0.1)[i < 10], 3)[:, None] for i in range(20)]
    >>> instances = make_pipeline(StandardScaler(), Nystroem(gamma=1, n_components=50, random_state=0))
    >>> model = make_pipeline(BagTransformer(instances), LatentRankSVM("ap", C=10, top=1))
    >>> model.fit(bags, np.repeat([1, -1], 10)).score(bags, np.repeat([1, -1], 10))
    1.0
    """

    transformer: Any

    def fit(self, bags: BagsLike, y: ArrayLike | None = None) -> Self:  # noqa: ARG002
        """Fit a copy of the transformer to the instances (n, d) of all bags."""
        self.transformer_ = clone(self.transformer).fit(_instances(as_bags(bags)))
        return self

    def transform(self, bags: BagsLike) -> Bags:
        """Return bags of the transformed instances."""
        check_is_fitted(self)
        given = as_bags(bags)
        instances = _instances(given)
        transformed = self.transformer_.transform(instances)
        check_same_length("instances", instances, "transformed instances", transformed)
        return Bags(transformed, given.offsets, threads=given.threads)


def _instances(bags: Bags) -> Float64:
    """Return the features (n, d) of all instances."""
    return np.concatenate([bags[i] for i in range(len(bags))])
