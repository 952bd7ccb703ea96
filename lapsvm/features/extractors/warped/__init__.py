"""Features of windows that are warped one by one and seen by a network: the way of R-CNN."""
