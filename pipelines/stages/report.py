"""Stage 6: write the page."""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

import numpy as np

from lapsvm.catalog import GroundTruth, ImageRecord
from lapsvm.detection import Detector
from lapsvm.errors import DataError
from lapsvm.evaluation import Detections
from lapsvm.features import open_shards
from lapsvm.report import (
    CccpStep,
    ClassSummary,
    Contents,
    Curve,
    Example,
    LabelCounts,
    RunSummary,
    SetSummary,
    write_page,
)

from ..fitting.history import read_history
from ..fitting.mean_probe import data_warnings
from ..results.detectors import load_detectors
from ..results.evaluation import SetEvaluation, evaluate_set
from ..results.provenance import provenance_value
from ..run.context import RunContext
from ..run.dataset import label_vector
from ..shards.importing import imported_counts
from ..shards.jobs import left_out

EXAMPLES = 8
Truth = dict[str, dict[str, GroundTruth]]


def run(context: RunContext) -> None:
    """Write RUN/page/index.html."""
    detectors = {detector.class_name: detector for detector in load_detectors(context, "report")}
    sets = {name: evaluate_set(context, name) for name in context.data.records}
    with context.timed("report"):
        contents = _contents(context, sets, detectors)
        context.run.files.claim([context.run.page])
        write_page(context.run.page, contents)
    context.reporter.say(f"page: {context.run.page}")


def _contents(context: RunContext, sets: dict[str, SetEvaluation], detectors: dict[str, Detector]) -> Contents:
    train_set, test_set = context.settings.data.train_set, context.settings.data.test_set
    steps = _cccp_steps(context)
    classes = tuple(
        _class_result(context, name, sets[train_set], sets.get(test_set), detectors[name], steps.get(name, ()))
        for name in context.data.classes
    )
    missing = [left_out(context.run.shards(name), context.data.records[name]) for name in sets]
    warnings = [data_warnings(name, provenance_value(detectors[name], "result")) for name in context.data.classes]
    return Contents(
        _summary(context, sets),
        classes,
        skipped=context.data.skipped,
        left_out=dict.fromkeys(chain.from_iterable(missing), "cannot be read whole"),
        warnings=(*_imported(context), *_partial_sets(sets), *chain.from_iterable(warnings)),
    )


def _imported(context: RunContext) -> list[str]:
    """Return sentences on the rows that import left out."""
    shards = {name: open_shards(context.run.shards(name)) for name in context.data.records}
    counts = {name: imported_counts(shard_set.headers).sentence() for name, shard_set in shards.items()}
    return [f"{name} was imported: {sentence}" for name, sentence in counts.items() if sentence]


def _partial_sets(sets: dict[str, SetEvaluation]) -> list[str]:
    """Return sentences on sets of which only some pictures have boxes, or are left out."""
    notes = [(entry.truth and entry.boxes_note(name), entry.left_out_note(name)) for name, entry in sets.items()]
    return [note for note in chain.from_iterable(notes) if note]


def _summary(context: RunContext, sets: dict[str, SetEvaluation]) -> RunSummary:
    """Return the settings, versions and times of the run."""
    settings, run = context.settings, context.run
    data = settings.data
    loss = settings.train.loss if settings.train.learner == "latent_rank_svm" else "hinge"
    return RunSummary(
        title=f"{settings.data.name}: {', '.join(context.data.classes)}",
        dataset=data.name,
        extractors=tuple(spec.split("/")[-1] for spec in settings.features.extractors),
        loss=f"{loss} ({settings.train.learner})",
        train=_set_summary(context, data.train_set, sets),
        test=_set_summary(context, data.test_set, sets) if data.test_set in sets else None,
        command=run.notes("command").get("line", ""),
        seeds={"run": settings.seed},
        settings={
            name: ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
            for name, value in settings.flat().items()
            if name.split(".")[0] in ("windows", "train", "detect")
            and (settings.windows.source.files or not name.startswith("windows.source."))
        },
        versions=run.notes("versions"),
        seconds={stage: entry["seconds"] for stage, entry in run.timings().items()},
    )


def _set_summary(context: RunContext, set_name: str, sets: dict[str, SetEvaluation]) -> SetSummary:
    records = context.data.records[set_name]
    return SetSummary(
        name=set_name,
        pictures=len(records),
        has_boxes=sets[set_name].truth is not None,
        windows=open_shards(context.run.shards(set_name)).n_windows,
        labels={name: _label_counts(records, name) for name in context.data.classes},
    )


def _label_counts(records: Sequence[ImageRecord], class_name: str) -> LabelCounts:
    labels = label_vector(records, class_name).tolist()
    return LabelCounts(labels.count(1), labels.count(-1), labels.count(0))


