"""What refinement works on, loaded from a run: its pictures, the models of training, and boxes that people drew."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from lapsvm.arrays import Array
from lapsvm.bags.stores.memory import as_bytes
from lapsvm.bfloat16 import named_type
from lapsvm.detection import Detector
from lapsvm.features import ShardSet
from lapsvm.latent import KnownBoxes

from ...run.context import RunContext
from ...run.limits import unmet
from ...shards.drawn import Drawn, drawn_windows
from ..fold_models import FoldModels, fold_numbers
from ..tasks import FitTask, weights_hash
from ..training_bags import ContextPairs, stored_bags, window_objectness_of
from .chains import TrainedModels
from .drawn_boxes import wanted_windows
from .pictures import StoredPictures
from .prior import ObjectnessPrior, is_used


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
        Bytes for copied windows, see `Refinement`.
    """

    shards: ShardSet
    pictures: StoredPictures
    sizes: Array
    copy_bytes: int | None

    @classmethod
    def of(cls, context: RunContext, shards: ShardSet) -> Self:
        """Read the windows of a run's shards, within the memory of the context."""
        memory, copy_bytes = _shared_memory(context, shards)
        bags, scale = stored_bags(context, shards, memory)
        pairs = ContextPairs.of(shards.provenance, context.settings.features.contrast)
        boxes, sizes = zip(*((shard.boxes, shard.sizes) for shard in shards), strict=True)
        prior = _prior(context, shards)
        pictures = StoredPictures(bags, np.concatenate(boxes), scale, shards.image_ids, pairs.inside, prior=prior)
        return cls(shards, pictures, np.concatenate(sizes), copy_bytes)

    def drawn(self, context: RunContext, known: Iterable[Mapping[int, KnownBoxes]]) -> Drawn:
        """Return the drawn boxes that no window covers, with features; `known` has the known boxes of all classes."""
        wanted = wanted_windows(self.pictures, list(known), self.sizes, context.settings.refine.pos_iou)
        return drawn_windows(context, self.shards, wanted)

    def models(
        self, tasks: Sequence[FitTask], detectors: Mapping[str, Detector], folds: Mapping[str, FoldModels]
    ) -> dict[str, TrainedModels]:
        """Return class -> what training has learned of it, for the features of the pictures."""
        made = {task.name: (detectors[task.name], folds[task.name], task.y) for task in tasks}
        return {name: TrainedModels.of_scaled(*of_class, self.pictures.scale) for name, of_class in made.items()}


def _shared_memory(context: RunContext, shards: ShardSet) -> tuple[int | None, int | None]:
    """Return the bytes for the stored windows and those for copies.

    Copies get three quarters of the memory, because rounds work on them, or what half of all windows take. None where
    other processes hold the stored windows, or the memory is unknown.
    """
    limit = None if context.cluster else as_bytes(context.memory)
    if limit is None:
        return None, None
    stored = sum(one.n_windows * one.dim * named_type(one.dtype).itemsize for one in shards.headers)
    copy_bytes = min(limit * 3 // 4, stored // 2)
    return limit - copy_bytes, copy_bytes


def _prior(context: RunContext, shards: ShardSet) -> ObjectnessPrior | None:
    """Return what stands out among the windows; None where the run does not use it, or the shards lack it."""
    settings = context.settings.objectness
    values = window_objectness_of(shards) if is_used(settings, shards.objectness) else None
    return None if values is None else ObjectnessPrior(values, settings.weight)


def fold_models(context: RunContext, task: FitTask, first: Detector, stage: str) -> FoldModels:
    """Return the fold models of a trained class, perhaps none.

    Raises StageError, in the name of the stage, if they are not there, or belong to other weights.
    """
    path, fold = context.run.fold_models(task.name), fold_numbers(context.settings, task.y)
    if not fold.any():
        return FoldModels(fold, np.empty((len(first.coef), 0)), weights_hash(first))
    if not path.is_file():
        raise unmet(stage, "fold models", f"{path} is not there", "train")
    models = FoldModels.load(path)
    if models.model != weights_hash(first):
        others = f"those of {path} are of another one"
        raise unmet(stage, "fold models of the trained model", others, "train --redo")
    return models
