"""PASCAL VOC evaluation: matching, average precision, CorLoc and pointing; paired comparisons."""

from lapsvm.evaluation.average_precision import (
    average_precision_11point,
    average_precision_area,
    image_auroc,
    image_average_precision,
)
from lapsvm.evaluation.coco import COCO_MEASURES, as_coco, coco_evaluation, coco_rows
from lapsvm.evaluation.detections import Detections, ImageIds
from lapsvm.evaluation.entries import check_entry
from lapsvm.evaluation.error_kinds import ErrorKind, error_kinds
from lapsvm.evaluation.localisation import (
    ClassCorLoc,
    ClassHits,
    ClassPointing,
    CorLocReport,
    PointingReport,
    corloc,
    pointing,
)
from lapsvm.evaluation.paired import (
    bootstrap_difference,
    detection_ap_draws,
    draw_pictures,
    holm,
    image_ap_draws,
    image_auroc_draws,
    paired_t_test,
    share_draws,
)
from lapsvm.evaluation.pixels import PixelCounts, map_peak
from lapsvm.evaluation.results import read_result_file, read_results, result_name, write_results
from lapsvm.evaluation.tables import class_table, write_json
from lapsvm.evaluation.thresholds import Threshold, best_f1, wanted_precision
from lapsvm.evaluation.voc import ClassResult, VocReport, evaluate_voc
from lapsvm.evaluation.window_recall import best_overlaps, window_rows

__all__ = [
    "COCO_MEASURES",
    "ClassCorLoc",
    "ClassHits",
    "ClassPointing",
    "ClassResult",
    "CorLocReport",
    "Detections",
    "ErrorKind",
    "ImageIds",
    "PixelCounts",
    "PointingReport",
    "Threshold",
    "VocReport",
    "as_coco",
    "average_precision_11point",
    "average_precision_area",
    "best_f1",
    "best_overlaps",
    "bootstrap_difference",
    "check_entry",
    "class_table",
    "coco_evaluation",
    "coco_rows",
    "corloc",
    "detection_ap_draws",
    "draw_pictures",
    "error_kinds",
    "evaluate_voc",
    "holm",
    "image_ap_draws",
    "image_auroc",
    "image_auroc_draws",
    "image_average_precision",
    "map_peak",
    "paired_t_test",
    "pointing",
    "read_result_file",
    "read_results",
    "result_name",
    "share_draws",
    "wanted_precision",
    "window_rows",
    "write_json",
    "write_results",
]
