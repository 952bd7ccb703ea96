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
from lapsvm.inspection.whole_pictures import LEAST, FittedPictures, PictureModel, are_enough, fit_picture_model

from ..context import StoredRun
from ..products.held_out import HeldOut
from ..products.shards import finished_shards
from ..run.folder import RunFolder
from ..run.progress import Reporter
from .probabilities import PictureProbabilities

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
    alone : mapping of class name to str
        Why best windows alone decide, for the classes for which they do.
    """

    detectors: Mapping[str, Detector]
    held_out: Mapping[str, HeldOut]
    fitted: Mapping[str, FittedPictures] = field(default_factory=dict)
    means: Means = field(default_factory=dict)
    alone: Mapping[str, str] = field(default_factory=dict)

    def probability(self, name: str, ids: Sequence[str], scores: Float64) -> Float64 | None:
        """Return the probability of a class in some pictures, from the scores of their best windows."""
        if name not in self.fitted:
            return self.detectors[name].probability(scores)
        model = self.fitted[name].model
        return model.probability(scores, _rows(self.means, ids) @ model.coef)

    def _held_out_probability(self, name: str, ids: Sequence[str], scores: Float64) -> Float64 | None:
        """Return the held-out probability of a class in some pictures, from the scores of their best windows."""
        if name not in self.fitted:
            return self.detectors[name].probability(scores)
        known = dict(zip(self.held_out[name].ids, self.fitted[name].held_out, strict=True))
        return np.array([known[image_id] for image_id in ids])

    def of_held_out(self) -> PictureProbabilities:
        """Return the held-out probabilities of the pictures that all classes have in a fold."""
        scores = {
            name: dict(zip(known.ids, known.score.tolist(), strict=True)) for name, known in self.held_out.items()
        }
        labels = {name: dict(zip(known.ids, known.y.tolist(), strict=True)) for name, known in self.held_out.items()}
        return PictureProbabilities.joined(next(iter(scores.values())), scores, labels, self._held_out_probability)

    def of_set(
        self, detections: Mapping[str, Detections], records: Iterable[ImageRecord]
    ) -> PictureProbabilities | None:
        """Return the probabilities of the pictures with detections of every class; None without such a picture."""
        scores = {name: detections[name].best_scores() for name in self.detectors}
        labels = {record.id: record.labels for record in records}
        shown = {name: {image_id: of.get(name, 0) for image_id, of in labels.items()} for name in scores}
        known = PictureProbabilities.joined(labels, scores, shown, self.probability)
        return known if known.ids else None

    def sets(
        self, detections: Mapping[str, Detections] | None, records: Iterable[ImageRecord]
    ) -> dict[str, PictureProbabilities]:
        """Return the probabilities of held-out training pictures, and of the test set if it has detections."""
        tested = detections and self.of_set(detections, records)
        return {HELD_OUT: self.of_held_out(), **({TESTED: tested} if tested else {})}

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
        return replace(rules, alone=dict.fromkeys(rules.held_out, "the features of the run are gone"))
    shards = {name: finished_shards(run, stored.settings, stored.data, "threshold", name) for name in names}
    means: dict[str, Float64] = {}
    for name in names:
        means |= mean_features(shards[name], reporter, name)
    ids = shards[data.train_set].image_ids
    group = dict(zip(ids, stored.groups(data.train_set, ids, shards[data.train_set]).tolist(), strict=True))
    fitted, alone = {}, {}
    with reporter.bar("learn whole pictures", len(rules.held_out), "classes") as bar:
        for name, scores in rules.held_out.items():
            groups = [group[image_id] for image_id in scores.ids]
            model = fit_picture_model(_rows(means, scores.ids), scores.score, scores.y, scores.fold, groups)
            if model is not None:
                fitted[name] = model
            elif are_enough(scores.y, scores.fold, groups):
                alone[name] = "whole pictures add nothing"
            else:
                alone[name] = f"whole pictures need {LEAST} with and without the class in every fold"
            bar.step()
    return replace(rules, fitted=fitted, means=means, alone=alone)


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
