"""Feature extractors, and the shards that keep their numbers."""

from lapsvm.features.extractor import Concatenation, Extractor, open_extractor
from lapsvm.features.foreign import ArrayNames, BoxConvention, ForeignSource, ForeignWindows
from lapsvm.features.foreign_formats import FORMATS, open_foreign
from lapsvm.features.hog import HOG
from lapsvm.features.pooled_network import PooledNetwork
from lapsvm.features.projection import Projected, Projection, fit_projection, load_projection, save_projection
from lapsvm.features.scaling import BlockNorms, block_scales, mean_block_norms
from lapsvm.features.shard import PictureWindows, Shard, ShardHeader, assemble_shard
from lapsvm.features.shard_set import (
    ShardSet,
    check_settings,
    open_shards,
    settings_difference,
    shard_name,
    shard_paths,
)
from lapsvm.features.shards import read_header, read_shard, write_shard

__all__ = [
    "FORMATS",
    "HOG",
    "ArrayNames",
    "BlockNorms",
    "BoxConvention",
    "Concatenation",
    "Extractor",
    "ForeignSource",
    "ForeignWindows",
    "PictureWindows",
    "PooledNetwork",
    "Projected",
    "Projection",
    "Shard",
    "ShardHeader",
    "ShardSet",
    "assemble_shard",
    "block_scales",
    "check_settings",
    "fit_projection",
    "load_projection",
    "mean_block_norms",
    "open_extractor",
    "open_foreign",
    "open_shards",
    "read_header",
    "read_shard",
    "save_projection",
    "settings_difference",
    "shard_name",
    "shard_paths",
    "write_shard",
]
