"""The files of a run as products: what each was made from, whether it is there and current, and who makes it."""
