"""Compiled kernels: bodies in cython_ext/, signatures here; call them through the rooms that check the input."""
