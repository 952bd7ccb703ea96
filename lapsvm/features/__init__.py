"""Feature extractors, and the shards that store features."""

from lapsvm.features.external.formats import FORMATS, open_external
from lapsvm.features.external.windows import ArrayNames, BoxConvention, ExternalSource, ExternalWindows
from lapsvm.features.extractors.blocks import Block, recorded_blocks
from lapsvm.features.extractors.extractor import Concatenation, Extractor, open_extractor, recorded_description
from lapsvm.features.extractors.hog import HOG
from lapsvm.features.extractors.pooled_network import PooledNetwork
from lapsvm.features.projection import Projected, Projection, fit_projection, load_projection, save_projection
from lapsvm.features.scaling import BlockNorms, block_scales, mean_block_norms
from lapsvm.features.shards.shard import PictureWindows, Shard, ShardHeader, assemble_shard
from lapsvm.features.shards.shard_file import read_header, read_shard, write_shard
from lapsvm.features.shards.shard_folder import (
    ShardSet,
    check_settings,
    open_shards,
    settings_difference,
    shard_name,
    shard_paths,
)

__all__ = [
    "FORMATS",
    "HOG",
    "ArrayNames",
    "Block",
    "BlockNorms",
    "BoxConvention",
    "Concatenation",
    "ExternalSource",
    "ExternalWindows",
    "Extractor",
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
    "open_external",
    "open_extractor",
    "open_shards",
    "read_header",
    "read_shard",
    "recorded_blocks",
    "recorded_description",
    "save_projection",
    "settings_difference",
    "shard_name",
    "shard_paths",
    "write_shard",
]
