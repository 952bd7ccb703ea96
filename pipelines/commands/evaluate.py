"""`lapsvm evaluate`: the figures of a run, or of result files of any program."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lapsvm.errors import OptionError
from lapsvm.settings import SHARE_ABOVE_0

from ..cli.answer import STDOUT, Outcome
from ..cli.parameters import add_verb
from ..cli.parsing import check_in_folder, chosen_metrics
from ..settings.option import Option, Several
from ..settings.options import options_of, panel
from .stages import run_verb

if TYPE_CHECKING:
    from .result_files import ResultFigures

FORMS = {
    "--out": ("out", "root", "boxes", "metrics", "precision", "json_file"),
    "--root": ("root", "set_name", "results", "iou", "json_file"),
    "--coco": ("coco", "results", "metrics", "iou", "json_file"),
}
"""The option that tells a form of the command from the others, and the options of that form."""
USAGE = "evaluate needs --out RUN, or --root VOCDIR and --results DIR, or --coco FILE and --results FILE"


@add_verb(
    "evaluate",
    *panel("A run", Option("out", "--out", Path, "The run folder: its own sets, at an IoU of 0.5, into its "
                           "evaluation.json.")),
    *panel(
        "Result files of any program",
        Option("root", "--root", Path, "Ground truth in VOC layout; with --out, the folder of the data, if it has "
               "moved."),
        Option("set_name", "--set", str, "The set of --root; test by default."),
        Option("coco", "--coco", Path, "Ground truth as a COCO file, in place of --root."),
        Option("results", "--results", Path, "A folder of comp3/comp4 files for --root, a COCO file for --coco; given "
               "twice, their differences are printed, too.", several=Several.REPEATED),
        Option("iou", "--iou", float, "The least overlap of a true positive; 0.5 by default.", rule=SHARE_ABOVE_0),
        Option("json_file", "--json", Path, "The file for the figures; without a name, and with --out, one JSON object "
               "on standard output: what was made and where, figures, the next command."),
    ),
    *panel("Figures", Option("precision", "--precision", float, "Print thresholds for this precision of boxes; 0.9 in "
                             "evaluation.json by default.", rule=SHARE_ABOVE_0)),
)  # fmt: skip
def evaluate(options: dict[str, Any]) -> Outcome:
    """Stage 5: the figures of a run; or of any result files against any ground truth, with intervals.

    Three forms: lapsvm evaluate --out RUN, lapsvm evaluate --root VOCDIR --results DIR, lapsvm evaluate --coco FILE
    --results FILE.

    Example: lapsvm evaluate --root VOC2007 --set test --results results --json figures.json
    """
    if _chosen_form(options) == "--out":
        names = ("out", "metrics", "precision", "quiet", "root", "boxes")
        return run_verb({name: options[name] for name in names}, "evaluate")
    return _evaluate_files(options)


def _chosen_form(options: Mapping[str, Any]) -> str:
    """Return the form of the command that the options give; OptionError for none, or a mixture."""
    sources = [option for option in options_of("evaluate") if option.panel != "Machine"]
    given = [option for option in sources if options[option.name] is not None]
    form = next((form for form in FORMS if any(option.flag == form for option in given)), None)
    if form is None:
        raise OptionError(f"{USAGE}.")
    for option in given:
        is_second = form == "--out" and option.name == "json_file" and options["json_file"] != STDOUT
        if option.name not in FORMS[form] or is_second:  # figures of a run have their file
            raise OptionError(f"option {option.flag} does not go with {form}: {USAGE}.")
    if form != "--out" and options["results"] is None:
        raise OptionError(f"option {form} needs --results: {USAGE}.")
    return form


def _evaluate_files(options: Mapping[str, Any]) -> Outcome:
    """Evaluate result files of any program, in VOC layout or as COCO files."""
    from lapsvm.evaluation import write_json

    from ..compare.output import print_comparison
    from ..figures.tables import print_figures
    from ..run.progress import Reporter
    from .result_files import compared

    json_file = None if options["json_file"] == STDOUT else options["json_file"]
    if json_file is not None:
        check_in_folder("--json", json_file)
    files = [_figures(options, results) for results in options["results"]]
    table = files[0].table if len(files) == 1 else compared(files, Reporter(options["quiet"]))
    if json_file is not None:
        write_json(json_file, table)
    if not options["quiet"]:
        for file in files:
            title = f"{file.name}, IoU {options['iou'] or 0.5:g}"
            print_figures(file.figures, title, missing=file.missing, with_intervals=True)
        if len(files) > 1:
            print_comparison(table)
    return Outcome({} if json_file is None else {"figures": json_file}, table)


def _figures(options: Mapping[str, Any], results: Path) -> "ResultFigures":
    """Return the figures of one result file or folder."""
    from .result_files import figures_of_coco, figures_of_folder

    iou, quiet = options["iou"] or 0.5, options["quiet"]
    if options["coco"] is None:
        return figures_of_folder(options["root"], options["set_name"] or "test", results, iou, quiet)
    return figures_of_coco(options["coco"], results, iou, chosen_metrics(options["metrics"] or "voc"), quiet)
