"""Finished runs on the same pictures, compared with intervals and tests."""
