"""The inputs of refinement, loaded from a run: pictures, trained models, and boxes that people drew."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from lapsvm.arrays import Array
from lapsvm.detection import Detector
from lapsvm.features import ShardSet
from lapsvm.latent import KnownBoxes

from ...context import Workspace
from ...products.drawn import Drawn, DrawnShard
from ...products.fold_models import FoldModels
from ...products.models import FitTask
from ...run.dataset import Labels
from ...settings.settings import ObjectnessSettings, Settings
from ...shards.objectness import is_used
from ...shards.windows import RunPictures
from ..training_bags import ContextPairs, stored_bags, window_objectness_of
from .chains import TrainedModels
from .drawn_boxes import wanted_windows
from .memory import shared_memory
from .pictures import StoredPictures
from .prior import ObjectnessPrior


@dataclass(frozen=True, eq=False)
class LoadedPictures:
    """The training pictures of a run, ready for `Refinement`.

    Attributes
    ----------
    shards : ShardSet
    pictures : StoredPictures
    sizes : (n_bags, 2)
        Heights and widths in pixels.
    copy_bytes : int or None
    at_once : int
        Both as `Refinement` has them.
    """

    shards: ShardSet
    pictures: StoredPictures
    sizes: Array
    copy_bytes: int | None
    at_once: int

    @classmethod
    def of(
        cls, workspace: Workspace, settings: Settings, shards: ShardSet, read: RunPictures | None,
        labels: Sequence[Labels] = (),
    ) -> Self:  # fmt: skip
        """Read the windows of a run's shards, within the memory of the workspace.

        `read` reads its pictures where the ground is even; `labels` has those (n_bags,) of each class that may be
        refined beside others.
        """
        memory, copy_bytes, at_once = shared_memory(workspace, settings, shards, labels)
        limited = workspace if memory is None else replace(workspace, memory=memory)
        bags, scale = stored_bags(limited, settings.data.train_set, shards)
        pairs = ContextPairs.of(shards.provenance, settings.features.contrast)
        boxes, sizes = zip(*((shard.boxes, shard.sizes) for shard in shards), strict=True)
        prior = _prior(settings.objectness, shards)
        known = np.concatenate(boxes), scale, shards.image_ids, pairs.inside
        pictures = StoredPictures(bags, *known, prior=prior, read=read)
        return cls(shards, pictures, np.concatenate(sizes), copy_bytes, at_once)

    def drawn(self, shard: DrawnShard, known: Iterable[Mapping[int, KnownBoxes]]) -> Drawn:
        """Return the drawn boxes that no window covers, with features; `known` has the known boxes of all classes."""
        wanted = wanted_windows(self.pictures, list(known), self.sizes, shard.settings.refine.pos_iou)
        return shard.windows(wanted)

    def models(
        self, tasks: Sequence[FitTask], detectors: Mapping[str, Detector], folds: Mapping[str, FoldModels]
    ) -> dict[str, TrainedModels]:
        """Return class -> its trained models, for the features of the pictures."""
        made = {task.name: (detectors[task.name], folds[task.name], task.y) for task in tasks}
        return {name: TrainedModels.of_scaled(*of_class, self.pictures.scale) for name, of_class in made.items()}


def _prior(settings: ObjectnessSettings, shards: ShardSet) -> ObjectnessPrior | None:
    """Return the objectness of each window. None if the run does not use it, or the shards lack it."""
    values = window_objectness_of(shards) if is_used(settings, shards.objectness) else None
    return None if values is None else ObjectnessPrior(values, settings.weight)
