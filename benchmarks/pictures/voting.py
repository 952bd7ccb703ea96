"""Box voting with other constants: `python benchmarks/pictures/voting.py RUN`.

RUN is a finished run; its other detection settings are kept. The table has the mean 11-point AP and CorLoc over the
classes on the training pictures, for every temperature (0 is no voting) and overlap. Boxes are for evaluation only.
"""

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from lapsvm.pipelines.results.detectors import load_detectors
from lapsvm.pipelines.run.context import RunContext
from lapsvm.pipelines.run.folder import RunFolder
from lapsvm.pipelines.run.progress import Reporter
from lapsvm.pipelines.run.settings import DetectSettings

from lapsvm.arrays import Array, Float64
from lapsvm.catalog import GroundTruth
from lapsvm.detection import score_many
from lapsvm.detection.picture_scores import detect_windows
from lapsvm.evaluation import Detections, corloc, evaluate_voc
from lapsvm.features import open_shards

TEMPERATURES, OVERLAPS = (0.25, 0.5, 0.7, 1.0), (0.3, 0.4, 0.5, 0.6)
Picture = tuple[str, Array, Float64]


def main(folder: str) -> None:
    """Print the table."""
    context, names, pictures = scored_pictures(folder)
    truth = context.data.dataset.ground_truth(context.settings.data.train_set)
    print("| temperature | overlap | AP 11-point | CorLoc |\n|---|---|---|---|")
    grid = [(0.0, OVERLAPS[0]), *((temperature, iou) for iou in OVERLAPS for temperature in TEMPERATURES)]
    for temperature, iou in grid:
        settings = replace(context.settings.detect, box_voting=temperature, box_voting_iou=iou)
        ap, located = measured(pictures, names, settings, truth)
        print(f"| {temperature:g} | {iou:g} | {ap:.3f} | {located:.3f} |", flush=True)


def scored_pictures(folder: str) -> tuple[RunContext, list[str], list[Picture]]:
    """Return the context of a run, its classes, and its training pictures with the scores of all classes."""
    run = RunFolder(Path(folder))
    context = RunContext(run, run.settings(), 1, Reporter(True))
    detectors = load_detectors(context, "voting")
    pictures: list[Picture] = []
    for shard in open_shards(run.shards(context.settings.data.train_set)):
        scores, cuts = score_many(detectors, shard.features), shard.offsets[1:-1]
        pictures += zip(shard.image_ids, np.split(shard.boxes, cuts), np.split(scores, cuts), strict=True)
    return context, [detector.class_name for detector in detectors], pictures


def measured(
    pictures: list[Picture], names: list[str], settings: DetectSettings, truth: Mapping[str, Mapping[str, GroundTruth]]
) -> tuple[float | None, float | None]:
    """Return the mean AP and the mean CorLoc of detections with these settings."""
    detections = {
        name: Detections.from_images(
            (image, *detect_windows(scores[:, column], boxes, settings)) for image, boxes, scores in pictures
        )
        for column, name in enumerate(names)
    }
    return evaluate_voc(detections, truth).mean_ap_11point, corloc(detections, truth).mean_corloc


if __name__ == "__main__":
    main(sys.argv[1])
