"""The windows of a picture that training uses: all, the first ones, or those scored best by other models.

The thesis restricts every picture to the 20 best boxes of a standard detector (section 4.1). Here the models of another
run on the same features are such detectors, one for each class.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from lapsvm.arrays import Float64
from lapsvm.bags import Bags
from lapsvm.detection import Detector
from lapsvm.errors import SettingsError
from lapsvm.features import ShardSet, settings_difference

from ..run.dataset import content_hash
from ..run.folder import RunFolder
from ..run.settings import TrainSettings
from ..shards.importing import imported_content

WindowSubset = tuple[Bags, list[str]]  # bags, and the classes that are trained on them


def window_subsets(
    train: TrainSettings, shards: ShardSet, bags: Bags, scale: Float64, names: Sequence[str]
) -> Iterator[WindowSubset]:
    """Yield the windows to train on, with the classes that share them.

    Raises MissingError if ``keep_by`` has no model of a class, SettingsError if its models are for other features.
    """
    if not train.keep_windows:
        yield bags, list(names)
    elif not train.keep_by:
        yield bags.kept(train.keep_windows), list(names)
    else:
        for name in names:
            scorer = _scorer(train, name)
            difference = settings_difference(scorer.provenance.get("shards", {}), shards.provenance)
            if scorer.provenance.get("data", {}).get("content") != imported_content(shards.headers).get("content"):
                difference = difference or "other imported features"
            if difference:
                raise SettingsError(
                    "train.keep_by must be a run on the same windows and features, but "
                    f"{train.keep_by} has {difference}."
                )
            yield bags.kept(train.keep_windows, scorer.coef * scorer.scale / scale), [name]


def subset_provenance(train: TrainSettings, class_name: str) -> dict[str, Any]:
    """Return what a model's provenance records of the model that chose its windows; nothing if none did."""
    return {"kept_by": weights_hash(_scorer(train, class_name))} if train.keep_by else {}


def weights_hash(detector: Detector) -> str:
    """Return the hash of a model's weights, for the provenance of models that depend on it."""
    return content_hash(detector.coef.tolist(), detector.scale.tolist(), detector.intercept)


def _scorer(train: TrainSettings, class_name: str) -> Detector:
    """Return the model whose scores choose the windows."""
    return Detector.load(RunFolder(Path(train.keep_by)).model(class_name))
