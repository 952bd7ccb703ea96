"""Stages, recipes and the command line: what turns the library into runs."""
