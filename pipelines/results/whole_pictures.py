"""The second models of a run's classes, of whole pictures: learned from the shards, on the folds of held-out scores."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from lapsvm.arrays import Float64
from lapsvm.bfloat16 import as_float32
from lapsvm.detection import Detector
from lapsvm.detection.whole_pictures import FittedPictures, PictureModel, fit_picture_model
from lapsvm.features import ShardSet
from lapsvm.features.projection import load_projection

from ..context import StoredRun
from ..products.held_out import HeldOut
from ..products.shards import finished_shards
from ..run.folder import RunFolder
from ..run.progress import Reporter

Means = Mapping[str, Float64]
"""Picture -> the mean of its windows' features, (d,)."""


@dataclass(frozen=True, eq=False)
class WholePictures:
    """What whole pictures say beside their best windows.

    Attributes
    ----------
    fitted : mapping of class name to FittedPictures
        The model of the features in shards, and a held-out probability for each row of the class's held-out scores.
        Classes to which it adds nothing are not there.
    means : mapping of picture to ndarray of shape (d,)
    """

    fitted: Mapping[str, FittedPictures] = field(default_factory=dict)
    means: Means = field(default_factory=dict)

    def probability(self, name: str, ids: Sequence[str], scores: Sequence[float]) -> Float64:
        """Return the probability of a class in some pictures, of which `scores` are those of the best windows."""
        model = self.fitted[name].model
        return model.probability(scores, _rows(self.means, ids) @ model.coef)

    def stored(self, run: RunFolder, detectors: Mapping[str, Detector]) -> dict[str, PictureModel]:
        """Return class -> its model, of the features before a projection, which prediction computes."""
        models = {name: fitted.model for name, fitted in self.fitted.items()}
        if all(detectors[name].whole_coef is None for name in models):
            return models
        unfold = load_projection(run.projection).unfold
        return {name: replace(model, coef=unfold(model.coef)) for name, model in models.items()}


NONE = WholePictures()
"""Best windows alone."""


def learn_whole_pictures(stored: StoredRun, held_out: Mapping[str, HeldOut], reporter: Reporter) -> WholePictures:
    """Learn the models of a run; none, and a line says so, where shards are gone.

    Raises StageError if shards were made by other settings.
    """
    run, data = stored.folder, stored.settings.data
    names = [name for name in (data.train_set, data.test_set) if name in stored.data.records]
    if gone := [name for name in names if not run.has_shards(name)]:
        reporter.say(f"threshold: {run.shards(gone[0])} holds no features, so best windows alone decide")
        return NONE
    shards = {name: finished_shards(run, stored.settings, stored.data, "threshold", name) for name in names}
    means: dict[str, Float64] = {}
    for name in names:
        means |= mean_features(shards[name], reporter, name)
    ids = shards[data.train_set].image_ids
    group = dict(zip(ids, stored.groups(data.train_set, ids, shards[data.train_set]).tolist(), strict=True))
    fitted = {}
    with reporter.bar("learn whole pictures", len(held_out), "classes") as bar:
        for name, scores in held_out.items():
            groups = [group[image_id] for image_id in scores.ids]
            fitted[name] = fit_picture_model(_rows(means, scores.ids), scores.score, scores.y, scores.fold, groups)
            bar.step()
    return WholePictures({name: model for name, model in fitted.items() if model is not None}, means)


def mean_features(shards: ShardSet, reporter: Reporter, set_name: str) -> dict[str, Float64]:
    """Return the mean of the window features of every picture with windows."""
    means = {}
    with reporter.bar(f"read {set_name}", shards.n_images, "pictures") as bar:
        for index in range(len(shards)):
            for picture in shards.read(index, verify=True).pictures():
                features = as_float32(np.asarray(picture.features))
                if len(features):
                    means[picture.image_id] = features.mean(axis=0, dtype=np.float64)
                bar.step()
    return means


def _rows(means: Means, ids: Sequence[str]) -> Float64:
    return np.array([means[image_id] for image_id in ids])
