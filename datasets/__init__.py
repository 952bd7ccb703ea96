"""Readers and generators of data sets, each found by name through ``lapsvm.catalog.open_dataset``."""
