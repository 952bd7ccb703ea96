"""Annotations of other programs: files of COCO, VOC, YOLO, Label Studio and CVAT, read and written."""
