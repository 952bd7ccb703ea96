"""Annotations of other programs for the pictures of a run: which picture a name means, and the boxes of evaluation."""
