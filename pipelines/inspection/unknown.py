"""How unlike good pictures the pictures of a run are: the memory of good ones, and the distances of held-out ones."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat

import numpy as np

from lapsvm.arrays import Float32, Float64, Index
from lapsvm.catalog import ImageRecord
from lapsvm.errors import ImageError, MissingError, StageError
from lapsvm.features import Extractor, PooledNetwork
from lapsvm.inspection.decision import UNKNOWN
from lapsvm.inspection.promises import Promise
from lapsvm.inspection.threshold import choose_threshold, choose_two_thresholds
from lapsvm.objectness.good_pictures import LEAST_PICTURES, GoodPictures, distance_of, good_network, parts_of
from lapsvm.windows.proposals import reduced

from ..context import StoredRun
from ..run.groups import n_groups
from ..run.progress import Reporter
from .probabilities import PictureProbabilities
from .whole_pictures import HELD_OUT, TESTED

_OFF = "threshold: pictures are of known classes or ok, never unknown: "
NEVER = 1.0
"""The least probability of an alarm where there is no class: no picture has one."""


@dataclass(frozen=True, eq=False)
class LearnedGood:
    """The memory of a run's good pictures, the distances of pictures of its sets, and the two thresholds.

    Attributes
    ----------
    memory : GoodPictures
    distances : mapping of set to ndarray of shape (n,)
    probability, distance : float
    """

    memory: GoodPictures
    distances: Mapping[str, Float64]
    probability: float
    distance: float


def learn_good_pictures(
    stored: StoredRun,
    sets: Mapping[str, PictureProbabilities],
    groups: Mapping[str, Index],
    promise: Promise,
    extractor: Extractor,
    reporter: Reporter,
    false_alarms: Sequence[str] = (),
) -> LearnedGood | None:
    """Return the memory of the good held-out pictures with its threshold; None, and a line says why, without one.

    Where there is no class it alone decides, by the whole share of false alarms. Raises StageError if it cannot.

    Parameters
    ----------
    stored : StoredRun
    sets : mapping of str to PictureProbabilities
        Of held-out training pictures, and of the test set.
    groups : mapping of str to ndarray of shape (n,)
        The groups of the pictures of each.
    promise : Promise
    extractor : Extractor
    reporter : Reporter
    false_alarms : sequence of str
        Training pictures that a person called good. The memory has them, too; the promise counts none of them.
    """
    held_out, network = sets[HELD_OUT], good_network(extractor)
    reason = _missing(stored, held_out, network)
    if not reason and not _can_promise(held_out, groups[HELD_OUT], promise):
        reason = promise.too_few_for_two(n_groups(groups[HELD_OUT], held_out.is_ok))
    if reason and not held_out.classes:
        raise StageError(f"threshold chooses by good pictures alone, as no class has pictures: {reason}")
    if network is None or reason:
        reporter.say(_OFF + reason)
        return None
    try:
        parts = {name: _parts(stored, name, of.ids, network, reporter) for name, of in sets.items()}
        more = list(_parts(stored, HELD_OUT, false_alarms, network, reporter)) if false_alarms else []
        memory, distances = _distances(held_out, groups[HELD_OUT], parts, more, network)
    except (ImageError, MissingError) as error:
        if not held_out.classes:
            raise
        reporter.say(_OFF + str(error))
        return None
    chosen = _thresholds(held_out, distances[HELD_OUT], promise, groups[HELD_OUT])
    return None if chosen is None else LearnedGood(memory, distances, *chosen)


def _thresholds(
    held_out: PictureProbabilities, distances: Float64, promise: Promise, groups: Index
) -> tuple[float, float] | None:
    """Return the least probability and distance of an alarm; None if good pictures are too few for two thresholds."""
    good = held_out.is_ok
    if not held_out.classes:
        return NEVER, choose_threshold(distances[good], promise.share, groups[good], promise.confidence)
    return choose_two_thresholds(held_out.best[good], distances[good], promise, groups[good])


def _missing(stored: StoredRun, held_out: PictureProbabilities, network: PooledNetwork | None) -> str:
    """Return why a run has no memory of good pictures, "" if it can have one."""
    if network is None:
        return "the run has no features of a network."
    if UNKNOWN in stored.data.classes:
        return f"a class is called {UNKNOWN!r}."
    count = int(held_out.is_ok.sum())
    return f"that needs {LEAST_PICTURES} good pictures, got {count}." if count < LEAST_PICTURES else ""


def _can_promise(held_out: PictureProbabilities, groups: Index, promise: Promise) -> bool:
    """Return whether the good pictures are enough for the thresholds, whatever their distances."""
    return _thresholds(held_out, held_out.best, promise, groups) is not None


def _parts(
    stored: StoredRun, key: str, ids: Sequence[str], network: PooledNetwork, reporter: Reporter
) -> Iterator[Float32]:
    """Yield the parts of pictures of a set."""
    data = stored.settings.data
    name = {HELD_OUT: data.train_set, TESTED: data.test_set}[key]
    records: dict[str, ImageRecord] = {record.id: record for record in stored.data.records[name]}
    with reporter.bar(f"compare {name} with good pictures", len(ids), "pictures") as bar:
        for image_id in ids:
            yield parts_of(network, reduced(records[image_id].pixels(), stored.settings.windows.max_side))
            bar.step()


def _distances(
    held_out: PictureProbabilities,
    groups: Index,
    parts: Mapping[str, Iterator[Float32]],
    more: Sequence[Float32],
    network: PooledNetwork,
) -> tuple[GoodPictures, dict[str, Float64]]:
    """Return the memory, with `more` good pictures, and the distances of pictures of each set.

    Held-out pictures have the distances to parts that are not of their own group. Other sets are read one picture at a
    time, once the memory is there.
    """
    good = np.flatnonzero(held_out.is_ok).tolist()
    of_held_out = list(parts[HELD_OUT])
    pictures = [*(of_held_out[row] for row in good), *more]
    memory = GoodPictures.fit(network, pictures, [*groups[good].tolist(), *range(-len(more), 0)])
    distances = {}
    for key, of_set in parts.items():
        pairs = zip(of_held_out, groups.tolist(), strict=True) if key == HELD_OUT else zip(of_set, repeat(None))
        distances[key] = np.array([distance_of(memory.map(one, group)) for one, group in pairs])
    return memory, distances
