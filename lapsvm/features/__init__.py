"""Feature extractors, and the shards that keep their numbers."""
