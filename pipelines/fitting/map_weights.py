"""How much each map of the networks counts in training, for ``--map-weights``.

A coarse map sees an object and what is around it alike: it ranks pictures well and leaves open where the object is. A
fine map tells neighbouring windows apart. With features of equal length training relies on the coarse ones, which
separate the pictures best. So the length of each part of the features may be in proportion to the cells of its map
across a picture, while training chooses windows. That needs neither boxes nor anything that is known of a single
network. Refinement has negatives from the same picture and takes all parts at one length: with longer fine ones it
ranks pictures worse (docs/measurements/boxes.md).
"""

from lapsvm.features import ShardSet
from lapsvm.features.extractors.resolution import cells_across

from ..run.context import RunContext
from ..run.settings import BASELINES

UNKNOWN = "--map-weights resolution needs shards that record the cells of every map; all parts count alike"


def map_weights(context: RunContext, shards: ShardSet) -> tuple[float, ...] | None:
    """Return the weight of each part of the features, None if all count alike, as for baselines.

    Reports if parts of the features are no maps, or the shards are older than the record of their cells.
    """
    train, extractor = context.settings.train, shards.headers[0].provenance["features"]["extractor"]
    if train.map_weights == "equal" or train.learner in BASELINES or len(extractor["blocks"]) < 2:
        return None
    cells = cells_across(extractor)
    if cells is None or len(cells) != len(extractor["blocks"]):
        context.reporter.say(f"{UNKNOWN}.")
        return None
    return cells
