"""The pictures of one set for a protocol: the first windows of each, labels, and objects."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

import numpy as np
from lapsvm.pipelines.run.context import RunContext
from lapsvm.pipelines.run.dataset import Labels, content_hash, label_vector

from lapsvm.arrays import Array, Float64
from lapsvm.bags import Bags
from lapsvm.catalog import GroundTruth
from lapsvm.errors import StageError
from lapsvm.features import Shard, ShardSet, block_scales, mean_block_norms, open_shards


@dataclass(frozen=True)
class Pictures:
    """One set.

    Attributes
    ----------
    ids : tuple of n str
    bags : Bags
        The used windows, scaled.
    boxes : list of n arrays (n_i, 4)
    labels : dict of class name to (n,) of +1, -1 and 0
    truth : dict of class name to (dict of picture to GroundTruth)
    content : str
        Hash of the pictures, of the settings of their windows and of the number of used windows.
    """

    ids: tuple[str, ...]
    bags: Bags
    boxes: list[Array]
    labels: dict[str, Labels]
    truth: Mapping[str, Mapping[str, GroundTruth]]
    content: str

    @cached_property
    def means(self) -> Bags:
        """One-window bags: the mean of each picture's windows."""
        means = self.bags.means().astype(np.float32)
        return Bags(means, np.arange(len(means) + 1), threads=self.bags.threads)


def load_pictures(
    context: RunContext, set_name: str, first: int, most: int | None = None, scale: Float64 | None = None
) -> tuple[Pictures, Float64]:
    """Return a set and the scale of its features.

    Parameters
    ----------
    context : RunContext
    set_name : str
    first : int
        Number of windows used per picture, in the order of the proposals.
    most : int, optional
        Number of pictures used, in the order of the set; default all.
    scale : (d,), optional
        Scale of the training set; by default every block of features gets a mean norm of 1 here.

    Raises
    ------
    StageError
        If no boxes are known.
    """
    truth = context.data.dataset.ground_truth(set_name)
    if truth is None:
        raise StageError(f"a protocol needs the boxes of set {set_name!r}, but the data set has none.")
    shards = open_shards(context.run.shards(set_name))
    images = [
        (name, shard.boxes[rows], np.array(shard.features[rows]))
        for shard, name, rows in islice(_windows(shards, first), most)
    ]
    if scale is None:
        blocks = shards.provenance["features"]["extractor"]["blocks"]
        scale = block_scales(mean_block_norms((features for _, _, features in images), blocks), blocks)
    ids = tuple(name for name, _, _ in images)
    records = {record.id: record for record in context.data.records[set_name]}
    kept = [records[name] for name in ids]
    return Pictures(
        ids,
        Bags.from_arrays([features for _, _, features in images], scale, threads=context.threads),
        [boxes for _, boxes, _ in images],
        {name: label_vector(kept, name) for name in context.data.classes},
        {name: {image: truth[name][image] for image in ids} for name in context.data.classes},
        content_hash(ids, shards.pixel_hashes[: len(ids)], shards.provenance, first),
    ), scale


def _windows(shards: ShardSet, first: int) -> Iterator[tuple[Shard, str, slice]]:
    """Yield the shard, the name and the rows of the first windows of every picture."""
    for shard in shards:
        for index, name in enumerate(shard.image_ids):
            start, stop = shard.offsets[index : index + 2].tolist()
            yield shard, name, slice(start, min(stop, start + first))
