"""Time of suppression, evaluation, result files and scoring, at the size of the VOC2007 test set.

    python benchmarks/pictures/evaluation.py

Everything is made up from fixed seeds: 4,952 pictures, 20 classes, 12,000 objects, 20,000 detections a class; then 100
detections a picture and class, as many as a run writes.
Each time is the best of some runs, in milliseconds of processor time (all threads), so that a busy machine matters
less.
"""

import sys
import tempfile
from pathlib import Path
from time import process_time

import cv2
import numpy as np
from lapsvm.pipelines.results.draws import detection_figures

from lapsvm.catalog import GroundTruth
from lapsvm.detection import Detector, nms, score_many
from lapsvm.evaluation import (
    best_f1,
    corloc,
    draw_pictures,
    error_kinds,
    evaluate_voc,
    matching,
    read_result_file,
    read_results,
    result_name,
    results,
    write_results,
)

sys.path.append(str(Path(__file__).parents[2]))  # the slow twins are the tests' own
from tests.twins import detection as suppression
from tests.twins import evaluation as reference
from tests.twins.made_up_detections import made_up_detections

PICTURES, CLASSES, OBJECTS, DETECTIONS, DRAWS = 4952, 20, 600, 20_000, 1000


def milliseconds(call, runs=5):
    times = []
    for _ in range(runs):
        start = process_time()
        call()
        times.append(process_time() - start)
    return 1000 * min(times)


def windows(n, seed=0):
    """Return n windows of a 500 x 500 picture, sides from 20 to 300 pixels."""
    rng = np.random.default_rng(seed)
    corners = rng.uniform(0, 450, (n, 2))
    sides = np.exp(rng.uniform(np.log(20), np.log(300), (n, 2)))
    return np.hstack([corners, np.minimum(corners + sides, 500)]).astype(np.float32), rng.normal(size=n)


def row(what, *values):
    print(f"{what:<78}" + "".join(f"{value:>11}" for value in values))


def suppression_table():
    row("non-maximum suppression, ms", "kept", "lapsvm", "cv2.dnn", "reference")
    for n in (2000, 20_000):
        for threshold in (0.3, 0.5):
            suppression_row(n, threshold)
    boxes, scores = windows(2000)
    best = milliseconds(lambda: nms(boxes, scores, 0.3, limit=100))
    row("  2000 boxes, IoU > 0.3, only the best 100", 100, f"{best:.2f}")


def suppression_row(n, threshold):
    boxes, scores = windows(n)
    sizes, shifted = np.hstack([boxes[:, :2], boxes[:, 2:] - boxes[:, :2]]), scores - scores.min() + 1
    ours = milliseconds(lambda: nms(boxes, scores, threshold))
    theirs = milliseconds(lambda: cv2.dnn.NMSBoxes(sizes, shifted, 0.0, threshold), runs=3)
    kept = len(nms(boxes, scores, threshold))
    row(f"  {n} boxes, IoU > {threshold}", kept, f"{ours:.2f}", f"{theirs:.2f}", slow_nms(n, threshold))


def slow_nms(n, threshold):
    """The readable twin, where one can wait for it."""
    if n > 2000:
        return "-"
    boxes, scores = (array.tolist() for array in windows(n))
    return f"{milliseconds(lambda: suppression.nms(boxes, scores, threshold), runs=1):.0f}"


def objects(number):
    """Picture -> the objects of one class, some difficult."""
    boxes, _ = windows(OBJECTS, seed=number)
    rng = np.random.default_rng(number)
    owners, difficult = rng.integers(0, PICTURES, OBJECTS), rng.random(OBJECTS) < 0.15
    mine = [owners == picture for picture in range(PICTURES)]
    return {f"{i:06d}": GroundTruth(boxes[rows].round().astype(float), difficult[rows]) for i, rows in enumerate(mine)}


def evaluation_table():
    truth = {f"class_{number:02d}": objects(number) for number in range(CLASSES)}
    found = {name: made_up_detections(truth[name], DETECTIONS, seed) for seed, name in enumerate(truth)}
    row(f"{CLASSES} classes x {DETECTIONS} detections in {PICTURES} pictures, ms", "", "lapsvm", "", "reference")
    fast = milliseconds(lambda: evaluate_voc(found, truth), runs=3)
    row(
        "  evaluate_voc, both APs (reference: one class, times 20)",
        "",
        f"{fast:.0f}",
        "",
        slow_evaluation(found, truth),
    )
    row("  corloc", "", f"{milliseconds(lambda: corloc(found, truth), runs=3):.0f}")
    with tempfile.TemporaryDirectory() as folder:
        row("  writing the result files", "", f"{milliseconds(lambda: write_all(Path(folder), found), runs=2):.0f}")
        row("  reading the result files", "", f"{milliseconds(lambda: read_results(folder, 'test'), runs=2):.0f}")


def slow_evaluation(found, truth):
    """The readable twin on one class."""
    compiled, matching._kernel = matching._kernel, reference
    time = CLASSES * milliseconds(lambda: evaluate_voc({"class_00": found["class_00"]}, truth), runs=1)
    matching._kernel = compiled
    return f"{time:.0f}"


def full_table():
    """100 detections a picture: one class, times 20."""
    truth, name = objects(0), "class_00"
    found = made_up_detections(truth, 100 * PICTURES, 0)
    report, counts = evaluate_voc({name: found}, {name: truth}), draw_pictures(PICTURES, DRAWS, 0)
    row(f"{CLASSES} classes x {PICTURES} pictures x 100 detections (one class, times 20), ms", "", "lapsvm", "", "twin")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / result_name("test", name)
        write_results(path, found)
        fast = times_20(lambda: read_result_file(path))
        compiled, results._kernel = results._kernel, reference
        row("  reading the result files", "", fast, "", times_20(lambda: read_result_file(path), runs=1))
        results._kernel = compiled
    truths, of_class = {other: objects(number) for number, other in enumerate((name, "class_01"))}, {name: found}
    row("  evaluate_voc", "", times_20(lambda: evaluate_voc(of_class, truths)))
    row("  error_kinds, with the objects of two classes", "", times_20(lambda: error_kinds(report, of_class, truths)))
    row("  the threshold of the best F1", "", times_20(lambda: best_f1(report.classes[name], found)))
    draws = times_20(lambda: detection_figures(report.classes[name], found, truth, list(truth), counts))
    row(f"  intervals of both APs, {DRAWS} draws", "", draws)


def times_20(call, runs=3):
    return f"{CLASSES * milliseconds(call, runs):.0f}"


def write_all(folder, found):
    for name, detections in found.items():
        write_results(folder / result_name("test", name), detections)


def scoring_table():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(2000, 1280)).astype(np.float16)
    detectors = [Detector(str(k), rng.normal(size=1280)) for k in range(CLASSES)]
    row("scoring 2000 windows of 1280 float16 features, ms", "", "lapsvm")
    row("  one detector", "", f"{milliseconds(lambda: detectors[0].score(features)):.1f}")
    row(f"  {CLASSES} detectors at once", "", f"{milliseconds(lambda: score_many(detectors, features)):.1f}")


if __name__ == "__main__":
    suppression_table()
    evaluation_table()
    full_table()
    scoring_table()
