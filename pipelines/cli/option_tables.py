"""Tables of options: the name of a parameter -> the setting it gives, if any, and how it is typed and described."""

from pathlib import Path
from typing import Annotated, Any

import typer

from ..run.limits import MAX_JOBS, MAX_SEED
from ..run.settings import LEARNERS

DEVICES = ("auto", "cpu", "cuda")

# group -> parameter name -> (dotted setting or "", annotated type). None everywhere means: not given.

Group = dict[str, tuple[str, Any]]


def named_path(text: str) -> Path:
    """Return the path that an option names; an empty text would mean the current folder, which nobody typed."""
    if not text:
        raise typer.BadParameter("a path must not be empty; the current folder is '.'")
    return Path(text)


PATH: dict[str, Any] = {"parser": named_path, "metavar": "PATH"}

OUT: Group = {"out": ("", Annotated[Path, typer.Option("--out", help="The run folder.", show_default=False, **PATH)])}

DATA: Group = {
    "data": ("data.name", Annotated[str | None, typer.Option("--data", help="voc, folder, csv, digits, or your own.")]),
    "root": ("data.root", Annotated[str | None, typer.Option("--root", help="Folder of the data set.")]),
    "classes": (
        "data.classes",
        Annotated[str | None, typer.Option("--classes", help="a,b,c; default: all there are.")],
    ),
    "train_set": ("data.train_set", Annotated[str | None, typer.Option("--train-set", help="Default: trainval.")]),
    "test_set": (
        "data.test_set",
        Annotated[str | None, typer.Option("--test-set", help="Default: test; none: there is none.")],
    ),
    "skip_bad": (
        "data.skip_bad",
        Annotated[bool | None, typer.Option("--skip-bad", help="Leave out pictures that cannot be read whole.")],
    ),
}

WINDOWS: Group = {
    "windows": (
        "windows.method",
        Annotated[str | None, typer.Option("--windows", help="Source of the windows; default: selective_search.")],
    ),
    "windows_mode": (
        "windows.mode",
        Annotated[str | None, typer.Option("--windows-mode", help="fast (default) or quality.")],
    ),
    "max_windows": (
        "windows.max_windows",
        Annotated[int | None, typer.Option("--max-windows", help="Per picture; default: 2000.", min=1)],
    ),
    "max_area": (
        "windows.max_area",
        Annotated[
            float | None,
            typer.Option("--max-area", help="Largest window, as a share of the picture; default: 1, all of it."),
        ],
    ),
}

FEATURES: Group = {
    "extractor": (
        "features.extractors",
        Annotated[
            list[str] | None,
            typer.Option(
                "--extractor",
                help="auto, efficientnet_lite0, hog, onnx:FILE, torch:MODULE:FACTORY or torch:alexnet; several are "
                "concatenated. Default: auto, the network with the extra photos, else hog.",
            ),
        ],
    ),
    "pca": (
        "features.pca",
        Annotated[
            float | None,
            typer.Option(
                "--pca", help="Principal components kept of each extractor's features; below 1 a share of variance."
            ),
        ],
    ),
    "contrast": (
        "features.contrast",
        Annotated[
            float | None,
            typer.Option("--contrast", help="How much of a window's surroundings networks' features lose; default: 0."),
        ],
    ),
    "beside": (
        "features.beside",
        Annotated[
            bool | None,
            typer.Option("--beside/--no-beside", help="Store the surroundings beside the window, for refinement."),
        ],
    ),
    "sizes": (
        "features.sizes",
        Annotated[
            str | None,
            typer.Option("--sizes", help="640,960: longest sides at which networks see a picture, side by side."),
        ],
    ),
    "shards_from": (
        "",
        Annotated[
            Path | None,
            typer.Option("--shards-from", help="Take the shards of another run where they fit.", **PATH),
        ],
    ),
    "dtype": (
        "features.dtype",
        Annotated[str | None, typer.Option("--dtype", help="float16 (default), float32 or bfloat16.")],
    ),
}

TRAIN: Group = {
    "learner": (
        "train.learner",
        Annotated[str | None, typer.Option("--learner", help=f"{' or '.join(LEARNERS)}.")],
    ),
    "loss": ("train.loss", Annotated[str | None, typer.Option("--loss", help="ap (default), ndcg, ...")]),
    "C": (
        "train.C",
        Annotated[str | None, typer.Option("--C", help="One value, or several (0.1,1,10) to choose from on train.")],
    ),
    "J": (
        "train.J",
        Annotated[str | None, typer.Option("--J", help="Weight of positives (latent_svm); several as for --C.")],
    ),
    "J_relative": (
        "train.J_relative",
        Annotated[
            bool | None,
            typer.Option("--J-relative", help="J times a class's labelled pictures per positive one."),
        ],
    ),
    "trim": (
        "train.trim",
        Annotated[
            str | None,
            typer.Option(
                "--trim", help="Share of each negative's most confusing windows to pass over (latent_svm); several."
            ),
        ],
    ),
    "path": (
        "train.path",
        Annotated[
            bool | None,
            typer.Option("--path/--no-path", help="Begin each C where the next larger one ended; default: tune does."),
        ],
    ),
    "tol": ("train.tol", Annotated[float | None, typer.Option("--tol", help="Relative duality gap; default: 0.001.")]),
    "init": (
        "train.init",
        Annotated[
            str | None,
            typer.Option("--init", help="Start: mean of a picture's windows (default), whole_image, centre, random."),
        ],
    ),
    "n_init": (
        "train.n_init",
        Annotated[
            int | None, typer.Option("--n-init", help="Random starts (--init random), the lowest objective kept.")
        ],
    ),
    "multifold": (
        "train.multifold",
        Annotated[
            int | None,
            typer.Option("--multifold", help="A positive's window is chosen by a model of the other parts; 0: not so."),
        ],
    ),
    "keep_windows": (
        "train.keep_windows",
        Annotated[int | None, typer.Option("--keep-windows", help="Train on so many of a picture's windows; 0: all.")],
    ),
    "keep_by": (
        "train.keep_by",
        Annotated[
            str | None,
            typer.Option("--keep-by", help="A run whose models say which; needs one --C. Default: the first proposed."),
        ],
    ),
    "top": (
        "train.top",
        Annotated[
            float | None,
            typer.Option(
                "--top", help="Windows whose mean stands for a positive picture; below 1 a share. Default: 1."
            ),
        ],
    ),
    "train_candidates": (
        "train.candidates",
        Annotated[
            int | None,
            typer.Option(
                "--train-candidates",
                help="Windows of a picture that each pass over all gives training to work on; 0: passes only. "
                "Default: 20.",
            ),
        ],
    ),
    "folds": (
        "train.folds",
        Annotated[
            int | None, typer.Option("--folds", help="Folds for choosing constants; default: 3 (tune: 5).", min=2)
        ],
    ),
    "margin": (
        "train.margin",
        Annotated[
            float | None,
            typer.Option("--margin", help="Take the smallest C that is at most so far below the best; default: 0."),
        ],
    ),
    "criterion": (
        "train.criterion",
        Annotated[
            str | None,
            typer.Option("--criterion", help="What the folds compare: image_ap (default) or agreement (of windows)."),
        ],
    ),
}

