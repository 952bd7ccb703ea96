"""`lapsvm threshold`: from which probability a picture of a run is not ok."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lapsvm.errors import InputError, MissingError, ModelFileError, OptionError, StageError
from lapsvm.settings import Range

from ..cli.answer import Outcome
from ..cli.parameters import add_verb
from ..settings.option import Option
from ..settings.options import RUN_FOLDER, panel

_FOLDERS = "they lie in a folder called good, ok, normal or background, and a table gives them no label"
_RULES = {"verdicts": "decisions", "best_windows": "best windows"}
_SETS = {"held_out": "held out", "tested": "test set"}

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lapsvm.arrays import Index
    from lapsvm.detection import Detector
    from lapsvm.evaluation.figures import Row
    from lapsvm.inspection.promises import Promise
    from lapsvm.inspection.threshold import AlarmThreshold

    from ..context import RunContext, StoredRun
    from ..inspection.probabilities import PictureProbabilities
    from ..inspection.unknown import LearnedGood
    from ..inspection.whole_pictures import PictureRules
    from ..run.folder import RunFolder
    from ..run.progress import Reporter

    BySet = Mapping[str, Mapping[str, Row]]  # rule of the decision -> set -> measure -> figure


@add_verb("threshold", *panel(
    "False alarms",
    RUN_FOLDER,
    Option("max_false_alarms", "--max-false-alarms", float, "The largest share of pictures of no class that may raise "
           "an alarm; by default that of the run's last threshold, or 0.05.", rule=Range(0, 1, above=True, below=True)),
    Option("confidence", "--confidence", float, "The probability with which this threshold keeps that share; by "
           "default it is kept on average over training sets.", rule=Range(0, 1, above=True, below=True)),
    Option("plot", "--plot", Path, "An SVG file for the histograms of held-out pictures, good and defective, with the "
           "threshold as a line."),
    Option("onnx", "--onnx", Path, "An exported file, to choose and write a threshold of its own."),
    Option("good", "--good", Path, "With --onnx: a folder of new good pictures; by default the test set's."),
))  # fmt: skip
def threshold(options: dict[str, Any]) -> Outcome:
    """From which probability a picture is not ok, so that few good pictures raise a false alarm; `predict` uses it.

    Example: lapsvm threshold --out RUN --max-false-alarms 0.05
    """
    from ..context import RunContext

    if options["good"] is not None and options["onnx"] is None:
        raise OptionError("option --good is for good pictures that a file of --onnx is asked for.")
    if options["plot"] is not None and options["onnx"] is not None:
        raise OptionError("option --plot draws the pictures of the run, which --onnx does not choose on.")
    if options["plot"] is not None and options["plot"].suffix.lower() != ".svg":
        raise OptionError(f"option --plot must name an SVG file, such as scores.svg, got {str(options['plot'])!r}.")
    context = RunContext.opened(options["out"], "threshold", options["root"], quiet=options["quiet"])
    if options["onnx"] is not None:
        from .exporting.onnx_threshold import choose_of_file

        return choose_of_file(context, options["onnx"], options["good"], _promise(options, _last(context.run)))
    return _of_run(context, options)


def _of_run(context: "RunContext", options: Mapping[str, Any]) -> Outcome:
    """Choose the threshold of a run on held-out pictures, store it, and print the alarms."""
    from lapsvm.evaluation.figures import interval_row, values
    from lapsvm.files import write_atomically
    from lapsvm.report.alarms import histograms_svg

    from ..inspection.decisions import calibrated_detectors, run_record, set_groups
    from ..inspection.unknown import learn_good_pictures
    from ..inspection.whole_pictures import HELD_OUT
    from ..run.groups import n_groups
    from ..stages.registry import run_stage
    from ..verdicts.taught import FALSE_ALARM

    stored, run = context.stored, context.run
    with run.lock("lapsvm threshold"):
        detectors = calibrated_detectors(stored)
        rules, every = _compared(stored, detectors, context.reporter)
        taught = {one.picture: one.said for one in context.taught.pictures}
        compared = {rule: _without(of_rule, taught) for rule, of_rule in every.items()}
        sets = compared["verdicts"]
        groups = set_groups(stored, sets)
        before = _last(run)
        promise = _promise(options, before)
        record = None if detectors else run_record(stored)
        alarm = _chosen(sets, groups, promise, detectors, record)
        good = [one for one, said in taught.items() if said == FALSE_ALARM and one in stored.training_pictures]
        learned = learn_good_pictures(stored, sets, groups, promise, context.open_extractor(), context.reporter, good)
        if learned is not None:
            alarm = _beside_unknown(alarm, sets, groups, learned)
        alarm = replace(alarm, pictures=rules.stored(run))
        text = alarm.as_text({name: detector.calibration for name, detector in detectors.items()})
        if options["plot"] is not None:
            write_atomically(options["plot"], histograms_svg(alarm.histograms).encode())
        _store(run, text, learned)
    figures = {rule: _any_class(of_rule, groups, stored.settings.seed) for rule, of_rule in compared.items()}
    if not context.reporter.quiet:
        _print(alarm, n_groups(groups[HELD_OUT], sets[HELD_OUT].is_ok))
        if figures["verdicts"]:
            _print_figures(figures, list(alarm.pictures), rules.alone)
    for sentence in (*_changes(before, alarm), *_taught_sentences(taught, every["verdicts"][HELD_OUT], alarm)):
        context.reporter.say(sentence)
    context.reporter.say(f"stored in {run.threshold_file}: predict --model {run.path} uses it")
    following: Sequence[str] = ("lapsvm", "report", "--out", str(run.path.resolve()))
    if run.page.is_file() and all(run.has_shards(name) for name in stored.data.records):
        with run.lock("lapsvm threshold"):
            run_stage("report", context)
        following = ()
    known = {key: value for key, value in json.loads(text).items() if key != "pictures"}
    known["before"] = before and {"probability": before.probability, "max_false_alarms": before.max_false_alarms}
    content = {**known, "any_class": _entries(figures, values), "any_class_intervals": _entries(figures, interval_row)}
    plot = {} if options["plot"] is None else {"plot": options["plot"]}
    return Outcome({"threshold": run.threshold_file, **plot}, content, following)


def _compared(
    stored: "StoredRun", detectors: "Mapping[str, Detector]", reporter: "Reporter"
) -> "tuple[PictureRules, dict[str, Mapping[str, PictureProbabilities]]]":
    """Return the rules of decisions, and the probabilities of the pictures of each set by them and by best windows.

    Good pictures alone have no rule, and no probabilities.
    """
    from ..inspection.decisions import good_sets, known_detections, known_held_out
    from ..inspection.whole_pictures import PictureRules, learn_whole_pictures

    best = PictureRules(detectors, known_held_out(stored.folder, detectors))
    if not detectors:
        return best, {"verdicts": good_sets(stored)}
    tested, records = known_detections(stored), stored.data.records.get(stored.settings.data.test_set, ())
    rules = learn_whole_pictures(stored, best, reporter)
    return rules, {"verdicts": rules.sets(tested, records), "best_windows": best.sets(tested, records)}


def _last(run: "RunFolder") -> "AlarmThreshold | None":
    """Return the threshold that the run had; None without one that can be read."""
    from lapsvm.inspection.threshold import AlarmThreshold

    try:
        return AlarmThreshold.load(run.threshold_file)
    except (MissingError, ModelFileError):
        return None


def _promise(options: Mapping[str, Any], before: "AlarmThreshold | None") -> "Promise":
    """Return the promise of the command line; by default the one that was made before."""
    from lapsvm.inspection.promises import Promise

    from ..inspection.decisions import USUAL_SHARE

    share, confidence = options["max_false_alarms"], options["confidence"]
    if share is None and before is not None:
        return Promise(before.max_false_alarms, confidence or before.confidence)
    return Promise(share or USUAL_SHARE, confidence)


def _without(
    sets: "Mapping[str, PictureProbabilities]", taught: Mapping[str, str]
) -> "dict[str, PictureProbabilities]":
    """Return sets of pictures without the taught ones: they were chosen for their decisions, and promise nothing."""
    import numpy as np

    from ..inspection.whole_pictures import HELD_OUT

    pictures = sets[HELD_OUT]
    return {**sets, HELD_OUT: pictures.among(np.array([one not in taught for one in pictures.ids]))}


def _changes(before: "AlarmThreshold | None", alarm: "AlarmThreshold") -> list[str]:
    """Return a sentence on the threshold that was replaced, in a list; an empty list without one."""
    if before is None:
        return []
    share = f"{100 * before.max_false_alarms:g} % of false alarms"
    return [f"threshold before: {before.least}, for {share}; now: {alarm.least}"]


def _taught_sentences(
    taught: Mapping[str, str], pictures: "PictureProbabilities", alarm: "AlarmThreshold"
) -> "Iterator[str]":
    """Yield the numbers of taught pictures that alarm now by models that did not see them, by what was said."""
    from ..verdicts.taught import FALSE_ALARM, MISSED

    for said in (MISSED, FALSE_ALARM):
        rows = [taught.get(one) == said for one in pictures.ids]
        if any(rows):
            alarms = int((pictures.best[rows] >= alarm.probability).sum())
            yield f"of {sum(rows)} pictures taught as {said} {alarms} alarm now, held out; the threshold counts none"


def _chosen(
    sets: "Mapping[str, PictureProbabilities]",
    groups: "Mapping[str, Index]",
    promise: "Promise",
    detectors: "Mapping[str, Detector]",
    record: "Detector | None",
) -> "AlarmThreshold":
    """Return the threshold for a wanted false-alarm rate, with its alarm rates; `record` is of a run without class."""
    from lapsvm.detection.scoring import model_hash, recorded_scoring
    from lapsvm.inspection.threshold import AlarmThreshold, choose_threshold

    from ..inspection.whole_pictures import HELD_OUT, TESTED

    held_out = sets[HELD_OUT]
    if not held_out.is_ok.any():
        raise StageError(f"threshold needs training pictures of no class, got none; {_FOLDERS}.")
    try:
        good = held_out.best[held_out.is_ok], promise.share, groups[HELD_OUT][held_out.is_ok]
        probability = choose_threshold(*good, promise.confidence)
    except InputError as error:
        raise OptionError(f"option --max-false-alarms: {error}") from None
    hashes = {name: model_hash(detector) for name, detector in detectors.items()}
    rates = {key: pictures.alarm_rates(probability, groups[key]) for key, pictures in sets.items()}
    scoring = recorded_scoring(record or next(iter(detectors.values())))
    known = None if record is None else record.provenance
    return AlarmThreshold(
        probability, promise.share, hashes, rates[HELD_OUT], rates.get(TESTED, {}), confidence=promise.confidence,
        scoring=scoring, histograms=held_out.histograms(probability), record=known,
    )  # fmt: skip


def _beside_unknown(
    alarm: "AlarmThreshold",
    sets: "Mapping[str, PictureProbabilities]",
    groups: "Mapping[str, Index]",
    learned: "LearnedGood",
) -> "AlarmThreshold":
    """Return the threshold of known classes beside that of what is unknown, with the alarm rates of both."""
    from lapsvm.inspection.threshold import UnlikeGood

    from ..inspection.whole_pictures import HELD_OUT, TESTED

    measured = {key: replace(pictures, distances=learned.distances[key]) for key, pictures in sets.items()}
    limits = learned.probability, learned.distance
    rates = {key: pictures.alarm_rates(limits[0], groups[key], limits[1]) for key, pictures in measured.items()}
    return replace(
        alarm, probability=limits[0], unlike=UnlikeGood(limits[1], learned.memory.digest), held_out=rates[HELD_OUT],
        tested=rates.get(TESTED, {}), histograms=measured[HELD_OUT].histograms(*limits),
    )  # fmt: skip


def _store(run: "RunFolder", text: str, learned: "LearnedGood | None") -> None:
    """Write the threshold, and the memory of good pictures that belongs to it."""
    if learned is None:
        run.remove([path for path in [run.good_pictures] if path.is_file()])
    else:
        run.files.claim([run.good_pictures])
        learned.memory.save(run.good_pictures)
    run.write(run.threshold_file, text)


def _print(alarm: "AlarmThreshold", n_groups: int) -> None:
    """Print the alarms among pictures of each kind, and the rule, which `n_groups` groups of good pictures made."""
    from lapsvm.inspection.decision import OK
    from lapsvm.inspection.promises import least_share

    from ..figures.tables import print_rows

    columns = {"held out": alarm.held_out, **({"test set": alarm.tested} if alarm.tested else {})}
    titles = {kind: "of no class" if kind == OK else kind for kind in alarm.held_out}
    rows = [[title, *(str(of.get(kind, "none")) for of in columns.values())] for kind, title in titles.items()]
    of = f"{n_groups:,} groups" if n_groups < alarm.held_out[OK].of else f"{n_groups:,}"
    least = f"{of} can promise {100 * least_share(n_groups, alarm.confidence):g} % or more"
    rule = f"a picture raises an alarm from {alarm.least} on. {alarm.promise} ({least})"
    print_rows("pictures that raise an alarm, with intervals at 95 %", ["pictures", *columns], rows, rule,
               has_means=False)  # fmt: skip


def _any_class(
    sets: "Mapping[str, PictureProbabilities]", groups: "Mapping[str, Index]", seed: int
) -> "dict[str, Row]":
    """Return how well pictures of a class are separated from good ones, for the sets that have both."""
    from lapsvm.evaluation import Draws, Figures
    from lapsvm.evaluation.measures import Pictures

    rows = {}
    for name, pictures in sets.items():
        if measured := pictures.measured:
            draws = Draws.of(pictures.ids, seed, groups[name])
            rows[name] = Figures.of(name, Pictures.TEST, {}, draws, measured).any_class
    return rows


def _entries(figures: "BySet", content: "Callable[[Row], Mapping[str, Any]]") -> dict[str, dict[str, Any]]:
    """Return the values or intervals of figures."""
    return {name: {set_name: content(row) for set_name, row in of_sets.items()} for name, of_sets in figures.items()}


def _print_figures(figures: "BySet", classes: Sequence[str], alone: Mapping[str, str]) -> None:
    """Print how well decisions separate pictures of a class from good ones, beside decisions by best windows alone.

    `alone` has the reason for each class in which best windows alone decide.
    """
    from lapsvm.evaluation.measures import MEASURES

    from ..figures.tables import figure_text, print_rows

    columns = [(set_name, MEASURES[key]) for set_name, row in figures["verdicts"].items() for key in row]
    titles = [f"{measure.title}, {_SETS[set_name]}" for set_name, measure in columns]
    rows = [
        [_RULES[name], *(figure_text(of_sets[set_name][measure.key]) for set_name, measure in columns)]
        for name, of_sets in figures.items()
    ]
    notes = [f"whole pictures count beside best windows for {', '.join(classes)}"] if classes else []
    for reason in dict.fromkeys(alone.values()):
        of_reason = ", ".join(name for name, why in alone.items() if why == reason)
        notes.append(f"best windows alone decide for {of_reason}: {reason}")
    print_rows(
        "decisions: pictures of a class against those of none", ["by", *titles], rows, "; ".join(notes), has_means=False
    )
