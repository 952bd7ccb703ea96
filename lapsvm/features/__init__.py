"""Feature extractors, and the shards that keep their numbers."""

from lapsvm.features.shard import PictureWindows, Shard, ShardHeader, assemble_shard
from lapsvm.features.shard_set import ShardSet, check_settings, open_shards, shard_name, shard_paths
from lapsvm.features.shards import read_header, read_shard, write_shard

__all__ = [
    "PictureWindows",
    "Shard",
    "ShardHeader",
    "ShardSet",
    "assemble_shard",
    "check_settings",
    "open_shards",
    "read_header",
    "read_shard",
    "shard_name",
    "shard_paths",
    "write_shard",
]
