"""How far a run goes on defects, beside methods that learn from the same pictures with the same network.

    python benchmarks/defects/how_far.py RUN [--root ROOT] [--sizes 320 640] [--supervised] [--to RESULT.json]

RUN is a finished run whose data set has a test set with boxes. The pictures of its test set are judged by the run, by
a memory of good pictures (`normal_memory.py`), by a classifier of whole pictures (`picture_classifier.py`) and, with
--supervised, by a model trained on the true boxes of the run's training pictures. Nothing is written into RUN. The
methods beside ours see pictures with a longer side of --sizes pixels, each by itself. Pointing asks whether a point
lies in a true box of the class: the centre of the best box, or the peak of a map. Intervals are of 95 %: Wilson's for
hits, 2,000 draws of the pictures for all others. A picture is called as defective as its most probable class; the
supervised model has margins in place of probabilities. Where RUN has a threshold (`lapsvm threshold`), "verdicts" are
by the probabilities that it compares. --sizes without a number leaves the other methods out.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from judged import Drawn, Judgement, Pictures, figures_of, pointing_entries
from lapsvm.pipelines.run.context import RunContext
from lapsvm.pipelines.run.folder import RunFolder
from lapsvm.pipelines.run.progress import Reporter
from normal_memory import NormalMemory, peak
from picture_classifier import PictureClassifier

from lapsvm.arrays import Array
from lapsvm.catalog import Dataset, ImageRecord, open_dataset
from lapsvm.detection import Detector, Predictor
from lapsvm.evaluation import map_peak, write_json
from lapsvm.features import open_extractor
from lapsvm.features.projection import load_projection
from lapsvm.report import markdown_table

MEMORY_MAPS, CLASSIFIER_MAPS = "stride16,stride8", "stride32,stride16,stride8"
CENTRE, PEAK = "box centre", "map peak"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--root", type=Path, help="the data set, if it has moved")
    parser.add_argument("--set", default="test")
    parser.add_argument("--sizes", type=int, nargs="*", default=[320, 640])
    parser.add_argument("--supervised", action="store_true")
    parser.add_argument("--to", type=Path, help="a JSON file for all figures")
    options = parser.parse_args()
    cv2.setNumThreads(1)
    data = RunFolder(options.run).settings().data
    dataset = open_dataset(data.name, options.root or data.root)
    predictor = Predictor.open(options.run, max_detections=1, threshold=0)
    classes = tuple(detector.class_name for detector in predictor.detectors)
    records = list(dataset.records(options.set))
    pictures, judgements = known(dataset, options.set, records, classes), by_run("lapsvm", predictor, records)
    for size in options.sizes:
        judgements += by_peers(list(dataset.records(data.train_set)), records, classes, size)
    if options.supervised:
        detectors = supervised(options.run, predictor.detectors)
        judgements += by_run("true boxes", replace(predictor, detectors=detectors, alarm=None), records)
    report(pictures, judgements, options.to)


def known(dataset: Dataset, set_name: str, records: Sequence[ImageRecord], classes: Sequence[str]) -> Pictures:
    """Return what is known of the pictures of a set."""
    truth = dataset.ground_truth(set_name) or {}
    boxes = {name: [_counted(truth[name][one.id]) for one in records] for name in classes}
    return Pictures(tuple(classes), labels_of(records, classes), boxes)


def _counted(objects: Any) -> Array:
    """Return the boxes of a picture's objects that are not difficult."""
    return np.asarray(objects.boxes).reshape(-1, 4)[~np.asarray(objects.difficult, dtype=bool)]


def labels_of(records: Sequence[ImageRecord], classes: Sequence[str]) -> Array:
    """Return the labels (n, k) of pictures."""
    return np.array([[one.labels[name] for name in classes] for one in records])


def by_run(name: str, predictor: Predictor, records: Sequence[ImageRecord]) -> list[Judgement]:
    """Return what detectors say, and what verdicts do where there is a threshold."""
    scores, centres, peaks, verdicts = [], [], [], []
    names = [detector.class_name for detector in predictor.detectors]
    for record in records:
        scored = predictor.scored(record.pixels())
        found, verdict = scored.detections(), scored.verdict()
        scores.append([best_score(found[one]) for one in names])
        centres.append([(found[one].boxes[0, :2] + found[one].boxes[0, 2:]) / 2 for one in names])
        peaks.append([np.add(map_peak(scored.score_map(one).values)[::-1], 0.5) for one in names])
        verdicts += [] if verdict is None else [verdict.probability]
    table = np.array(scores)
    judged = Judgement(name, table.max(axis=1), table, {CENTRE: np.array(centres), PEAK: np.array(peaks)})
    return [judged, *([Judgement("verdicts", np.array(verdicts))] if verdicts else [])]


def best_score(found: Any) -> float:
    """Return the probability of the best box, or its score where there are no probabilities."""
    return float((found.scores if found.probabilities is None else found.probabilities)[0])


