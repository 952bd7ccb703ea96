"""Every option of every verb: the one table behind parameters, checks, help texts and docs/reference/options.md.

Options of settings are made from the fields of `settings`; a default is that of the setting unless the entry has one,
which only options without a setting do. This module imports next to nothing, because `lapsvm --help` reads it.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from lapsvm.settings import COUNT_FROM_1, SHARE, SHARE_ABOVE_0, Range

from .limits import MAX_DRAWS, MAX_JOBS, MAX_SEED
from .option import REQUIRED, SET, Option, Several, setting_options

DEVICES = ("auto", "cpu", "cuda")
STAGES = "run extract import train tune refine detect evaluate report"
REPEATED = Several.REPEATED

SETTINGS: dict[str, Option] = {option.field: option for option in setting_options()}
"""Dotted setting -> its option."""


def _settings(panel: str) -> Iterator[Option]:
    """Yield the options of the settings in one panel."""
    return (option for option in SETTINGS.values() if option.panel == panel)


def _panel(name: str, verbs: str, *options: Option, main: str = "") -> Iterator[Option]:
    """Yield options of one panel; an option's own verbs and main verbs go before those given here."""
    for option in options:
        yield replace(option, panel=name, verbs=option.verbs or verbs, main=option.main or main)


OPTIONS: tuple[Option, ...] = (
    *_panel(
        "Run", STAGES,
        Option("out", "--out", Path, "The run folder.", default=REQUIRED,
               verbs="run extract import train tune refine detect report verify", main="*"),
        Option("out", "--out", Path, "The run folder.", default=Path("demo-run"), verbs="demo", main="*"),
        Option("card", "--card", bool, "Also write RUN/card.md: hashes of data and models, figures, the commands that "
               "repeat them.", default=False, verbs="report", main="*"),
        Option("recipe", "--recipe", str, "auto (best with a network, plain with hog), plain, best or a file *.toml: "
               "settings that other options override. Default: auto where a run begins.",
               verbs="run extract train refine detect", main="*"),
    ),
    *_settings("Data"),
    *_settings("Windows"),
    *_panel(
        "External files", "import",
        replace(SETTINGS["windows.source.files"], name="sources", flags="", verbs="import", main="*"),
        *_settings("External files"),
    ),
    *_settings("Features"),
    *_panel(
        "Features", "run extract",
        Option("shards_from", "--shards-from", Path, "A run whose shards are copied where they fit."),
    ),
    *_settings("Objectness"),
    *_settings("Training"),
    *_settings("Refinement"),
    *_settings("Detection"),
    *_panel(
        "Detection", "predict",
        Option("max_boxes", "--max-detections", int, "The number of detections per picture and class.",
               rule=COUNT_FROM_1, default=10),
        main="*",
    ),
    *_panel(
        "A run", "evaluate",
        Option("out", "--out", Path, "The run folder: its own sets, at an IoU of 0.5, into its evaluation.json."),
        main="*",
    ),
    *_panel(
        "Result files of any program", "evaluate",
        Option("root", "--root", Path, "Ground truth in VOC layout; with --out, the folder of the data, if it has "
               "moved."),
        Option("set_name", "--set", str, "The set of --root; test by default."),
        Option("coco", "--coco", Path, "Ground truth as a COCO file, in place of --root."),
        Option("results", "--results", Path, "A folder of comp3/comp4 files for --root, a COCO file for --coco."),
        Option("iou", "--iou", float, "The least overlap of a true positive; 0.5 by default.",
               rule=SHARE_ABOVE_0),
        Option("json_file", "--json", Path, "The file for the figures; without a name, and with --out, one JSON object "
               "on standard output: what was made and where, figures, the next command."),
        main="*",
    ),
    *_panel(
        "Figures", "evaluate",
        Option("metrics", "--metrics", str, "voc, coco or voc,coco, for a run or with --coco; a run always has voc's. "
               "voc by default.", verbs="run evaluate"),
        Option("precision", "--precision", float, "Print thresholds for this precision of boxes; 0.9 in "
               "evaluation.json by default.", rule=SHARE_ABOVE_0),
        main="evaluate",
    ),
    *_panel(
        "False alarms", "threshold",
        Option("out", "--out", Path, "The run folder.", default=REQUIRED),
        Option("max_false_alarms", "--max-false-alarms", float, "The largest share of pictures of no class that may "
               "raise an alarm.", default=0.05, rule=Range(0, 1, above=True, below=True)),
        main="*",
    ),
    *_panel(
        "Comparison", "compare",
        Option("runs", "", Path, "Run folders; the first is the reference.", several=REPEATED, default=REQUIRED),
        Option("out", "--out", Path, "The folder of the comparison.", default=REQUIRED),
        Option("draws", "--draws", int, "The bootstrap draws of the pictures.", default=2000, rule=Range(1, MAX_DRAWS)),
        Option("fold_count", "--folds", int, "Train on this many folds of the training set, too.", rule=Range(2, 1000)),
        Option("seeds", "--seeds", int, "The number of foldings; with --folds.", default=1, rule=Range(1, 1000)),
        Option("first_seed", "--seed", int, "The seed of the draws and of the first folding.", default=0,
               rule=Range(0, MAX_SEED)),
        main="*",
    ),
    *_panel(
        "Prediction", "predict",
        Option("images", "", Path, "Pictures, or folders with pictures at any depth.", several=REPEATED,
               default=REQUIRED),
        Option("model", "--model", Path, "A run folder, a model file, or a folder of them.", several=REPEATED,
               default=REQUIRED),
        Option("threshold", "--threshold", float, "The least probability of a box.", rule=SHARE),
        Option("draw", "--draw", Path, "The folder for pictures with boxes: those of at least the threshold, or 0.5."),
        Option("heatmap", "--heatmap", bool, "Beside each drawing NAME.heatmap.png: where the most probable class "
               "scores; and NAME.objectness.png: what stands out, where the models record what measured it.",
               default=False),
        Option("method", "--windows", str, "The method that proposes windows, in place of the model's."),
        Option("specs", "--extractor", str, "The extractor, in place of the model's.", several=REPEATED),
        Option("skip_unreadable", "--skip-bad", bool, "Leave out pictures that cannot be read.", default=False),
        main="*",
    ),
    *_panel(
        "Export", "export",
        Option("out", "--out", Path, "The run folder.", default=REQUIRED),
        Option("to", "--to", Path, "The folder to write, empty or not there; a new file *.onnx for onnx.",
               default=REQUIRED),
        Option("format_name", "--format", str, "coco, yolo, voc, label-studio, cvat or onnx.", default=REQUIRED),
        Option("set_name", "--set", str, "The set; by default the test set, or the training set without one."),
        Option("threshold", "--threshold", float, "The least probability of a box."),
        Option("per_class", "--per-class", int, "The number of best boxes of each class."),
        Option("labelled_only", "--labelled-only", bool, "Only classes that the picture is labelled with.",
               default=False),
        Option("copy", "--copy", bool, "Copy the pictures (yolo, voc); otherwise link them.", default=False),
        Option("inputs", "--inputs", str, "What the file of onnx takes: picture (the default), or all, which are "
               "windows and thresholds too.", rule=("picture", "all")),
        Option("precision", "--precision", str, "How the network in the file of onnx computes: float32 (the default) "
               "or int8, which is faster and smaller.", rule=("float32", "int8")),
        main="*",
    ),
    *_panel(
        "Verification", "verify",
        Option("pictures", "--pictures", bool, "Compare the pictures with those the shards were made from.",
               default=False),
        Option("remove", "--remove", bool, "Remove damaged files, to be made again.", default=False),
        Option("repair", "--repair", bool,
               "Remove damaged files of every kind, and say which command makes them again.", default=False),
        main="*",
    ),
    *_panel(
        "Verdicts of a person", "review",
        Option("out", "--out", Path, "The run folder.", default=REQUIRED),
        Option("class_name", "--class", str, "The only class; all by default."),
        Option("port", "--port", int, "The port on 127.0.0.1; a free one by default.", rule=Range(1, 65535)),
        Option("no_browser", "--no-browser", bool, "Print the address, and open no browser.", default=False),
        Option("page", "--page", Path, "Write one file to mail, with the first pictures of each class, and end."),
        Option("merge", "--merge", Path, "Take the verdicts of a file, such as the page's download, or of a mended "
               "export, and end."),
        Option("accept_unchanged", "--accept-unchanged", bool, "With --merge: boxes of an export that were left as "
               "they were are right.", default=False),
        Option("verdicts", "--verdicts", Path, "Add the verdicts of a file to those of the run before.",
               verbs="run train tune refine", main="refine"),
        main="*",
    ),
    *_panel(
        "Machine", "run train tune refine",
        Option("jobs", "--jobs", int, "The number of threads; all cores by default.", rule=Range(1, MAX_JOBS),
               verbs="run extract import train tune refine detect verify review compare predict demo", main="*"),
        *_settings("Machine"),
        Option("device", "--device", str, "Where networks and passes run; auto: GPUs if all windows fit.",
               default="auto", rule=DEVICES, verbs="run extract train tune refine predict demo", main="*"),
        Option("memory", "--memory", str, "The memory for windows in training, such as 8G; 80 % of what is free by "
               "default.", verbs="run train tune refine review", main="train tune refine review"),
        Option("executor", "--executor", str, "local; dask: as many processes as --jobs; dask:tcp://HOST:8786: the "
               "workers of a scheduler. local by default.", verbs="run extract train tune refine"),
        Option("assignments", SET, str, "Any setting that --help-settings lists, by its dotted name; several times.",
               several=REPEATED, default=(), verbs="run extract import train tune refine detect predict",
               main="tune refine detect predict"),
        Option("as_json", "--json", bool, "Print one JSON object on standard output: what was made and where, figures, "
               "the next command.", default=False,
               verbs="run extract import train tune refine detect report compare predict export review verify "
                     "threshold demo",
               main="extract import train tune refine detect report compare predict export review verify "
                    "threshold demo"),
        Option("quiet", "--quiet", bool, "No progress, no summary.", default=False, verbs="*", main="*"),
        Option("redo", "--redo", bool, "Discard what the stages made before.", default=False,
               verbs="run extract import train tune refine detect demo", main="*"),
    ),
)  # fmt: skip
"""The table, in the order of help and of docs/reference/options.md."""


def options_of(verb: str) -> tuple[Option, ...]:
    """Return the options that a verb takes."""
    return tuple(option for option in OPTIONS if _is_for(option, verb) and not option.is_named)


def settings_of(verb: str) -> dict[str, Option]:
    """Return the settings that ``--set`` of a verb takes: dotted name -> its option; `run` takes all."""
    taken = SETTINGS.values() if verb == "run" else (option for option in OPTIONS if _is_for(option, verb))
    return {option.field: option for option in taken if option.field}


def _is_for(option: Option, verb: str) -> bool:
    return option.verbs == "*" or verb in option.verbs.split()


def shown_in_help(option: Option, verb: str) -> bool:
    """Return whether ``--help`` of a verb shows an option."""
    return option.main == "*" or verb in option.main.split()
