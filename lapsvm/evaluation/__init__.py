"""PASCAL VOC evaluation: matching, average precision, CorLoc."""

from lapsvm.evaluation.average_precision import (
    average_precision_11point,
    average_precision_area,
    image_average_precision,
)
from lapsvm.evaluation.localisation import ClassCorLoc, CorLocReport, corloc
from lapsvm.evaluation.results import Detections, read_result_file, read_results, result_name, write_results
from lapsvm.evaluation.tables import class_table, run_table, write_json
from lapsvm.evaluation.voc import ClassResult, VocReport, evaluate_voc

__all__ = [
    "ClassCorLoc",
    "ClassResult",
    "CorLocReport",
    "Detections",
    "VocReport",
    "average_precision_11point",
    "average_precision_area",
    "class_table",
    "corloc",
    "evaluate_voc",
    "image_average_precision",
    "read_result_file",
    "read_results",
    "result_name",
    "run_table",
    "write_json",
    "write_results",
]
