"""Boxes that were exported, and come back from another program as verdicts."""
