"""What a class learns from verdicts while a person looks: its refinement, from what is in memory.

Nothing is extracted again but drawn boxes that no window covers, and no model is written. The next ``lapsvm run`` does
that, and makes the same model of the same verdicts.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from lapsvm.arrays import Float64
from lapsvm.detection import Detector
from lapsvm.detection.picture_scores import best_boxes
from lapsvm.errors import OneClassError
from lapsvm.features import Extractor, ShardSet
from lapsvm.latent import KnownBoxes

from ..context import StoredRun, Workspace
from ..fitting.refining.chains import TrainedModels
from ..fitting.refining.class_refinement import Refined
from ..fitting.refining.loading import LoadedPictures
from ..fitting.refining.refinement import Refinement
from ..products.drawn import Drawn, DrawnShard
from ..products.fold_models import fold_models
from ..products.models import FitTask, denied_tasks, load_detectors, trained_tasks
from ..run.dataset import Labels, label_vector
from ..stages.data_checks.ground import even_pictures
from ..verdicts.counting import denial
from ..verdicts.reviewed import ReviewedClass, mended_labels
from ..verdicts.verdict import Verdict


@dataclass(frozen=True, eq=False)
class Learned:
    """What a class has learned.

    Attributes
    ----------
    detector : Detector
        The model of all pictures.
    boxes : dict of picture to (4,) float64
        The best box of each positive picture that is in a fold, by the model that did not see it.
    """

    detector: Detector
    boxes: dict[str, Float64]


@dataclass(frozen=True, eq=False)
class Learner:
    """A run in memory, whose classes learn from verdicts.

    Attributes
    ----------
    stored : StoredRun
    pictures : LoadedPictures
    tasks : mapping of class to FitTask
        Of the trained models.
    detectors : mapping of class to Detector
        The trained models.
    refinement : Refinement
        Its `models` and `drawn` are the next two.
    models : dict of class to TrainedModels
        With the labels of the verdicts that were learned last.
    drawn : dict of picture to PictureWindows
    drawn_shard : DrawnShard
    known : dict of class to (mapping of row to KnownBoxes)
        Of the verdicts that were learned last.
    """

    stored: StoredRun
    pictures: LoadedPictures
    tasks: Mapping[str, FitTask]
    detectors: Mapping[str, Detector]
    refinement: Refinement
    models: dict[str, TrainedModels]
    drawn: Drawn
    drawn_shard: DrawnShard
    known: dict[str, Mapping[int, KnownBoxes]]

    @classmethod
    def loaded(
        cls, stored: StoredRun, shards: ShardSet, workspace: Workspace, open_extractor: Callable[[], Extractor]
    ) -> Self:
        """Read windows and trained models.

        Raises StageError if what training made is not there, or was made with other settings.
        """
        run, settings = stored.folder, stored.settings
        tasks = {task.name: task for task in trained_tasks(stored, shards)}
        for name in denied_tasks(settings.train, list(tasks.values())):
            del tasks[name]
        detectors = {one.class_name: one for one in load_detectors(stored, "learning", list(tasks.values()))}
        folds = {name: fold_models(run, settings, task, detectors[name], "learning") for name, task in tasks.items()}
        read = even_pictures(settings, stored.training_pictures, shards)
        pictures = LoadedPictures.of(workspace, settings, shards, read)
        known = {name: task.reviews.known for name, task in tasks.items()}
        drawn_shard = DrawnShard(workspace, settings, shards, stored.training_pictures, open_extractor)
        models = pictures.models(list(tasks.values()), detectors, folds)
        drawn = pictures.drawn(drawn_shard, known.values())
        windows, copy_bytes = pictures.pictures, pictures.copy_bytes
        refinement = Refinement(settings, windows, models, drawn, workspace.reporter, copy_bytes)
        _ = refinement.starts  # a pass over all windows, by models that verdicts do not change
        return cls(stored, pictures, tasks, detectors, refinement, models, drawn, drawn_shard, known)

    def prepare(self, name: str, verdicts: Mapping[str, Verdict]) -> None:
        """Learn beforehand what depends on labels alone."""
        self.refinement.prepare(self._told(name, verdicts))

    def learn(self, name: str, verdicts: Mapping[str, Verdict]) -> Learned:
        """Refine a class with its verdicts, without "skip", and return its models."""
        task = self._told(name, verdicts)
        return self._learned(task, self.refinement.fit(task))

    def _told(self, name: str, verdicts: Mapping[str, Verdict]) -> FitTask:
        """Return the task of a class with these verdicts, and prepare the refinement for it."""
        shown = self._shown(name)
        labels, reviews = mended_labels(ReviewedClass(name, verdicts), shown, self.pictures.pictures.ids)
        if reason := denial(self.stored.settings.train, labels):
            raise OneClassError(f"{name} {reason}.")
        if name not in self.tasks:
            raise OneClassError(f"{name} had too few pictures when the review began; lapsvm run learns it.")
        self.models[name] = self.models[name]._replace(y=labels)
        self.known[name] = reviews.known
        drawn = self.pictures.drawn(self.drawn_shard, self.known.values())
        self.drawn.clear()
        self.drawn.update(drawn)
        return replace(self.tasks[name], y=labels, reviews=reviews)

    def _shown(self, name: str) -> Labels:
        """Return the labels (n,) of the data set."""
        records = self.stored.training_pictures
        return label_vector([records[picture] for picture in self.pictures.pictures.ids], name)

    def _learned(self, task: FitTask, refined: Refined) -> Learned:
        whole, *others = refined.chains
        pictures, positive = self.pictures.pictures, self._shown(task.name) > 0
        boxes: dict[str, Float64] = {}
        for number, chain in enumerate(others, start=1):
            own = np.flatnonzero(positive & (self.models[task.name].fold == number))
            given = pictures.bags, pictures.boxes, chain.weights, own, self.stored.settings.detect
            found, _ = best_boxes(*given, refined.priors[number], pictures.pixels)
            boxes.update(zip((pictures.ids[row] for row in own), found, strict=True))
        detector = Detector(
            task.name, whole.weights, whole.trained.intercept, pictures.scale, {"result": refined.result}
        )
        return Learned(detector, boxes)
