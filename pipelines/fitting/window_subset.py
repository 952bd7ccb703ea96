"""The windows of a picture that take part in training: all, the first so many, or those best-scored by other models.

The thesis restricts every picture to the 20 best boxes of a standard detector (section 4.1). The models of another run
on the same features are such detectors, one for each class.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from lapsvm.arrays import Float64
from lapsvm.bags import Bags
from lapsvm.detection import Detector
from lapsvm.errors import SettingsError
from lapsvm.features import ShardSet, settings_difference

from ..run.context import RunContext
from ..run.dataset import content_hash
from ..run.folder import RunFolder
from ..run.settings import TrainSettings
from ..shards.importing import imported_content

WindowSubset = tuple[Bags, list[str]]  # bags, and the classes that are trained on them


def window_subsets(
    context: RunContext, shards: ShardSet, bags: Bags, scale: Float64, names: Sequence[str]
) -> Iterator[WindowSubset]:
    """Yield the windows that take part, with the classes for which these do.

    Raises
    ------
    MissingError
        If ``keep_by`` has no model of a class.
    SettingsError
        If its models are for other features or windows.
    """
    train = context.settings.train
    if not train.keep_windows:
        yield bags, list(names)
    elif not train.keep_by:
        yield bags.kept(train.keep_windows), list(names)
    else:
        for name in names:
            judge = _judge(train, name)
            difference = settings_difference(judge.provenance.get("shards", {}), shards.provenance)
            if difference:
                raise SettingsError(
                    f"--keep-by must be a run on the same windows, but {train.keep_by} has {difference}."
                )
            if judge.provenance.get("data", {}).get("content") != imported_content(shards.headers).get("content"):
                raise SettingsError(
                    f"--keep-by must be a run on the same features, but {train.keep_by} has imported others."
                )
            yield bags.kept(train.keep_windows, judge.coef * judge.scale / scale), [name]


def kept_by(train: TrainSettings, class_name: str) -> dict[str, Any]:
    """Return what a model's provenance says of the model that chose its windows; nothing if none did."""
    if not train.keep_by:
        return {}
    return {"kept_by": weights_hash(_judge(train, class_name))}


def weights_hash(detector: Detector) -> str:
    """Return the hash by which a model knows another one that decided over its training."""
    return content_hash(detector.coef.tolist(), detector.scale.tolist(), detector.intercept)


def _judge(train: TrainSettings, class_name: str) -> Detector:
    """Return the model whose scores decide."""
    return Detector.load(RunFolder(Path(train.keep_by)).model(class_name))