def by_peers(
    training: Sequence[ImageRecord], records: Sequence[ImageRecord], classes: Sequence[str], size: int
) -> list[Judgement]:
    """Return what the memory of good pictures and the classifier of whole pictures say."""
    labels = labels_of(training, classes)
    good = [one for one, row in zip(training, labels, strict=True) if (row < 0).all()]
    memory = NormalMemory.fit(network(MEMORY_MAPS, size), (one.pixels() for one in good))
    classifier = PictureClassifier.fit(network(CLASSIFIER_MAPS, size), (one.pixels() for one in training), labels)
    unlike, places, shares, activated = [], [], [], []
    for pixels in (record.pixels() for record in records):
        distances, (probabilities, maps) = memory.map(pixels), classifier.judge(pixels)
        unlike.append(float(distances.max()))
        places.append([peak(distances, pixels.shape[:2])] * len(classes))
        shares.append(probabilities)
        activated.append([peak(one, pixels.shape[:2]) for one in maps])
    table = np.array(shares)
    return [
        Judgement(f"memory of good pictures, {size}", np.array(unlike), None, {PEAK: np.array(places)}),
        Judgement(f"picture classifier, {size}", table.max(axis=1), table, {PEAK: np.array(activated)}),
    ]


def network(maps: str, size: int) -> Any:
    """Return the default network with some of its maps."""
    return open_extractor(f"efficientnet_lite0?output={maps}&size={size}")


def supervised(run: Path, detectors: Sequence[Detector]) -> list[Detector]:
    """Return detectors of the same features that are trained with the true boxes, without a calibration."""
    sys.path.append(str(Path(__file__).parents[1] / "recipes"))
    from supervised_ceiling import trained_models

    folder = RunFolder(run)
    weights, biases = trained_models(RunContext(folder, folder.settings(), 2, Reporter(True)))
    unfold = load_projection(folder.projection).unfold if folder.projection.exists() else np.asarray
    columns = zip(detectors, weights.T, biases, strict=True)
    return [Detector(one.class_name, unfold(own), bias, 1.0, one.provenance) for one, own, bias in columns]


def report(pictures: Pictures, judgements: Sequence[Judgement], path: Path | None) -> None:
    """Print a table of each measure and of the differences to the run, and write all figures."""
    figures = {one.name: figures_of(pictures, one) for one in judgements}
    for measure in dict.fromkeys(measure for found in figures.values() for measure in found):
        rows = {name: found[measure] for name, found in figures.items() if measure in found}
        print_figures(measure, rows)
    pointing = {one.name: pointing_entries(pictures, one) for one in judgements}
    print_hits(pictures.classes, pointing)
    print_differences(figures)
    if path:
        entries = {
            name: {measure: {one: figure.entry() for one, figure in row.items()} for measure, row in found.items()}
            for name, found in figures.items()
        }
        write_json(path, {"figures": entries, "hits": pointing, "pictures": len(pictures.labels)})


def print_figures(measure: str, rows: dict[str, dict[str, Drawn]]) -> None:
    """Print a measure of all methods; columns are classes."""
    columns = list(next(iter(rows.values())))
    cells = [[name, *(text(figures[column]) for column in columns)] for name, figures in rows.items()]
    print(f"\n{markdown_table([measure, *columns], cells)}", flush=True)


def print_hits(classes: Sequence[str], pointing: dict[str, dict[str, dict[str, dict[str, Any]]]]) -> None:
    """Print hits of pictures, with Wilson's intervals."""
    form = "{hits} of {pictures} [{low:.2f}, {high:.2f}]".format
    rows = [
        [f"{method}, {way}", *(form(**of_class[name]) for name in classes)]
        for method, ways in pointing.items()
        for way, of_class in ways.items()
    ]
    print(f"\n{markdown_table(['pointing', *classes], rows)}", flush=True)


def print_differences(figures: dict[str, dict[str, dict[str, Drawn]]]) -> None:
    """Print what the run has more than each other method, on the same draws of the pictures."""
    ours, *others = figures.items()
    best_way = {name: max(ways(found), key=lambda one: one.value, default=None) for name, found in figures.items()}
    rows = [
        [name, "" if way is None else text(best_way[ours[0]].less(way)), text(_any(ours[1]).less(_any(found)))]
        for name, found in others
        for way in [best_way[name]]
    ]
    print(f"\n{markdown_table(['lapsvm less', 'mean pointing', 'AUROC of any class'], rows)}", flush=True)


def ways(found: dict[str, dict[str, Drawn]]) -> list[Drawn]:
    """Return a method's mean pointing by each of its ways."""
    return [row["mean"] for measure, row in found.items() if measure.startswith("pointing")]


def _any(found: dict[str, dict[str, Drawn]]) -> Drawn:
    return found["detected"]["any class"]


def text(figure: Drawn) -> str:
    """Return a value and its interval."""
    entry = figure.entry()
    return f"{entry['value']:.3f} [{entry['low']:.3f}, {entry['high']:.3f}]"


if __name__ == "__main__":
    main()
