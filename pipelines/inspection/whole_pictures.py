"""The probabilities of a run's pictures, by best windows and by second models of whole pictures."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from lapsvm.arrays import Float64
from lapsvm.bfloat16 import as_float32
from lapsvm.catalog import ImageRecord
from lapsvm.detection import Detector
from lapsvm.evaluation import Detections
from lapsvm.features import ShardSet
from lapsvm.features.projection import load_projection
from lapsvm.inspection.probabilities import PictureProbabilities, held_out_probabilities, set_probabilities
from lapsvm.inspection.whole_pictures import FittedPictures, PictureModel, fit_picture_model

from ..context import StoredRun
from ..products.held_out import HeldOut
from ..products.shards import finished_shards
from ..run.folder import RunFolder
from ..run.progress import Reporter

HELD_OUT, TESTED = "held_out", "tested"
"""The held-out training pictures, on which thresholds are chosen, and the pictures of the test set."""
Means = Mapping[str, Float64]
"""Picture -> the mean of its windows' features, (d,)."""


@dataclass(frozen=True, eq=False)
class PictureRules:
    """The probabilities of a run's pictures, by best windows, and by whole pictures where these add something.

    Attributes
    ----------
    detectors : mapping of class name to Detector
    held_out : mapping of class name to HeldOut
    fitted : mapping of class name to FittedPictures
        The model of the features in shards, and a held-out probability for each row of the class's held-out scores.
        Classes to which whole pictures add nothing are not there.
    means : mapping of picture to ndarray of shape (d,)
    """

    detectors: Mapping[str, Detector]
    held_out: Mapping[str, HeldOut]
    fitted: Mapping[str, FittedPictures] = field(default_factory=dict)
    means: Means = field(default_factory=dict)

    def probability(self, name: str, ids: Sequence[str], scores: Float64) -> Float64 | None:
        """Return the probability of a class in some pictures, from the scores of their best windows."""
        if name not in self.fitted:
            return self.detectors[name].probability(scores)
        model = self.fitted[name].model
        return model.probability(scores, _rows(self.means, ids) @ model.coef)

    def held_out_probability(self, name: str, ids: Sequence[str], scores: Float64) -> Float64 | None:
        """Return the held-out probability of a class in some pictures, from the scores of their best windows."""
        if name not in self.fitted:
            return self.detectors[name].probability(scores)
        known = dict(zip(self.held_out[name].ids, self.fitted[name].held_out, strict=True))
        return np.array([known[image_id] for image_id in ids])

    def sets(
        self, detections: Mapping[str, Detections] | None, records: Iterable[ImageRecord]
    ) -> dict[str, PictureProbabilities]:
        """Return the probabilities of held-out training pictures, and of the test set if it has detections."""
        sets = {HELD_OUT: held_out_probabilities(self.held_out, self.held_out_probability)}
        tested = detections and set_probabilities(detections, records, self.probability)
        return {**sets, TESTED: tested} if tested else sets

    def stored(self, run: RunFolder) -> dict[str, PictureModel]:
        """Return class -> its model, of the features before a projection, which prediction computes."""
        models = {name: fitted.model for name, fitted in self.fitted.items()}
        if all(self.detectors[name].whole_coef is None for name in models):
            return models
        unfold = load_projection(run.projection).unfold
        return {name: replace(model, coef=unfold(model.coef)) for name, model in models.items()}


def learn_whole_pictures(stored: StoredRun, rules: PictureRules, reporter: Reporter) -> PictureRules:
    """Add the models of whole pictures to rules by best windows; a line says so where shards are gone.

    Raises StageError if shards were made by other settings.
    """
    run, data = stored.folder, stored.settings.data
    names = [name for name in (data.train_set, data.test_set) if name in stored.data.records]
    if gone := [name for name in names if not run.has_shards(name)]:
        reporter.say(f"threshold: {run.shards(gone[0])} holds no features, so best windows alone decide")
        return rules
    shards = {name: finished_shards(run, stored.settings, stored.data, "threshold", name) for name in names}
    means: dict[str, Float64] = {}
    for name in names:
        means |= mean_features(shards[name], reporter, name)
    ids = shards[data.train_set].image_ids
    group = dict(zip(ids, stored.groups(data.train_set, ids, shards[data.train_set]).tolist(), strict=True))
    fitted = {}
    with reporter.bar("learn whole pictures", len(rules.held_out), "classes") as bar:
        for name, scores in rules.held_out.items():
            groups = [group[image_id] for image_id in scores.ids]
            model = fit_picture_model(_rows(means, scores.ids), scores.score, scores.y, scores.fold, groups)
            if model is not None:
                fitted[name] = model
            bar.step()
    return replace(rules, fitted=fitted, means=means)


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