def _cccp_steps(context: RunContext) -> dict[str, tuple[CccpStep, ...]]:
    """Return class -> outer steps of the training of its model, from history.csv if there is one."""
    rounds = context.settings.refine.rounds
    last = f"round {rounds}" if rounds else "final"
    steps: dict[str, list[CccpStep]] = {}
    for row in _history(context):
        if row["role"] == last and row.get("certified") != "False":  # on candidates the objective is only a bound
            steps.setdefault(row["class"], []).append(_cccp_step(row))
    return {name: tuple(rows) for name, rows in steps.items()}


def _history(context: RunContext) -> list[dict[str, str]]:
    """Return the rows of history.csv; if it is missing or damaged, report that and return none."""
    try:
        if context.run.history_file.is_file():
            return read_history(context.run.history_file)
        reason = f"{context.run.history_file} is not there."
    except DataError as error:
        reason = str(error)
    context.reporter.say(f"{reason} The page shows no training curves.")
    return []


def _cccp_step(row: dict[str, str]) -> CccpStep:
    """Return an outer step from its row; passes and seconds may be missing."""
    passes, seconds = (float(row[name]) if row.get(name) else None for name in ("passes", "seconds"))
    return CccpStep(float(row["objective"]), float(row["gap"]), passes, seconds)


def _class_result(
    context: RunContext, name: str, train: SetEvaluation, test: SetEvaluation | None, detector: Detector,
    steps: tuple[CccpStep, ...],
) -> ClassSummary:  # fmt: skip
    voc = test.voc.classes[name] if test is not None and test.voc is not None else None
    located = train.corloc.classes[name] if train.corloc is not None else None
    shown = test if test is not None else train
    data = context.settings.data
    records = {record.id: record for record in context.data.records[data.train_set if test is None else data.test_set]}
    detections = shown.detections[name]
    order = detections.order()
    right, wrong = (order, order[:0]) if voc is None else (voc.order[voc.tp], voc.order[voc.fp])
    result = provenance_value(detector, "result")
    return ClassSummary(
        name=name,
        ap_11point=voc.ap_11point if voc else None,
        ap_area=voc.ap_area if voc else None,
        image_ap=test.image_ap[name] if test else None,
        npos=voc.npos if voc else None,
        corloc=located.corloc if located else None,
        train_image_ap=train.image_ap[name],
        C=provenance_value(detector, "result", "C"),
        duality_gap=result.get("duality_gap"),
        averaged=result.get("averaged_models", 0),
        steps=steps,
        curve=Curve(voc.recall, voc.precision) if voc and len(voc.recall) else None,
        best=_examples(right, detections, records, shown.known_truth, name, EXAMPLES),
        false_positives=_examples(wrong, detections, records, shown.known_truth, name, EXAMPLES),
        misses=_misses(context, name, train),
        hits=int(located.hits.sum()) if located else None,
        windowless=int((located.windows < 0).sum()) if located else 0,
    )


def _examples(
    indices: Iterable[int], detections: Detections, records: dict[str, ImageRecord], truth: Any, name: str,
    most: int | None = None,
) -> tuple[Example, ...]:  # fmt: skip
    """Return examples of detections, at most one of each picture."""
    first_of: dict[str, int] = {}
    for index in indices:
        if most is not None and len(first_of) == most:
            break
        first_of.setdefault(detections.image_ids[index], int(index))
    return tuple(_example(index, detections, records[image_id], truth, name) for image_id, index in first_of.items())


def _example(index: int, detections: Detections, record: ImageRecord, truth: Truth | None, name: str) -> Example:
    """Return a detection with the annotated objects of its picture."""
    known = {other: pictures for other, pictures in (truth or {}).items() if record.id in pictures}
    boxes = {other: pictures[record.id].boxes for other, pictures in known.items()}
    return Example(
        id=record.id,
        pixels=record.pixels,
        box=detections.boxes[index],
        score=float(detections.scores[index]),
        truth=boxes.get(name),
        others={other: objects for other, objects in boxes.items() if other != name and len(objects)},
    )


def _misses(context: RunContext, name: str, train: SetEvaluation) -> tuple[Example, ...]:
    """Return the positive training pictures whose best window misses, by decreasing score."""
    if train.corloc is None:
        return ()
    located, detections = train.corloc.classes[name], train.detections[name]
    missed = located.windows[~located.hits & (located.windows >= 0)]
    records = {record.id: record for record in context.data.records[context.settings.data.train_set]}
    return _examples(
        missed[np.argsort(-detections.scores[missed], kind="stable")], detections, records, train.known_truth, name
    )
