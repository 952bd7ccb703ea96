"""PASCAL VOC evaluation: matching, average precision, CorLoc."""
