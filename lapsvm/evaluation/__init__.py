"""PASCAL VOC evaluation: matching, average precision, CorLoc and pointing; paired comparisons."""

from lapsvm.evaluation.average_precision import (
    average_precision_11point,
    average_precision_area,
    image_auroc,
    image_average_precision,
)
from lapsvm.evaluation.boxes.error_kinds import ErrorKind, error_kinds
from lapsvm.evaluation.boxes.localisation import (
    ClassHits,
    HitsReport,
    corloc,
    pointing,
)
from lapsvm.evaluation.boxes.thresholds import Threshold, best_f1, wanted_precision
from lapsvm.evaluation.boxes.voc import ClassResult, VocReport, evaluate_voc
from lapsvm.evaluation.boxes.window_recall import best_overlaps
from lapsvm.evaluation.coco import as_coco, coco_evaluation, coco_figures, coco_rows
from lapsvm.evaluation.detections import Detections, ImageIds
from lapsvm.evaluation.entries import check_entry
from lapsvm.evaluation.figure import Draws, Figure, detection_figures, mean_figure, ranking_figure, share_figure
from lapsvm.evaluation.figures import Figures, read_figures
from lapsvm.evaluation.measured import MeasuredClass, Ranking
from lapsvm.evaluation.measures import MEASURES
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
from lapsvm.evaluation.tables import COCO_MEASURES, class_table, write_json

__all__ = [
    "COCO_MEASURES",
    "MEASURES",
    "ClassHits",
    "ClassResult",
    "Detections",
    "Draws",
    "ErrorKind",
    "Figure",
    "Figures",
    "HitsReport",
    "ImageIds",
    "MeasuredClass",
    "PixelCounts",
    "Ranking",
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
    "ranking_figure",
    "read_figures",
    "read_result_file",
    "read_results",
    "result_name",
    "share_draws",
    "share_figure",
    "wanted_precision",
    "write_json",
    "write_results",
]
