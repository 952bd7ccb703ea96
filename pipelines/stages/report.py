"""Stage 6: write the page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np

from lapsvm.catalog import ImageRecord
from lapsvm.detection import Detector
from lapsvm.detection.provenance import provenance_value
from lapsvm.errors import DataError
from lapsvm.features import open_shards
from lapsvm.report import (
    CccpStep,
    ClassSummary,
    Contents,
    Curve,
    Findings,
    LabelCounts,
    NextStep,
    RunSummary,
    SetSummary,
    next_steps,
    write_page,
)
from lapsvm.report.misses import by_kind
from lapsvm.report.next_steps import SCENE

from ..fitting.history import read_history
from ..fitting.mean_probe import choice_warnings, scene_warnings
from ..results.detectors import HeadOfClass, trained_classes
from ..results.evaluation import SetEvaluation, best_scores, evaluate_set
from ..results.figures.set_entry import set_entry, stored_entry
from ..results.held_out import HeldOut, read_held_out
from ..results.page_examples import ShownSet, by_id, class_examples, disagreements, median_area, misses, shown_set
from ..results.verified import verified_classes, verified_sentences
from ..run.context import RunContext
from ..run.dataset import label_vector
from ..run.settings import Settings
from ..shards.importing import imported_counts
from ..shards.jobs import left_out

_LOSSES = {
    "latent_svm": "hinge",
    "mi_svm": "squared hinge",
    "wsddn": "log loss",
    "oicr": "log loss",
}
"""Learner without a rank loss -> its loss, for the page."""


def run(context: RunContext) -> None:
    """Write RUN/page/index.html."""
    detectors = trained_classes(context, "report")
    sets = {name: evaluate_set(context, name) for name in context.data.records}
    context.save_other_time()
    with context.timed("report"):
        contents = _contents(context, sets, detectors)
        context.run.files.claim([context.run.page])
        write_page(context.run.page, contents)
    context.reporter.say(f"page: {context.run.page}")


def class_findings(context: RunContext) -> list[Findings]:
    """Return what the rules for next steps know of the classes of a finished run, in their order."""
    sets = {name: evaluate_set(context, name) for name in context.data.records}
    return _gathered(context, sets, trained_classes(context, "report")).findings


@dataclass(frozen=True, eq=False)
class _Gathered:
    """What the page shows of all classes: figures by set, and one entry for each class."""

    figures: dict[str, Any]
    summary: RunSummary
    sources: "list[_ClassSources]"
    classes: tuple[ClassSummary, ...]
    findings: list[Findings]


def _gathered(
    context: RunContext, sets: dict[str, SetEvaluation], detectors: Mapping[str, Detector | HeadOfClass]
) -> _Gathered:
    figures = {name: stored_entry(context, name, of) or set_entry(context, name, of) for name, of in sets.items()}
    steps = _cccp_steps(context)
    sources = [_sources(context, name, sets, detectors[name]) for name in context.data.classes]
    classes = tuple(_class_result(source, steps.get(source.name, ())) for source in sources)
    summary = _summary(context, sets)
    data = context.settings.data
    sizes = _sizes(context, data.test_set if data.test_set in sets else data.train_set)  # as `shown_set` chooses
    areas = [median_area(source.shown, sizes) for source in sources]
    found = [
        replace(_findings(context, source, of_class, summary, figures), area=area)
        for source, of_class, area in zip(sources, classes, areas, strict=True)
    ]
    return _Gathered(figures, summary, sources, classes, found)


def _contents(
    context: RunContext, sets: dict[str, SetEvaluation], detectors: Mapping[str, Detector | HeadOfClass]
) -> Contents:
    gathered = _gathered(context, sets, detectors)
    missing = [left_out(context.run.shards(name), context.data.records[name]) for name in sets]
    actions = next_steps(gathered.findings, options_in_use(context.settings))
    warnings = [_warnings(source, actions) for source in gathered.sources]
    return Contents(
        gathered.summary,
        gathered.classes,
        skipped=context.data.skipped,
        left_out=dict.fromkeys(chain.from_iterable(missing), "cannot be read whole"),
        warnings=(*_imported(context), *_partial_sets(sets), *chain.from_iterable(warnings)),
        figures=gathered.figures,
        reliability={
            name: calibration.reliability
            for name in context.data.classes
            if (calibration := detectors[name].calibration) is not None and calibration.reliability is not None
        },
        next_steps=actions,
        verified=tuple(_verified(context, sets)),
    )


def _verified(context: RunContext, sets: Mapping[str, SetEvaluation]) -> list[str]:
    """Return how many boxes are right as a person says, or how to look."""
    has_boxes = any(entry.truth is not None for entry in sets.values())
    return verified_sentences(context, verified_classes(context), has_boxes=has_boxes)


@dataclass(frozen=True, eq=False)
class _ClassSources:
    """What the page says of a class comes from these; `shown` are unseen pictures if there are any."""

    name: str
    detector: Detector | HeadOfClass
    train: SetEvaluation
    test: SetEvaluation | None
    held_out: HeldOut | None
    seen: ShownSet
    shown: ShownSet


def _warnings(source: _ClassSources, actions: Sequence[NextStep]) -> list[str]:
    """Return warnings on the data of a class, but for what a next step says in other words."""
    result = provenance_value(source.detector, "result")
    is_listed = any(source.name in dict(step.classes) for step in actions if step.finding == SCENE)
    return [*([] if is_listed else scene_warnings(source.name, result)), *choice_warnings(source.name, result)]


def _sources(
    context: RunContext, name: str, sets: dict[str, SetEvaluation], detector: Detector | HeadOfClass
) -> _ClassSources:
    data = context.settings.data
    held_out = read_held_out(context.run, name)
    parts = {set_name: (set_name, of, by_id(context.data.records[set_name])) for set_name, of in sets.items()}
    train, test = parts[data.train_set], parts.get(data.test_set)
    return _ClassSources(
        name,
        detector,
        sets[data.train_set],
        sets.get(data.test_set),
        held_out,
        shown_set(name, train, None, None),
        shown_set(name, train, test, held_out),
    )


def _findings(
    context: RunContext, source: _ClassSources, result: ClassSummary, summary: RunSummary, figures: dict[str, Any]
) -> Findings:
    """Return what the rules for next steps know of a class."""
    data, name = context.settings.data, source.name
    labels = summary.train.labels[name]
    image_ap, chance = unseen_image_ap(name, source.test, context.data.records.get(data.test_set, ()), source.held_out)
    positive = None if source.held_out is None else source.held_out.agreement[source.held_out.y > 0]
    windows = figures[data.train_set].get("windows", {"classes": {}})["classes"].get(name, {})
    return Findings(
        name,
        labels.positive,
        labels.negative,
        image_ap=image_ap,
        chance=chance,
        mean_probe_ap=provenance_value(source.detector, "result").get("mean_probe_image_ap"),
        corloc=result.corloc,
        misses={kind: len(examples) for kind, examples in by_kind(result.misses).items()},
        agreement=None if positive is None or not len(positive) else float(np.median(positive)),
        window_recall=windows.get("recall_50"),
        extractors=summary.extractors,
    )


def _sizes(context: RunContext, set_name: str) -> dict[str, tuple[int, int]]:
    """Return picture -> height and width, of one set."""
    return {
        image_id: (int(height), int(width))
        for shard in open_shards(context.run.shards(set_name))
        for image_id, (height, width) in zip(shard.image_ids, shard.sizes.tolist(), strict=True)
    }


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
    loss = settings.train.loss if settings.train.learner == "latent_rank_svm" else _LOSSES[settings.train.learner]
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


def _class_result(source: _ClassSources, steps: tuple[CccpStep, ...]) -> ClassSummary:
    name, train, test, detector = source.name, source.train, source.test, source.detector
    voc = test.voc.classes[name] if test is not None and test.voc is not None else None
    located = train.corloc.classes[name] if train.corloc is not None else None
    result = provenance_value(detector, "result")
    return ClassSummary(
        name=name,
        ap_11point=voc.ap_11point if voc else None,
        ap_area=voc.ap_area if voc else None,
        image_ap=test.image_ap[name] if test else None,
        npos=voc.npos if voc else None,
        corloc=located.corloc if located else None,
        train_image_ap=train.image_ap[name],
        C=None if isinstance(detector, HeadOfClass) else provenance_value(detector, "result", "C"),
        duality_gap=result.get("duality_gap"),
        steps=steps,
        curve=Curve(voc.recall, voc.precision) if voc and len(voc.recall) else None,
        misses=misses(source.seen, train),
        disagreements=disagreements(source.seen, source.held_out),
        hits=int(located.hits.sum()) if located else None,
        **class_examples(source.shown),
    )


def options_in_use(settings: Settings) -> set[str]:
    """Return the options of `lapsvm.report.RULES` that a run has already."""
    windows, features, train, detect = settings.windows, settings.features, settings.train, settings.detect
    in_use = {
        "--recipe best": settings.refine.rounds > 0 and features.contrast > 0,
        "--set windows.max_area=0.5": windows.max_area <= 0.5,
        "--set train.top=20": train.top >= 20,
        "--set detect.box_voting=0.7": detect.box_voting > 0,
        "--sizes 640,960": len(features.sizes) > 1,
        "--set windows.mode=quality": windows.mode == "quality",
        "--max-windows 4000": windows.max_windows >= 4000 or windows.max_windows == 0,
    }
    return {option for option, is_used in in_use.items() if is_used}


def unseen_image_ap(
    name: str, test: SetEvaluation | None, records: Sequence[ImageRecord], held_out: HeldOut | None
) -> tuple[float | None, float | None]:
    """Return the image AP of unseen pictures and that of a random order; None where it is not known.

    Parameters
    ----------
    name : str
    test : SetEvaluation or None
        Of the test set, if there is one.
    records : sequence of ImageRecord
        The pictures of the test set.
    held_out : HeldOut or None
        Used without a test set.
    """
    if test is None:
        return (None, None) if held_out is None else (held_out.image_ap, held_out.chance)
    best = best_scores(test.detections[name])
    labels = label_vector([record for record in records if record.id in best], name)
    labels = labels[labels != 0]
    return test.image_ap[name], float((labels > 0).mean()) if len(labels) else None
