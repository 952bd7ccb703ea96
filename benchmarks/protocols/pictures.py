"""The pictures of one set for a protocol: the first windows of each, labels, and objects."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

import numpy as np
from lapsvm.pipelines.context import RunContext
from lapsvm.pipelines.fitting.training_bags import stored_blocks
from lapsvm.pipelines.run.dataset import Labels, content_hash, label_vector
from lapsvm.pipelines.run.groups import picture_groups

from lapsvm.arrays import Array, Float64, Index
from lapsvm.bags import Bags
from lapsvm.catalog import GroundTruth
from lapsvm.errors import StageError
from lapsvm.features import block_scales, mean_block_norms, open_shards


@dataclass(frozen=True)
class Pictures:
    """One set of n pictures."""

    ids: tuple[str, ...]
    bags: Bags  # the used windows, scaled
    boxes: list[Array]  # n arrays (n_i, 4)
    labels: dict[str, Labels]  # class -> (n,) of +1, -1 and 0
    truth: Mapping[str, Mapping[str, GroundTruth]]  # class -> picture -> objects
    groups: Index  # (n,) group of each picture, see `lapsvm.pipelines.run.groups`
    content: str  # hash of the pictures, of the settings of their windows and of the number of used windows

    @cached_property
    def means(self) -> Bags:
        """One-window bags: the mean of each picture's windows."""
        means = self.bags.means().astype(np.float32)
        return Bags(means, np.arange(len(means) + 1), threads=self.bags.threads)


def load_pictures(
    context: RunContext, set_name: str, first: int, most: int | None = None, scale: Float64 | None = None
) -> tuple[Pictures, Float64]:
    """Return a set and the scale of its features; StageError if no boxes are known.

    The `first` windows of each picture are used, in the order of the proposals, and of the pictures at `most` so many,
    in the order of the set. Without the `scale` (d,) of the training set every block of features gets a mean norm of 1.
    """
    truth = context.data.dataset.ground_truth(set_name)
    if truth is None:
        raise StageError(f"a protocol needs the boxes of set {set_name!r}, but the data set has none.")
    shards = open_shards(context.run.shards(set_name))
    stored = islice((picture for shard in shards for picture in shard.pictures()), most)
    images = [(one.image_id, np.asarray(one.boxes)[:first], np.array(one.features[:first])) for one in stored]
    if scale is None:
        sizes = [block.size for block in stored_blocks(shards.provenance)]
        scale = block_scales(mean_block_norms((features for _, _, features in images), sizes), sizes)
    ids = tuple(name for name, _, _ in images)
    records = {record.id: record for record in context.data.records[set_name]}
    kept = [records[name] for name in ids]
    return Pictures(
        ids,
        Bags.from_arrays([features for _, _, features in images], scale, threads=context.threads),
        [boxes for _, boxes, _ in images],
        {name: label_vector(kept, name) for name in context.data.classes},
        {name: {image: truth[name][image] for image in ids} for name in context.data.classes},
        picture_groups(kept, shards.pixel_hashes[: len(ids)], context.settings.data.group),
        content_hash(ids, shards.pixel_hashes[: len(ids)], shards.provenance, first),
    ), scale
