"""How far a run goes on defects, beside methods that learn from the same pictures with the same network.

    python benchmarks/defects/how_far.py RUN [--root ROOT] [--sizes 320,640] [--supervised] [--to RESULT.json]

RUN is a finished run whose data set has a test set with boxes. The pictures of its test set are judged by the run, by
a memory of good pictures (`normal_memory.py`), by a classifier of whole pictures (`picture_classifier.py`) and, with
--supervised, by a model trained on the true boxes of the run's training pictures. Nothing is written into RUN. The
methods beside ours see pictures with a longer side of --sizes pixels, each by itself. Pointing asks whether a point
lies in a true box of the class: the centre of the best box, or the peak of a map. Intervals are of 95 %: Wilson's for
hits, 2,000 draws of the pictures for all others. A picture is called as defective as its most probable class; the
supervised model has margins in place of probabilities. Where RUN has a threshold (`lapsvm threshold`), "verdicts" are
by the probabilities that it compares. --sizes "" leaves the other methods out.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import cv2
import numpy as np
from judged import Judgement, Pictures, figures_of, pointing_entries
from lapsvm.pipelines.cli.study import Given, Root, print_table, study_command
from lapsvm.pipelines.context import RunContext
from lapsvm.pipelines.figures.tables import difference_text, interval_text
from lapsvm.pipelines.run.folder import RunFolder
from normal_memory import NormalMemory, peak
from picture_classifier import PictureClassifier

from lapsvm.arrays import Array
from lapsvm.catalog import Dataset, ImageRecord, open_dataset
from lapsvm.detection import Detector, Predictor
from lapsvm.evaluation import Figure, map_peak, write_json
from lapsvm.evaluation.figures import difference_entry, interval_entry
from lapsvm.features import open_extractor
from lapsvm.features.projection import load_projection

MEMORY_MAPS, CLASSIFIER_MAPS = "stride16,stride8", "stride32,stride16,stride8"
CENTRE, PEAK = "box centre", "map peak"
Figures = dict[str, dict[str, Figure]]  # measure -> class -> figure
Pointing = dict[str, dict[str, dict[str, dict[str, Any]]]]  # method -> way -> class -> hits


@study_command
def main(
    run: Path, root: Root = None, set_name: Annotated[str, Given("--set")] = "test",
    sizes: Annotated[str, Given(help="Pixels of the other methods' pictures, with commas.")] = "320,640",
    supervised: Annotated[bool, Given("--supervised", help="Train on true boxes, too.")] = False,
    to: Annotated[Path | None, Given(help="A JSON file for all figures.")] = None,
) -> None:  # fmt: skip
    """Judge the pictures of a test set by a run and by other methods."""
    cv2.setNumThreads(1)
    data = RunFolder(run).settings().data
    dataset = open_dataset(data.name, root or data.root)
    predictor = Predictor.open(run, max_detections=1, threshold=0)
    classes = tuple(detector.class_name for detector in predictor.detectors)
    records = list(dataset.records(set_name))
    pictures, judgements = known(dataset, set_name, records, classes), by_run("lapsvm", predictor, records)
    for size in map(int, filter(None, sizes.split(","))):
        judgements += by_peers(list(dataset.records(data.train_set)), records, classes, size)
    if supervised:
        detectors = trained_on_boxes(run, predictor.detectors)
        judgements += by_run(
            "true boxes", replace(predictor, detectors=detectors, shown=replace(predictor.shown, alarm=None)), records
        )
    report(pictures, judgements, to)


def known(dataset: Dataset, set_name: str, records: Sequence[ImageRecord], classes: Sequence[str]) -> Pictures:
    """Return the labels and masks of the pictures of a set."""
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
    """Return the figures of the detectors, and of decisions where there is a threshold."""
    scores, centres, peaks, verdicts = [], [], [], []
    names = [detector.class_name for detector in predictor.detectors]
    for record in records:
        scored = predictor.scored(record.pixels())
        found, verdict = scored.detections(), scored.decision()
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
    """Return the figures of the memory of good pictures and of the classifier of whole pictures."""
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


def trained_on_boxes(run: Path, detectors: Sequence[Detector]) -> list[Detector]:
    """Return detectors of the same features that are trained with the true boxes, without a calibration."""
    sys.path.append(str(Path(__file__).parents[1] / "recipes"))
    from supervised_ceiling import trained_models

    context = RunContext.opened(run, "a model on true boxes", threads=2, quiet=True)
    weights, biases = trained_models(context)
    projection = context.run.projection
    unfold = load_projection(projection).unfold if projection.exists() else np.asarray
    columns = zip(detectors, weights.T, biases, strict=True)
    return [Detector(one.class_name, unfold(own), bias, 1.0, one.provenance) for one, own, bias in columns]


def report(pictures: Pictures, judgements: Sequence[Judgement], path: Path | None) -> None:
    """Print a table of each measure, of hits with Wilson's intervals and of differences to the run; write all figures.

    Differences are on the same draws of the pictures.
    """
    figures = {one.name: figures_of(pictures, one) for one in judgements}
    for measure in dict.fromkeys(measure for found in figures.values() for measure in found):
        rows = {name: found[measure] for name, found in figures.items() if measure in found}
        columns = list(next(iter(rows.values())))
        print()
        print_table([measure, *columns], ([name, *(text(row[one]) for one in columns)] for name, row in rows.items()))
    pointing = {one.name: pointing_entries(pictures, one) for one in judgements}
    print()
    print_table(["pointing", *pictures.classes], hit_rows(pictures.classes, pointing))
    ours, *others = figures.values()
    print()
    titles = ["lapsvm less", "mean pointing", "AUROC of any class"]
    print_table(titles, ([name, *differences(ours, found)] for name, found in zip([*figures][1:], others, strict=True)))
    if path:
        entries = {
            name: {measure: {one: entry(figure) for one, figure in row.items()} for measure, row in found.items()}
            for name, found in figures.items()
        }
        write_json(path, {"figures": entries, "hits": pointing, "pictures": len(pictures.labels)})


def hit_rows(classes: Sequence[str], pointing: Pointing) -> Iterator[list[str]]:
    """Yield the hits of each method and way, a cell a class."""
    form = "{hits} of {pictures} [{low:.2f}, {high:.2f}]".format
    for method, ways in pointing.items():
        for way, of_class in ways.items():
            yield [f"{method}, {way}", *(form(**of_class[name]) for name in classes)]


def differences(ours: Figures, others: Figures) -> Iterator[str | None]:
    """Yield the run's differences to another method, in the best way of each to point."""
    best = [max(ways(found), key=lambda one: one.value or 0, default=None) for found in (others, ours)]
    yield "" if None in best else difference_text(difference_entry(*best))
    yield difference_text(difference_entry(*(found["detected"]["any class"] for found in (others, ours))))


def ways(found: Figures) -> list[Figure]:
    """Return a method's mean pointing by each of its ways."""
    return [row["mean"] for measure, row in found.items() if measure.startswith("pointing")]


def entry(figure: Figure) -> dict[str, float | None]:
    """Return a figure with its interval."""
    return {"value": figure.value, **(interval_entry(figure) or {"low": None, "high": None})}


def text(figure: Figure) -> str | None:
    """Return a value and its interval; None where it is undefined."""
    limits = interval_entry(figure)
    return limits and f"{figure.value:.3f} {interval_text(limits, '')}"


if __name__ == "__main__":
    main()
