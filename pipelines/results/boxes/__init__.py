"""Boxes that evaluation may use, and the pictures that they are of."""
