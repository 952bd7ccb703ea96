"""Every option of every verb: the one table behind parameters, checks, help texts and docs/reference/options.md.

A default is that of the setting (see `settings`) unless the entry has one, which only options without a setting do.
This module imports next to nothing, because `lapsvm --help` reads it.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from .limits import MAX_DRAWS, MAX_JOBS, MAX_NUMBER, MAX_SEED, MAX_SIZE
from .option import REQUIRED, SET, Option, Range, Several
from .settings import DTYPES, INITS, LEARNERS

DEVICES = ("auto", "cpu", "cuda")


def _panel(name: str, verbs: str, *options: Option, main: str = "") -> Iterator[Option]:
    """Yield options of one panel; an option's own verbs and main verbs go before those given here."""
    for option in options:
        yield replace(option, panel=name, verbs=option.verbs or verbs, main=option.main or main)


COMMAS, REPEATED = Several.COMMAS, Several.REPEATED
POSITIVE, AT_LEAST_0, SHARE = Range(0, above=True), Range(0), Range(0, 1)
COUNT, COUNT_FROM_1 = Range(0, MAX_NUMBER), Range(1, MAX_NUMBER)
BEGIN, FIT = "run extract", "run train tune"
STAGES = "run extract import train tune refine detect evaluate report"

OPTIONS: tuple[Option, ...] = (
    *_panel(
        "Run", STAGES,
        Option("out", "--out", Path, "The run folder.", default=REQUIRED,
               verbs="run extract import train tune refine detect report verify", main="*"),
        Option("out", "--out", Path, "The run folder.", default=Path("demo-run"), verbs="demo", main="*"),
        Option("recipe", "--recipe", str, "auto (best with a network, plain with hog), plain, best or a file *.toml: "
               "settings that other options override. Default: auto where a run begins.",
               verbs="run extract train refine detect", main="*"),
    ),
    *_panel(
        "Data", "run extract import",
        Option("data", "--data", str, "voc, folder, csv, coco, imagefolder, digits, or a data set of your own.",
               "data.name", main="*"),
        Option("root", "--root", Path, "The folder of the data set; for a later verb, if the data have moved.",
               "data.root", verbs="run extract import train tune refine detect report compare export verify review",
               main="run extract import"),
        Option("classes", "--classes", str, "The classes, as in a,b,c; all by default.", "data.classes", COMMAS,
               main="*"),
        Option("train_set", "--train-set", str, "The set to train on.", "data.train_set"),
        Option("test_set", "--test-set", str, "The set to test on; none where there is none.", "data.test_set"),
        Option("skip_bad", "--skip-bad", bool, "Leave out pictures that cannot be read.", "data.skip_bad", main="*"),
        Option("boxes", "--boxes", Path, "A COCO file, or a folder of VOC annotations, with boxes of some pictures, "
               "for evaluation alone.", "data.boxes", verbs="run extract import evaluate report", main="evaluate"),
    ),
    *_panel(
        "Windows", BEGIN,
        Option("windows", "--windows", str, "The method that proposes windows.", "windows.method", main="extract"),
        Option("windows_mode", SET, str, "The mode of windows: single (of selective_search alone), fast or quality.",
               "windows.mode"),
        Option("max_windows", "--max-windows", int, "The number of windows per picture.", "windows.max_windows",
               rule=COUNT, main="*"),
        Option("max_area", SET, float, "The largest window, as a share of the picture.", "windows.max_area",
               rule=Range(0, 1, above=True)),
        Option("proposal_side", SET, int, "A picture whose longer side is above this many pixels is "
               "reduced to it for proposals.", "windows.proposal_side", rule=Range(64, MAX_NUMBER)),
        Option("max_side", SET, int, "A picture whose longer side is above this many pixels is reduced to it "
               "for features.", "windows.max_side", rule=Range(64, MAX_NUMBER)),
        Option("proposals", "--proposals", Path, "A file or folder with windows of another program; several for "
               "several sets.", "windows.source.files", REPEATED),
    ),
    *_panel(
        "External files", "extract import",
        Option("sources", "", Path, "Files or folders with windows and features; several for several sets.",
               "windows.source.files", REPEATED, verbs="import", main="*"),
        Option("format", "--format", str, "npz, npy, json or mat; by default the suffix decides.",
               "windows.source.format"),
        Option("box_order", "--box-order", str, "xyxy, yxyx or xywh; by default what is usual in the format.",
               "windows.source.boxes"),
        Option("base", "--base", int, "The number of the first pixel, 0 or 1; -1: what is usual in the format.",
               "windows.source.base", rule=Range(-1, 1)),
        Option("edges", "--edges", str, "inclusive: x2, y2 are a box's last pixels; exclusive: the ones after them.",
               "windows.source.edges"),
        Option("boxes_name", "--boxes-name", str, "The name of the array of boxes.", "windows.source.boxes_name"),
        Option("features_name", "--features-name", str, "The name of the array of features.",
               "windows.source.features_name", verbs="import"),
        Option("objectness_name", SET, str, "The name of the array of objectness.", "windows.source.objectness_name",
               verbs="import"),
        Option("clip", "--clip/--no-clip", bool, "Cut boxes that reach out of the picture.", "windows.source.clip"),
        Option("drop_equal", "--drop-equal-boxes/--keep-equal-boxes", bool,
               "Leave out boxes that equal an annotated object's.", "windows.source.drop_equal", verbs="import"),
        main="import",
    ),
    *_panel(
        "Features", BEGIN,
        Option("extractor", "--extractor", str, "auto, efficientnet_lite0, hog, onnx:FILE or torch:MODULE:FACTORY; "
               "several are concatenated. Where a run begins the default is auto: the network with the "
               "extra photos, else hog.", "features.extractors", REPEATED, main="*"),
        Option("pca", "--pca", float, "The principal components kept of each extractor's features; below 1 the share "
               "of their variance, 0 for no projection.", "features.pca", rule=AT_LEAST_0, main="extract"),
        Option("contrast", SET, float, "The share of a window's surroundings that is subtracted from the "
               "features of networks.", "features.contrast", rule=SHARE),
        Option("beside", SET, bool, "Store the surroundings next to the window, for refinement.",
               "features.beside"),
        Option("sizes", "--sizes", int, "The longest sides at which networks see a picture, as in 640,960.",
               "features.sizes", COMMAS, Range(1, MAX_SIZE), main="extract"),
        Option("shards_from", "--shards-from", Path, "A run whose shards are copied where they fit."),
        Option("dtype", SET, str, "The type of stored features.", "features.dtype", rule=DTYPES,
               verbs="run extract import"),
    ),
    *_panel(
        "Objectness", BEGIN,
        Option("objectness", "--objectness", str, "What measures how much windows stand out, in positive pictures: "
               "auto, none, u2netp, onnx:FILE, normal or a source of your own. Where a run begins the default is auto: "
               "u2netp with a network, refinement and the extra photos, else none.", "objectness.source", main="*"),
        Option("objectness_weight", SET, float, "How much what stands out counts where refinement chooses windows, in "
               "standard deviations of scores; 0 for not at all.", "objectness.weight", rule=AT_LEAST_0,
               verbs="run refine"),
        Option("objectness_classes", SET, str, "The classes that use what stands out, in full, and no others; by "
               "default their windows decide.", "objectness.classes", COMMAS, verbs="run refine"),
    ),
    *_panel(
        "Training", FIT,
        Option("learner", "--learner", str, "The learner.", "train.learner", rule=LEARNERS, main="*"),
        Option("loss", "--loss", str, "The loss of latent_rank_svm: ap, ndcg, auc, mrr, pos_at_top.",
               "train.loss", main="*"),
        Option("C", "--C", float, "The weight of the loss; cross-validation chooses one of several.", "train.C",
               COMMAS, POSITIVE, main="*"),
        Option("J", "--J", float, "The weight of positives in latent_svm; cross-validation chooses one of several.",
               "train.J", COMMAS, POSITIVE, main="tune"),
        Option("J_relative", SET, bool, "Multiply J by a class's labelled pictures per positive one.",
               "train.J_relative"),
        Option("trim", "--trim", float, "The share of each negative's most confusing windows that latent_svm leaves "
               "out; cross-validation chooses one of several.", "train.trim", COMMAS, Range(0, 1, below=True),
               main="tune"),
        Option("path", SET, bool, "Start the training at each C from the result at the next larger one; "
               "tune does.", "train.path"),
        Option("tol", "--tol", float, "The relative duality gap at which training stops.", "train.tol",
               rule=POSITIVE, verbs="train tune", main="train tune"),
        Option("init", "--init", str, "Where training starts: the mean of a picture's windows, the whole image, or a "
               "random window.", "train.init", rule=INITS, main="train"),
        Option("top", SET, float, "The number of windows whose mean represents a positive picture; below 1 a "
               "share.", "train.top", rule=POSITIVE, main="train"),
        Option("train_candidates", SET, int, "The number of candidate windows per picture between "
               "passes over all windows; 0 for passes only.", "train.candidates", rule=COUNT),
        main="",
    ),
    *_panel(
        "Choice of constants", "train tune",
        Option("folds", "--folds", int, "The folds, each of which some models never see: for held-out scores and for "
               "choices; tune takes 5.", "train.folds",
               rule=Range(2, MAX_NUMBER), verbs=FIT, main="train tune"),
        Option("margin", "--margin", float, "Take the smallest C that is at most this far below the best.",
               "train.margin", rule=Range(0, 1, below=True)),
        main="tune",
    ),
    *_panel(
        "Refinement", "run refine",
        Option("rounds", "--refine", int, "The rounds of self-training after training.", "refine.rounds", rule=COUNT,
               main="*"),
        Option("refine_C", "--refine-C", float, "The C of refinement.", "refine.C", rule=POSITIVE),
        Option("pos_iou", SET, float, "The least IoU with the chosen window of a positive window.",
               "refine.pos_iou", rule=SHARE),
        Option("neg_iou", SET, float, "The IoU with the chosen window below which a window is negative.",
               "refine.neg_iou", rule=SHARE),
        Option("neg_min_iou", SET, float, "The least IoU with the chosen window of a negative window: "
               "below it there may be another object.", "refine.neg_min_iou", rule=SHARE),
        Option("neg_part_iou", SET, float, "The IoU from which a window inside the chosen one is no "
               "negative: it may be the object.", "refine.neg_part_iou", rule=SHARE),
        Option("refine_top", SET, float, "The number of positive windows whose mean represents a picture; "
               "below 1 a share.", "refine.top", rule=POSITIVE),
        Option("candidates", SET, int, "The number of windows of a negative picture; 0 for all.",
               "refine.candidates", rule=COUNT),
        Option("refine_voting", SET, bool, "Begin a round with the windows nearest to "
               "the voted boxes, not with the best ones.", "refine.box_voting"),
        Option("refine_smoothing", SET, float, "The score smoothing of refine.box_voting; 0 for none.",
               "refine.score_smoothing", rule=SHARE),
        Option("refine_surroundings", SET, float, "The share that the weights of windows' "
               "surroundings keep after refinement, and in refine.box_voting.", "refine.surroundings", rule=SHARE),
        main="refine",
    ),
    *_panel(
        "Detection", "run detect predict",
        Option("nms", "--nms", float, "The overlap above which suppression drops the lower box.",
               "detect.nms_threshold", rule=SHARE),
        Option("max_detections", "--max-detections", int, "The number of detections per picture and class.",
               "detect.max_detections", rule=COUNT_FROM_1, verbs="run detect"),
        Option("max_boxes", "--max-detections", int, "The number of detections per picture and class.",
               rule=COUNT_FROM_1, default=10, verbs="predict"),
        Option("demotion", SET, float, "How much lower a picture's windows below its best one score.",
               "detect.demotion", rule=AT_LEAST_0),
        Option("score_smoothing", SET, float, "How much windows score by those that nearly coincide "
               "with them; 0 for not at all.", "detect.score_smoothing", rule=SHARE),
        Option("box_voting", SET, float, "The temperature at which boxes move to the mean of the windows "
               "around them; 0 for none.", "detect.box_voting", rule=AT_LEAST_0),
        Option("box_voting_iou", SET, float, "The least overlap of windows that vote.",
               "detect.box_voting_iou", rule=Range(0, 1, above=True)),
        main="detect predict",
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
               rule=Range(0, 1, above=True)),
        Option("json_file", "--json", Path, "The file for the figures."),
        main="*",
    ),
    *_panel(
        "Figures", "run evaluate",
        Option("metrics", "--metrics", str, "voc, coco or voc,coco, for a run or with --coco; a run always has voc's. "
               "voc by default."),
        Option("precision", "--precision", float, "Print thresholds for this precision of boxes; 0.9 in "
               "evaluation.json by default.", rule=Range(0, 1, above=True)),
        main="evaluate",
    ),
    *_panel(
        "Comparison", "compare",
        Option("runs", "", Path, "Run folders; the first is the reference.", several=REPEATED, default=REQUIRED),
        Option("out", "--out", Path, "The folder of the comparison.", default=REQUIRED),
        Option("draws", "--draws", int, "The bootstrap draws of the pictures.", default=2000, rule=Range(1, MAX_DRAWS)),
        Option("fold_count", "--folds", int, "Train on so many folds of the training set, too.", rule=Range(2, 1000)),
        Option("seeds", "--seeds", int, "The number of foldings; with --folds.", default=1, rule=Range(1, 1000)),
        Option("first_seed", "--seed", int, "The seed of the draws and of the first folding.", default=0,
               rule=Range(0, MAX_SEED)),
        main="*",
    ),
    *_panel(
        "Prediction", "predict",
        Option("images", "", Path, "Pictures, or folders of pictures.", several=REPEATED, default=REQUIRED),
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
        main="*",
    ),
    *_panel(
        "Verification", "verify",
        Option("pictures", "--pictures", bool, "Compare the pictures with those the shards were made from.",
               default=False),
        Option("remove", "--remove", bool, "Remove damaged files, to be made again.", default=False),
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
        Option("seed", "--seed", int, "The seed of everything random.", "seed", rule=Range(0, MAX_SEED),
               verbs="run extract import train tune refine predict demo", main="*"),
        Option("device", "--device", str, "Where networks and passes run.", default="auto", rule=DEVICES,
               verbs="run extract train tune refine predict demo", main="*"),
        Option("memory", "--memory", str, "The memory for windows in training, such as 8G; 80 % of what is free by "
               "default.", verbs="run train tune refine review", main="train tune refine review"),
        Option("executor", "--executor", str, "local; dask: as many processes as --jobs; dask:tcp://HOST:8786: the "
               "workers of a scheduler. local by default.", verbs="run extract train tune refine"),
        Option("assignments", SET, str, "Any setting of docs/reference/options.md by its dotted name, several times.",
               several=REPEATED, default=(), verbs="run extract import train tune refine detect predict",
               main="tune refine detect predict"),
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


SETTINGS: dict[str, Option] = {option.field: option for option in reversed(OPTIONS) if option.field}
"""Dotted setting -> its option."""
