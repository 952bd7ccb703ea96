"""`lapsvm threshold`: from which probability a picture of a run is not ok."""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lapsvm.errors import InputError, OptionError, StageError
from lapsvm.settings import Range

from ..cli.answer import Outcome
from ..cli.parameters import add_verb
from ..settings.option import Option
from ..settings.options import RUN_FOLDER, panel

if TYPE_CHECKING:
    from lapsvm.detection.alarms import AlarmThreshold
    from lapsvm.evaluation.tables import Row


@add_verb("threshold", *panel(
    "False alarms",
    RUN_FOLDER,
    Option("max_false_alarms", "--max-false-alarms", float, "The largest share of pictures of no class that may raise "
           "an alarm.", default=0.05, rule=Range(0, 1, above=True, below=True)),
))  # fmt: skip
def threshold(options: dict[str, Any]) -> Outcome:
    """From which probability a picture is not ok, so that few good pictures raise a false alarm; `predict` uses it.

    Example: lapsvm threshold --out RUN --max-false-alarms 0.05
    """
    from lapsvm.detection.alarms import AlarmThreshold, choose_threshold, model_hash

    from ..context import RunContext
    from ..results.alarms import calibrated_detectors, known_held_out, run_verdicts, tested_detections
    from ..results.whole_pictures import learn_whole_pictures
    from ..run.groups import n_groups

    context = RunContext.opened(options["out"], "threshold", options["root"], quiet=options["quiet"])
    wanted = options["max_false_alarms"]
    with context.run.lock("lapsvm threshold"):
        detectors = calibrated_detectors(context.stored)
        held_out = known_held_out(context.run, detectors)
        tested = tested_detections(context.stored)
        alone = run_verdicts(context.stored, tested, held_out, detectors)
        pictures = learn_whole_pictures(context.stored, held_out, context.reporter)
        verdicts = run_verdicts(context.stored, tested, held_out, detectors, pictures) if pictures.fitted else alone
        known = verdicts.held_out
        if not known.is_ok.any():
            raise StageError(f"threshold needs training pictures of no class, got none; {_FOLDERS}.")
        groups = known.groups(context.stored, context.stored.train_set)
        try:
            probability = choose_threshold(known.best[known.is_ok], wanted, groups[known.is_ok])
        except InputError as error:
            raise OptionError(f"option --max-false-alarms: {error}") from None
        alarm = AlarmThreshold(
            probability,
            wanted,
            {name: model_hash(detector) for name, detector in detectors.items()},
            known.shares(probability, groups),
            verdicts.tested_shares(context.stored, probability),
            pictures.stored(context.run, detectors),
        )
        text = alarm.as_text(list(detectors.values()))
        context.run.write(context.run.threshold_file, text)
    figures = {"verdicts": verdicts.any_class(), "best_windows": alone.any_class()}
    if not context.reporter.quiet:
        _print(alarm, n_groups(groups, known.is_ok))
        _print_figures(figures, list(alarm.pictures))
    context.reporter.say(
        f"stored in {context.run.threshold_file}: predict --model {context.run.path} uses it, and lapsvm report writes "
        "it into the page"
    )
    next_words = ("lapsvm", "report", "--out", str(context.run.path.resolve()))
    content = {key: value for key, value in json.loads(text).items() if key != "pictures"}
    return Outcome({"threshold": context.run.threshold_file}, {**content, "any_class": figures}, next_words)


_FOLDERS = "they lie in a folder called good, ok, normal or background, and a table gives them no label"


def _print(alarm: "AlarmThreshold", n_groups: int) -> None:
    """Print how many pictures of each kind raise an alarm, and the rule, which `n_groups` of no class made."""
    from lapsvm.detection.alarms import OK, least_share

    from ..results.tables import print_rows

    columns = {"held out": alarm.held_out, **({"test set": alarm.tested} if alarm.tested else {})}
    titles = {kind: "of no class" if kind == OK else kind for kind in alarm.held_out}
    rows = [[title, *(str(of.get(kind, "none")) for of in columns.values())] for kind, title in titles.items()]
    count = alarm.held_out[OK].of
    who, grouped = (f"{count:,}", "") if n_groups == count else (f"{n_groups:,} groups", f", in {n_groups:,} groups,")
    rule = (
        f"a picture raises an alarm if a class has a probability of at least {alarm.probability:.3g}; of new pictures "
        f"like the {count:,} of no class{grouped} at most {100 * alarm.max_false_alarms:g} % will ({who} can promise "
        f"{100 * least_share(n_groups):g} % or more)"
    )
    print_rows("pictures that raise an alarm, with intervals at 95 %", ["pictures", *columns], rows, rule,
               has_means=False)  # fmt: skip


def _print_figures(figures: "Mapping[str, Mapping[str, Row]]", classes: Sequence[str]) -> None:
    """Print how well verdicts separate pictures of a class from those of none, beside those of best windows alone."""
    from ..results.tables import TITLES, print_rows

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
_ALONE = "best windows alone decide: whole pictures add nothing, are too few, or have no features"
