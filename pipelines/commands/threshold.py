"""`lapsvm threshold`: from which probability a picture of a run is not ok."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from lapsvm.detection.alarms import OK, AlarmThreshold, choose_threshold, model_hash
from lapsvm.errors import InputError, OptionError
from lapsvm.evaluation.tables import Row

from ..cli.answer import Outcome
from ..results.alarms import calibrated_detectors, known_held_out, run_verdicts
from ..results.tables import TITLES, print_rows
from ..results.whole_pictures import learn_whole_pictures
from ..run.context import RunContext


def choose_run_threshold(options: Mapping[str, Any]) -> Outcome:
    """Choose the threshold on held-out training pictures, store it beside the models, and print what it does.

    Parameters
    ----------
    options : mapping
        Of the verb ``threshold``.

    Raises
    ------
    StageError
        If the run is not trained, a class has no held-out scores, or the test set has no detections.
    OptionError
        If the pictures of no class are too few for the share of false alarms, or a class is called "ok".
    """
    context = RunContext.opened(options["out"], "threshold", options["root"], quiet=options["quiet"])
    wanted = options["max_false_alarms"]
    with context.run.lock("lapsvm threshold"):
        detectors = calibrated_detectors(context.stored)
        held_out = known_held_out(context.run, detectors)
        alone = run_verdicts(context.stored, held_out, detectors)
        pictures = learn_whole_pictures(context.stored, held_out, context.reporter)
        verdicts = run_verdicts(context.stored, held_out, detectors, pictures) if pictures.fitted else alone
        known, tested = verdicts.held_out, verdicts.tested
        try:
            probability = choose_threshold(known.best[known.is_ok], wanted)
        except InputError as error:
            raise OptionError(f"option --max-false-alarms: {error}") from None
        alarm = AlarmThreshold(
            probability,
            wanted,
            {name: model_hash(detector) for name, detector in detectors.items()},
            known.shares(probability),
            {} if tested is None else tested.shares(probability),
            pictures.stored(context.run, detectors),
        )
        text = alarm.as_text(list(detectors.values()))
        context.run.write(context.run.threshold_file, text)
    figures = {"verdicts": verdicts.any_class(), "best_windows": alone.any_class()}
    if not context.reporter.quiet:
        _print(alarm)
        _print_figures(figures, list(alarm.pictures))
    context.reporter.say(f"stored in {context.run.threshold_file}: predict --model {context.run.path} uses it")
    content = {key: value for key, value in json.loads(text).items() if key != "pictures"}
    return Outcome({"threshold": context.run.threshold_file}, {**content, "any_class": figures})


def _print(alarm: AlarmThreshold) -> None:
    """Print how many pictures of each kind raise an alarm, and the rule."""
    columns = {"held out": alarm.held_out, **({"test set": alarm.tested} if alarm.tested else {})}
    titles = {kind: "of no class" if kind == OK else kind for kind in alarm.held_out}
    rows = [[title, *(str(of.get(kind, "none")) for of in columns.values())] for kind, title in titles.items()]
    count = alarm.held_out[OK].of
    rule = (
        f"a picture raises an alarm if a class has a probability of at least {alarm.probability:.3g}; of new pictures "
        f"like the {count:,} of no class at most {alarm.max_false_alarms:.1%} will ({count:,} can promise "
        f"{1 / (count + 1):.1%} or more)"
    )
    print_rows("pictures that raise an alarm, with intervals at 95 %", ["pictures", *columns], rows, rule,
               has_means=False)  # fmt: skip


def _print_figures(figures: Mapping[str, Mapping[str, Row]], classes: Sequence[str]) -> None:
    """Print how well verdicts separate pictures of a class from those of none, beside those of best windows alone."""
    keys = ("image_auroc", "image_ap")
    sets = [set_name for set_name in _SETS if set_name in figures["verdicts"]]
    titles = [f"{TITLES[key]}, {_SETS[set_name]}" for set_name in sets for key in keys]
    rows = [
        [name.replace("_", " "), *(of_sets[set_name][key] for set_name in sets for key in keys)]
        for name, of_sets in figures.items()
    ]
    note = f"whole pictures count beside best windows for {', '.join(classes)}" if classes else _ALONE
    print_rows("verdicts: pictures of a class against those of none", ["by", *titles], rows, note, has_means=False)


_SETS = {"held_out": "held out", "tested": "test set"}
_ALONE = "whole pictures add nothing, or are too few: best windows alone decide"
