"""Stores of windows: in this process, in other processes, or on a GPU."""
