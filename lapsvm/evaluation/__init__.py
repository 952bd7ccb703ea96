"""PASCAL VOC evaluation: matching, average precision, CorLoc and pointing; paired comparisons."""

from lapsvm.evaluation.average_precision import (
    average_precision_11point,
    average_precision_area,
    image_auroc,
    image_average_precision,
)
from lapsvm.evaluation.boxes.error_kinds import ErrorKind, error_kinds
from lapsvm.evaluation.boxes.localisation import (
    ClassCorLoc,
    ClassHits,
    ClassPointing,
    CorLocReport,
    PointingReport,
    corloc,
    pointing,
)
from lapsvm.evaluation.boxes.thresholds import Threshold, best_f1, wanted_precision
from lapsvm.evaluation.boxes.voc import ClassResult, VocReport, evaluate_voc
from lapsvm.evaluation.boxes.window_recall import best_overlaps, window_rows
from lapsvm.evaluation.coco import COCO_MEASURES, as_coco, coco_evaluation, coco_figures, coco_rows
from lapsvm.evaluation.detections import Detections, ImageIds
from lapsvm.evaluation.entries import check_entry
from lapsvm.evaluation.figures import Draws, Figure, detection_figures, mean_figure, ranking_figures, share_figure
from lapsvm.evaluation.paired import (
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

__all__ = [
    "COCO_MEASURES",
    "ClassCorLoc",
    "ClassHits",
    "ClassPointing",
    "ClassResult",
    "CorLocReport",
    "Detections",
    "Draws",
    "ErrorKind",
    "Figure",
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
    "check_entry",
    "class_table",
    "coco_evaluation",
    "coco_figures",
    "coco_rows",
    "corloc",
    "detection_ap_draws",
    "detection_figures",
    "draw_pictures",
    "error_kinds",
    "evaluate_voc",
    "holm",
    "image_ap_draws",
    "image_auroc",
    "image_auroc_draws",
    "image_average_precision",
    "map_peak",
    "mean_figure",
    "paired_t_test",
    "pointing",
    "ranking_figures",
    "read_result_file",
    "read_results",
    "result_name",
    "share_draws",
    "share_figure",
    "wanted_precision",
    "window_rows",
    "write_json",
    "write_results",
]
