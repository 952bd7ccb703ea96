"""Shards of windows and features: made from pictures, imported, and checked."""