RECIPE: Group = {
    "recipe": (
        "",
        Annotated[
            str | None,
            typer.Option(
                "--recipe",
                help="auto (best with a network, plain with hog), plain, best or a file *.toml: settings that other "
                "options override. Default: auto where a run begins.",
            ),
        ],
    ),
}

REFINE: Group = {
    "rounds": (
        "refine.rounds",
        Annotated[int | None, typer.Option("--refine", help="Rounds of self-training after training; default: 0.")],
    ),
    "refine_C": (
        "refine.C",
        Annotated[float | None, typer.Option("--refine-C", help="C of those rounds; default: 30.")],
    ),
    "pos_iou": (
        "refine.pos_iou",
        Annotated[
            float | None,
            typer.Option(
                "--pos-iou", help="Overlap with the chosen window from which on one is positive; default: 0.7."
            ),
        ],
    ),
    "neg_iou": (
        "refine.neg_iou",
        Annotated[float | None, typer.Option("--neg-iou", help="Overlap below which one is negative; default: 0.3.")],
    ),
    "neg_min_iou": (
        "refine.neg_min_iou",
        Annotated[
            float | None,
            typer.Option("--neg-min-iou", help="Overlap below which one takes no part, for it may be another object."),
        ],
    ),
    "refine_top": (
        "refine.top",
        Annotated[
            float | None,
            typer.Option("--refine-top", help="Near windows whose mean stands for a positive picture; default: 1."),
        ],
    ),
    "candidates": (
        "refine.candidates",
        Annotated[
            int | None,
            typer.Option("--candidates", help="Windows of a negative picture that take part; default: 0, all."),
        ],
    ),
    "average": (
        "refine.average",
        Annotated[
            bool | None,
            typer.Option("--average/--no-average", help="The mean of refinement's models, with and without a fold."),
        ],
    ),
    "refine_folds": (
        "refine.folds",
        Annotated[int | None, typer.Option("--refine-folds", help="Folds that choose windows anew; default: 3.")],
    ),
}

DETECT: Group = {
    "nms": (
        "detect.nms_threshold",
        Annotated[float | None, typer.Option("--nms", help="Overlap above which the lower box goes; default: 0.3.")],
    ),
    "max_detections": (
        "detect.max_detections",
        Annotated[int | None, typer.Option("--max-detections", help="Per picture and class; default: 100.", min=1)],
    ),
    "demotion": (
        "detect.demotion",
        Annotated[
            float | None,
            typer.Option("--demotion", help="How far a picture's windows below its best one go down; default: 0."),
        ],
    ),
    "box_voting": (
        "detect.box_voting",
        Annotated[
            float | None,
            typer.Option(
                "--box-voting", help="Temperature: move boxes to the mean of the windows around; default: 0, off."
            ),
        ],
    ),
    "box_voting_iou": (
        "detect.box_voting_iou",
        Annotated[
            float | None,
            typer.Option("--box-voting-iou", help="Windows around overlap the box at least so much; default: 0.4."),
        ],
    ),
}

VERIFY: Group = {
    "pictures": (
        "",
        Annotated[bool, typer.Option("--pictures", help="Compare the pictures with those the shards were made from.")],
    ),
    "remove": ("", Annotated[bool, typer.Option("--remove", help="Remove what is found, to be made again.")]),
}

COMMON: Group = {
    "jobs": (
        "",
        Annotated[int | None, typer.Option("--jobs", help="Threads; default: all cores.", min=1, max=MAX_JOBS)],
    ),
    "seed": ("seed", Annotated[int | None, typer.Option("--seed", help="Default: 0.", min=0, max=MAX_SEED)]),
    "device": (
        "",
        Annotated[str, typer.Option("--device", help="Of networks and passes: auto, cpu or cuda.")],
    ),
    "quiet": ("", Annotated[bool, typer.Option("--quiet", help="No progress, no summary.")]),
    "redo": ("", Annotated[bool, typer.Option("--redo", help="Discard what this stage made before.")]),
}
