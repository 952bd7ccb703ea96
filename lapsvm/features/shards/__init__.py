"""The shard store: files of boxes and features."""
